// SPDX-License-Identifier: Apache-2.0

#include "bench/bars/bars.h"
#include "bench/bars/idleness.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/entry.h"
#include "bench/measure/measure.h"

#include "refract/base/units.h"

namespace refract::bench::bar_idle {
namespace {

constexpr uint64_t kEntries = 1'000;
// A log of the last writes is synced within a second, and some of that time is the disk's.
constexpr uint64_t kSettled_ns = 2 * kSecond_ns;

// A node that holds entries, has settled down, and has a client that does nothing.
Reported<Outcome> measure_idle_of(BarRun& run, const NodeOptions& options, uint64_t entries = kEntries,
                                  const PutOptions& last_put = {}) {
  NodeOptions with = options;
  with.program = run.options.node_program;
  with.memory_limit_bytes = node_memory_bytes(entries) * with.shards;
  Reported<PrivateNode> node = PrivateNode::start(with);
  if (!node) return report(node.error());
  Reported<Client> client = connect_to(*node);
  if (!client) return report(client.error());
  if (const Reported<> loaded = load_entries(*client, entries); !loaded) return report(loaded.error());
  const Key key = Key::of(0);
  const Value value = Value::of(0);
  if (const auto put = client->put(key.text(), value.text(), last_put); !put) {
    return failed("the last put", put.error().code);
  }
  sleep_ns(kSettled_ns);
  return measure_idleness(*node, run.options.idle_ns, sleep_ns);
}

const BarRows kRows = {
    // "None" cannot be told from a housekeeping timer now and then, so the limit is a thousandth of a core: a
    // process that looks for work once a millisecond is above it, one that wakes up once a second far below.
    {"idle", "processor time of keeper, server and client, idle", "under 1 ms/s", Sense::kAtMost, 1, "ms/s",
     [](BarRun& run) { return measure_idle_of(run, NodeOptions{}); }},
    {"idle-everysec", "the same of keeper and server, with a log, durability everysec", "under 1 ms/s",
     Sense::kAtMost, 1, "ms/s",
     [](BarRun& run) { return measure_idle_of(run, {.program = {}, .durability = "everysec"}); }},
    {"idle-always", "the same, durability always", "under 1 ms/s", Sense::kAtMost, 1, "ms/s",
     [](BarRun& run) { return measure_idle_of(run, {.program = {}, .durability = "always"}); }},
    {"idle-cache", "the same without a log, a cache by lru", "under 1 ms/s", Sense::kAtMost, 1, "ms/s",
     [](BarRun& run) { return measure_idle_of(run, {.program = {}, .eviction = "lru"}); }},
    {"idle-shards", "the same, two shards, which listen on TCP", "under 1 ms/s", Sense::kAtMost, 1, "ms/s",
     [](BarRun& run) {
       return measure_idle_of(run, {.program = {}, .shards = 2, .listen_address = "127.0.0.1"});
     }},
    // Many: a search through all of them for the one that expires takes time for each.
    {"idle-expiry", "the same, one of a million entries expires in an hour", "under 1 ms/s", Sense::kAtMost,
     1, "ms/s",
     [](BarRun& run) {
       return measure_idle_of(run, NodeOptions{}, run.options.entries, {.ttl_ns = 3'600 * kSecond_ns});
     }},
};

}  // namespace
}  // namespace refract::bench::bar_idle
