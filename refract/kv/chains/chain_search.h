// SPDX-License-Identifier: Apache-2.0
// How a key's entry is found by chains: a state machine between requests and replies, which knows nothing of
// how they travel.
//
//   one round trip    READ the slot where the entry was seen last, and through it the buffer
//   two round trips   READ bucket and bucket count; READ the buffers of the slots whose fingerprint fits, and
//                     the count again
//
// One more for a further line of the bucket, for a directory word that is not known yet, after a split, or
// for a buffer that has become longer than its slot said. The owner's thread executes a chain, so that a
// buffer read through its slot is the entry at that moment: nothing needs a second look, and no pin.
//
// A key that is there throughout stands in one slot throughout, unless its bucket is split, which the count
// tells; so a search that finds it nowhere, and the count as it was, is right to say that it was absent at
// some moment (kv/NOTES.md).
//
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/kv/chains/chain_link.h"
#include "refract/kv/layout/layout.h"
#include "refract/prism/chain.h"
#include "refract/prism/reply.h"

namespace refract::kv {

class ChainSearch {
 public:
  struct Wanted {
    std::span<const std::byte> key;
    uint64_t hash = 0;
    bool value = false;  // Else the header and the key are enough.
    bool word = false;   // Of the slot, together with the stamp.
  };
  // All outlive the search.
  ChainSearch(ChainLink& link, const Wanted& wanted) noexcept : link_(link), wanted_(wanted) {}

  enum class State : uint8_t {
    kAsks,    // build() the next chain, and take() its reply.
    kFound,   // found() has it.
    kAbsent,  // The key was absent at some moment since begin().
    kByRpc,   // why() says what the owner must be asked for.
  };
  // Where the entry was seen last, if it was, or at the bucket.
  [[nodiscard]] State begin() noexcept;
  // Likewise, without what was seen: also in the middle of a search.
  [[nodiscard]] State begin_at_bucket() noexcept;

  // REQUIRES, for both: the state is kAsks.
  void build(prism::Chain& chain) noexcept;
  [[nodiscard]] State take(const prism::Reply& reply) noexcept;
  // After a reply that could not be read, or an error of the whole chain.
  [[nodiscard]] State give_up(ByRpc why) noexcept {
    why_ = why;
    return State::kByRpc;
  }

  struct Match {
    Offset slot_at;
    uint64_t word = 0;  // 0: unknown.
    uint64_t stamp = 0;
    Lengths lengths;
    std::span<const std::byte> buffer;  // What was read of it; as long as the reply is.
  };
  [[nodiscard]] const Match& found() const noexcept { return found_; }
  [[nodiscard]] ByRpc why() const noexcept { return why_; }
  // Whether the entry stood where it was seen last.
  [[nodiscard]] bool was_known() const noexcept { return was_known_; }

  // Slots whose fingerprint fits, of the line that was read last, while their buffers have not been asked
  // for: a put can do without looking at the buffer of an only one.
  struct Candidate {
    Offset slot_at;
    Slot slot{};
  };
  [[nodiscard]] std::span<const Candidate> candidates() const noexcept {
    return std::span(candidates_).first(candidate_count_);
  }

 private:
  static constexpr int kAttempts = 8;
  static constexpr int kLinesMax = 4;  // Each is a round trip; keys that were not chosen seldom need three.

  enum class Step : uint8_t { kSlot, kDirectory, kBucket, kBuffers };
  enum class Seen : uint8_t { kIt, kOther, kLonger, kUnusable };

  [[nodiscard]] bool has_moved() const noexcept;
  [[nodiscard]] State absent() noexcept;
  [[nodiscard]] uint64_t bytes_to_read(uint64_t bytes, size_t operations) const noexcept;
  [[nodiscard]] Seen look(const Candidate& at, std::span<const std::byte> buffer) noexcept;
  void learn() const noexcept;
  [[nodiscard]] State retry_slot(Offset slot_at) noexcept;

  void build_slot(prism::Chain& chain) noexcept;
  void build_buffers(prism::Chain& chain) noexcept;
  [[nodiscard]] State take_slot(const prism::Reply& reply) noexcept;
  [[nodiscard]] State take_directory(const prism::Reply& reply) noexcept;
  [[nodiscard]] State take_line(std::span<const std::byte> bytes, Offset line) noexcept;
  [[nodiscard]] State take_buffers(const prism::Reply& reply) noexcept;
  [[nodiscard]] State next_line_or_absent(const prism::Reply& reply, size_t at) noexcept;

  ChainLink& link_;
  Wanted wanted_;
  Step step_ = Step::kBucket;
  int attempts_ = 0;
  int lines_ = 0;
  uint64_t index_ = 0;  // Of the bucket that is searched.
  uint64_t count_ = 0;  // Of buckets, as known when the search of this one began.
  KnownSlot known_;     // Of kSlot, with the bytes to read.
  std::array<Candidate, kSlotsPerBucket> candidates_;
  size_t candidate_count_ = 0;
  Offset next_line_;
  Match found_;
  uint64_t exact_bytes_ = 0;  // Of the buffer looked at last, as far as it is wanted.
  ByRpc why_ = ByRpc::kContended;
  bool was_known_ = false;
};

}  // namespace refract::kv
