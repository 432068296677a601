// SPDX-License-Identifier: Apache-2.0
// How long it takes to have everything back: from a snapshot, and from memory.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <span>

#include "bench/bars/bars.h"
#include "bench/measure/disk_pace.h"
#include "bench/sides/durable_node.h"
#include "bench/sides/loaded_node.h"
#include "bench/sides/redis.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr int kTurnsMax = 5;

Reported<DurableNode> start_with_snapshot(const BarRun& run) {
  Reported<DurableNode> node =
      DurableNode::start_loaded(run, {.entries = run.options.many_entries, .snapshots_at_full_speed = true});
  if (!node) return node;
  if (const Reported<double> seconds = node->snapshot_seconds(); !seconds) return report(seconds.error());
  return node;
}

Reported<double> restore_seconds(const BarRun& run, DurableNode& node, int turn) {
  node.stop();
  if (const Reported<> forgotten = forget_files(node.folder()); !forgotten) return report(forgotten.error());
  unpin();
  return node.start_again(Draw(static_cast<uint64_t>(turn), run.options.many_entries).next());
}

Reported<Outcome> measure_restore_speed(BarRun& run) {
  Reported<DurableNode> node = start_with_snapshot(run);
  if (!node) return report(node.error());
  return in_block(run, [&](Outcome& block) -> Reported<> {
    std::vector<double> ours;
    std::vector<double> disk;
    for (int turn = 0; turn < std::min(run.options.alternations, kTurnsMax); ++turn) {
      const Reported<double> seconds = restore_seconds(run, *node, turn);
      if (!seconds) return report(seconds.error());
      const std::string path = node->snapshot_path();
      const Reported<double> disk_rate = disk_read_rate(path);
      if (!disk_rate) return report(disk_rate.error());
      const double rate = static_cast<double>(std::filesystem::file_size(path)) / *seconds;
      const double memcpy_rate = run.references.measure().memcpy_gb_per_s * 1e9;
      ours.push_back(rate * 1e-9);
      disk.push_back(*disk_rate * 1e-9);
      block.samples.push_back(rate / std::min(*disk_rate, memcpy_rate));
    }
    block.details = {{"restore", spread_of(ours).median, "GB/s"},
                     {"reading the file", spread_of(disk).median, "GB/s"}};
    block.note = fmt::format(
        "{} entries, from the start of refractd to the first right get; the page cache had "
        "nothing of the folder",
        run.options.many_entries);
    return {};
  });
}

Reported<Outcome> measure_restore_beside_redis(BarRun& run) {
  Reported<DurableNode> node = start_with_snapshot(run);
  if (!node) return report(node.error());
  node->stop();
  Reported<Redis> redis = Redis::start({});
  if (!redis) return report(redis.error());
  if (const Reported<> loaded = redis->load(run.options.many_entries); !loaded) return report(loaded.error());
  if (const Reported<> saved = redis->save(); !saved) return report(saved.error());
  return in_block(run, [&](Outcome& block) -> Reported<> {
    std::vector<double> ours;
    std::vector<double> theirs;
    for (int turn = 0; turn < std::min(run.options.alternations, kTurnsMax); ++turn) {
      redis->stop();
      const Reported<double> seconds = restore_seconds(run, *node, turn);
      if (!seconds) return report(seconds.error());
      node->stop();
      if (const Reported<> forgotten = forget_files(redis->folder()); !forgotten)
        return report(forgotten.error());
      const uint64_t begun_ns = now_ns();
      if (const Reported<> back = redis->start_again(run.options.many_entries); !back)
        return report(back.error());
      const double redis_seconds = static_cast<double>(now_ns() - begun_ns) * 1e-9;
      ours.push_back(*seconds);
      theirs.push_back(redis_seconds);
      block.samples.push_back(redis_seconds / *seconds);
    }
    block.details = {{"ours", spread_of(ours).median, "s"}, {"Redis", spread_of(theirs).median, "s"}};
    block.note = fmt::format(
        "{} entries; Redis {} loads its RDB; both from the start of the program to the first "
        "answer, the page cache had nothing of either folder",
        run.options.many_entries, redis->version());
    return {};
  });
}

constexpr std::array kBars = {
    Bar{"restore-speed", "start from a snapshot, bytes a second / reading it, or memcpy", "at least 0.50",
        Sense::kAtLeast, 0.5, "x", measure_restore_speed},
    Bar{"restore-redis", "the same, seconds of Redis with its RDB / ours", "at least 5", Sense::kAtLeast, 5,
        "x", measure_restore_beside_redis},
};

}  // namespace

std::span<const Bar> bars_of_restore() noexcept {
  return kBars;
}

}  // namespace refract::bench
