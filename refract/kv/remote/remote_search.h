// SPDX-License-Identifier: Apache-2.0
// How a key's entry is found by READs of its owner's memory, which continues to change meanwhile: a state
// machine between round trips, so that many searches can share each of them.
//
//   seen before   READ the buffer, the slot, the buffer's stamp                    one round trip
//   else          READ the bucket's line, READ the bucket count; then
//                 READ stamp, buffer, slot and stamp of each slot that fits        two
//
// A further line of the bucket is READ together with the buffers of the line before it, and the count behind
// it. One round trip more is taken by a directory word that is not known yet, by a split meanwhile, and by an
// entry that was written again since it was seen: its slot says where it is now.
//
// READs of a channel take effect in the order posted, but each of them meets the memory piece by piece. So a
// buffer is believed only if it carried the same stamp before its READ, when it was seen last or right in
// front, and behind the slot's READ: then it had one complete content throughout. Its slot, READ in between,
// must hold the word that it was found by: then this content was the entry's at that moment. A key that is
// nowhere was absent at some moment, if the bucket count, READ behind the last line, leads to the same
// bucket. docs/design/023-reading-from-afar.md and 042-confirmed-stamps.md argue all this.
//
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/kv/layout/layout.h"
#include "refract/kv/remote/read_batch.h"
#include "refract/kv/remote/remote_link.h"

namespace refract::kv {

class RemoteSearch {
 public:
  struct Wanted {
    std::span<const std::byte> key;
    uint64_t hash = 0;
    bool value = false;  // Else the header and the key are enough.
  };
  // The link outlives the search.
  RemoteSearch(RemoteLink& link, const Wanted& wanted) noexcept : link_(link), wanted_(wanted) {}

  enum class State : uint8_t {
    kAsks,      // plan() the next READs, and take() what they brought.
    kUnmapped,  // Ask the owner where its memory lies, then begin_at_bucket() again.
    kFound,     // found() has it.
    kAbsent,    // The key was absent at some moment since begin().
    kByCall,    // why() says what the owner must be asked for.
  };
  // Where the entry was seen last, if it was, or at the bucket. REQUIRES: the link's geometry is known.
  [[nodiscard]] State begin() noexcept;
  [[nodiscard]] State begin_at_bucket() noexcept;

  // Both REQUIRE: the state is kAsks. The state after plan() is kAsks, or nothing was added. `now_ns` is the
  // shard's.
  [[nodiscard]] State plan(ReadBatch& batch, uint64_t now_ns);
  [[nodiscard]] State take(const ReadBatch& batch, uint64_t now_ns) noexcept;

  struct Match {
    uint64_t stamp = 0;
    Lengths lengths;
    uint64_t expires_wall_ns = 0;       // 0: never.
    std::span<const std::byte> buffer;  // Lies in the batch; as far as it was wanted.
  };
  [[nodiscard]] const Match& found() const noexcept { return found_; }
  [[nodiscard]] WhyCalled why() const noexcept { return why_; }

 private:
  static constexpr int kAttempts = 8;
  static constexpr int kLinesMax = 4;  // Each is a round trip; keys that were not chosen seldom need three.

  enum class Step : uint8_t { kSlot, kDirectory, kBucket, kBuffers };
  enum class Seen : uint8_t { kIt, kExpired, kOther, kChanged, kLonger, kUnusable, kRefused };

  // A slot that may be the key's, and what is READ for it.
  struct Candidate {
    Offset slot_at;
    Slot slot{};              // Its word, seen before.
    uint64_t stamp = 0;       // Of its buffer, if that was seen, too.
    uint64_t bytes = 0;       // Of the buffer to be read.
    size_t stamp_before = 0;  // Numbers of the READs; of a known stamp this one is left out.
    size_t buffer = 0;
    size_t slot_read = 0;
    size_t stamp_behind = 0;
    Slot now{};  // The word that came.
  };

  [[nodiscard]] State give_up(WhyCalled why) noexcept;
  [[nodiscard]] State unmapped() noexcept;
  [[nodiscard]] State try_slot(const Candidate& candidate) noexcept;
  [[nodiscard]] bool has_moved() const noexcept;
  [[nodiscard]] State absent() noexcept;
  [[nodiscard]] bool may_be_it(Slot slot) const noexcept;
  [[nodiscard]] uint64_t bytes_to_read(uint64_t bytes) const noexcept;

  [[nodiscard]] bool add(ReadBatch& batch, Offset at, uint64_t bytes, size_t& read);
  [[nodiscard]] bool add_entry(ReadBatch& batch, Candidate& candidate);
  [[nodiscard]] bool add_line(ReadBatch& batch, Offset line);
  [[nodiscard]] bool add_step(ReadBatch& batch);

  [[nodiscard]] State take_slot(const ReadBatch& batch, uint64_t now_ns) noexcept;
  [[nodiscard]] State take_directory(const ReadBatch& batch) noexcept;
  [[nodiscard]] State take_line(const ReadBatch& batch) noexcept;
  [[nodiscard]] State take_buffers(const ReadBatch& batch, uint64_t now_ns) noexcept;
  [[nodiscard]] Seen look(Candidate& candidate, const ReadBatch& batch, uint64_t now_ns) noexcept;
  [[nodiscard]] Seen look_at_content(const Candidate& candidate, const ReadBatch& batch,
                                     const BufferHeader& header, uint64_t now_ns) noexcept;
  [[nodiscard]] bool was_read(const Candidate& candidate, const ReadBatch& batch) const noexcept;
  [[nodiscard]] bool is_confirmed(const Candidate& candidate, const ReadBatch& batch,
                                  uint64_t stamp) const noexcept;
  [[nodiscard]] Seen look_at_time(uint64_t expires_wall_ns, uint64_t now_ns) noexcept;
  [[nodiscard]] State found(const Candidate& candidate) noexcept;

  RemoteLink& link_;
  Wanted wanted_;
  Step step_ = Step::kBucket;
  int attempts_ = 0;
  int lines_ = 0;
  bool has_asked_ = false;  // Where the memory lies.
  bool is_known_ = false;   // The candidate comes from the location cache.
  uint64_t index_ = 0;      // Of the bucket that is searched.
  uint64_t count_ = 0;      // Of buckets, as known when the search of this one began.
  uint64_t planned_ns_ = 0;
  std::array<Candidate, kSlotsPerBucket> candidates_;
  size_t candidate_count_ = 0;
  Offset line_;            // To be read; nowhere: there is no further one.
  size_t line_read_ = 0;   // Numbers of READs.
  size_t count_read_ = 0;  // The directory's word, too.
  Match found_;
  uint64_t exact_bytes_ = 0;  // Of the buffer looked at last, as far as it is wanted.
  WhyCalled why_ = WhyCalled::kContended;
};

}  // namespace refract::kv
