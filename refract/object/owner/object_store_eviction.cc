// SPDX-License-Identifier: Apache-2.0
// Objects that go so that others have room within the limit: least recently used first, and none that is held
// or kept.
#include <algorithm>
#include <utility>

#include "refract/object/owner/object_store_state.h"

namespace refract::object {
namespace {

// Departures that found no memory for their record, before a batch is looked at as a whole.
constexpr size_t kRefusedMax = 8;
// Among so many of the least recently used ones, copies go first.
constexpr size_t kLookedAtMin = 64;

}  // namespace

// Readers may write anything: places are looked up, and found among objects or not at all.
void ObjectStore::State::note_uses() {
  if (parts.uses == nullptr) return;
  used_places.clear();
  parts.uses->collect_uses(used_places);
  for (const uint64_t place : used_places) {
    const Number number = index.find({place});
    if (number != ObjectIndex::kNone && index.standing(number) == Standing::kLoose) {
      index.move(number, Standing::kLoose);
    }
  }
}

uint64_t ObjectStore::State::note_held() {
  uint64_t bytes = 0;
  uint64_t last = 0;
  for (const uint64_t pin : parts.heap.pins_seen().offsets()) {
    if (std::exchange(last, pin) == pin) continue;
    const Number number = index.find({pin});
    if (number == ObjectIndex::kNone || index.standing(number) != Standing::kLoose) continue;
    index.move(number, Standing::kLoose);
    bytes += parts_of({pin}).counted_bytes();
  }
  return bytes;
}

// All lose their id, then pins are looked at once: what was pinned meanwhile has departed, and is held.
ObjectStore::State::Gone ObjectStore::State::evict(std::span<const Number> batch) {
  Gone gone;
  std::vector<Number> departed;
  size_t refused = 0;
  for (const Number number : batch) {
    if (refused == kRefusedMax || budget == 0) break;
    // Named twice: by its place, and by its record's.
    if (index.standing(number) != Standing::kLoose) continue;
    if (depart(number, true) == Code::kOk) {
      departed.push_back(number);
      --budget;
    } else {
      ++refused;
    }
  }
  gone.departed = departed.size();
  if (departed.empty()) return gone;
  (void)parts.heap.look_at_pins();
  for (const Number number : departed) {
    const uint64_t bytes = parts_of(index.object(number)).counted_bytes();
    if (end_departed(number)) gone.bytes += bytes;
  }
  return gone;
}

// Of the oldest few, those first of which another node has, or had, the original.
void ObjectStore::State::choose_oldest(uint64_t bytes, std::vector<Number>& batch) const {
  std::vector<Number> oldest;
  uint64_t looked_at = 0;
  const size_t most = std::max(kLookedAtMin, budget);
  for (Number number = index.oldest(Standing::kLoose); number != ObjectIndex::kNone && oldest.size() < most &&
                                                       (looked_at < bytes || oldest.size() < kLookedAtMin);
       number = index.newer(number)) {
    const Offset object = index.object(number);
    // So are all that are newer.
    if (parts.heap.pins_seen().contains(object)) break;
    oldest.push_back(number);
    looked_at += parts_of(object).counted_bytes();
  }
  uint64_t chosen = 0;
  for (const bool is_pulled : {true, false}) {
    for (const Number number : oldest) {
      const uint16_t flags = header_of(index.object(number)).flags;
      if (((flags & ObjectHeader::kPulled) != 0) != is_pulled) continue;
      if (chosen >= bytes || batch.size() >= budget) return;
      batch.push_back(number);
      chosen += parts_of(index.object(number)).counted_bytes();
    }
  }
}

uint64_t ObjectStore::State::evict_oldest(uint64_t bytes) {
  note_uses();
  uint64_t freed = 0;
  std::vector<Number> batch;
  while (freed < bytes && budget > 0) {
    (void)parts.heap.look_at_pins();
    note_held();
    batch.clear();
    choose_oldest(bytes - freed, batch);
    const Gone gone = evict(batch);
    freed += gone.bytes;
    if (gone.departed == 0) break;
  }
  return freed;
}

Code ObjectStore::State::make_limit(uint64_t counted_bytes) {
  const uint64_t rest = parts.limit - counted_bytes;
  if (accounts.used() <= rest) return Code::kOk;
  release_departed();
  (void)parts.heap.look_at_pins();
  const uint64_t loose = accounts.sealed_bytes - accounts.kept_bytes - note_held();
  // Nothing goes for nothing.
  if (accounts.used() > rest && accounts.used() - loose > rest) return Code::kNoSpace;
  while (accounts.used() > rest) {
    if (evict_oldest(accounts.used() - rest) == 0) break;
  }
  if (accounts.used() <= rest) return Code::kOk;
  shortage.is_under_way = budget == 0;
  return Code::kNoSpace;
}

uint64_t ObjectStore::evict(uint64_t bytes) {
  State& state = *state_;
  state.begin_step();
  const uint64_t freed = state.evict_oldest(bytes);
  state.shortage.is_under_way = freed < bytes && state.budget == 0;
  return freed;
}

}  // namespace refract::object
