// SPDX-License-Identifier: Apache-2.0
// `refract-bench suite`.
#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <memory>

#include "bench/report/command.h"
#include "bench/sides/private_node.h"
#include "bench/suites/claim.h"

namespace refract::bench {
namespace {

struct SuiteCommand final : public BenchCommand {
  std::vector<std::string> names;
  SuiteFabric fabric = SuiteFabric::kSim;
  BarOptions bars;  // Of claims.
  bool is_list = false;
  bool is_quick = false;
  bool is_small = false;

  SuiteCommand()
      : BenchCommand("suite", "a claim of README.md measured, or a published experiment rebuilt") {}
  void describe(arguments::Command& app) override;
  [[nodiscard]] Reported<Found> run(const arguments::Command& app, bool is_shown) override;
} suite_command;

Reported<> print_list() {
  for (const std::string& name : suite_names()) {
    const Reported<Suite> suite = read_suite(name);
    if (!suite) return report(suite.error());
    const bool is_claim = suite->experiment == Suite::Experiment::kBars;
    fmt::print("{:<22} {}\n", name, is_claim ? suite->claim : suite->title + " (published, rebuilt)");
  }
  return {};
}

// The timer and the other processes of the references, made when the first claim wants them.
class ClaimRunner {
 public:
  explicit ClaimRunner(const BarOptions& options) : options_(options) {}

  [[nodiscard]] Reported<ClaimResult> measure(const Suite& suite) {
    if (references_ == nullptr) {
      timer_ = Timer::calibrate();
      Reported<std::unique_ptr<References>> started = References::start(timer_);
      if (!started) return report(started.error());
      references_ = std::move(*started);
      if (!options_.judged) references_->keep_first();
    }
    BarRun run = {.options = options_, .timer = timer_, .references = *references_};
    return measure_claim(suite, run);
  }

 private:
  BarOptions options_;
  Timer timer_;
  std::unique_ptr<References> references_;
};

// What is off and not explained is a failure: what comes out of the simulator is the same everywhere.
Reported<> run_published(const SuiteCommand& asked, Suite& suite, bool is_shown, Found& all) {
  if (asked.is_small) make_small(suite);
  Reported<SuiteResult> result = run_suite(suite, asked.fabric);
  if (!result) return report(result.error());
  if (!asked.is_small) {
    Reported<std::vector<Varied>> varied = vary(suite);
    if (!varied) return report(varied.error());
    result->varied = std::move(*varied);
  }
  if (is_shown) fmt::print("{}\n", lines_of(suite, *result));
  add_to(*all.findings, suite, *result);
  all.has_failed = all.has_failed || (!asked.is_small && has_unexplained(suite, *result));
  return {};
}

void apply_size(SuiteCommand& command) {
  if (command.bars.node_program.empty()) command.bars.node_program = default_node_program();
  if (command.is_quick) make_quick(command.bars);
  if (command.is_small) make_small(command.bars);
}

void SuiteCommand::describe(arguments::Command& app) {
  const std::map<std::string, SuiteFabric> fabrics = {
      {"sim", SuiteFabric::kSim}, {"shm", SuiteFabric::kShm}, {"tcp", SuiteFabric::kTcp}};
  app.add({.names = "suite", .to = &names, .help = "names that --list has, or files such as ./mine.toml"});
  app.add(
      {.names = "--list", .to = &is_list, .help = "the names of all, each with the claim that it measures"});
  app.add({.names = "--fabric",
           .to = arguments::one_of(fabrics, fabric),
           .help =
               "of published ones; sim: the paper's testbed; shm or tcp: this machine, where only ratios can "
               "be compared"});
  app.add({.names = "--quick", .to = &is_quick, .help = "of claims: fewer and shorter rounds, as of 'bars'"});
  app.add({.names = "--smoke", .to = &is_small, .help = "few operations: whether everything runs"});
  app.add({.names = "--node-program",
           .to = &bars.node_program,
           .help = "refractd (default: beside this program)"});
}

Reported<Found> SuiteCommand::run(const arguments::Command& /*app*/, bool is_shown) {
  Found all;
  if (is_list) {
    if (const Reported<> listed = print_list(); !listed) return report(listed.error());
    return all;
  }
  if (names.empty()) {
    return report(Code::kInvalidArgument, "which suite is to be run?", "refract-bench suite --list has all");
  }
  apply_size(*this);
  all.findings = findings_here("suite", "claims and published experiments", documents::Value::object());
  ClaimRunner claims(bars);
  for (const std::string& name : names) {
    Reported<Suite> suite = read_suite(name);
    if (!suite) return report(suite.error());
    if (suite->experiment != Suite::Experiment::kBars) {
      if (const Reported<> ran = run_published(*this, *suite, is_shown, all); !ran)
        return report(ran.error());
      continue;
    }
    const Reported<ClaimResult> result = claims.measure(*suite);
    if (!result) return report(result.error());
    if (is_shown) fmt::print("{}\n", lines_of(*suite, *result));
    std::fflush(stdout);
    add_to(*all.findings, *suite, *result);
    all.has_failed = all.has_failed || result->verdict() == Verdict::kFailed;
  }
  return all;
}

}  // namespace

}  // namespace refract::bench
