// SPDX-License-Identifier: Apache-2.0
// The name under which spaces, logs and snapshots know a store: 1 to 8 bytes, zero bytes behind. It never
// changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace refract {

struct StoreName {
  uint64_t bits = 0;  // The first byte is the lowest; 0: no name.

  static constexpr size_t kBytesMax = sizeof(uint64_t);

  // REQUIRES: 1 to kBytesMax bytes, none of them 0.
  [[nodiscard]] static constexpr StoreName of(std::string_view text) noexcept {
    StoreName name;
    for (size_t i = text.size(); i-- > 0;) name.bits = name.bits << 8 | static_cast<unsigned char>(text[i]);
    return name;
  }
  // As a disk or a memory has it: any bytes.
  [[nodiscard]] std::string text() const {
    std::string text;
    for (uint64_t rest = bits; rest != 0; rest >>= 8) text += static_cast<char>(rest & 0xff);
    return text;
  }
  friend bool operator==(const StoreName&, const StoreName&) noexcept = default;
};
static_assert(sizeof(StoreName) == 8 && std::is_trivially_copyable_v<StoreName>);
static_assert(StoreName::of("kv").bits == 0x766b);

}  // namespace refract
