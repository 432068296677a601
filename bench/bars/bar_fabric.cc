// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars/bars.h"
#include "bench/fabric/fabric_run.h"

#include "refract/base/units.h"

namespace refract::bench::bar_fabric {
namespace {

struct Contest {
  std::string provider;
  std::string peer;
  FabricCase of;
  Over over = Over::kSharedMemory;
};

Reported<Outcome> compare(BarRun& run, const Contest& contest) {
  FabricOptions options;
  options.providers = {contest.provider};
  options.shapes = {contest.of.shape};
  options.sizes = {contest.of.bytes};
  options.depth = contest.of.depth;
  options.has_latency = contest.of.depth == 0;
  options.seconds = run.options.slice_seconds / 4;
  options.turns = run.options.alternations;
  options.peer = contest.peer;
  // A smoke run must not depend on how long others take.
  options.has_peers = run.options.judged;
  return in_block(
      run,
      [&](Outcome& block) -> Reported<> {
        const Reported<FabricResult> result = run_fabric(options, run.timer);
        if (!result) return report(result.error());
        if (result->points.size() != 1) return report(Code::kCorrupt, "not one point, but another number");
        const FabricPoint& point = result->points.front();
        if (!options.has_peers) return report(Code::kUnsupported, "a smoke run starts no programs of others");
        if (point.peers.empty()) {
          const FabricGap gap = result->gaps.empty() ? FabricGap{} : result->gaps.front();
          return report(Code::kUnsupported, gap.what, gap.next);
        }
        const PeerFigures& peer = point.peers.front();
        const bool is_mean = peer.peer->statistic == Statistic::kMean && contest.of.depth == 0;
        const double scale = contest.of.depth > 0 ? 1e-9 : 1e-3;
        const char* unit = contest.of.depth > 0 ? "GB/s" : "us";
        block.samples = peer.ratios;
        block.details = {{"ours", spread_of(is_mean ? point.means : point.turns).median * scale, unit},
                         {std::string(peer.peer->name), spread_of(peer.turns).median * scale, unit}};
        block.note = fmt::format("{}; {} of each turn; {}", result->peers.front(),
                                 contest.of.depth > 0 ? "the rate"
                                 : is_mean            ? "means"
                                                      : "medians",
                                 result->placement);
        return {};
      },
      contest.over);
}

const BarRows kRows = {
    {"shm-message-ucx", "message of 64 B on shm, one way / UCX", "at most 1.00", Sense::kAtMost, 1, "x",
     [](BarRun& run) {
       return compare(run, {.provider = "shm", .peer = "ucx", .of = {.shape = Shape::kSend, .bytes = 64}});
     }},
    {"shm-get-ucx", "READ of 64 B on shm / UCX's get", "at most 1.00", Sense::kAtMost, 1, "x",
     [](BarRun& run) {
       return compare(run, {.provider = "shm", .peer = "ucx", .of = {.shape = Shape::kRead, .bytes = 64}});
     }},
    {"shm-put-ucx", "WRITE of 64 B on shm, one way / UCX's put", "at most 1.00", Sense::kAtMost, 1, "x",
     [](BarRun& run) {
       return compare(run, {.provider = "shm", .peer = "ucx", .of = {.shape = Shape::kPut, .bytes = 64}});
     }},
    {"tcp-message-ucx", "message of 64 B on tcp, one way / UCX", "at most 1.00", Sense::kAtMost, 1, "x",
     [](BarRun& run) {
       return compare(run, {.provider = "tcp",
                            .peer = "ucx",
                            .of = {.shape = Shape::kSend, .bytes = 64},
                            .over = Over::kTcp});
     }},
    {"tcp-message-fabric", "the same / libfabric", "at most 1.00", Sense::kAtMost, 1, "x",
     [](BarRun& run) {
       return compare(run, {.provider = "tcp",
                            .peer = "libfabric",
                            .of = {.shape = Shape::kSend, .bytes = 64},
                            .over = Over::kTcp});
     }},
    {"tcp-flow-ucx", "messages of 32 KiB on tcp, bytes a second / UCX", "at least 1.00", Sense::kAtLeast, 1,
     "x",
     [](BarRun& run) {
       return compare(run, {.provider = "tcp",
                            .peer = "ucx",
                            .of = {.shape = Shape::kSend, .bytes = 32 * kKiB, .depth = 16},
                            .over = Over::kTcp});
     }},
    {"tcp-put-fabric", "4 MiB there and back on tcp / libfabric", "at most 1.00", Sense::kAtMost, 1, "x",
     [](BarRun& run) {
       return compare(run, {.provider = "tcp",
                            .peer = "libfabric",
                            .of = {.shape = Shape::kPut, .bytes = 4 * kMiB},
                            .over = Over::kTcp});
     }},
};

}  // namespace
}  // namespace refract::bench::bar_fabric
