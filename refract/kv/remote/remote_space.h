// SPDX-License-Identifier: Apache-2.0
// Where one-sided requests reach a space, as its owner told: offsets become addresses and keys.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/kv/layout/remote_wire.h"
#include "refract/memory/remote_pointer.h"

namespace refract::kv {

class RemoteSpace {
 public:
  // The next region behind those there are. False: it contradicts them, and nothing is added.
  [[nodiscard]] bool add(const wire::RegionEntry& region);
  [[nodiscard]] size_t regions() const noexcept { return regions_.size(); }

  struct Reach {
    fabric::RemoteSpan remote;
    uint64_t bytes_left = 0;  // Up to the region's end, which no buffer crosses.
  };
  // Nothing: no region that can be reached is known to hold these bytes.
  [[nodiscard]] std::optional<Reach> find(Offset at, uint64_t bytes) const noexcept;

 private:
  std::vector<wire::RegionEntry> regions_;  // By where they start.
};

}  // namespace refract::kv
