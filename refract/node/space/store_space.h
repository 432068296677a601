// SPDX-License-Identifier: Apache-2.0
// A shard's space as its keeper holds it: the reserved range, the regions in it, and the empty store in the
// first.
//
// The keeper makes and maps every region, so that each server it forks inherits writable mappings that no
// other process could make any more. Growing goes in steps between which the keeper serves its socket.
//
// Threads: one. Control path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/memory/host/address_space.h"
#include "refract/memory/host/region.h"
#include "refract/memory/remote_pointer.h"
#include "refract/memory/remote_visible.h"
#include "refract/memory/space.h"
#include "refract/node/config/config.h"
#include "refract/node/space/space_plan.h"

namespace refract::node {

// What all shards of a node have in common, and whether a `file:` backing has it already.
struct StoreOrigin {
  uint64_t hash_seed = 0;
  bool existed = false;
  // Transactions compare times of several shards (docs/design/066), so all have one; nothing: a space has one
  // of its own.
  std::optional<SpaceTime> time = {};
};

// What of a configuration is fixed when a store is made, since the place of each key depends on it.
struct StoreShape {
  uint32_t shards = 1;
  uint32_t copies = 0;
  uint64_t placement = 0;  // cluster::placement_of(); 0: it has all slots.
};
// Whether the node may have the store in `folder`, which was made in this shape.
[[nodiscard]] Reported<> check_shape(const NodeConfig& config, const std::string& folder,
                                     const StoreShape& shape);

// Looks at the files of a `file:` backing and changes nothing. Refused: a store that was made in another
// shape, or of which a shard is missing. Shard 0 is made last; so, where it is there, all are.
[[nodiscard]] Reported<StoreOrigin> find_store(const NodeConfig& config);

class StoreSpace {
 public:
  // Reserves what the space may grow to, makes the first region (or takes up those that a `file:` backing
  // has) and, if they are new, the empty store in them.
  [[nodiscard]] static Reported<StoreSpace> open(const SpacePlan& plan, const StoreOrigin& origin);

  struct Held {
    Region region;
    RemoteKey key;
  };
  [[nodiscard]] std::vector<Held>& regions() noexcept { return regions_; }
  [[nodiscard]] const AddressSpace& addresses() const noexcept { return addresses_; }
  [[nodiscard]] AddressSpace& addresses() noexcept { return addresses_; }
  [[nodiscard]] uint64_t bytes() const noexcept;  // In regions().
  [[nodiscard]] uint64_t bytes_max() const noexcept { return plan_.bytes_max; }

  // How far a server has got that fills it from a disk (memory/space.h).
  [[nodiscard]] uint64_t fill_state() const noexcept {
    return observe_u64(addresses_.base() + offsetof(SpaceHeader, fill_state));
  }
  // Makes the store empty again, in the regions that there are. REQUIRES: it is not in use.
  [[nodiscard]] Reported<> empty();
  // Before anything is stored: from now on files count as those of a node that has not ended.
  [[nodiscard]] Reported<> enter();
  // The node ends, and no store follows: the next one is to know when, and that files have everything.
  // Blocks until they do.
  [[nodiscard]] Reported<> leave();

  // How large the next region would be if a value of `value_bytes` must fit; 0: the limit leaves no such
  // room.
  [[nodiscard]] uint64_t next_region_bytes(uint64_t value_bytes) const noexcept;

  // Begins the next region. REQUIRES: none is growing.
  [[nodiscard]] Reported<> begin_growth(uint64_t bytes);
  [[nodiscard]] bool is_growing() const noexcept { return growing_.has_value(); }
  // Takes a few milliseconds' worth of memory. True: the region is populated; finish_growth() makes it one of
  // regions(). An error gives the region up.
  [[nodiscard]] Reported<bool> grow_some();
  // The region that is populated and not yet sealed.
  [[nodiscard]] const Region& growing() const noexcept { return growing_->region; }
  // Seals it and adds it to regions().
  [[nodiscard]] Reported<> finish_growth();

 private:
  [[nodiscard]] Reported<> open_first();
  [[nodiscard]] Reported<> open_existing();
  [[nodiscard]] Reported<> check_first(const Region& first);
  [[nodiscard]] Reported<> check_use(const Region& first) const;
  void mark(uint64_t state) noexcept;
  [[nodiscard]] Reported<> make_store(const Region& first, const SpaceTime& time);
  void set_time(const SpaceTime& time) noexcept;
  [[nodiscard]] RegionSpec spec_of(uint64_t bytes) const;

  SpacePlan plan_;
  AddressSpace addresses_;
  std::vector<Held> regions_;
  std::optional<Held> growing_;
  uint64_t hash_seed_ = 0;
  std::optional<SpaceTime> time_;
  bool existed_ = false;
};

}  // namespace refract::node
