// SPDX-License-Identifier: Apache-2.0
// Judges a history: is there an order of its transactions, one behind the other, that explains every answer
// and respects real time (strict serialisability)?
//
// Transactions become a graph whose edges say which of two comes first in every such order; a circle is a
// contradiction. The names of what can be wrong are those of Adya's definitions (1999) and of Elle (VLDB
// 2020). The checker never refuses a good history. What it misses is bad only by a choice between several
// places of several absences; NOTES.md has the rules and the measured share.
//
// Threads: any. 100,000 transactions take one to two seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/testing/serialisability/history.h"

namespace refract::serialisability {

enum class Phenomenon : uint8_t {
  kInternal,    // A transaction contradicts its own reads and writes.
  kGarbage,     // What no transaction wrote, or a version that was given twice.
  kG1a,         // Aborted read: the write of a refused transaction is seen.
  kG1b,         // Intermediate read: a value that its transaction had replaced.
  kG0,          // A circle of writes alone.
  kG1c,         // Of writes, and of reads of what was written.
  kLostUpdate,  // A write that is based on what another had replaced, on one key.
  kGSingle,     // A circle with one read of what another transaction replaced: read skew.
  kLongFork,    // With two such reads, by transactions without writes that are not neighbours in it.
  kG2,          // With several such reads: write skew.
};

// What the contradiction needs: a store without the promise of real time is right where only that is broken.
enum class Order : uint8_t {
  kNone,      // It is not serialisable.
  kProcess,   // The order of each client's own transactions.
  kRealTime,  // That a transaction which ended before another one began comes first.
};

enum class EdgeKind : uint8_t {
  kWriteWrite,  // The second replaces what the first wrote, or what came later.
  kWriteRead,   // The second sees what the first wrote, or what came later.
  kReadWrite,   // The second replaces what the first saw, or what came later.
  kProcess,
  kRealTime,
};

// A transaction that the history does not name: a version was read whose writer may be one of several.
inline constexpr size_t kUnnamed = SIZE_MAX;

struct Edge {
  size_t from = 0;  // Index of a transaction, or kUnnamed.
  size_t to = 0;
  EdgeKind kind = EdgeKind::kRealTime;
  uint32_t key = 0;          // Of the first three kinds.
  uint64_t version = 0;      // That is read or replaced; 0: none.
  bool is_inferred = false;  // From what is possible at all, and not from a version that was told.
};

struct Anomaly {
  Phenomenon phenomenon = Phenomenon::kG2;
  Order order = Order::kNone;
  std::string name = {};          // "G-single-realtime".
  std::string sentence = {};      // What is wrong, for a person.
  std::vector<Edge> circle = {};  // Each edge leads to the next one's beginning. Empty for the first four.
  std::vector<size_t> involved = {};  // Indices of transactions, sorted.
};

struct Judgement {
  std::optional<Anomaly> anomaly;
  // The least promise that is broken. The anomaly may be one of a stronger promise, if that is smaller.
  std::optional<Order> broken;
  uint64_t steps = 0;  // Edges and places looked at: what the time is in proportion to.

  [[nodiscard]] bool is_good() const noexcept { return !anomaly; }
};

struct CheckOptions {
  // A transaction ended before another one began if at least so much time was between them: where processes
  // have clocks that differ.
  uint64_t clocks_differ_ns = 0;
  // Up to so many transactions it is known of each pair whether one must precede the other; beyond, where
  // both are linked by the order of clients.
  size_t all_pairs_max = 512;
};

[[nodiscard]] Judgement check(const History& history, const CheckOptions& options = {});

[[nodiscard]] std::string name_of(Phenomenon phenomenon, Order order);

}  // namespace refract::serialisability
