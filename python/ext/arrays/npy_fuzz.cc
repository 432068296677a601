// SPDX-License-Identifier: Apache-2.0
// Any bytes as a value that says it is an array: what is taken for one has exactly the items that it says.
#include <cstdint>
#include <cstdlib>

#include "python/ext/arrays/npy_header.h"

namespace {

using refract::python::NpyType;

// As numpy reckons it.
uint64_t bytes_of(const NpyType& type) {
  if (!type.text.empty()) return type.bytes;
  uint64_t sum = 0;
  for (const auto& field : type.fields) {
    uint64_t bytes = bytes_of(field.type);
    for (const uint64_t length : field.shape) bytes *= length;
    sum += bytes;
  }
  return sum;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span value(reinterpret_cast<const std::byte*>(data), size);
  const auto header = refract::python::read_npy(value);
  if (!header) return 0;
  if (header->items_at > size || header->items_bytes != size - header->items_at) __builtin_trap();
  if (header->type.bytes == 0 || bytes_of(header->type) != header->type.bytes) __builtin_trap();
  bool is_empty = false;
  for (const uint64_t length : header->shape) is_empty |= length == 0;
  uint64_t needed = is_empty ? 0 : header->type.bytes;
  for (const uint64_t length : header->shape) needed *= is_empty ? 1 : length;
  if (needed != header->items_bytes) __builtin_trap();
  return 0;
}
