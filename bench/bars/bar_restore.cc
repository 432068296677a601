// SPDX-License-Identifier: Apache-2.0
// How long it takes to have everything back: from a snapshot, and from memory.
#include <fmt/core.h>

#include <csignal>
#include <filesystem>

#include "bench/bars/bars.h"
#include "bench/bars/durable_node.h"
#include "bench/bars/loaded_node.h"
#include "bench/measure/disk_pace.h"
#include "bench/sides/redis.h"

#include "refract/base/units.h"

namespace refract::bench::bar_restore {
namespace {

constexpr int kTurnsMax = 5;

Reported<DurableNode> start_with_snapshot(const BarRun& run) {
  Reported<DurableNode> node =
      DurableNode::start_loaded(run, {.entries = run.options.many_entries, .snapshots_at_full_speed = true});
  if (!node) return node;
  if (const Reported<double> seconds = node->snapshot_seconds(); !seconds) return report(seconds.error());
  return node;
}

Reported<double> restore_seconds(const BarRun& run, DurableNode& node, uint64_t turn) {
  node.stop();
  if (const Reported<> forgotten = forget_files(node.folder()); !forgotten) return report(forgotten.error());
  unpin();
  return node.start_again(Draw(turn, run.options.many_entries).next());
}

Reported<Outcome> measure_restore_speed(BarRun& run) {
  Reported<DurableNode> node = start_with_snapshot(run);
  if (!node) return report(node.error());
  return in_turns(
      run,
      fmt::format("{} entries, from the start of refractd to the first right get; the page cache had "
                  "nothing of the folder",
                  run.options.many_entries),
      [&](uint64_t turn) -> Reported<Turn> {
        const Reported<double> seconds = restore_seconds(run, *node, turn);
        if (!seconds) return report(seconds.error());
        const std::string path = node->snapshot_path();
        const Reported<double> disk_rate = disk_read_rate(path);
        return ratio_to_disk(run,
                             {"restore", static_cast<double>(std::filesystem::file_size(path)) / *seconds},
                             {"reading the file", disk_rate});
      },
      {.turns_max = kTurnsMax, .warms_up = false});
}

Reported<Outcome> measure_restore_beside_redis(BarRun& run) {
  Reported<DurableNode> node = start_with_snapshot(run);
  if (!node) return report(node.error());
  node->stop();
  Reported<Redis> redis = Redis::start({});
  if (!redis) return report(redis.error());
  if (const Reported<> loaded = redis->load(run.options.many_entries); !loaded) return report(loaded.error());
  if (const Reported<> saved = redis->save(); !saved) return report(saved.error());
  const auto redis_seconds = [&]() -> Reported<double> {
    node->stop();
    if (const Reported<> forgotten = forget_files(redis->folder()); !forgotten)
      return report(forgotten.error());
    const uint64_t begun_ns = now_ns();
    if (const Reported<> back = redis->start_again(run.options.many_entries); !back)
      return report(back.error());
    return static_cast<double>(now_ns() - begun_ns) * 1e-9;
  };
  return in_turns(
      run,
      fmt::format("{} entries; Redis {} loads its RDB; both from the start of the program to the first "
                  "answer, the page cache had nothing of either folder",
                  run.options.many_entries, redis->version()),
      [&](uint64_t turn) -> Reported<Turn> {
        redis->stop();
        const Reported<double> ours = restore_seconds(run, *node, turn);
        if (!ours) return report(ours.error());
        const Reported<double> theirs = redis_seconds();
        if (!theirs) return report(theirs.error());
        return Turn{*theirs / *ours, {{"ours", *ours, "s"}, {"Redis", *theirs, "s"}}};
      },
      {.turns_max = kTurnsMax, .warms_up = false});
}

const BarRows kRows = {
    {"restore-speed", "start from a snapshot, bytes a second / reading it, or memcpy", "at least 0.50",
     Sense::kAtLeast, 0.5, "x", measure_restore_speed},
    {"restore-redis", "the same, seconds of Redis with its RDB / ours", "at least 5", Sense::kAtLeast, 5, "x",
     measure_restore_beside_redis},
};

}  // namespace
}  // namespace refract::bench::bar_restore
