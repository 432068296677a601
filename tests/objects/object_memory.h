// SPDX-License-Identifier: Apache-2.0
// The memory that outlives the owner of a campaign.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "tests/objects/object_run.h"

#include "refract/fabric/sim/host.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/memory/pins.h"

namespace refract::campaign {

// The space, and the pages in which clients announce their pins.
class ObjectMemory {
 public:
  ObjectMemory(sim::Host& owner, const ObjectRun& run);

  // A client's page; stays where it is.
  [[nodiscard]] PinTable* add_pin_table() { return &pin_tables_.emplace_back(); }
  [[nodiscard]] sim::VisibleMemory& visible() noexcept { return visible_; }
  [[nodiscard]] uint64_t limit() const noexcept;
  // Called before and behind each of the owner's looks at pins, in the middle of its turn.
  void at_looks(std::function<void()> call) { at_looks_ = std::move(call); }

 private:
  friend class ObjectOwner;

  const ObjectRun& run_;
  sim::VisibleMemory visible_;
  std::deque<PinTable> pin_tables_;
  std::function<void()> at_looks_;
};

}  // namespace refract::campaign
