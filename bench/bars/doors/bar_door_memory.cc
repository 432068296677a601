// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <vector>

#include "bench/bars/bars.h"
#include "bench/bars/doors/door_beside_redis.h"
#include "bench/bars/doors/redis_connection.h"

#include "refract/base/units.h"
#include "refract/client/client.h"

namespace refract::bench::bar_door_memory {
namespace {

constexpr size_t kValueBytes = 100;
constexpr uint64_t kTtl_s = 3'600;

// `parts`: of it, an entry's share.
Reported<double> bytes_of_ours(const PrivateNode& node, std::vector<Detail>& parts) {
  Reported<Client> client = Client::connect(node.socket_path());
  if (!client) return report(client.error());
  const Result<NodeStat> stat = client->stat();
  if (!stat) return failed("stat", stat.error().code);
  const auto bytes =
      static_cast<double>(resident_bytes(node, stat->bytes_total) + test::use_of(node.doors()).private_bytes);
  const auto entries = static_cast<double>(stat->entries);
  const auto regions = static_cast<double>(stat->bytes_total);
  parts = {{"of ours: regions", regions / entries, "B"},
           {"free in them", static_cast<double>(stat->bytes_free) / entries, "B"},
           {"outside of them", (bytes - regions) / entries, "B"}};
  return bytes;
}

// What filling it adds.
Reported<double> bytes_of_redis(Redis& redis, uint64_t entries, uint64_t ttl_s) {
  const Reported<uint64_t> before = redis.info("used_memory_rss");
  if (!before) return report(before.error());
  if (const Reported<> filled = fill_numbered(redis.port(), entries, kValueBytes, ttl_s); !filled) {
    return report(filled.error());
  }
  // Redis looks at its own resident set ten times a second.
  sleep_ns(500 * kMillisecond_ns);
  const Reported<uint64_t> after = redis.info("used_memory_rss");
  if (!after) return report(after.error());
  return static_cast<double>(*after - *before);
}

Reported<Outcome> measure(BarRun& run, uint64_t ttl_s) {
  const uint64_t entries = run.options.entries;
  Reported<DoorBesideRedis> sides =
      DoorBesideRedis::start(run, {.keys = entries, .value_bytes = kValueBytes, .held = Held::kNothing});
  if (!sides) return report(sides.error());
  if (const Reported<> filled = fill_numbered(sides->door_port(), entries, kValueBytes, ttl_s); !filled) {
    return report(filled.error());
  }
  std::vector<Detail> parts;
  Reported<Turn> turn = ratio_of({.ours = {"ours", bytes_of_ours(sides->node(), parts)},
                                  .theirs = {"Redis", bytes_of_redis(sides->redis(), entries, ttl_s)},
                                  .unit = "B",
                                  .scale = 1 / static_cast<double>(entries)});
  if (!turn) return report(turn.error());
  turn->details.insert(turn->details.end(), parts.begin(), parts.end());
  return Outcome{.samples = {turn->sample},
                 .details = turn->details,
                 .blocks = {},
                 .note = fmt::format(
                     "{} entries of 16 + {} B, an entry's share; ours: all that keeper, server and doors "
                     "have resident, regions once; {}: growth of used_memory_rss",
                     entries, kValueBytes, sides->redis_name())};
}

const BarRows kRows = {
    {"door-memory", "memory of strings of 100 B, node with a door / Redis", "at most 0.85", Sense::kAtMost,
     0.85, "x", [](BarRun& run) { return measure(run, 0); }},
    {"door-memory-expiry", "the same of strings that expire in an hour", "at most 0.90", Sense::kAtMost, 0.9,
     "x", [](BarRun& run) { return measure(run, kTtl_s); }},
};

}  // namespace
}  // namespace refract::bench::bar_door_memory
