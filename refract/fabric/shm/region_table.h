// SPDX-License-Identifier: Apache-2.0
// The regions that a domain serves to one-sided requests, and the execution of those requests beside the
// memory. Every address, length and key comes from a peer and is checked before memory is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/fabric/channel.h"

namespace refract::fabric::shm {

class RegionTable {
 public:
  [[nodiscard]] Reported<> add(const Domain::RegionSpec& spec, RemoteKey key);
  void remove(uint16_t region) noexcept;

  // Where a peer says that it wants to work.
  struct Place {
    RemotePointer address;
    RemoteKey key;
    uint64_t bytes = 0;  // That must lie inside the region, from the address on.
  };
  // A refusal is kAccessDenied, whatever the cause: a peer learns no more.
  [[nodiscard]] Code read(const Place& place, std::span<std::byte> target) const noexcept;
  [[nodiscard]] Code write(const Place& place, std::span<const std::byte> source) const noexcept;
  // `value` becomes what the word held before. kInvalidArgument: the address is not a multiple of 8.
  [[nodiscard]] Code compare_swap(const Place& place, uint64_t compare, uint64_t swap,
                                  uint64_t& value) const noexcept;
  [[nodiscard]] Code fetch_add(const Place& place, uint64_t addend, uint64_t& value) const noexcept;

 private:
  struct Row {
    Domain::RegionSpec spec;
    RemoteKey key;
  };
  [[nodiscard]] std::byte* resolve(const Place& place, bool Rights::* right) const noexcept;
  [[nodiscard]] Code resolve_word(const Place& place, uint64_t*& word) const noexcept;

  std::vector<Row> rows_;
};

}  // namespace refract::fabric::shm
