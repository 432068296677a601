// SPDX-License-Identifier: Apache-2.0
// The regions that a domain serves to one-sided requests. Every address, length and key comes from a peer and
// is checked before memory is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/tcp/frame.h"

namespace refract::fabric::tcp {

class RegionTable {
 public:
  [[nodiscard]] Reported<> add(const Domain::RegionSpec& spec, RemoteKey key);
  void remove(uint16_t region) noexcept;

  // Where the place lies here, or null: a refusal, whatever the cause, so that a peer learns no more.
  [[nodiscard]] std::byte* resolve(const Place& place, uint64_t bytes, bool Rights::* right) const noexcept;

  // `value` becomes what the word held before. kInvalidArgument: the address is not a multiple of 8.
  [[nodiscard]] Code compare_swap(const PlaceAndSwap& swap, uint64_t& value) const noexcept;
  [[nodiscard]] Code fetch_add(const PlaceAndOperand& add, uint64_t& value) const noexcept;

 private:
  struct Row {
    Domain::RegionSpec spec;
    RemoteKey key;
  };
  [[nodiscard]] Code resolve_word(const Place& place, uint64_t*& word) const noexcept;

  std::vector<Row> rows_;
};

}  // namespace refract::fabric::tcp
