// SPDX-License-Identifier: Apache-2.0
// Where keys are, as clients see it: the shards of one node, or nodes of one shard each.
#pragma once

#include <cstdint>

#include "tests/campaign/kv_server.h"

#include "refract/base/clock.h"
#include "refract/kv/layout/transaction_wire.h"

namespace refract::campaign {

class ShardPlaces {
 public:
  [[nodiscard]] virtual uint32_t shards() const noexcept = 0;
  [[nodiscard]] virtual Keeper& keeper(uint32_t shard) noexcept = 0;
  // Of all memories: how many there have been.
  [[nodiscard]] virtual uint64_t life() const noexcept = 0;
  [[nodiscard]] virtual kv::wire::FarPlace place_of(uint32_t shard) const noexcept {
    return {.member = 0, .shard = static_cast<uint16_t>(shard)};
  }

  // Of the machine that has the memory. Null: all machines have one.
  [[nodiscard]] virtual const Clock* clock_of(uint32_t /*shard*/) const noexcept { return nullptr; }

 protected:
  ~ShardPlaces() = default;
};

}  // namespace refract::campaign
