// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/remote/location_cache.h"

namespace refract::kv {

LocationCache::LocationCache(size_t bytes) : sets_(bytes / sizeof(Set)) {}

// By a multiplication rather than a mask, so that any number of sets will do. The upper bits of the product
// depend on all of the hash, of which the fingerprint and the shard take a part.
LocationCache::Set& LocationCache::set_of(uint64_t hash) noexcept {
  const uint64_t mixed = hash * 0x9e37'79b9'7f4a'7c15;
  return sets_[static_cast<size_t>(((mixed >> 32) * sets_.size()) >> 32)];
}

// kWays: it is not there.
size_t LocationCache::way_of(const Set& set, uint64_t hash) noexcept {
  size_t way = 0;
  while (way < kWays && (set.ways[way].hash != hash || !set.ways[way].slot_at)) ++way;
  return way;
}

std::optional<Location> LocationCache::find(uint64_t hash) noexcept {
  if (!sets_.empty()) {
    Set& set = set_of(hash);
    const size_t way = way_of(set, hash);
    if (way < kWays) {
      ++counts_.hits;
      set.used |= uint32_t{1} << way;
      return set.ways[way];
    }
  }
  ++counts_.misses;
  return std::nullopt;
}

size_t LocationCache::make_room(Set& set) noexcept {
  for (size_t way = 0; way < kWays; ++way) {
    if (!set.ways[way].slot_at) return way;
  }
  // Once round at most: each that is passed loses its mark.
  for (;; set.hand = (set.hand + 1) % kWays) {
    const uint32_t mark = uint32_t{1} << set.hand;
    if ((set.used & mark) == 0) break;
    set.used &= ~mark;
  }
  ++counts_.evicted;
  const size_t way = set.hand;
  set.hand = (set.hand + 1) % kWays;
  return way;
}

void LocationCache::learn(const Location& location) noexcept {
  if (sets_.empty()) return;
  Set& set = set_of(location.hash);
  size_t way = way_of(set, location.hash);
  // What was learnt and never found goes first: a walk over many keys must not push out what is in use.
  if (way == kWays) {
    way = make_room(set);
    set.used &= ~(uint32_t{1} << way);
  }
  set.ways[way] = location;
}

void LocationCache::forget_stale(uint64_t hash) noexcept {
  ++counts_.stale;
  if (sets_.empty()) return;
  Set& set = set_of(hash);
  const size_t way = way_of(set, hash);
  if (way < kWays) set.ways[way] = {};
}

void LocationCache::clear() noexcept {
  sets_.assign(sets_.size(), {});
}

}  // namespace refract::kv
