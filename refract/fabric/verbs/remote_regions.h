// SPDX-License-Identifier: Apache-2.0
// What the peer of a channel has told about its regions: the device keys behind our 64-bit ones.
//
// Looking up is two dependent loads and allocates nothing; learning does, once for a region.
#pragma once

#include <cstdint>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/verbs/wire.h"

namespace refract::fabric::verbs {

class RemoteRegions {
 public:
  struct Row {
    uint16_t region = 0;
    RemoteRegion what;
    std::vector<uint32_t> device_keys;

    // One-sided work on [offset, offset + bytes) is covered by bounds and rights.
    [[nodiscard]] bool covers(uint64_t offset, uint64_t bytes, bool Rights::* right) const noexcept {
      return what.rights.*right && offset <= what.bytes && bytes <= what.bytes - offset;
    }
    [[nodiscard]] uint32_t device_key(uint64_t offset) const noexcept {
      return device_keys[offset / what.chunk_bytes];
    }
    // Behind each other under one device key, from `offset` on.
    [[nodiscard]] uint64_t bytes_behind(uint64_t offset) const noexcept {
      return what.chunk_bytes - offset % what.chunk_bytes;
    }
  };

  // Null: has to be asked.
  [[nodiscard]] const Row* find(uint16_t region, RemoteKey key) const noexcept;
  // REQUIRES: the answer is no refusal.
  void learn(const DecodedAnswer& answer);
  void forget(uint16_t region) noexcept;
  void clear() noexcept;

 private:
  std::vector<Row> rows_;
  std::vector<uint32_t> row_of_;  // By region: its row counted from 1. Ids are small where nodes give them.
};

}  // namespace refract::fabric::verbs
