// SPDX-License-Identifier: Apache-2.0
// What all parts of a run of transactions share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tests/transactions/node_logs.h"
#include "tests/transactions/shard_places.h"
#include "tests/transactions/transactions.h"

#include "refract/base/testing/serialisability/history.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/layout/decision_words.h"

namespace refract::campaign {

struct TransactionStage {
  const TransactionRun& run;
  sim::World& world;
  ShardPlaces& process;
  NodeLogs* logs = nullptr;  // Null: there are none.
  uint64_t hash_seed = 0;
  serialisability::Recorder recorder;
  TransactionOutcome outcome;
  int64_t values = 0;       // Given so far; each once.
  int operations_left = 0;  // Of all clients.
  int clients_at_work = 0;
  int clients_made = 0;
  std::deque<kv::TransactionName> names;  // That were sent of late: any client may ask for them, or end them.
  uint64_t lost_calls = 0;                // That never left their client.
  std::function<void()> on_linger = {};   // Null: nothing more happens then.
  uint64_t lingered = 0;                  // Transactions whose client was away between prepare and decision.

  static constexpr size_t kNames = 24;
  // With which keys begin that are not judged.
  static constexpr std::string_view kFill = "fill ";
  // The one that evicts, among the clients of the history, and the one that ends lives.
  static constexpr std::string_view kEvictor = "eviction";
  static constexpr std::string_view kTime = "time";

  [[nodiscard]] static std::string shard_name(size_t index);
  [[nodiscard]] uint32_t shard_of(std::span<const std::byte> key) const noexcept;
  // Where messages of transactions come twice, the second time later.
  [[nodiscard]] bool sends_twice() const noexcept { return run.seed % 5 == 2 && !run.is_over_nodes; }
  [[nodiscard]] bool has_few_words() const noexcept { return run.has_few_words(); }
  // The memory is too small for what is put.
  [[nodiscard]] bool evicts() const noexcept { return run.seed % 5 == 4; }
  // Keys are added all the time, so that tables split.
  [[nodiscard]] bool grows() const noexcept { return run.seed % 5 == 1; }
  // Some keys live for a short time, by the one clock that the machine has.
  [[nodiscard]] bool expires() const noexcept {
    return (run.seed % 7 == 3 || run.mutation == Mutation::kIgnoreExpiry) && !evicts() &&
           durability_of(run) == Durability::kNone;
  }
  // A chance.
  [[nodiscard]] double settles_left_out() const noexcept {
    if (has_few_words()) return 0.3;
    return run.seed % 4 == 3 ? 0.15 : 0;
  }
  [[nodiscard]] bool has_deaths() const noexcept { return run.seed % 4 == 2; }
  // What a client may do nothing for, and which is the longer, the longer nodes are away.
  [[nodiscard]] uint64_t pause_max_ns() const noexcept;
  // The first complaint stays, and ends the run.
  void complain(const std::string& wrong);
  [[nodiscard]] bool is_over() const noexcept { return !outcome.wrong.empty(); }
  [[nodiscard]] uint64_t now_ns() const noexcept { return world.now_ns(); }
};

}  // namespace refract::campaign
