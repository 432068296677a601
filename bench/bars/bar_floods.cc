// SPDX-License-Identifier: Apache-2.0
// What floods of calls by others cost a client that puts now and then: docs/security.md says that it is not
// held up.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/refract_driver.h"
#include "bench/sides/rivals.h"

#include "refract/base/units.h"

namespace refract::bench::bar_floods {
namespace {

constexpr int kFlooders = 4;
constexpr uint64_t kKeys = 10'000;
// So low that the honest client's own puts are no load.
constexpr double kRate = 2'000;
constexpr double kSliceSeconds = 0.5;

// Each on the honest client's core, which runs it only while the honest one sleeps: so that what it takes of
// the core is as little in both turns, and what is left is the wait at the server.
using Flooders = std::vector<test::Process>;

Reported<Flooders> start_flooders(const std::vector<std::vector<std::string>>& programs,
                                  const std::string& log) {
  Flooders flooders;
  for (const std::vector<std::string>& program : programs) {
    std::vector<std::string> arguments = {"chrt", "--idle", "0"};
    arguments.insert(arguments.end(), program.begin(), program.end());
    Reported<test::Process> started = start_beside({.arguments = std::move(arguments), .output_path = log},
                                                   core_count() > 1 ? core_number(0) : -1);
    if (!started) return report(started.error());
    flooders.push_back(std::move(*started));
  }
  sleep_ns(300 * kMillisecond_ns);
  for (test::Process& flooder : flooders) {
    if (!flooder.is_running())
      return report(Code::kUnavailable, "a flooding client has ended: " + test::tail_of(log));
  }
  return flooders;
}

// Batches as large as calls may be, as many as there are credits for, gets and puts.
std::vector<std::string> flood_of(const std::string& address, bool puts) {
  std::error_code ignored;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  return {own,         "kv",
          "--address", address,
          "--mix",     puts ? "put" : "get",
          "--path",    "rpc",
          "--keys",    fmt::format("{}", kKeys),
          "--batch",   "64",
          "--depth",   "256",
          "--seconds", "600"};
}

Reported<double> p99_of(const BarRun& run, StoreDriver& driver, uint64_t slice) {
  Workload workload(
      {.keys = kKeys, .get_share = 0, .seconds = kSliceSeconds, .rate = kRate, .seed = slice + 1}, run.timer);
  const Reported<WorkloadResult> result = run_workload(driver, workload);
  if (!result) return report(result.error());
  return static_cast<double>(result->latency_ns.quantile(0.99)) * 1e-3;
}

Reported<Outcome> measure_put_beside_floods(BarRun& run) {
  Reported<test::TemporaryFolder> folder = test::TemporaryFolder::make();
  if (!folder) return report(folder.error());
  Reported<PrivateNode> node = start_node(run, kKeys);
  if (!node) return report(node.error());
  pin_to_core(0);
  const Contents contents(sizeof(uint64_t) * 2, 64);
  if (const Reported<> filled = fill_node(*node, contents, kKeys); !filled) return report(filled.error());
  const Reported<std::unique_ptr<RefractDriver>> driver =
      RefractDriver::connect({.address = node->socket_path(), .client = {.populate = true}},
                             {.depth = 1, .waiting = Waiting::kBlocking, .has_rate = true}, contents);
  if (!driver) return report(driver.error());
  std::vector<std::vector<std::string>> floods;
  for (int i = 0; i < kFlooders; ++i) floods.push_back(flood_of(node->socket_path(), i % 2 == 0));
  const std::vector<std::vector<std::string>> spinners(kFlooders, {"sh", "-c", "while :; do :; done"});
  const std::string log = folder->path() + "/flood.log";

  const auto p99_beside = [&](const std::vector<std::vector<std::string>>& programs,
                              uint64_t turn) -> Reported<double> {
    const Reported<Flooders> others = start_flooders(programs, log);
    if (!others) return report(others.error());
    return p99_of(run, **driver, turn);
  };
  return in_turns(
      run,
      fmt::format(
          "{:.0f} puts a second beside {} clients that get and put by calls of 64 keys, 256 in flight; "
          "compared with as many processes that spin; all of them run while the honest client sleeps "
          "(SCHED_IDLE)",
          kRate, kFlooders),
      [&](uint64_t turn) {
        const Reported<double> quiet = p99_beside(spinners, turn);
        return ratio_of({.ours = {"p99 beside floods", p99_beside(floods, turn)},
                         .theirs = {"p99 beside spinning", quiet},
                         .unit = "us"});
      },
      {.turns_max = 5, .warms_up = false});
}

const BarRows kRows = {
    {"put-floods", "p99 of puts beside four clients that flood / that spin", "at most 2", Sense::kAtMost, 2,
     "x", measure_put_beside_floods},
};

}  // namespace
}  // namespace refract::bench::bar_floods
