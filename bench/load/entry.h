// SPDX-License-Identifier: Apache-2.0
// The entries that bars are measured with: 16-byte keys and 64-byte values that follow from a number, so that
// what is read back can be checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace refract::bench {

struct Key {
  uint64_t words[2];

  [[nodiscard]] static Key of(uint64_t index) noexcept { return {{index * 0x9e3779b97f4a7c15U, ~index}}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return std::as_bytes(std::span(words)); }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(words), sizeof(words)};
  }
};
static_assert(sizeof(Key) == 16);

struct Value {
  uint64_t words[8];

  [[nodiscard]] static Value of(uint64_t index) noexcept {
    Value value = {};
    for (uint64_t i = 0; i < 8; ++i) value.words[i] = index * (2 * i + 1);
    return value;
  }
  // Whether these are the bytes of that entry, as first put. One word stands for all, to keep it cheap.
  [[nodiscard]] bool is_of(uint64_t index) const noexcept { return words[7] == index * 15; }

  // The same of every word.
  [[nodiscard]] bool is_whole_of(uint64_t index) const noexcept {
    const Value expected = of(index);
    return std::memcmp(words, expected.words, sizeof(words)) == 0;
  }

  [[nodiscard]] std::span<std::byte> writable_bytes() noexcept {
    return std::as_writable_bytes(std::span(words));
  }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(words), sizeof(words)};
  }
};
static_assert(sizeof(Value) == 64);

}  // namespace refract::bench
