// SPDX-License-Identifier: Apache-2.0
// The regions that a domain serves, and the only way from what a peer says to memory that may be touched.
//
// Every address, length and key comes from a peer. A look-up is two dependent loads and five comparisons,
// whatever the number of regions, and allocates nothing; add() and remove() are control path. A place that
// was found stays good until remove(). Used only by the shard that owns the domain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/fabric/channel.h"

namespace refract::fabric {

// Whether a region of these may be served at all.
[[nodiscard]] bool is_sound(const Domain::RegionSpec& spec) noexcept;

class RegionTable {
 public:
  [[nodiscard]] Reported<> add(const Domain::RegionSpec& spec, RemoteKey key);
  // Returns how many bytes were written into it: those of write(), and those counted by the provider that
  // brings the bytes to a place that was looked up.
  uint64_t remove(uint16_t region) noexcept;
  void count_written(uint16_t region, uint64_t bytes) noexcept;

  // Where a peer says that it wants to work.
  struct Access {
    RemotePointer address;
    RemoteKey key;
    uint64_t bytes = 0;  // That must lie inside the region, from the address on.
  };

  // Why a place is refused, in the order of the checks: a peer that has not shown the key learns nothing
  // about rights and bounds. A provider answers its peers' one-sided requests with kAccessDenied for all of
  // them.
  enum class Refusal : uint8_t { kNone, kUnknownRegion, kWrongKey, kRightMissing, kOutOfBounds };
  struct Located {
    std::byte* bytes = nullptr;  // Null where refused.
    Refusal refusal = Refusal::kNone;
  };
  [[nodiscard]] Located look_up(const Access& place, bool Rights::* right) const noexcept;

  // What a peer asked for, done here, or kAccessDenied. At most `place.bytes` bytes.
  [[nodiscard]] Code read(const Access& place, std::span<std::byte> target) const noexcept;
  [[nodiscard]] Code write(const Access& place, std::span<const std::byte> source) noexcept;

  // 8 bytes, whatever `place.bytes` says. `value` becomes what the word held before. kInvalidArgument: the
  // address is not a multiple of 8.
  struct Swap {
    uint64_t compare = 0;
    uint64_t operand = 0;
  };
  [[nodiscard]] Code compare_swap(const Access& place, const Swap& swap, uint64_t& value) const noexcept;
  [[nodiscard]] Code fetch_add(const Access& place, uint64_t addend, uint64_t& value) const noexcept;

 private:
  struct Row {
    Domain::RegionSpec spec;
    RemoteKey key;
    uint64_t written_bytes = 0;
  };
  [[nodiscard]] Code look_up_word(const Access& place, uint64_t*& word) const noexcept;

  std::vector<Row> rows_;
  // By region id: its row counted from 1; 0 or beyond the end: unknown. Ids are small where nodes give them.
  std::vector<uint32_t> row_of_;
};

}  // namespace refract::fabric
