// SPDX-License-Identifier: Apache-2.0
// Our transactions beside published protocols, and over many nodes, on the simulated testbed of suite
// prism-tx. Nothing here depends on this machine.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/txn/txn_load.h"

namespace refract::bench {
namespace {

constexpr uint64_t kBarShards = 16;  // The cores of the testbed's server.

TxnLoad bar_load(const BarRun& run, TxnWorkload workload) {
  TxnLoad load;
  load.provider = TxnProvider::kSim;
  load.mix.workload = workload;
  load.mix.groups = run.options.judged ? 50'000 : 2'000;
  if (workload == TxnWorkload::kSmallBank) load.mix.value_bytes = 8;
  load.seconds = run.options.judged ? 0.0004 : 0.0001;
  load.rounds = 1;
  return load;
}

// Of one run.
Reported<std::vector<TxnSideResult>> sides_of(const TxnLoad& load) {
  Reported<TxnResult> result = run_txn_load(load);
  if (!result) return report(result.error());
  return std::move(result->sides);
}

// Each side at the number of clients at which it is fastest.
Reported<Outcome> measure_beside_designs(const BarRun& run, TxnWorkload workload) {
  TxnLoad load = bar_load(run, workload);
  load.shards = kBarShards;
  load.designs = {std::string(kTxnOurs), "farm", "prism-tx"};
  const std::vector<size_t> clients =
      run.options.judged ? std::vector<size_t>{132, 264} : std::vector<size_t>{16};
  std::vector<Detail> best;
  for (const size_t count : clients) {
    load.clients = count;
    const Reported<std::vector<TxnSideResult>> sides = sides_of(load);
    if (!sides) return report(sides.error());
    best.resize(sides->size(), {.name = {}, .value = 0, .unit = "M/s"});
    for (size_t i = 0; i < sides->size(); ++i) {
      best[i].name = (*sides)[i].name;
      best[i].value = std::max(best[i].value, (*sides)[i].rates.front() * 1e-6);
    }
  }
  Outcome outcome;
  outcome.samples = {best[0].value / std::max(best[1].value, best[2].value)};
  outcome.details = std::move(best);
  outcome.note = fmt::format(
      "simulated, {}; ours a node of {} shards, a core each, read by calls; the others a server of {} cores",
      workload == TxnWorkload::kYcsbT ? "two keys are read and written, 16 + 64 B" : "SmallBank's mix",
      kBarShards, kBarShards);
  return outcome;
}

// The rate over so many times that of one node, the least.
Reported<Outcome> measure_nodes(const BarRun& run, double far_share) {
  const uint64_t keys_each = run.options.judged ? 5'000 : 500;
  const uint64_t clients_each = run.options.judged ? 96 : 4;
  const std::vector<uint64_t> counts =
      run.options.judged ? std::vector<uint64_t>{1, 2, 8, 32} : std::vector<uint64_t>{1, 2};
  Outcome outcome;
  std::vector<double> rates;
  for (const uint64_t nodes : counts) {
    TxnLoad load = bar_load(run, TxnWorkload::kYcsbT);
    load.nodes = nodes;
    load.mix.groups = keys_each * nodes;
    load.mix.far_share = nodes > 1 ? far_share : -1;
    load.clients = clients_each * nodes;
    load.seconds = run.options.judged ? 0.0002 : 0.0001;
    const Reported<std::vector<TxnSideResult>> sides = sides_of(load);
    if (!sides) return report(sides.error());
    rates.push_back(sides->front().rates.front());
    outcome.details.push_back(
        {fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s"), rates.back() * 1e-6, "M/s"});
  }
  double least = 1e9;
  for (size_t i = 1; i < counts.size(); ++i) {
    least = std::min(least, rates[i] / (static_cast<double>(counts[i]) * rates.front()));
  }
  const double of_two = rates.back() / rates[1] * 2 / static_cast<double>(counts.back());
  outcome.samples = {least};
  outcome.details.push_back({fmt::format("{} nodes / 2 nodes, of linear", counts.back()), of_two, "x"});
  outcome.note = fmt::format(
      "simulated, nodes of one shard and core, {} clients and {} keys for each; one node has none over "
      "nodes, and a "
      "transaction over two costs five calls in place of two",
      clients_each, keys_each);
  return outcome;
}

const BarRows kRows = {
    {"sim-txn-ycsb-t", "YCSB-T a second, ours / the better of PRISM-TX and FaRM, simulated", "at least 1",
     Sense::kAtLeast, 1, "x", [](BarRun& run) { return measure_beside_designs(run, TxnWorkload::kYcsbT); }},
    {"sim-txn-smallbank", "the same of SmallBank", "at least 1", Sense::kAtLeast, 1, "x",
     [](BarRun& run) { return measure_beside_designs(run, TxnWorkload::kSmallBank); }},
    {"sim-txn-nodes", "YCSB-T, 2 to 32 nodes / as many times one, 10 % over nodes, simulated, the least",
     "at least 0.7", Sense::kAtLeast, 0.7, "x", [](BarRun& run) { return measure_nodes(run, 0.1); }},
    {"sim-txn-nodes-all", "the same, all of them over nodes", "at least 0.3", Sense::kAtLeast, 0.3, "x",
     [](BarRun& run) { return measure_nodes(run, 1); }},
};

}  // namespace
}  // namespace refract::bench
