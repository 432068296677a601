// SPDX-License-Identifier: Apache-2.0
// `refract-bench txn`.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "bench/report/command.h"
#include "bench/txn/txn_results.h"

#include "refract/txn/designs/designs.h"

namespace refract::bench {
namespace {

using arguments::Between;
using arguments::Sign;

constexpr std::string_view kAllTxn = "all";
constexpr double kSimulatedSeconds = 0.002;

struct TxnCommand final : public BenchCommand {
  TxnLoad load;
  uint64_t keys = 100'000;
  uint64_t accounts = 100'000;
  std::vector<std::string> designs;
  double far_percent = 10;
  std::vector<std::string> beside;

  TxnCommand() : BenchCommand("txn", "YCSB-T and SmallBank: our transactions and published protocols") {}
  void describe(arguments::Command& app) override;
  [[nodiscard]] Reported<Found> run(const arguments::Command& app, bool is_shown) override;

 private:
  [[nodiscard]] Reported<> take(const arguments::Command& app);
} txn_command;

// Each once, ours first.
std::vector<std::string> txn_designs_of(const std::vector<std::string>& named) {
  const auto is_named = [&named](std::string_view name) {
    return std::ranges::any_of(named, [name](const auto& each) { return each == name || each == kAllTxn; });
  };
  std::vector<std::string> designs;
  if (named.empty() || is_named(kTxnOurs)) designs.emplace_back(kTxnOurs);
  for (const txn::designs::Design& design : txn::designs::all()) {
    if (is_named(design.name)) designs.emplace_back(design.name);
  }
  return designs;
}

std::vector<std::string> txn_design_names() {
  std::vector<std::string> names = txn_designs_of({std::string(kAllTxn)});
  names.emplace_back(kAllTxn);
  return names;
}

void describe_txn_entries(arguments::Command& app, TxnCommand& command) {
  TxnLoad& load = command.load;
  app.add({.names = "--keys",
           .to = &command.keys,
           .help = "of ycsb-t: how many keys",
           .limit = Between<uint64_t>{2, 100'000'000},
           .shows_default = true});
  app.add({.names = "--keys-each",
           .to = &load.mix.keys_each,
           .help = "of ycsb-t: how many of them a transaction reads and writes",
           .limit = Between<uint64_t>{1, kTxnEntriesMax},
           .shows_default = true});
  app.add({.names = "--zipf",
           .to = &load.mix.skew,
           .help = "of ycsb-t: skew of the keys, 0: uniform",
           .limit = Between<double>{0.0, 3.0},
           .shows_default = true});
  app.add({.names = "--accounts",
           .to = &command.accounts,
           .help = "of smallbank: how many accounts, of two entries each",
           .limit = Between<uint64_t>{2, 50'000'000},
           .shows_default = true});
  app.add({.names = "--value-bytes",
           .to = &load.mix.value_bytes,
           .help = "bytes of a value (64; 8 with smallbank)",
           .limit = Between<uint64_t>{8, 16'384}});
}

void TxnCommand::describe(arguments::Command& app) {
  const std::map<std::string, TxnWorkload> workloads = {{"ycsb-t", TxnWorkload::kYcsbT},
                                                        {"smallbank", TxnWorkload::kSmallBank}};
  const std::map<std::string, TxnProvider> providers = {
      {"shm", TxnProvider::kShm}, {"tcp", TxnProvider::kTcp}, {"sim", TxnProvider::kSim}};
  app.add({.names = "--workload",
           .to = arguments::one_of(workloads, load.mix.workload),
           .help = "ycsb-t (some keys are read, and written with one more each) or smallbank (its six "
                   "transactions, 90 % of them at 4 % of the accounts)"});
  app.add(
      {.names = "--provider",
       .to = arguments::one_of(providers, load.provider),
       .help = "shm or tcp (a node of its own, on this machine), or sim (the testbed of suite prism-tx)"});
  app.add({.names = "--design",
           .to = &designs,
           .help = "by whose protocol, in turns: ours, published ones, or all of them",
           .limit = txn_design_names(),
           .separator = ','});
  describe_txn_entries(app, *this);
  app.add({.names = "--clients",
           .to = &load.clients,
           .help = "each with connections of its own and one transaction under way",
           .limit = Between<int>{1, 8192},
           .shows_default = true});
  app.add({.names = "--shards",
           .to = &load.shards,
           .help = "of a node, a thread each; of a design as many servers, or on sim one of so many cores",
           .limit = Between<int>{1, 64},
           .shows_default = true});
  app.add({.names = "--seconds",
           .to = &load.seconds,
           .help = "how long a turn lasts, in seconds (1; on sim 0.002 simulated ones)",
           .limit = Sign::kPositive});
  app.add({.names = "--rounds",
           .to = &load.rounds,
           .help = "turns of each side, of which the median and the range are shown",
           .limit = Between<int>{1, 1000},
           .shows_default = true});
  app.add({.names = "--nodes",
           .to = &load.nodes,
           .help = "on sim: among which keys are divided, and of which each has these shards",
           .limit = Between<int>{1, 32},
           .shows_default = true});
  app.add({.names = "--far",
           .to = &far_percent,
           .help =
               "on sim with several nodes: percentage of transactions of several keys, or accounts, that go "
               "over nodes (default: as the keys are drawn)",
           .limit = Between<double>{0.0, 100.0}});
  app.add({.names = "--beside",
           .to = &beside,
           .help = "the same over TCP by redis: WATCH and MGET, then MULTI, MSET and EXEC",
           .limit = arguments::Words{std::string(kTxnRedis)},
           .separator = ','});
  app.add({.names = "--node-program",
           .to = &load.node_program,
           .help = "refractd for a private node (default: beside this program)"});
}

Reported<> TxnCommand::take(const arguments::Command& app) {
  const bool is_bank = load.mix.workload == TxnWorkload::kSmallBank;
  for (const char* name : {"--keys", "--keys-each", "--zipf"}) {
    if (!is_bank || !app.has(name)) continue;
    return report(Code::kInvalidArgument, fmt::format("{} is of ycsb-t, and not of smallbank", name),
                  "leave it out, or give --accounts");
  }
  if (!is_bank && app.has("--accounts")) {
    return report(Code::kInvalidArgument, "--accounts is of smallbank, and not of ycsb-t",
                  "give --keys, or --workload smallbank");
  }
  load.mix.groups = is_bank ? accounts : keys;
  if (is_bank && !app.has("--value-bytes")) load.mix.value_bytes = 8;
  if (load.provider == TxnProvider::kSim && !app.has("--seconds")) load.seconds = kSimulatedSeconds;
  if (app.has("--far")) load.mix.far_share = far_percent / 100;
  load.is_beside_redis = !beside.empty();
  load.designs = txn_designs_of(designs);
  return check(load);
}

Reported<Found> TxnCommand::run(const arguments::Command& app, bool is_shown) {
  if (const Reported<> taken = take(app); !taken) return report(taken.error());
  const Reported<TxnResult> result = run_txn_load(load);
  if (!result) return report(result.error());
  if (is_shown) fmt::print("{}", lines_of(load, *result));
  return Found{.findings = findings_of(load, *result)};
}

}  // namespace

}  // namespace refract::bench
