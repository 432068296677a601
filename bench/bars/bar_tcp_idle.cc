// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars/bars.h"
#include "bench/bars/idleness.h"
#include "bench/sides/rivals.h"

#include "refract/base/units.h"

namespace refract::bench::bar_tcp_idle {
namespace {

constexpr uint64_t kPause_ns = 20 * kMillisecond_ns;

Reported<Outcome> measure_tcp_idle(BarRun& run) {
  const Reported<Rivals> rivals = Rivals::start({.node_program = run.options.node_program, .keys = 1'000});
  if (!rivals) return report(rivals.error());
  const Reported<std::unique_ptr<RefractDriver>> driver =
      RefractDriver::connect({.address = rivals->node().tcp_address()}, {}, rivals->contents());
  if (!driver) return report(driver.error());
  Workload workload({.keys = 1'000, .seconds = 1, .operations = 100}, run.timer);
  if (const Reported<WorkloadResult> result = run_workload(**driver, workload); !result) {
    return report(result.error());
  }
  Outcome outcome = measure_idleness(rivals->node(), run.options.idle_ns,
                                     [&driver](uint64_t duration_ns) { (*driver)->idle(duration_ns); });
  outcome.note += ", whose loop runs, with a connection over TCP that it has used";
  return outcome;
}

// The first get after a pause long enough for everybody to sleep deeply, against the first message of a plain
// blocking connection after such a pause, one of each in turn.
Reported<Outcome> measure_tcp_first_request(BarRun& run) {
  TcpEcho* echo = run.references.tcp_echo();
  if (echo == nullptr) return report(Code::kUnsupported, "a ping-pong between cores needs two of them");
  const Reported<Rivals> rivals =
      Rivals::start({.node_program = run.options.node_program, .keys = run.options.entries});
  if (!rivals) return report(rivals.error());
  pin_to_core(0);
  const Reported<std::unique_ptr<StoreDriver>> driver = rivals->connect({.waiting = Waiting::kBlocking});
  if (!driver) return report(driver.error());
  Workload workload({.keys = run.options.entries, .seconds = 1, .operations = 1}, run.timer);

  return in_turns(run,
                  fmt::format("medians of {}, each after {} ms of nothing; the server with its default knobs",
                              run.options.first_requests, kPause_ns / kMillisecond_ns),
                  [&](uint64_t) -> Reported<Turn> {
                    std::vector<double> gets;
                    std::vector<double> pings;
                    for (int i = 0; i < run.options.first_requests; ++i) {
                      sleep_ns(kPause_ns);
                      const uint64_t ticks = echo->wake_up();
                      if (ticks == 0)
                        return report(Code::kUnavailable, "the ping-pong's other process is gone");
                      pings.push_back(run.timer.ns(ticks) * 1e-3);
                      sleep_ns(kPause_ns);
                      const Reported<WorkloadResult> result = run_workload(**driver, workload);
                      if (!result) return report(result.error());
                      gets.push_back(static_cast<double>(result->latency_ns.max()) * 1e-3);
                    }
                    return ratio_of({.ours = {"get", spread_of(gets).median},
                                     .theirs = {"ping", spread_of(pings).median},
                                     .unit = "us"});
                  },
                  {.over = Over::kTcp});
}

const BarRows kRows = {
    {"tcp-idle", "processor time of all, idle, connected by tcp", "under 1 ms/s", Sense::kAtMost, 1, "ms/s",
     measure_tcp_idle},
    {"tcp-first-request", "first get on tcp after a pause / a socket's message", "at most 1.30",
     Sense::kAtMost, 1.3, "x", measure_tcp_first_request},
};

}  // namespace
}  // namespace refract::bench::bar_tcp_idle
