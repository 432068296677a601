// SPDX-License-Identifier: Apache-2.0
// Copies out of a region, within its bounds, for layouts whose records verify themselves or cannot be damaged
// by being torn; and the picture of an index whose places are all alike.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "refract/memory/remote_visible.h"

namespace refract::inspect {

class RegionBytes {
 public:
  explicit RegionBytes(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] uint64_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] bool has(uint64_t at, uint64_t bytes) const noexcept {
    return bytes <= bytes_.size() && at <= bytes_.size() - bytes;
  }
  // Zeroes where it does not lie inside.
  template <typename T>
  [[nodiscard]] T copy(uint64_t at) const noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    T out{};
    if (has(at, sizeof(T))) copy_possibly_torn(&out, bytes_.data() + at, sizeof(T));
    return out;
  }
  // As many of these bytes as lie inside.
  [[nodiscard]] std::vector<std::byte> copy(uint64_t at, uint64_t bytes) const {
    if (at >= bytes_.size()) return {};
    std::vector<std::byte> out(std::min<uint64_t>(bytes, bytes_.size() - at));
    if (!out.empty()) copy_possibly_torn(out.data(), bytes_.data() + at, out.size());
    return out;
  }

 private:
  std::span<const std::byte> bytes_;
};

// Rows of 64 cells, at most 32 of them: how many of each cell's places are used, in tenths, '.' for none.
[[nodiscard]] std::vector<std::string> occupancy_rows(uint64_t places,
                                                      const std::function<bool(uint64_t)>& is_used);

}  // namespace refract::inspect
