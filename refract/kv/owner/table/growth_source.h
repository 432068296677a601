// SPDX-License-Identifier: Apache-2.0
// Where a table's service asks for memory: the node, who gets regions from its keeper.
#pragma once

#include <cstdint>

namespace refract::kv {

class GrowthSource {
 public:
  virtual ~GrowthSource() = default;
  // By a region in which `bytes` fit as one value. False: the node is at its limit, or was refused as much or
  // less; what does not fit now does not fit.
  [[nodiscard]] virtual bool can_grow(uint64_t bytes) const noexcept = 0;
  // Asks for a region in which `bytes` fit as one value. Returns at once, may be called again while a request
  // is under way, and not from inside TableService::on_memory_added. Whoever answered true in can_grow()
  // calls TableService::on_memory_added or on_growth_refused later on.
  virtual void want(uint64_t bytes) noexcept = 0;
};

// For a space that has all the memory it will ever have.
class NoGrowth final : public GrowthSource {
 public:
  [[nodiscard]] bool can_grow(uint64_t) const noexcept override { return false; }
  void want(uint64_t) noexcept override {}
};

}  // namespace refract::kv
