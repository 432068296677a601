// SPDX-License-Identifier: Apache-2.0
// What a history tells for certain: which transactions happened, the order of each key's versions, who wrote,
// read and replaced each.
//
// A version that was read and that no transaction was told belongs to the only write that it can belong to,
// or, where there are several, to an unnamed transaction of its own: node numbers behind those of the
// history.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "refract/base/testing/serialisability/access.h"
#include "refract/base/testing/serialisability/checker.h"

namespace refract::serialisability {

// A version of a key. The first of a key stands for its absence before everything.
struct State {
  uint64_t version = 0;
  uint32_t writer = kUnset;
  uint32_t access = kUnset;  // The writer's, if it is named.
  Value value = {};
  // The transaction that found this version and erased it, or replaced it by a version that is not known.
  uint32_t overwriter = kUnset;
  bool is_erased = false;  // By `overwriter`.
  std::vector<uint32_t> readers = {};
};

struct KeyEvidence {
  bool is_erased_ever = false;  // Or may be.
  std::vector<State> states;    // By version.
  // Accesses that change the key, or may, next to no known version: indices into Evidence::accesses, sorted
  // by the beginnings of their transactions.
  std::vector<uint32_t> loose_writes;
  std::vector<uint32_t> loose_erases;
};

struct Evidence {
  const History* history = nullptr;
  std::vector<Access> accesses;
  std::vector<uint32_t> first_access;  // Of each transaction; one more, for the end.
  // What it found stood there at one moment, and if it is not refused, its writes have taken effect.
  std::vector<bool> has_happened;
  std::vector<KeyEvidence> keys;
  uint32_t nodes = 0;
};

// What was inferred, and is given to the next look at the same history.
struct Inferred {
  std::vector<uint32_t> seen;                        // Transactions of unknown outcome that have happened.
  std::vector<std::pair<uint32_t, uint64_t>> found;  // Accesses, and the versions that they must have found.
};

// `by_time`: a write that began after the end of a read is not what was read.
[[nodiscard]] std::optional<Anomaly> collect(const History& history, const CheckOptions& options,
                                             bool by_time, const Inferred& inferred, Evidence& evidence);

// When it was over for certain: one of unknown outcome never is.
[[nodiscard]] inline uint64_t end_of(const Transaction& one) {
  return one.outcome == Outcome::kUnknown ? kNever : one.ended_ns;
}
// In real time.
[[nodiscard]] bool precedes(const Transaction& one, const Transaction& other, const CheckOptions& options);

}  // namespace refract::serialisability
