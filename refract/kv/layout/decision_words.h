// SPDX-License-Identifier: Apache-2.0
// What decides whether pending entries count: the owner's own word (kDecisionAt), of batches of one shard,
// and the words that decide transactions over several shards of a node (docs/design/066). Of these each shard
// has some, behind its directory of buckets, in its first region. A word is a Decision whose number only
// grows.
#pragma once

#include <cstdint>

#include "refract/kv/layout/layout.h"
#include "refract/memory/space.h"

namespace refract::kv {

// Whether a batch has happened: docs/design/062-pending-entries.md. The word of a transaction over several
// shards is claimed by its home while that tells its log, and unconfirmed until the log has it
// (docs/design/067).
struct Decision {
  uint64_t bits = 0;

  static constexpr uint64_t kClaimed = 0;  // Undecided, and the home alone may still decide.
  static constexpr uint64_t kCommitted = 1;
  static constexpr uint64_t kAborted = 2;
  static constexpr uint64_t kUnconfirmed = 3;  // Committed; a crash of the host may still undo it.
  [[nodiscard]] static constexpr Decision committed(uint64_t number) noexcept {
    return {(number << 2) | kCommitted};
  }
  [[nodiscard]] static constexpr Decision aborted(uint64_t number) noexcept {
    return {(number << 2) | kAborted};
  }
  [[nodiscard]] static constexpr Decision claimed(uint64_t number) noexcept {
    return {(number << 2) | kClaimed};
  }
  [[nodiscard]] static constexpr Decision unconfirmed(uint64_t number) noexcept {
    return {(number << 2) | kUnconfirmed};
  }
  [[nodiscard]] constexpr uint64_t number() const noexcept { return bits >> 2; }
  [[nodiscard]] constexpr bool commits(uint64_t number) const noexcept {
    return (bits & 1) != 0 && number == this->number();
  }
  [[nodiscard]] constexpr bool is_committed() const noexcept { return (bits & 1) != 0; }
  [[nodiscard]] constexpr bool is_claimed() const noexcept { return bits != 0 && (bits & 3) == kClaimed; }
  [[nodiscard]] constexpr bool is_unconfirmed() const noexcept { return (bits & 3) == kUnconfirmed; }
};

inline constexpr uint64_t kDecisionWords = 16'384;  // Of a shard.

// Of the area that a table has in its space: the directory, then the words.
[[nodiscard]] constexpr uint64_t table_area_bytes(uint64_t chunks_max) noexcept {
  return (chunks_max + kDecisionWords) * sizeof(uint64_t);
}

// Where a decision stands, for pending entries of any shard of the node; or, of a transaction over several
// nodes (docs/design/070), for those of another node: then the home's member is in it, too.
struct DecisionPlace {
  uint64_t bits = 0;

  static constexpr int kShardShift = 48;
  static constexpr int kMemberShift = 40;
  [[nodiscard]] static constexpr DecisionPlace of(uint32_t shard, Offset at) noexcept {
    return {(uint64_t{shard} + 1) << kShardShift | at.value};
  }
  // False: it is the owner's own, of batches of one shard (kDecisionAt).
  [[nodiscard]] constexpr bool is_word() const noexcept { return bits >> kShardShift != 0; }
  // REQUIRES: is_word().
  [[nodiscard]] constexpr uint32_t shard() const noexcept {
    return static_cast<uint32_t>(bits >> kShardShift) - 1;
  }
  [[nodiscard]] constexpr Offset at() const noexcept { return {bits & ((uint64_t{1} << kMemberShift) - 1)}; }
  // Whether it is a word of another node. Nothing here tells what that says.
  [[nodiscard]] constexpr bool is_far() const noexcept { return is_word() && member_bits() != 0; }
  // Which node has it, by its place among all names. REQUIRES: is_far().
  [[nodiscard]] constexpr uint32_t member() const noexcept { return member_bits() - 1; }
  // The same word, as nodes other than this member name it; and as that one does.
  [[nodiscard]] constexpr DecisionPlace seen_from_afar(uint32_t member) const noexcept {
    return {at_home().bits | (uint64_t{member} + 1) << kMemberShift};
  }
  [[nodiscard]] constexpr DecisionPlace at_home() const noexcept {
    return {bits & ~(uint64_t{0xff} << kMemberShift)};
  }
  [[nodiscard]] constexpr bool operator==(const DecisionPlace&) const noexcept = default;

 private:
  [[nodiscard]] constexpr uint32_t member_bits() const noexcept { return bits >> kMemberShift & 0xff; }
};

// Whether the place leads to a word of the space with this header.
[[nodiscard]] constexpr bool leads_to_word(DecisionPlace place, const SpaceHeader& header) noexcept {
  const uint64_t begin = header.store_area + header.chunks_max * sizeof(uint64_t);
  const uint64_t at = place.at().value;
  return at >= begin && at - begin < kDecisionWords * sizeof(uint64_t) &&
         (at - begin) % sizeof(uint64_t) == 0;
}

// A transaction over several shards: its word, and its number there, which is given once.
struct TransactionName {
  DecisionPlace place;
  uint64_t number = 0;
  [[nodiscard]] constexpr bool operator==(const TransactionName&) const noexcept = default;
};

// Numbers of a word are given in ranges: the upper part says to which session, and only grows. Those of a
// memory begin above all that were given in an earlier one of the same store, whose log may still name them.
inline constexpr int kNumbersShift = 14;
inline constexpr int kLivesShift = 40;
// `floor_stamp`: the memory's first stamp, which is at least 2^32 above that of the memory before.
[[nodiscard]] constexpr uint64_t first_number(uint64_t floor_stamp) noexcept {
  return (floor_stamp >> 31) << kLivesShift;
}

}  // namespace refract::kv
