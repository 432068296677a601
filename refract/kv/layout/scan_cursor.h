// SPDX-License-Identifier: Apache-2.0
// Where a scan is: a position that stays true while the table grows, and across restarts.
//
// Buckets are addressed by the low bits of the hash. Read backwards, those bits are the high bits of a
// position in [0, 2^64), and a bucket is an interval of positions; a split halves the interval. So a scan
// walks positions: what lies behind it stays behind, however often buckets were split meanwhile. The cursor
// holds the shard in its top 10 bits and the position's top 54 bits below them; 0 is both the beginning and,
// when handed back, the end.
//
// A bucket with a long chain (crowds.h) is scanned in pieces of some lines, which the lowest 22 bits number:
// an entry stays in its line until it is erased or its bucket is split, and then it is further on. No bucket
// is so small that these bits could lead to another one, and for a reader that does not know them they mean
// its beginning.
#pragma once

#include <bit>
#include <cstdint>

#include "refract/kv/layout/layout.h"

namespace refract::kv {

inline constexpr int kCursorShardBits = 10;
inline constexpr int kCursorPieceBits = 22;
inline constexpr uint64_t kCursorPieceMask = (uint64_t{1} << kCursorPieceBits) - 1;
inline constexpr uint64_t kLinesPerPiece = 16;

[[nodiscard]] constexpr uint64_t reverse_bits(uint64_t word) noexcept {
  word = ((word >> 1) & 0x5555555555555555) | ((word & 0x5555555555555555) << 1);
  word = ((word >> 2) & 0x3333333333333333) | ((word & 0x3333333333333333) << 2);
  word = ((word >> 4) & 0x0f0f0f0f0f0f0f0f) | ((word & 0x0f0f0f0f0f0f0f0f) << 4);
  return __builtin_bswap64(word);
}

// Where a scan without a shard meets the keys with this hash: cursors up to it are before, others behind.
[[nodiscard]] constexpr uint64_t scan_place(uint64_t hash) noexcept {
  return reverse_bits(hash) >> kCursorShardBits;
}

struct ScanStep {
  uint64_t bucket;  // Whose interval holds the cursor's position.
  uint64_t next;    // The cursor behind that interval; 0: it was the last.
  bool operator==(const ScanStep&) const = default;
};

// REQUIRES: bucket_count > 0. Any cursor is answered, also one that no scan ever gave.
[[nodiscard]] constexpr ScanStep scan_step(uint64_t cursor, uint64_t bucket_count) noexcept {
  const uint64_t shard = cursor >> (64 - kCursorShardBits);
  const uint64_t position = cursor << kCursorShardBits;
  const uint64_t bucket = bucket_index(reverse_bits(position), bucket_count);
  const uint64_t floor = std::bit_floor(bucket_count);
  const bool is_split = (bucket & (floor - 1)) < bucket_count - floor;
  const int depth = std::countr_zero(floor) + (is_split ? 1 : 0);
  if (depth == 0) return {.bucket = bucket, .next = 0};
  const uint64_t start = reverse_bits(bucket);
  const uint64_t end = start + (uint64_t{1} << (64 - depth));
  if (end == 0) return {.bucket = bucket, .next = 0};
  return {.bucket = bucket, .next = (shard << (64 - kCursorShardBits)) | (end >> kCursorShardBits)};
}

}  // namespace refract::kv
