// SPDX-License-Identifier: Apache-2.0
// As much of JSON (RFC 8259) as lines of records need: the members of one object, and strings there and back.
//
// A scanner over the text instead of a parsed tree, because a member's value is kept as it was written (a
// tree would round numbers and reorder members), nothing is allocated for a member, and nesting cannot
// exhaust the stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace refract::records {

// Appends what the inside of a JSON string means. REQUIRES: a string that JsonObject accepted.
void append_json_unescaped(std::string& out, std::string_view inside);

enum class JsonKind : uint8_t { kString, kNumber, kObject, kArray, kLiteral };

struct JsonMember {
  std::string_view name;   // The inside of the string, escapes and all.
  std::string_view value;  // As written, without the spaces around it; of a string, the inside.
  JsonKind kind = JsonKind::kLiteral;
};

// Walks the members of the one object that `text` holds, and checks the whole text on the way.
class JsonObject {
 public:
  static constexpr int kDepthMax = 128;

  explicit JsonObject(std::string_view text) noexcept : text_(text) {}

  // False behind the last member and at a fault.
  [[nodiscard]] bool next(JsonMember& member) noexcept;
  // Empty, or what is wrong at offset(): "expected ':'". To be asked when next() has returned false.
  [[nodiscard]] std::string_view fault() const noexcept { return fault_; }
  [[nodiscard]] size_t offset() const noexcept { return at_; }

 private:
  bool fail(std::string_view what) noexcept;
  void skip_spaces() noexcept;
  bool take(char byte) noexcept;
  bool string(std::string_view& inside) noexcept;
  bool escape() noexcept;
  bool hex4(uint32_t& unit) noexcept;
  bool digits() noexcept;
  bool number() noexcept;
  bool literal() noexcept;
  bool value(JsonKind& kind, std::string_view& text, int depth) noexcept;
  bool container(char close, int depth) noexcept;
  bool finish() noexcept;

  std::string_view text_;
  std::string_view fault_;
  size_t at_ = 0;
  bool begun_ = false;
  bool ended_ = false;
};

// Standard base64 with padding (RFC 4648).
void append_base64(std::string& out, std::string_view bytes);
// False where `text` is not exactly what append_base64 writes for some bytes; `out` is then not to be used.
[[nodiscard]] bool append_base64_decoded(std::string& out, std::string_view text);

}  // namespace refract::records
