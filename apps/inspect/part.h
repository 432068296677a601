// SPDX-License-Identifier: Apache-2.0
// What a decoder found, as a tree that prints as text for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/inspect/space_words.h"

#include "refract/documents/value.h"

namespace refract::inspect {

struct Field {
  std::string name;  // Of JSON's member; on the screen with spaces for underscores.
  std::string text;  // Empty: for JSON alone, because a heading or a picture shows it.
  std::optional<documents::Value> json = {};  // The member's value. Nothing: for people alone.
};

struct Part {
  std::string kind;          // "bucket": JSON's member of that name.
  std::string heading = {};  // One line for people.
  std::vector<Field> fields = {};
  std::vector<std::string> picture = {};  // Lines for people alone.
  std::vector<Damage> damages = {};
  std::vector<Part> parts = {};
  bool is_nothing = false;  // What was asked for does not exist, as the heading says. No damage.

  Part& number(std::string_view name, uint64_t value);
  Part& offset(std::string_view name, uint64_t value);
  Part& text(std::string_view name, std::string_view value);
  Part& flag(std::string_view name, bool value);
  // Bytes that need be no text; people see at most kShownBytes of them.
  Part& bytes(std::string_view name, std::span<const std::byte> value);
  Part& hidden(std::string_view name, documents::Value value);
  Part& damage(uint64_t at, std::string what);

  static constexpr size_t kShownBytes = 64;
};

// Of this part and all below.
[[nodiscard]] size_t damage_count(const Part& part) noexcept;

// Damage is printed where it lies, in lines that begin with "DAMAGE".
[[nodiscard]] std::string text_of(const Part& part);
// One object in one line.
[[nodiscard]] std::string json_of(const Part& part);

// "[####...] " of `cells` cells. REQUIRES: used <= whole.
[[nodiscard]] std::string bar(uint64_t used, uint64_t whole, size_t cells);

}  // namespace refract::inspect
