// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/snapshot/snapshot_feed.h"

#include <algorithm>
#include <bit>

#include "refract/base/check.h"
#include "refract/kv/layout/scan_cursor.h"

namespace refract::kv {
namespace {

// Given back with each departure: more than come in, so that the queue empties under load.
constexpr size_t kBackAtDeparture = 4;
// And when no call waits for a single write: some 100 microseconds.
constexpr size_t kBackAtPoll = 1'024;
// A write that finds no memory waits for so many; more would make a pause.
constexpr size_t kBackWhenShort = 16'384;

// Throttled reading ends where more than this share of all memory is kept.
constexpr uint64_t kUrgentShare = 32;

}  // namespace

SnapshotFeed::SnapshotFeed(Table& table, Heap& heap, Writer& writer, const Clock& clock,
                           const Options& options)
    : table_(table),
      heap_(heap),
      writer_(writer),
      options_(options),
      mask_(std::bit_ceil(std::max<uint64_t>(options.handed_max, 1)) - 1),
      // Not initialised: its pages are taken when they are first used.
      queue_(std::make_unique_for_overwrite<Handed[]>(mask_ + 1)) {
  const auto& header = writer.view<SpaceHeader>({0});
  moment_ = {.stamp = heap.next_stamp(),
             .wall_ns = clock.wall_ns(),
             .entries = table.stats().entries,
             .hash_seed = header.hash_seed,
             .shard_index = header.shard_index,
             .shard_count = std::max<uint32_t>(header.shard_count, 1),
             .copies = static_cast<uint32_t>(header.copies),
             .placement = header.placement};
  leaving_.reserve(16);
  table_.tell(this);
}

SnapshotFeed::~SnapshotFeed() {
  table_.tell(nullptr);
  give_up(Code::kCancelled);
  leaving_.clear();
  while (give_back(kBackAtPoll) > 0) {
  }
}

bool SnapshotFeed::is_wanted(Slot slot, uint64_t stamp) const noexcept {
  if (!is_of_moment(stamp) || code() != Code::kOk) return false;
  const Offset buffer = slot.buffer();
  const Lengths lengths = Lengths::from_word(writer_.load(buffer.plus(offsetof(BufferHeader, lengths))));
  const uint64_t hash = table_.hash({writer_.at(buffer.plus(lengths.key_at())), lengths.key_bytes});
  return scan_place(hash) >= passed_.load(std::memory_order_acquire);
}

void SnapshotFeed::departing(Slot slot) noexcept {
  give_back(kBackAtDeparture);
  const Offset buffer = slot.buffer();
  const uint64_t stamp = writer_.load(buffer);
  if (!is_wanted(slot, stamp)) return;
  const uint64_t index = handed_.load(std::memory_order_relaxed);
  if (index - given_back_ > mask_) return give_up(Code::kOverloaded);
  const Lengths lengths = Lengths::from_word(writer_.load(buffer.plus(offsetof(BufferHeader, lengths))));
  leaving_.push_back({.index = index, .buffer = buffer});
  ++stats_.handed;
  stats_.kept_bytes += Heap::footprint(lengths.total_bytes());
  stats_.kept_bytes_max = std::max(stats_.kept_bytes_max, stats_.kept_bytes);
  hand_over({.buffer_at = buffer.value, .stamp = stamp, .bytes = lengths.total_bytes()});
  is_urgent_.store(
      stats_.kept_bytes * kUrgentShare > heap_.stats().bytes_total || 2 * (index - given_back_) > mask_,
      std::memory_order_relaxed);
}

void SnapshotFeed::hand_over(const Handed& handed) noexcept {
  const uint64_t index = handed_.load(std::memory_order_relaxed);
  queue_[index & mask_] = handed;
  handed_.store(index + 1, std::memory_order_release);
}

bool SnapshotFeed::keeps(Offset buffer) noexcept {
  const auto found =
      std::ranges::find(leaving_, buffer.value, [](const Leaving& one) { return one.buffer.value; });
  if (found == leaving_.end()) return false;
  leaving_.erase(found);
  return true;
}

uint64_t SnapshotFeed::read_count() const noexcept {
  const bool is_over = code() != Code::kOk || passed_.load(std::memory_order_acquire) == kAllPassed;
  return is_over ? handed_.load(std::memory_order_relaxed) : taken_.load(std::memory_order_acquire);
}

size_t SnapshotFeed::give_back(size_t count_max) noexcept {
  uint64_t end = std::min(read_count(), given_back_ + count_max);
  for (const Leaving& one : leaving_) end = std::min(end, one.index);
  size_t count = 0;
  for (; given_back_ < end; ++given_back_, ++count) {
    const Handed handed = queue_[given_back_ & mask_];
    stats_.kept_bytes -= Heap::footprint(handed.bytes);
    table_.retire(handed.buffer(), handed.bytes);
  }
  return count;
}

bool SnapshotFeed::poll() noexcept {
  give_back(kBackAtPoll);
  return given_back_ != handed_.load(std::memory_order_relaxed);
}

bool SnapshotFeed::gives_way() noexcept {
  is_urgent_.store(true, std::memory_order_relaxed);
  if (give_back(kBackWhenShort) == 0) {
    if (!options_.gives_way || given_back_ == handed_.load(std::memory_order_relaxed)) return false;
    give_up(Code::kNoSpace);
    if (give_back(kBackWhenShort) == 0) return false;
  }
  heap_.reclaim();
  return true;
}

void SnapshotFeed::give_up(Code code) noexcept {
  Code expected = Code::kOk;
  (void)code_.compare_exchange_strong(expected, code, std::memory_order_acq_rel);
}

}  // namespace refract::kv
