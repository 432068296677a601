// SPDX-License-Identifier: Apache-2.0
// How regions of memory look to a person: a decoder for each layout that we have, our own and the published
// ones. A new layout is a file and a row of decoders.cc.
//
// A decoder only reads, and follows nothing that it has not checked: any bytes are a region that may be
// damaged, and a server may change them meanwhile. What is wrong is shown where it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/inspect/part.h"

namespace refract::inspect {

struct Region {
  std::span<const std::byte> bytes;  // Aligned to 8.
  SpaceWords::Grown grown = nullptr;
  // Waits a moment before something that looks wrong is looked at again; null: no writer.
  std::function<void()> pause = nullptr;
};

// What a person asks: at most one of these; none asks for the whole region.
struct Question {
  std::optional<uint64_t> at = std::nullopt;
  std::optional<std::string> key = std::nullopt;
  std::optional<uint64_t> bucket = std::nullopt;
};

struct Decoder {
  std::string_view name;      // "table"
  std::string_view sentence;  // What it decodes.
  bool (*recognises)(std::span<const std::byte> region);
  // `found` says whether a key that was asked for is there; true for every other question.
  Part (*decode)(const Region& region, const Question& question, bool& found);
};

// The first that recognises a region is the one to take.
[[nodiscard]] std::span<const Decoder> decoders() noexcept;
[[nodiscard]] const Decoder* decoder_named(std::string_view name) noexcept;
[[nodiscard]] const Decoder* decoder_for(std::span<const std::byte> region) noexcept;

// Bytes that no layout claims: those from `at` on.
[[nodiscard]] Part raw_bytes(std::span<const std::byte> region, uint64_t at);

// The decoders.
[[nodiscard]] bool is_table(std::span<const std::byte> region);
[[nodiscard]] Part decode_table(const Region& region, const Question& question, bool& found);
[[nodiscard]] bool is_prism_kv(std::span<const std::byte> region);
[[nodiscard]] Part decode_prism_kv(const Region& region, const Question& question, bool& found);
[[nodiscard]] bool is_pilaf(std::span<const std::byte> region);
[[nodiscard]] Part decode_pilaf(const Region& region, const Question& question, bool& found);

}  // namespace refract::inspect
