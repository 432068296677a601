// SPDX-License-Identifier: Apache-2.0
// `refract-bench growth`.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "bench/growth/growth.h"
#include "bench/measure/machine.h"
#include "bench/report/command.h"
#include "bench/sides/private_node.h"

namespace refract::bench {
namespace {

struct GrowthCommand final : public BenchCommand {
  GrowthOptions options;
  BarOptions bars;
  bool is_quick = false;
  bool is_small = false;

  GrowthCommand()
      : BenchCommand("growth",
                     "how cost grows with keys, connections, shards and bytes of a value, as curves") {}
  void describe(arguments::Command& app) override;
  [[nodiscard]] Reported<Found> run(const arguments::Command& app, bool is_shown) override;
} growth_command;

using arguments::Between;
using arguments::Sign;

constexpr uint64_t kKeysMost = 100'000'000;

void apply_size(GrowthCommand& command) {
  GrowthOptions& options = command.options;
  BarOptions& bars = command.bars;
  if (bars.node_program.empty()) bars.node_program = default_node_program();
  if (command.is_quick) {
    options.keys_max = std::min<uint64_t>(options.keys_max, 1'000'000);
    options.steps_a_decade = 1;
    options.simulated_ns = std::min<uint64_t>(options.simulated_ns, 500'000);
    bars.alternations = 3;
    bars.slice_seconds = 0.05;
  }
  if (command.is_small) {
    options.keys_max = 1'000;
    options.connections_max = 2;
    options.shards_max = 2;
    options.bytes_max = 64;
    options.steps_a_decade = 1;
    options.simulated_ns = 50'000;
    bars.alternations = 1;
    bars.slice_seconds = 0.002;
    bars.attempts = 1;
    bars.judged = false;
  }
}

void show_point(GrowthAxis axis, const GrowthPoint& point) {
  fmt::print("{} {}{}\n", place_text(axis, point.x), text(axis), point.is_disturbed ? ": disturbed" : "");
  std::fflush(stdout);
}

void GrowthCommand::describe(arguments::Command& app) {
  const std::map<std::string, GrowthAxis> axes = {{"keys", GrowthAxis::kKeys},
                                                  {"connections", GrowthAxis::kConnections},
                                                  {"shards", GrowthAxis::kShards},
                                                  {"sizes", GrowthAxis::kSizes}};
  app.add({.names = "--only",
           .to = arguments::some_of(axes, options.only),
           .help = "keys, connections, shards or sizes; several with commas",
           .separator = ','});
  app.add({.names = "--at",
           .to = &options.at,
           .help = "only at these places of the axis, with commas",
           .limit = Sign::kPositive,
           .separator = ','});
  app.add({.names = "--keys-max",
           .to = &options.keys_max,
           .help = "up to so many keys, as far as memory allows",
           .limit = Between<uint64_t>{uint64_t{1}, kKeysMost},
           .shows_default = true});
  app.add({.names = "--turns",
           .to = &bars.alternations,
           .help = "of all sides at a point",
           .limit = Between<int>{1, 1'000},
           .shows_default = true});
  app.add({.names = "--seconds",
           .to = &bars.slice_seconds,
           .help = "of one kind of operation in a turn",
           .limit = Sign::kPositive,
           .shows_default = true});
  app.add(
      {.names = "--quick", .to = &is_quick, .help = "fewer points and shorter turns, up to a million keys"});
  app.add(
      {.names = "--smoke", .to = &is_small, .help = "the smallest points, shortly: whether everything runs"});
  app.add({.names = "--node-program",
           .to = &bars.node_program,
           .help = "refractd (default: beside this program)"});
}

Reported<Found> GrowthCommand::run(const arguments::Command& /*app*/, bool is_shown) {
  apply_size(*this);
  if (!options.at.empty() && options.only.size() != 1) {
    return report(Code::kInvalidArgument, "--at names places of one axis",
                  "say which: --only keys, connections, shards or sizes");
  }
  const Timer timer = Timer::calibrate();
  // First of all: it forks, and this process is small now.
  const Reported<std::unique_ptr<References>> references = References::start(timer);
  if (!references) return report(references.error());
  if (is_small) (*references)->keep_first();
  BarRun bar_run = {.options = bars, .timer = timer, .references = **references};
  GrowthRun growth_run = {.options = options, .bars = bar_run};
  if (is_shown) {
    fmt::print("{}\n{}", line_of(this_machine()), is_small ? "a smoke run: no number means anything\n" : "");
    growth_run.options.on_point = show_point;
  }
  const Reported<std::vector<GrowthCurve>> curves = run_growth(growth_run);
  if (!curves) return report(curves.error());
  if (is_shown) {
    for (const GrowthCurve& curve : *curves) fmt::print("\n{}", lines_of(curve));
  }
  return Found{.findings = findings_of(growth_run, *curves)};
}

}  // namespace

}  // namespace refract::bench
