// SPDX-License-Identifier: Apache-2.0
// Free runs of granules for values too large for a slab class: best fit, neighbours joined, but never across
// a border. Borders are where regions begin, because one registration with a device covers one region; a heap
// whose extents may lie in several has none.
//
// Knows offsets only, nothing of chunks; private to the owning shard and rebuilt at restart. Large values are
// rare and dear enough that ordinary ordered sets do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "refract/memory/remote_pointer.h"

namespace refract {

class ExtentAllocator {
 public:
  struct Run {
    Offset start;
    uint64_t bytes = 0;
  };

  // No run is joined across this offset from now on.
  void add_border(Offset at) { borders_.insert(at.value); }

  // Makes a run available, joined with its free neighbours. Returns the joined run.
  Run release(Run run);

  // Takes `bytes` from the smallest run that holds them, at its start.
  [[nodiscard]] std::optional<Offset> take(uint64_t bytes);

  // Takes exactly this range out of the free runs. False where part of it is not free.
  [[nodiscard]] bool take_at(Run run);

  [[nodiscard]] uint64_t free_bytes() const noexcept { return free_bytes_; }
  // Forgets the runs; borders stay.
  void clear() noexcept;

 private:
  void insert(Run run);
  void remove(std::map<uint64_t, uint64_t>::iterator run);

  std::map<uint64_t, uint64_t> by_start_;             // start -> bytes
  std::set<std::pair<uint64_t, uint64_t>> by_bytes_;  // {bytes, start}
  std::set<uint64_t> borders_;
  uint64_t free_bytes_ = 0;
};

}  // namespace refract
