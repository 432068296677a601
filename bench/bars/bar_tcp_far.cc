// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars/bars.h"
#include "bench/measure/delayed_path.h"
#include "bench/sides/rivals.h"

#include "refract/base/units.h"

namespace refract::bench::bar_tcp_far {
namespace {

constexpr uint64_t kValues = 32;
constexpr size_t kValueBytes = 4 * kMiB;
// 64 MiB are under way or about to be, where the path holds 10 MB.
constexpr size_t kDepth = 16;

Reported<Outcome> measure_far(BarRun& run, double get_share) {
  const DelayedPath::Options path_options;
  const Reported<DelayedPath> path = DelayedPath::create(path_options);
  if (!path) return report(path.error());
  const Reported<PrivateNode> node =
      PrivateNode::start({.program = run.options.node_program,
                          .memory_limit_bytes = memory_bytes_for(kValues, 16, kValueBytes),
                          .listen_address = path->far_address(),
                          .launcher = path->launcher()});
  if (!node) return report(node.error());
  const Contents contents(16, kValueBytes);
  if (const Reported<> filled = fill_node(*node, contents, kValues); !filled) return report(filled.error());
  const DriverOptions driver_options = {.depth = kDepth};
  const Reported<std::unique_ptr<RefractDriver>> driver =
      RefractDriver::connect({.address = node->tcp_address()}, driver_options, contents);
  if (!driver) return report(driver.error());
  Workload workload({.keys = kValues,
                     .value_bytes = kValueBytes,
                     .get_share = get_share,
                     .seconds = run.options.path_seconds},
                    run.timer);

  Reported<double> stream = 0.0;
  const auto bandwidth = static_cast<double>(path_options.bytes_per_s);
  // The first turn is the one in which the connection finds out how much the path holds. Some turns suffice:
  // the other side of the ratio is a constant.
  return in_turns(
      run,
      fmt::format(
          "{} in flight, one connection; {} ms there and back, {:.2g} GB/s each way, headers included; a "
          "thread of this program holds the packets back, and no thread is bound to a core",
          kDepth, path_options.round_trip_ns / kMillisecond_ns, bandwidth * 1e-9),
      [&](uint64_t turn) -> Reported<Turn> {
        if (turn == 0) stream = path->stream_rate(run.options.path_seconds);
        if (!stream) return report(stream.error());
        const Reported<WorkloadResult> result = run_workload(**driver, workload);
        if (!result) return report(result.error());
        const double rate = result->per_second() * static_cast<double>(kValueBytes);
        return Turn{rate / bandwidth,
                    {{"ours", rate * 1e-9, "GB/s"}, {"one plain connection", *stream * 1e-9, "GB/s"}}};
      },
      {.over = Over::kTcp, .turns_max = (run.options.alternations + 1) / 2});
}

const BarRows kRows = {
    {"tcp-get-far", "gets of 4 MiB, 10 ms away / bandwidth of 1 GB/s", "at least 0.85", Sense::kAtLeast, 0.85,
     "x", [](BarRun& run) { return measure_far(run, 1); }},
    {"tcp-put-far", "puts of 4 MiB, 10 ms away / bandwidth of 1 GB/s", "at least 0.85", Sense::kAtLeast, 0.85,
     "x", [](BarRun& run) { return measure_far(run, 0); }},
};

}  // namespace
}  // namespace refract::bench::bar_tcp_far
