// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/eviction.h"

#include <algorithm>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"

namespace refract::kv {
namespace {

// So many entries go at a time, which share one look at all pins. Fewer where there are few.
constexpr uint64_t kBatch = 16;
constexpr uint64_t kEntriesPerVictim = 256;
// Of so many that are looked at one goes: those idler than fifteen in sixteen.
constexpr uint64_t kLooksPerVictim = 16;
// Where few of them have buffers that fit, more are looked at.
constexpr uint64_t kLooksMax = 2'048;
constexpr size_t kSameClassWanted = 16;
// Large values that go for one, before a run is emptied for it.
constexpr int kLargeAttempts = 2;
constexpr int kAttemptsAtOnce = 64;

}  // namespace

Eviction::Eviction(const Parts& parts) : parts_(parts), uses_(parts.policy) {
  REFRACT_CHECK(parts.policy != EvictionPolicy::kNone);
  same_class_.reserve(kLooksMax + kLinesPerPiece * kSlotsPerBucket);
  parts_.table.evict_by(this, &uses_);
}

Eviction::~Eviction() {
  end_run();
  parts_.table.evict_by(nullptr, nullptr);
}

void Eviction::take_samples() {
  if (parts_.samples == nullptr) return;
  hashes_.clear();
  parts_.samples->collect_uses(hashes_);
  // As far ahead as misses overlap.
  constexpr size_t kAhead = 8;
  for (size_t i = 0; i < hashes_.size(); ++i) {
    if (i + kAhead < hashes_.size()) parts_.table.prefetch_bucket(hashes_[i + kAhead]);
    parts_.table.was_read(hashes_[i]);
  }
  counters_.samples += hashes_.size();
}

// Whether the entry's buffer is of the class that is wanted, or large as what is wanted.
bool Eviction::fits(Slot slot, uint64_t bytes) const noexcept {
  const uint64_t has = parts_.table.buffer_bytes(slot);
  if (bytes > kSlabBytesMax) return has > kSlabBytesMax;
  return has <= kSlabBytesMax && size_class_of(has) == size_class_of(bytes);
}

// Keys are hashed, so that neighbouring buckets are a sample as good as any. A round over a small table may
// come back to where it began, and have an entry twice. Those whose hint says that they may fit are of the
// same class, the idlest of them first.
Eviction::Look Eviction::look_around(uint64_t bytes) {
  const uint8_t hint = Slot::size_hint_of(bytes);
  const bool is_large = bytes > kSlabBytesMax;
  const Table::Stats& table = parts_.table.stats();
  const uint64_t steps = table.buckets + table.overflow_lines / kLinesPerPiece;
  const uint64_t victims = std::min(kBatch, table.entries / kEntriesPerVictim + 1);
  Look look;
  Table::SlotRoom room;
  same_class_.clear();
  for (uint64_t step = 0; step < steps; ++step) {
    const bool is_enough = look.slots >= victims * kLooksPerVictim && same_class_.size() >= kSameClassWanted;
    if (is_enough || look.slots >= kLooksMax) break;
    for (const Table::Standing& standing : parts_.table.slots_at(hand_, room)) {
      ++look.slots;
      const uint32_t idleness = uses_.idleness(standing.slot_at);
      if (idleness >= look.idlest) {
        look.idlest = idleness;
        look.idlest_standing = standing;
      }
      const uint8_t its_hint = standing.slot.size_hint();
      if (is_large ? its_hint > Slot::size_hint_of(kSlabBytesMax) : its_hint == hint) {
        same_class_.push_back({.standing = standing, .idleness = idleness});
      }
    }
  }
  // Those that are even stand in the order of their places, so that each run does the same.
  std::ranges::sort(same_class_, [](const Candidate& one, const Candidate& other) {
    if (one.idleness != other.idleness) return one.idleness > other.idleness;
    return one.standing.slot_at.value < other.standing.slot_at.value;
  });
  return look;
}

// The idlest of those that fit, and that no reader holds.
Code Eviction::evict_same_class(uint64_t bytes, size_t& evicted) {
  const bool is_large = bytes > kSlabBytesMax;
  const uint64_t victims = std::min(kBatch, parts_.table.stats().entries / kEntriesPerVictim + 1);
  const uint64_t most = std::clamp<uint64_t>(same_class_.size() / kLooksPerVictim, 1, victims);
  const PinSet& pins = parts_.heap.look_at_pins();
  uint64_t freed = 0;
  for (const Candidate& candidate : same_class_) {
    if (is_large ? freed >= bytes : evicted >= most) break;
    const Slot slot = candidate.standing.slot;
    // Gone already, where the round had it twice: nothing of its buffer may be believed any more.
    if (!parts_.table.stands(candidate.standing) || !fits(slot, bytes)) continue;
    if (pins.contains(slot.buffer())) {
      ++counters_.spared;
      continue;
    }
    const uint64_t its_bytes = Heap::footprint(parts_.table.buffer_bytes(slot));
    const Code code = parts_.table.evict(candidate.standing);
    if (code == Code::kConflict) continue;
    if (code != Code::kOk) return code;
    freed += its_bytes;
    ++evicted;
  }
  return Code::kOk;
}

Code Eviction::make_room(uint64_t bytes, int attempts) noexcept {
  if (parts_.growth.can_grow(bytes)) return Code::kNoSpace;
  take_samples();
  const bool is_large = bytes > kSlabBytesMax;
  if (is_large && attempts >= kLargeAttempts) return empty_run(bytes);
  const Look look = look_around(bytes);
  look_for_other_class(look, bytes);
  size_t evicted = 0;
  const Code code = evict_same_class(bytes, evicted);
  if (evicted == 0) return code != Code::kOk ? code : empty_run(bytes);
  parts_.heap.reclaim();
  return Code::kOk;
}

bool Eviction::make_room_at_once(uint64_t bytes) {
  for (int attempts = 0; attempts < kAttemptsAtOnce; ++attempts) {
    Code code = make_room(bytes, attempts);
    while (code == Code::kNoSpace && is_under_way()) {
      step(kStepEntries);
      if (!is_under_way() && !std::exchange(has_given_up_, false)) code = Code::kOk;
    }
    if (code != Code::kOk) return false;
    if (const auto at = parts_.heap.allocate(bytes)) {
      parts_.heap.release(*at, bytes);
      return true;
    }
  }
  return false;
}

}  // namespace refract::kv
