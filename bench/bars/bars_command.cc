// SPDX-License-Identifier: Apache-2.0
// `refract-bench bars`.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "bench/bars/bars_results.h"
#include "bench/measure/machine.h"
#include "bench/report/command.h"
#include "bench/sides/private_node.h"

namespace refract::bench {
namespace {

struct BarsCommand final : public BenchCommand {
  BarOptions options;
  std::vector<std::string> only;
  bool quick = false;
  bool smoke = false;

  BarsCommand() : BenchCommand("bars", "measure every promise, one line each") {}

  void describe(arguments::Command& app) override {
    app.add({.names = "--quick", .to = &quick, .help = "fewer and shorter rounds; memory with 1 M entries"});
    app.add({.names = "--smoke", .to = &smoke, .help = "1000 entries: whether everything runs"});
    app.add({.names = "--only", .to = &only, .help = "measure only the bars with these names"});
    app.add({.names = "--node-program",
             .to = &options.node_program,
             .help = "refractd (default: beside this program)"});
  }

  // A name that no bar has would measure nothing, and look as if all were well.
  [[nodiscard]] Reported<> check_names() const {
    for (const std::string& name : only) {
      if (find_bar(name) != nullptr) continue;
      return report(Code::kInvalidArgument, fmt::format("--only: there is no bar '{}'", name),
                    "docs/benchmarks.md names them all; without --only all are measured");
    }
    return {};
  }

  [[nodiscard]] Reported<Found> run(const arguments::Command& /*app*/, bool is_shown) override {
    if (const Reported<> known = check_names(); !known) return report(known.error());
    if (options.node_program.empty()) options.node_program = default_node_program();
    if (quick) make_quick(options);
    if (smoke) make_small(options);
    const Timer timer = Timer::calibrate();
    // First of all: it forks, and this process is small now.
    const Reported<std::unique_ptr<References>> references = References::start(timer);
    if (!references) return report(references.error());
    if (smoke) (*references)->keep_first();
    BarRun bar_run{.options = options, .timer = timer, .references = **references};
    const auto show = [is_shown](const std::string& text) {
      if (is_shown) fmt::print("{}\n", text);
      std::fflush(stdout);
    };
    show(line_of(this_machine()));
    show(fmt::format("{} entries of 16 + 64 B{}\n\n{}", options.entries,
                     smoke ? "; a smoke run: no number means anything" : "", heading()));
    std::vector<BarResult> results;
    Found found;
    for (const Bar& bar : bars()) {
      if (!only.empty() && std::ranges::find(only, bar.name) == only.end()) continue;
      results.push_back(measure_bar(bar, bar_run));
      found.has_failed = found.has_failed || results.back().verdict == Verdict::kFailed;
      show(line_of(results.back()));
    }
    show("\n" + details_of(results));
    found.findings = findings_of(results);
    return found;
  }
} bars_command;

}  // namespace
}  // namespace refract::bench
