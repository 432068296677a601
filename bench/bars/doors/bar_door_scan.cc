// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <string>

#include "bench/bars/bars.h"
#include "bench/bars/doors/door_beside_redis.h"
#include "bench/bars/doors/redis_connection.h"

namespace refract::bench::bar_door_scan {
namespace {

constexpr std::string_view kCount = "1000";

// How many an array of the reply has.
Reported<uint64_t> take_keys(RedisConnection& connection) {
  const Reported<Reply> keys = connection.next(Reply::Kind::kArray);
  if (!keys) return report(keys.error());
  for (uint64_t i = 0; i < keys->bytes; ++i) {
    if (const Reported<Reply> key = connection.next(Reply::Kind::kValue); !key) return report(key.error());
  }
  return keys->bytes;
}

// How many there are in the page behind `cursor`, which is moved to the next one.
Reported<uint64_t> take_page(RedisConnection& connection, std::string& cursor) {
  connection.append({"SCAN", cursor, "COUNT", kCount});
  if (const Reported<> sent = connection.flush(); !sent) return report(sent.error());
  const Reported<Reply> both = connection.next(Reply::Kind::kArray);
  if (!both) return report(both.error());
  const Reported<Reply> next = connection.next(Reply::Kind::kValue);
  if (!next) return report(next.error());
  cursor = connection.value(*next);
  return take_keys(connection);
}

Reported<uint64_t> walk(RedisConnection& connection) {
  uint64_t found = 0;
  std::string cursor = "0";
  do {
    const Reported<uint64_t> page = take_page(connection, cursor);
    if (!page) return report(page.error());
    found += *page;
  } while (cursor != "0");
  return found;
}

Reported<uint64_t> list(RedisConnection& connection) {
  connection.append({"KEYS", "*"});
  if (const Reported<> sent = connection.flush(); !sent) return report(sent.error());
  return take_keys(connection);
}

// Tells how many keys it has found.
using Look = Reported<uint64_t> (*)(RedisConnection& connection);

// Keys a second, of a look at all of them.
Reported<double> rate_of(Look look, RedisConnection& connection, uint64_t keys) {
  const uint64_t start_ns = now_ns();
  const Reported<uint64_t> found = look(connection);
  if (!found) return report(found.error());
  if (*found < keys) return report(Code::kCorrupt, fmt::format("{} of {} keys were found", *found, keys));
  return static_cast<double>(keys) * 1e9 / static_cast<double>(now_ns() - start_ns);
}

Reported<Outcome> measure(BarRun& run, Look look, const std::string& how) {
  Reported<DoorBesideRedis> sides = DoorBesideRedis::start(run, {.keys = run.options.entries});
  if (!sides) return report(sides.error());
  Reported<RedisConnection> ours = RedisConnection::connect(sides->door_port(), numbered_key(0).size());
  if (!ours) return report(ours.error());
  Reported<RedisConnection> theirs = RedisConnection::connect(sides->redis_port(), numbered_key(0).size());
  if (!theirs) return report(theirs.error());
  return in_turns(
      run, fmt::format("{} keys by {}; the client sleeps when it waits", run.options.entries, how),
      [&](uint64_t) {
        return ratio_of({.ours = {"door", rate_of(look, *ours, run.options.entries)},
                         .theirs = {sides->redis_name(), rate_of(look, *theirs, run.options.entries)},
                         .unit = "M/s",
                         .scale = 1e-6});
      },
      {.over = Over::kTcp});
}

const BarRows kRows = {
    {"door-scan", "keys a second of a walk by SCAN, door / Redis", "at least 1.0", Sense::kAtLeast, 1, "x",
     [](BarRun& run) {
       return measure(run, walk, fmt::format("SCAN, COUNT {}, one page after the other", kCount));
     }},
    {"door-keys", "keys a second of KEYS *, door / Redis", "shown", Sense::kShown, 0, "x",
     [](BarRun& run) { return measure(run, list, "KEYS *"); }},
};

}  // namespace
}  // namespace refract::bench::bar_door_scan
