// SPDX-License-Identifier: Apache-2.0
// The sizes in which buffers are cut from chunks: a granule apart up to 256 bytes, which entries of short
// values have, then four steps to a doubling, so that a buffer is at most a quarter (or less than a granule)
// larger than what it holds. Values beyond the last class become extents.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace refract {

inline constexpr uint64_t kGranuleBytes = 16;     // Buffers start at multiples of this; slots count in it.
inline constexpr uint64_t kChunkBytes = 1 << 20;  // What a class, or the table, takes at a time.
inline constexpr uint64_t kSlabBytesMin = 32;
inline constexpr uint64_t kSlabBytesMax = 64 << 10;
inline constexpr uint64_t kExtentGranuleBytes = 4096;

namespace size_class_detail {

// Up to here the classes are a granule apart. A power of two.
constexpr uint64_t kFineBytesMax = 256;
constexpr uint64_t kFineClasses = (kFineBytesMax - kSlabBytesMin) / kGranuleBytes + 1;

constexpr uint64_t step_after(uint64_t bytes) {
  return bytes < kFineBytesMax ? kGranuleBytes : std::bit_floor(bytes) / 4;
}

constexpr size_t count() {
  size_t classes = 1;
  for (uint64_t bytes = kSlabBytesMin; bytes < kSlabBytesMax; bytes += step_after(bytes)) ++classes;
  return classes;
}

}  // namespace size_class_detail

inline constexpr size_t kSizeClasses = size_class_detail::count();

inline constexpr std::array<uint32_t, kSizeClasses> kClassBytes = [] {
  std::array<uint32_t, kSizeClasses> sizes{};
  uint64_t bytes = kSlabBytesMin;
  for (uint32_t& size : sizes) {
    size = static_cast<uint32_t>(bytes);
    bytes += size_class_detail::step_after(bytes);
  }
  return sizes;
}();
static_assert(kClassBytes.back() == kSlabBytesMax);
static_assert(kSizeClasses < 256, "a class fits a byte of the chunk table");

namespace size_class_detail {

constexpr uint8_t computed(uint64_t bytes) {
  if (bytes <= kSlabBytesMin) return 0;
  if (bytes <= kFineBytesMax) {
    return static_cast<uint8_t>((bytes - kSlabBytesMin + kGranuleBytes - 1) / kGranuleBytes);
  }
  const auto doubling = static_cast<uint64_t>(std::bit_width(bytes - 1)) - 1;  // 2^doubling < bytes
  const uint64_t quarter = (bytes - 1 - (uint64_t{1} << doubling)) >> (doubling - 2);
  constexpr uint64_t kFirst = std::bit_width(kFineBytesMax) - 1;
  return static_cast<uint8_t>(kFineClasses + (doubling - kFirst) * 4 + quarter);
}

// Of small buffers, by granules: they are asked for several times a put.
inline constexpr std::array<uint8_t, 65> kSmall = [] {
  std::array<uint8_t, 65> classes{};
  for (uint64_t granules = 0; granules < classes.size(); ++granules)
    classes[granules] = computed(granules * kGranuleBytes);
  return classes;
}();

}  // namespace size_class_detail

// The smallest class that holds `bytes`. REQUIRES: bytes <= kSlabBytesMax.
[[nodiscard]] constexpr uint8_t size_class_of(uint64_t bytes) noexcept {
  const uint64_t granules = (bytes + kGranuleBytes - 1) / kGranuleBytes;
  if (granules < size_class_detail::kSmall.size()) [[likely]]
    return size_class_detail::kSmall[granules];
  return size_class_detail::computed(bytes);
}
static_assert([] {
  for (uint64_t bytes = 1; bytes <= kSlabBytesMax; ++bytes) {
    const uint8_t index = size_class_of(bytes);
    if (kClassBytes[index] < bytes || (index > 0 && kClassBytes[index - 1] >= bytes)) return false;
    if (bytes > 512) bytes += 61;  // All small sizes, then a sieve: constant evaluation has a step limit.
  }
  return size_class_of(kSlabBytesMax) == kSizeClasses - 1;
}());

}  // namespace refract
