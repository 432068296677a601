// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "bench/bars.h"
#include "bench/loaded_node.h"

namespace refract::bench {

Reported<Outcome> measure_stopped_server(BarRun& run) {
  Reported<LoadedNode> loaded = start_loaded_node(run, run.options.entries);
  if (!loaded) return report(loaded.error());
  const pid_t server = loaded->node.server();
  // A signal to process -1 would go to every process there is.
  if (server < 0) return report(Code::kUnavailable, "the node has no server to stop");
  const auto rate = [&](uint64_t seed) {
    return get_rate(loaded->client, run.options.entries, run.options.operations, seed);
  };

  return in_block(run, [&](Outcome& block) -> Reported<> {
    std::vector<double> running_rates;
    std::vector<double> stopped_rates;
    for (int turn = 0; turn <= run.options.alternations; ++turn) {
      const auto seed = static_cast<uint64_t>(turn);
      const Reported<double> running = rate(seed);
      if (!running) return report(running.error());
      ::kill(server, SIGSTOP);
      const Reported<double> stopped = rate(seed);
      ::kill(server, SIGCONT);
      if (!stopped) return report(stopped.error());
      if (turn == 0) continue;
      running_rates.push_back(*running);
      stopped_rates.push_back(*stopped);
      block.samples.push_back(*stopped / *running);
    }
    block.details = {{"stopped", spread_of(stopped_rates).median, "M/s"},
                     {"running", spread_of(running_rates).median, "M/s"}};
    block.note = "the server is running but has nothing else to do";
    return {};
  });
}

}  // namespace refract::bench
