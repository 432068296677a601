// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/sides/redis.h"

#include "refract/base/units.h"

namespace refract::bench::bar_memory {
namespace {

Reported<double> bytes_per_entry_of_ours(const BarRun& run, uint64_t entries) {
  Reported<PrivateNode> node = start_node(run, entries);
  if (!node) return report(node.error());
  Reported<Client> client = connect_to(*node);
  if (!client) return report(client.error());
  if (const Reported<> done = load_entries(*client, entries); !done) return report(done.error());
  const Result<NodeStat> stat = client->stat();
  if (!stat) return failed("stat", stat.error().code);
  // What the empty node took at its start counts too: the entries came to lie in it.
  return static_cast<double>(resident_bytes(*node, stat->bytes_total)) / static_cast<double>(entries);
}

Reported<double> bytes_per_entry_of_redis(uint64_t entries, std::string& version) {
  Reported<Redis> redis = Redis::start({});
  if (!redis) return report(redis.error());
  version = redis->version();
  const Reported<uint64_t> before = redis->info("used_memory_rss");
  if (!before) return report(before.error());
  if (const Reported<> done = redis->load(entries); !done) return report(done.error());
  // Redis looks at its own resident set ten times a second.
  sleep_ns(500 * kMillisecond_ns);
  const Reported<uint64_t> after = redis->info("used_memory_rss");
  if (!after) return report(after.error());
  return static_cast<double>(*after - *before) / static_cast<double>(entries);
}

Reported<Outcome> measure_memory(BarRun& run) {
  const uint64_t entries = run.options.many_entries;
  Outcome outcome;
  const Reported<double> ours = bytes_per_entry_of_ours(run, entries);
  if (!ours) return report(ours.error());
  outcome.details = {{"ours", *ours, "B"}};
  outcome.note =
      fmt::format("{} entries; ours: all that keeper and server have resident, regions once", entries);

  std::string version;
  const Reported<double> theirs = bytes_per_entry_of_redis(entries, version);
  if (!theirs) {
    outcome.note += "; " + theirs.error().to_string();
    return outcome;
  }
  outcome.samples = {*ours / *theirs};
  outcome.details.push_back({"Redis", *theirs, "B"});
  outcome.note += fmt::format("; Redis {}: growth of used_memory_rss", version);
  return outcome;
}

const BarRows kRows = {
    {"memory", "memory an entry / Redis", "at most 0.72", Sense::kAtMost, 0.72, "x", measure_memory},
};

}  // namespace
}  // namespace refract::bench::bar_memory
