// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "bench/bars/bars.h"
#include "bench/sides/rivals.h"

namespace refract::bench::bar_tcp_latency {
namespace {

// Few enough that a client remembers the slots of all.
constexpr uint64_t kKnownEntries = 1'000;

Reported<Outcome> measure_get(BarRun& run, Waiting waiting, Paths paths = Paths::kAuto) {
  TcpEcho* echo = run.references.tcp_echo();
  if (echo == nullptr) return report(Code::kUnsupported, "a ping-pong between cores needs two of them");
  const TcpEcho::Mode mode =
      waiting == Waiting::kPolling ? TcpEcho::Mode::kPolling : TcpEcho::Mode::kBlocking;
  const uint64_t entries =
      paths == Paths::kChain ? std::min(kKnownEntries, run.options.entries) : run.options.entries;
  const Reported<Rivals> rivals =
      Rivals::start({.node_program = run.options.node_program, .keys = entries, .server_waiting = waiting});
  if (!rivals) return report(rivals.error());
  pin_to_core(0);
  const Reported<std::unique_ptr<StoreDriver>> driver =
      rivals->connect({.waiting = waiting}, {.paths = paths});
  if (!driver) return report(driver.error());
  // About as long on either side, whichever way they wait.
  const uint64_t count = run.options.operations / (waiting == Waiting::kPolling ? 200 : 1'000);
  Workload workload({.keys = entries, .seconds = 10, .operations = count}, run.timer);
  Samples samples(count);

  return in_turns(
      run,
      fmt::format("medians of {} each; client and server {} in both; client on core 0, server on 1", count,
                  text(waiting)),
      [&](uint64_t) -> Reported<Turn> {
        if (!echo->ping_pong(mode, count, samples)) {
          return report(Code::kUnavailable, "the ping-pong's other process is gone");
        }
        const double floor = run.timer.ns(samples.quantile_ticks(0.5)) * 1e-3;
        const Reported<WorkloadResult> result = run_workload(**driver, workload);
        if (!result) return report(result.error());
        return ratio_of({.ours = {"get", static_cast<double>(result->latency_ns.quantile(0.5)) * 1e-3},
                         .theirs = {"ping-pong", floor},
                         .unit = "us"});
      },
      {.over = Over::kTcp});
}

const BarRows kRows = {
    {"tcp-get-polling", "get on tcp, one in flight / ping-pong, all polling", "at most 1.10", Sense::kAtMost,
     1.1, "x", [](BarRun& run) { return measure_get(run, Waiting::kPolling); }},
    {"tcp-get-blocking", "the same, all blocking", "at most 1.25", Sense::kAtMost, 1.25, "x",
     [](BarRun& run) { return measure_get(run, Waiting::kBlocking); }},
    {"tcp-chain-get", "get by a chain on tcp, slot known / ping-pong, all polling", "at most 1.30",
     Sense::kAtMost, 1.3, "x",
     [](BarRun& run) { return measure_get(run, Waiting::kPolling, Paths::kChain); }},
};

}  // namespace
}  // namespace refract::bench::bar_tcp_latency
