// SPDX-License-Identifier: Apache-2.0
// The server is killed under SETs by a door: what its clients notice.
#include <fmt/core.h>

#include <csignal>

#include "bench/bars/bars.h"
#include "bench/bars/doors/checked_writers.h"
#include "bench/bars/doors/door_beside_redis.h"

namespace refract::bench::bar_door_killed {
namespace {

constexpr size_t kConnections = 50;
constexpr size_t kValueBytes = 64;
constexpr double kSlicesBefore = 1;
constexpr double kSlicesBehind = 4;

struct Noticed {
  double lost = 0;  // Connections.
  double longest_s = 0;
  double acknowledged = 0;
};

Reported<Noticed> kill_under(const BarRun& run, const PrivateNode& node, CheckedWriters& writers) {
  const auto slices_from_now = [&](double slices) {
    return now_ns() + static_cast<uint64_t>(slices * run.options.slice_seconds * 1e9);
  };
  const uint64_t lost = writers.connections_lost();
  const uint64_t acknowledged = writers.acknowledged();
  if (const Reported<> wrote = writers.write_until(slices_from_now(kSlicesBefore)); !wrote) {
    return report(wrote.error());
  }
  const pid_t server = node.server();
  if (server < 0) return report(Code::kUnavailable, "the node has no server to kill");
  (void)writers.take_longest_ns();
  test::send_signal(server, SIGKILL);
  if (const Reported<> wrote = writers.write_until(slices_from_now(kSlicesBehind)); !wrote) {
    return report(wrote.error());
  }
  if (const Reported<> finished = writers.finish(); !finished) return report(finished.error());
  return Noticed{.lost = static_cast<double>(writers.connections_lost() - lost),
                 .longest_s = static_cast<double>(writers.take_longest_ns()) * 1e-9,
                 .acknowledged = static_cast<double>(writers.acknowledged() - acknowledged)};
}

Reported<Outcome> measure(BarRun& run, double Noticed::* sample) {
  Reported<DoorBesideRedis> sides = DoorBesideRedis::start(
      run, {.keys = run.options.entries, .value_bytes = kValueBytes, .has_redis = false});
  if (!sides) return report(sides.error());
  Reported<CheckedWriters> writers =
      CheckedWriters::connect(sides->door_port(), kConnections, run.options.entries, kValueBytes);
  if (!writers) return report(writers.error());
  Reported<Outcome> outcome = in_turns(
      run,
      fmt::format("a kill a turn under {} connections, one SET in flight on each; one whose connection ends "
                  "is repeated on the next; then all {} keys are read back and compared",
                  kConnections, run.options.entries),
      [&](uint64_t) -> Reported<Turn> {
        const Reported<Noticed> noticed = kill_under(run, sides->node(), *writers);
        if (!noticed) return report(noticed.error());
        return Turn{(*noticed).*sample,
                    {{"connections lost", noticed->lost, ""},
                     {"longest SET", noticed->longest_s, "s"},
                     {"acknowledged", noticed->acknowledged, ""}}};
      },
      {.over = Over::kTcp});
  if (!outcome) return outcome;
  if (const Reported<> checked = writers->check(); !checked) return report(checked.error());
  return outcome;
}

const BarRows kRows = {
    {"door-killed-lost", "connections that a kill -9 of the server ends", "none", Sense::kAtMost, 0, "",
     [](BarRun& run) { return measure(run, &Noticed::lost); }},
    {"door-killed-longest", "longest SET by a door over a kill -9 of the server", "at most 0.5 s",
     Sense::kAtMost, 0.5, "s", [](BarRun& run) { return measure(run, &Noticed::longest_s); }},
};

}  // namespace
}  // namespace refract::bench::bar_door_killed
