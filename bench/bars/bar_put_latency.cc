// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/entry.h"

namespace refract::bench::bar_put_latency {
namespace {

Reported<double> put_median_ns(const BarRun& run, Client& client, uint64_t entries, Samples& samples,
                               uint64_t seed) {
  samples.clear();
  Draw draw(seed, entries);
  const uint64_t operations = run.options.operations / 20;
  for (uint64_t i = 0; i < operations; ++i) {
    const uint64_t index = draw.next();
    const Key key = Key::of(index);
    const Value value = Value::of(index);
    const uint64_t before = ticks_before();
    const auto put = client.put(key.text(), value.text());
    samples.record(ticks_after() - before);
    if (!put) return failed("put", put.error().code);
  }
  return run.timer.ns(samples.quantile_ticks(0.5));
}

Reported<Outcome> measure(BarRun& run, uint64_t entries) {
  EchoPartner* partner = run.references.partner();
  if (partner == nullptr) return report(Code::kUnsupported, "a ping-pong between cores needs two of them");
  Reported<LoadedNode> loaded = start_loaded_node(run, entries);
  if (!loaded) return report(loaded.error());
  Samples samples(run.options.operations / 20 + 20'000);

  return in_turns(
      run,
      fmt::format("random ones of {} entries replaced; client on core 0, server and echo on core 1", entries),
      [&](uint64_t turn) {
        partner->ping_pong(samples);
        const double round_trip = run.timer.ns(samples.quantile_ticks(0.5));
        return ratio_of({.ours = {"put", put_median_ns(run, loaded->client, entries, samples, turn)},
                         .theirs = {"ping-pong", round_trip},
                         .unit = "ns"});
      });
}

const BarRows kRows = {
    {"put-latency", "put on shm, one in flight, median / 64 B ping-pong", "at most 5.90", Sense::kAtMost, 5.9,
     "x", [](BarRun& run) { return measure(run, run.options.entries); }},
    {"put-latency-few", "the same, 2,000 entries", "at most 3.70", Sense::kAtMost, 3.7, "x",
     [](BarRun& run) { return measure(run, std::min<uint64_t>(2'000, run.options.entries)); }},
    {"put-latency-many", "the same, 10 million entries", "at most 5.50", Sense::kAtMost, 5.5, "x",
     [](BarRun& run) { return measure(run, run.options.many_entries); }},
};

}  // namespace
}  // namespace refract::bench::bar_put_latency
