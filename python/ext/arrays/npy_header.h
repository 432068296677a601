// SPDX-License-Identifier: Apache-2.0
// The form in which numpy writes arrays, `.npy`: a header that says type, order and shape, and the items
// behind it. The header is a literal of Python's; it is read here, and never evaluated.
//
// Nothing here knows Python. Threads: none of it is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refract::python {

// So much of a value the header takes is a multiple of this, so that the items lie as the value does.
inline constexpr uint64_t kNpyAlignment = 64;

struct NpyField;

// Of an item: a type of numbers or characters, or fields.
struct NpyType {
  std::string text;              // As numpy.dtype() takes it: "<f8". Empty: it has fields.
  std::vector<NpyField> fields;  // In their order, without gaps: what pads has no name.
  uint64_t bytes = 0;
};
struct NpyField {
  std::optional<std::string> title;
  std::string name;
  NpyType type;
  std::vector<uint64_t> shape;  // Empty: it is one item.
};

struct NpyHeader {
  NpyType type;
  bool is_fortran = false;  // The first index runs fastest.
  std::vector<uint64_t> shape;
  uint64_t items_at = 0;
  uint64_t items_bytes = 0;  // To the value's end.
};

// What the value says of itself. Empty: it is no such array, holds references to objects, or contradicts
// itself: type and shape need exactly the bytes that follow.
[[nodiscard]] std::optional<NpyHeader> read_npy(std::span<const std::byte> value);

// The header of an array. `type`: the literal of its type, as UTF-8.
[[nodiscard]] std::string npy_header(std::string_view type, bool is_fortran, std::span<const uint64_t> shape);

}  // namespace refract::python
