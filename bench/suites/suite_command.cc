// SPDX-License-Identifier: Apache-2.0
#include "bench/suites/suite_command.h"

#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <memory>

#include "bench/sides/private_node.h"
#include "bench/suites/claim.h"

namespace refract::bench {
namespace {

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
Reported<> run_published(const SuiteCommand& command, Suite& suite, SuiteReport& all) {
  if (command.is_small) make_small(suite);
  const Reported<SuiteResult> result = run_suite(suite, command.fabric);
  if (!result) return report(result.error());
  if (command.json_path != "-") fmt::print("{}\n", lines_of(suite, *result));
  add_to(all.findings, suite, *result);
  all.has_failed = all.has_failed || (!command.is_small && has_unexplained(suite, *result));
  return {};
}

void apply_size(SuiteCommand& command) {
  if (command.bars.node_program.empty()) command.bars.node_program = default_node_program();
  if (command.is_quick) make_quick(command.bars);
  if (command.is_small) make_small(command.bars);
}

}  // namespace

void describe_suites(arguments::Command& app, SuiteCommand& command) {
  const std::map<std::string, SuiteFabric> fabrics = {
      {"sim", SuiteFabric::kSim}, {"shm", SuiteFabric::kShm}, {"tcp", SuiteFabric::kTcp}};
  app.add({.names = "suite",
           .to = &command.names,
           .help = "names that --list has, or files such as ./mine.toml"});
  app.add({.names = "--list",
           .to = &command.is_list,
           .help = "the names of all, each with the claim that it measures"});
  app.add({.names = "--fabric",
           .to = arguments::one_of(fabrics, command.fabric),
           .help =
               "of published ones; sim: the paper's testbed; shm or tcp: this machine, where only ratios can "
               "be compared"});
  app.add({.names = "--quick",
           .to = &command.is_quick,
           .help = "of claims: fewer and shorter rounds, as of 'bars'"});
  app.add({.names = "--smoke", .to = &command.is_small, .help = "few operations: whether everything runs"});
  app.add({.names = "--node-program",
           .to = &command.bars.node_program,
           .help = "refractd (default: beside this program)"});
  app.add({.names = "--json",
           .to = &command.json_path,
           .help = "write the results to this file as JSON ('-': standard output)"});
}

Reported<SuiteReport> run_suite_command(SuiteCommand& command) {
  SuiteReport all{.findings =
                      findings_here("suite", "claims and published experiments", documents::Value::object())};
  if (command.is_list) {
    if (const Reported<> listed = print_list(); !listed) return report(listed.error());
    return all;
  }
  if (command.names.empty()) {
    return report(Code::kInvalidArgument, "which suite is to be run?", "refract-bench suite --list has all");
  }
  apply_size(command);
  ClaimRunner claims(command.bars);
  for (const std::string& name : command.names) {
    Reported<Suite> suite = read_suite(name);
    if (!suite) return report(suite.error());
    if (suite->experiment != Suite::Experiment::kBars) {
      if (const Reported<> ran = run_published(command, *suite, all); !ran) return report(ran.error());
      continue;
    }
    const Reported<ClaimResult> result = claims.measure(*suite);
    if (!result) return report(result.error());
    if (command.json_path != "-") fmt::print("{}\n", lines_of(*suite, *result));
    std::fflush(stdout);
    add_to(all.findings, *suite, *result);
    all.has_failed = all.has_failed || result->verdict() == Verdict::kFailed;
  }
  return all;
}

}  // namespace refract::bench
