// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <array>
#include <span>

#include "bench/bars/bars.h"
#include "bench/load/entry.h"
#include "bench/sides/loaded_node.h"

namespace refract::bench {
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

  return in_block(run, [&](Outcome& block) -> Reported<> {
    std::vector<double> ours;
    std::vector<double> theirs;
    for (int turn = 0; turn <= run.options.alternations; ++turn) {
      partner->ping_pong(samples);
      const double round_trip = run.timer.ns(samples.quantile_ticks(0.5));
      const Reported<double> put =
          put_median_ns(run, loaded->client, entries, samples, static_cast<uint64_t>(turn));
      if (!put) return report(put.error());
      if (turn == 0) continue;
      ours.push_back(*put);
      theirs.push_back(round_trip);
      block.samples.push_back(*put / round_trip);
    }
    block.details = {{"put", spread_of(ours).median, "ns"}, {"ping-pong", spread_of(theirs).median, "ns"}};
    block.note = fmt::format(
        "random ones of {} entries replaced; client on core 0, server and echo on core 1", entries);
    return {};
  });
}

Reported<Outcome> measure_put_latency(BarRun& run) {
  return measure(run, run.options.entries);
}

Reported<Outcome> measure_put_latency_of_many(BarRun& run) {
  return measure(run, run.options.many_entries);
}

constexpr std::array kBars = {
    Bar{"put-latency", "put on shm, one in flight, median / 64 B ping-pong", "at most 3.50", Sense::kAtMost,
        3.5, "x", measure_put_latency},
    Bar{"put-latency-many", "the same, 10 million entries", "at most 5.50", Sense::kAtMost, 5.5, "x",
        measure_put_latency_of_many},
};

}  // namespace

std::span<const Bar> bars_of_put_latency() noexcept {
  return kBars;
}

}  // namespace refract::bench
