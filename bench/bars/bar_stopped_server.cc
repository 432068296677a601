// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"

namespace refract::bench::bar_stopped_server {
namespace {

// A round alternates so often, in short slices that begin with either state in turn: what others do on the
// machine for longer than a slice then falls on both.
constexpr uint64_t kSlices = 20;

Reported<Outcome> measure_stopped_server(BarRun& run) {
  Reported<LoadedNode> loaded = start_loaded_node(run, run.options.entries);
  if (!loaded) return report(loaded.error());
  const pid_t server = loaded->node.server();
  // A signal to process -1 would go to every process there is.
  if (server < 0) return report(Code::kUnavailable, "the node has no server to stop");
  const uint64_t operations = std::max<uint64_t>(run.options.operations / kSlices, 1);
  // How long a slice takes, in microseconds.
  const auto slice_us = [&](uint64_t seed, bool is_stopped) -> Reported<double> {
    if (is_stopped) ::kill(server, SIGSTOP);
    const Reported<double> rate = get_rate(loaded->client, run.options.entries, operations, seed);
    if (is_stopped) ::kill(server, SIGCONT);
    if (!rate) return report(rate.error());
    return static_cast<double>(operations) / *rate;
  };

  uint64_t seed = 0;
  return in_turns(run, "the server is running but has nothing else to do", [&](uint64_t) -> Reported<Turn> {
    double took_us[2] = {};  // Running, stopped.
    for (uint64_t slice = 0; slice < kSlices; ++slice) {
      for (const bool is_second : {false, true}) {
        const bool is_stopped = is_second != (slice % 2 == 1);
        // Never the same keys twice: the second to ask would find them in the cache.
        const Reported<double> us = slice_us(seed++, is_stopped);
        if (!us) return report(us.error());
        took_us[is_stopped ? 1 : 0] += *us;
      }
    }
    const auto gets = static_cast<double>(operations * kSlices);
    return ratio_of(
        {.ours = {"stopped", gets / took_us[1]}, .theirs = {"running", gets / took_us[0]}, .unit = "M/s"});
  });
}

const BarRows kRows = {
    {"stopped-server", "get with the server stopped / running", "at least 0.95", Sense::kAtLeast, 0.95, "x",
     measure_stopped_server},
};

}  // namespace
}  // namespace refract::bench::bar_stopped_server
