// SPDX-License-Identifier: Apache-2.0
// Reads a moment of a table while its owner continues to change it: the reader's half of a snapshot, whose
// other half is the feed (snapshot_feed.h), with its rules (S1) to (S3).
//
// Buckets are read in the order of a scan (scan_cursor.h), each entry of the moment exactly once. Why none is
// missed: what leaves its slot was handed over before (S1), so the queue, looked at after the slots, has
// whatever the slots no longer had. Why none comes twice: what was handed over for a place already passed is
// left out, as is what the bucket at hand has given; and of what the queue gave, only the very last can still
// stand in its slot, because the owner finishes one departure before the next.
//
// Why nothing is torn: by (S2) bytes of the moment do not change under the reader's hands, so that there is
// no second look at stamps, only one at whether the snapshot was given up.
//
// Threads: one, not the table's. `memory` and `feed` outlive the walk.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/direct/table_view.h"
#include "refract/kv/layout/contract.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/layout/scan_cursor.h"
#include "refract/kv/owner/snapshot/slot_of_moment.h"
#include "refract/kv/owner/snapshot/snapshot_feed.h"
#include "refract/kv/owner/table/ring_finder.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

// An entry of the moment, complete, until the next call.
struct SnapshotSource {
  Offset buffer;
  uint64_t stamp = 0;
  Lengths lengths;
};

template <typename Memory, typename Feed = SnapshotFeed>
class SnapshotWalk {
 public:
  struct Counts {
    uint64_t entries = 0;
    uint64_t handed = 0;   // Among them, those that had left the table.
    uint64_t expired = 0;  // Left out.
    uint64_t buckets = 0;
  };

  SnapshotWalk(Memory& memory, Feed& feed) : view_(memory), feed_(feed) { ahead_.fill(0); }

  // Gives the entries of the next bucket, and what was handed over meanwhile, to `sink(source)`, which
  // returns kOk or what ends the snapshot. kCorrupt: the table's bytes contradict themselves. Whatever else
  // is returned, feed.code() says it too.
  template <typename Sink>
  [[nodiscard]] Code next(Sink&& sink);

  [[nodiscard]] bool done() const noexcept { return is_done_; }
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  // Cursors of places are told to the shard every so many buckets: what it hands over without need meanwhile
  // costs less than a shared line for each bucket.
  static constexpr uint64_t kPassEvery = 16;
  static constexpr size_t kAhead = 32;  // Buckets whose lines are on their way; half of it, their buffers.

  static constexpr size_t kWordsAhead = 2 * kSlotsPerBucket;

  enum class Where : uint8_t { kHere, kHereOrBehind };

  [[nodiscard]] Code read_slots(ScanStep& step);
  [[nodiscard]] Code read_chain(Offset line);
  template <typename Sink>
  [[nodiscard]] Code take_queue(const ScanStep& step, uint64_t handed, Sink& sink);
  template <typename Sink>
  [[nodiscard]] Code give(Offset buffer, uint64_t stamp, const ScanStep& step, Where where, Sink& sink);
  [[nodiscard]] Code check(const Lengths& lengths, Offset buffer) noexcept;
  void look_ahead() noexcept;

  TableView<Memory> view_;
  Feed& feed_;
  uint64_t cursor_ = 0;
  uint64_t taken_ = 0;              // Of the queue.
  uint64_t last_handed_stamp_ = 0;  // Of what was handed over last: it may still stand in its slot.
  bool is_done_ = false;
  std::vector<uint64_t> words_;   // The bucket's slots that are not free.
  std::vector<uint64_t> stamps_;  // What it has given.
  std::vector<std::byte> key_ = std::vector<std::byte>(kKeyBytesMax);
  std::array<uint64_t, kAhead> ahead_;
  uint64_t looked_at_ = 0;  // Buckets.
  uint64_t furthest_ = 0;   // The cursor behind them.
  Counts counts_;
};

template <typename Memory, typename Feed>
template <typename Sink>
Code SnapshotWalk<Memory, Feed>::next(Sink&& sink) {
  if (is_done_) return Code::kOk;
  look_ahead();
  ScanStep step{};
  if (const Code code = read_slots(step); code != Code::kOk) return code;
  // (S1): after the slots, so that whatever had left them is in the queue by now.
  const uint64_t handed = feed_.handed();
  stamps_.clear();
  for (size_t i = 0; i < words_.size(); ++i) {
    const Slot slot{words_[i]};
    // Of a bucket at hand they were fetched already, but for those of a long chain.
    if (i + kWordsAhead < words_.size()) view_.memory().prefetch(Slot{words_[i + kWordsAhead]}.buffer());
    const Offset buffer = slot.buffer();
    if (!view_.is_inside(buffer, sizeof(BufferHeader))) return Code::kCorrupt;
    const uint64_t stamp = view_.memory().observe(buffer);
    // A younger entry's buffer may have been reused since; one of the moment cannot.
    if (!feed_.is_of_moment(stamp) || !slot.names(stamp) || stamp == last_handed_stamp_) continue;
    if (const Code code = give(buffer, stamp, step, Where::kHere, sink); code != Code::kOk) return code;
  }
  if (const Code code = take_queue(step, handed, sink); code != Code::kOk) return code;
  cursor_ = step.next;
  is_done_ = cursor_ == 0;
  if (++counts_.buckets % kPassEvery == 0 || is_done_) feed_.pass(cursor_);
  return feed_.code();
}

template <typename Memory, typename Feed>
template <typename Sink>
Code SnapshotWalk<Memory, Feed>::take_queue(const ScanStep& step, uint64_t handed, Sink& sink) {
  if (taken_ == handed) return Code::kOk;
  std::ranges::sort(stamps_);
  for (; taken_ < handed; ++taken_) {
    const SnapshotFeed::Handed one = feed_.handed_at(taken_);
    last_handed_stamp_ = one.stamp;
    if (std::ranges::binary_search(stamps_, one.stamp)) continue;
    const uint64_t before = counts_.entries;
    if (const Code code = give(one.buffer(), one.stamp, step, Where::kHereOrBehind, sink); code != Code::kOk)
      return code;
    counts_.handed += counts_.entries - before;
  }
  feed_.take(taken_);
  return Code::kOk;
}

// Gives the entry unless its place was passed before, or belongs to another bucket: a split leaves slots in
// the old one for a while.
template <typename Memory, typename Feed>
template <typename Sink>
Code SnapshotWalk<Memory, Feed>::give(Offset buffer, uint64_t stamp, const ScanStep& step, Where where,
                                      Sink& sink) {
  Memory& memory = view_.memory();
  const Lengths lengths = Lengths::from_word(memory.observe(buffer.plus(offsetof(BufferHeader, lengths))));
  if (const Code code = check(lengths, buffer); code != Code::kOk) return code;
  memory.copy(key_.data(), buffer.plus(lengths.key_at()), lengths.key_bytes);
  const uint64_t place = scan_place(view_.hash({key_.data(), lengths.key_bytes}));
  if (place < cursor_) return Code::kOk;
  if (where == Where::kHere && step.next != 0 && place >= step.next) return Code::kOk;
  if (where == Where::kHere) stamps_.push_back(stamp);
  if ((lengths.flags & Lengths::kExpires) != 0 &&
      memory.observe(buffer.plus(kExpiryAt)) <= feed_.moment().wall_ns) {
    ++counts_.expired;
    return Code::kOk;
  }
  ++counts_.entries;
  return sink(SnapshotSource{.buffer = buffer, .stamp = stamp, .lengths = lengths.without_batch()});
}

// (S3): lengths that were read while the moment was kept are the buffer's, and lead nowhere else.
template <typename Memory, typename Feed>
Code SnapshotWalk<Memory, Feed>::check(const Lengths& lengths, Offset buffer) noexcept {
  load_load_fence();
  if (const Code code = feed_.code(); code != Code::kOk) return code;
  const bool is_sound = lengths.is_sound() && view_.is_inside(buffer, lengths.total_bytes());
  return is_sound ? Code::kOk : Code::kCorrupt;
}

// The slots of the cursor's bucket at one size of that bucket: what a split moved meanwhile is read again, or
// brought forward.
template <typename Memory, typename Feed>
Code SnapshotWalk<Memory, Feed>::read_slots(ScanStep& step) {
  for (int attempt = 0; attempt < TableView<Memory>::kAttempts; ++attempt) {
    const uint64_t count = view_.observe_count();
    if (count == 0) return Code::kCorrupt;
    step = scan_step(cursor_, count);
    const Code code = read_chain(view_.bucket_at(step.bucket));
    if (code == Code::kCorrupt) return code;
    if (code != Code::kOk) continue;
    const uint64_t count_after = view_.observe_count();
    const bool is_same =
        scan_step(cursor_, count_after) == step && !came_forward(step.bucket, count, count_after);
    if (count_after == count || is_same) return code;
  }
  return Code::kCorrupt;
}

// kInvalidated: a line was unlinked and became another chain's while it was read. Entries of other chains are
// left out by their places.
template <typename Memory, typename Feed>
Code SnapshotWalk<Memory, Feed>::read_chain(Offset line) {
  words_.clear();
  RingFinder ring;
  size_t in_first_line = 0;
  while (line) {
    if (ring.was_at(line)) return Code::kInvalidated;
    if (!view_.is_inside(line, kLineBytes)) return Code::kCorrupt;
    for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
      const std::optional<uint64_t> read =
          slot_of_moment(view_, line.plus(i * sizeof(Slot)), feed_.has_parts());
      if (!read) return Code::kInvalidated;
      const uint64_t word = *read;
      // One that is just coming forward stands in two lines.
      const auto first_end = words_.begin() + static_cast<ptrdiff_t>(in_first_line);
      if (word != 0 && std::find(words_.begin(), first_end, word) == first_end) words_.push_back(word);
    }
    if (in_first_line == 0) in_first_line = words_.size();
    line = line_at(view_.memory().observe(line.plus(kOverflowWord * sizeof(Slot))));
  }
  return Code::kOk;
}

// Hints alone: the misses of so many buckets, then of their buffers, overlap.
template <typename Memory, typename Feed>
void SnapshotWalk<Memory, Feed>::look_ahead() noexcept {
  Memory& memory = view_.memory();
  const uint64_t count = view_.observe_count();
  for (; count != 0 && looked_at_ < counts_.buckets + kAhead; ++looked_at_) {
    if (looked_at_ > 0 && furthest_ == 0) return;
    const ScanStep step = scan_step(furthest_, count);
    const Offset bucket = view_.bucket_at(step.bucket);
    memory.prefetch(bucket);
    ahead_[looked_at_ % kAhead] = bucket.value;
    furthest_ = step.next;
  }
  const Offset near{ahead_[(counts_.buckets + kAhead / 2) % kAhead]};
  if (!view_.is_inside(near, kLineBytes)) return;
  for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
    const Slot slot{memory.observe(near.plus(i * sizeof(Slot)))};
    if (!slot) continue;
    memory.prefetch(slot.buffer());
    memory.prefetch(slot.buffer().plus(kLineBytes));
  }
}

}  // namespace refract::kv
