// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <csignal>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/entry.h"

#include "refract/base/units.h"

namespace refract::bench::bar_restart {
namespace {

constexpr uint64_t kPatience_ns = 20 * kSecond_ns;

// From the kill to the first put that is acknowledged.
Reported<double> restart_seconds(LoadedNode& loaded, uint64_t entries, uint64_t turn) {
  const uint64_t index = Draw(turn, entries).next();
  const Key key = Key::of(index);
  const Value value = Value::of(index);
  const pid_t server = loaded.node.server();
  if (server < 0) return report(Code::kUnavailable, "the node has no server to kill");
  const uint64_t start_ns = now_ns();
  ::kill(server, SIGKILL);
  while (true) {
    const auto put = loaded.client.put(key.text(), value.text());
    const uint64_t passed_ns = now_ns() - start_ns;
    if (put) return static_cast<double>(passed_ns) * 1e-9;
    if (passed_ns > kPatience_ns) return failed("put after a kill", put.error().code);
  }
}

Reported<Outcome> measure_with(BarRun& run, uint64_t entries) {
  Reported<LoadedNode> loaded = start_loaded_node(run, entries);
  if (!loaded) return report(loaded.error());

  return in_block(run, [&](Outcome& block) -> Reported<> {
    for (int turn = 0; turn < run.options.alternations; ++turn) {
      const Reported<double> seconds = restart_seconds(*loaded, entries, static_cast<uint64_t>(turn));
      if (!seconds) return report(seconds.error());
      block.samples.push_back(*seconds);
    }
    // What was acknowledged before any of the kills: every entry, each with its own value.
    Value value = {};
    for (uint64_t i = 0; i < entries; ++i) {
      const Key key = Key::of(i);
      const auto got = loaded->client.get_into(key.text(), value.writable_bytes());
      if (!got) return failed(fmt::format("get of entry {} after the kills", i), got.error().code);
      if (!value.is_of(i)) return report(Code::kCorrupt, fmt::format("entry {} changed", i));
    }
    block.note = fmt::format("{} kills, then all {} entries read back and compared", run.options.alternations,
                             entries);
    return {};
  });
}

const BarRows kRows = {
    {"restart", "kill -9 to the first put served", "under 0.200 s", Sense::kAtMost, 0.2, "s",
     [](BarRun& run) { return measure_with(run, run.options.entries); }},
    {"restart-many", "kill -9 to the first put served, 10 million entries", "under 0.800 s", Sense::kAtMost,
     0.8, "s", [](BarRun& run) { return measure_with(run, run.options.many_entries); }},
};

}  // namespace
}  // namespace refract::bench::bar_restart
