// SPDX-License-Identifier: Apache-2.0
// `refract-bench txn`: YCSB-T and SmallBank by our transactions and by published protocols, in turns.
//
// Each client has connections of its own and one transaction under way; all of them run in one thread. A
// transaction that meets others is tried again after pauses, the same for all sides (txn::Attempts), until it
// has committed or its time is over. Behind all turns of a side its entries are summed up: the sum has to be
// what there was, and what committed transactions have brought in and taken out. A run whose sum is another
// one, or with a transaction that did not commit within its time, is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure/references.h"
#include "bench/txn/txn_plan.h"

#include "refract/base/histogram.h"
#include "refract/base/report.h"
#include "refract/base/units.h"

namespace refract::bench {

enum class TxnProvider : uint8_t { kShm, kTcp, kSim };
[[nodiscard]] std::string_view text(TxnProvider provider) noexcept;

// The name of our own protocol among the designs.
inline constexpr std::string_view kTxnOurs = "ours";
inline constexpr std::string_view kTxnRedis = "redis";

class TxnSide;

struct TxnLoad {
  TxnMix mix;
  TxnProvider provider = TxnProvider::kShm;
  std::vector<std::string> designs = {std::string(kTxnOurs)};  // kTxnOurs, and names of txn::designs.
  bool is_beside_redis = false;
  size_t clients = 16;
  double seconds = 1;                     // Of a turn; simulated ones on sim.
  int rounds = 3;                         // Turns of each side.
  uint64_t shards = 1;                    // Of a node; of a design as many servers.
  uint64_t nodes = 1;                     // On sim.
  uint64_t patience_ns = 5 * kSecond_ns;  // Of one transaction, all attempts together.
  std::string node_program;
  // For tests: called for each side between its turns and its sum.
  std::function<Reported<>(TxnSide&)> before_sum = nullptr;
  // For tests: ours reads, then puts, without a transaction.
  bool is_plain = false;

  [[nodiscard]] bool has(std::string_view design) const noexcept;
};

// Of one side, in one turn.
struct TxnTurn {
  uint64_t committed = 0;      // Within the turn's time, which begins behind a warm-up; likewise below.
  uint64_t refused = 0;        // Ended without a change, for there was too little money.
  uint64_t attempts = 0;       // Of both.
  uint64_t attempts_most = 0;  // Of one transaction.
  double seconds = 0;
  Histogram latency_ns;      // Of those that committed, from the first attempt.
  uint64_t uncommitted = 0;  // Not within their time, of all.
  int64_t gained = 0;        // By all that committed, warm-up included.

  [[nodiscard]] double per_second() const noexcept {
    return seconds > 0 ? static_cast<double>(committed) / seconds : 0;
  }
  [[nodiscard]] uint64_t ended() const noexcept { return committed + refused; }
  void add(const TxnTurn& other) noexcept;
};

struct TxnSideResult {
  std::string name;
  std::string how;
  std::vector<double> rates;  // Committed transactions a second, one a turn; likewise:
  std::vector<double> p50_ns;
  std::vector<double> p99_ns;
  std::vector<double> p999_ns;
  std::vector<double> attempts;           // Of each transaction.
  std::vector<double> conflicts_percent;  // Attempts that met others, of all.
  TxnTurn all;                            // Of all turns.
  int64_t sum = 0;                        // That was found, and had to be.
};

struct TxnResult {
  std::vector<TxnSideResult> sides;  // Ours first, where it is there.
  bool has_references = false;       // Not on sim.
  Reference before;
  Reference after;
  bool is_bound = false;  // Load and server have a core each.
};

// Rejects what cannot be, in a sentence.
[[nodiscard]] Reported<> check(const TxnLoad& load);
[[nodiscard]] Reported<TxnResult> run_txn_load(const TxnLoad& load);

}  // namespace refract::bench
