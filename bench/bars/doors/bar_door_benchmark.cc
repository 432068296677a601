// SPDX-License-Identifier: Apache-2.0
// What a client that others wrote gets from a door, and from Redis: redis-benchmark.
#include <fmt/core.h>

#include <csignal>
#include <utility>

#include "bench/bars/bars.h"
#include "bench/bars/doors/door_beside_redis.h"
#include "bench/bars/doors/redis_benchmark.h"

namespace refract::bench::bar_door_benchmark {
namespace {

constexpr size_t kKeysTogether = 10;
constexpr size_t kValueBytes = 64;
constexpr uint64_t kFirstRequests = 20'000;

// A turn of a side is longer than elsewhere: its program says milliseconds.
Reported<RedisBenchmark> benchmark_of(const BarRun& run, uint16_t port, const BenchmarkLoad& load) {
  return RedisBenchmark::of(port, load, std::min(kFirstRequests, run.options.operations),
                            2 * run.options.slice_seconds);
}

std::string note_on(const BenchmarkLoad& load) {
  return fmt::format("redis-benchmark with {} connections, {} in flight on each, {} keys, values of {} B",
                     load.connections, load.in_flight, load.keys, load.value_bytes);
}

Reported<Outcome> measure(BarRun& run, std::vector<std::string> command, size_t in_flight) {
  const BenchmarkLoad load = {.command = std::move(command),
                              .keys = run.options.entries,
                              .value_bytes = kValueBytes,
                              .in_flight = in_flight};
  Reported<DoorBesideRedis> sides =
      DoorBesideRedis::start(run, {.keys = run.options.entries, .value_bytes = kValueBytes});
  if (!sides) return report(sides.error());
  Reported<RedisBenchmark> ours = benchmark_of(run, sides->door_port(), load);
  if (!ours) return report(ours.error());
  Reported<RedisBenchmark> theirs = benchmark_of(run, sides->redis_port(), load);
  if (!theirs) return report(theirs.error());
  return in_turns(run, note_on(load) + "; no process is bound to a core",
                  [&](uint64_t) {
                    return ratio_of({.ours = {"door", ours->rate()},
                                     .theirs = {sides->redis_name(), theirs->rate()},
                                     .unit = "k/s",
                                     .scale = 1e-3});
                  },
                  {.over = Over::kTcp});
}

Reported<Outcome> measure_stopped(BarRun& run) {
  const BenchmarkLoad load = {
      .command = benchmark_test("get"), .keys = run.options.entries, .value_bytes = kValueBytes};
  Reported<DoorBesideRedis> sides = DoorBesideRedis::start(
      run, {.keys = run.options.entries, .value_bytes = kValueBytes, .has_redis = false});
  if (!sides) return report(sides.error());
  Reported<RedisBenchmark> benchmark = benchmark_of(run, sides->door_port(), load);
  if (!benchmark) return report(benchmark.error());
  const pid_t server = sides->node().server();
  if (server < 0) return report(Code::kUnavailable, "the node has no server to stop");
  const auto stopped_rate = [&] {
    test::send_signal(server, SIGSTOP);
    Reported<double> rate = benchmark->rate();
    test::send_signal(server, SIGCONT);
    return rate;
  };
  return in_turns(run, note_on(load) + "; the server is stopped by SIGSTOP, keeper and doors are not",
                  [&](uint64_t turn) {
                    // Either comes first in every other turn.
                    Ratio ratio{
                        .ours = {"stopped", {}}, .theirs = {"running", {}}, .unit = "k/s", .scale = 1e-3};
                    if (turn % 2 == 0) ratio.ours.value = stopped_rate();
                    ratio.theirs.value = benchmark->rate();
                    if (turn % 2 == 1) ratio.ours.value = stopped_rate();
                    return ratio_of(ratio);
                  },
                  {.over = Over::kTcp});
}

const BarRows kRows = {
    {"door-get", "GET by redis-benchmark -c 50, door / Redis", "at least 0.95", Sense::kAtLeast, 0.95, "x",
     [](BarRun& run) { return measure(run, benchmark_test("get"), 1); }},
    {"door-set", "SET by redis-benchmark -c 50, door / Redis", "at least 0.80", Sense::kAtLeast, 0.8, "x",
     [](BarRun& run) { return measure(run, benchmark_test("set"), 1); }},
    {"door-get-piped", "GET by redis-benchmark -c 50 -P 16, door / Redis", "at least 1.5", Sense::kAtLeast,
     1.5, "x", [](BarRun& run) { return measure(run, benchmark_test("get"), 16); }},
    {"door-set-piped", "SET by redis-benchmark -c 50 -P 16, door / Redis", "at least 0.90", Sense::kAtLeast,
     0.9, "x", [](BarRun& run) { return measure(run, benchmark_test("set"), 16); }},
    {"door-mget", "MGET of 10 keys, -c 50 -P 16, door / Redis", "at least 1.3", Sense::kAtLeast, 1.3, "x",
     [](BarRun& run) { return measure(run, benchmark_command("MGET", kKeysTogether), 16); }},
    {"door-mset", "MSET of 10 keys, -c 50 -P 16, door / Redis", "shown", Sense::kShown, 0, "x",
     [](BarRun& run) { return measure(run, benchmark_command("MSET", kKeysTogether, kValueBytes), 16); }},
    {"door-incr", "INCR, -c 50 -P 16, door / Redis", "at least 0.90", Sense::kAtLeast, 0.9, "x",
     [](BarRun& run) { return measure(run, benchmark_test("incr"), 16); }},
    {"door-expire", "EXPIRE, -c 50 -P 16, door / Redis", "shown", Sense::kShown, 0, "x",
     [](BarRun& run) { return measure(run, {"EXPIRE", "key:__rand_int__", "3600"}, 16); }},
    {"door-stopped-server", "GET by a door, -c 50, server stopped / running", "at least 0.95",
     Sense::kAtLeast, 0.95, "x", measure_stopped},
};

}  // namespace
}  // namespace refract::bench::bar_door_benchmark
