// SPDX-License-Identifier: Apache-2.0
// refract-bench: every promise in numbers, measured here; load on a node; a page of what was found.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/bars/bars_results.h"
#include "bench/fabric/fabric_command.h"
#include "bench/growth/growth_command.h"
#include "bench/kv/kv_command.h"
#include "bench/measure/machine.h"
#include "bench/sides/private_node.h"
#include "bench/suites/suite.h"
#include "bench/suites/suite_command.h"

#include "refract/arguments/command.h"

namespace {

using namespace refract;
using namespace refract::bench;

int refuse(const Report& report) {
  std::fprintf(stderr, "refract-bench: %s\n", report.to_string().c_str());
  return 1;
}

// "-" is the standard output.
int write_file(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr)
    return refuse({Code::kSystem, fmt::format("cannot write {}: {}", path, errno_text(errno)), {}});
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file == stdout ? std::fflush(file) == 0 : std::fclose(file) == 0;
  if (!written || !closed)
    return refuse({Code::kSystem, fmt::format("cannot write {}: {}", path, errno_text(errno)), {}});
  return 0;
}

struct BarsCommand {
  BarOptions options;
  std::string json_path;
  std::vector<std::string> only;
  bool quick = false;
  bool smoke = false;
};

void apply_size(BarsCommand& command) {
  BarOptions& options = command.options;
  if (options.node_program.empty()) options.node_program = default_node_program();
  if (command.quick) make_quick(options);
  if (command.smoke) make_small(options);
}

bool is_wanted(const BarsCommand& command, const Bar& bar) {
  if (command.only.empty()) return true;
  for (const std::string& name : command.only) {
    if (name == bar.name) return true;
  }
  return false;
}

// A name that no bar has would measure nothing, and look as if all were well.
Reported<> check_names(const BarsCommand& command) {
  for (const std::string& name : command.only) {
    if (find_bar(name) != nullptr) continue;
    return report(Code::kInvalidArgument, fmt::format("--only: there is no bar '{}'", name),
                  "docs/benchmarks.md names them all; without --only all are measured");
  }
  return {};
}

int run_bars(BarsCommand& command) {
  if (const Reported<> known = check_names(command); !known) return refuse(known.error());
  apply_size(command);
  const Timer timer = Timer::calibrate();
  // First of all: it forks, and this process is small now.
  const Reported<std::unique_ptr<References>> references = References::start(timer);
  if (!references) return refuse(references.error());
  BarRun run{.options = command.options, .timer = timer, .references = **references};

  const Machine machine = this_machine();
  fmt::print("refract-bench {} ({}), {} x {}, Linux {}\n", machine.commit, machine.compiler, machine.cores,
             machine.cpu, machine.kernel);
  fmt::print("{} entries of 16 + 64 B{}\n\n{}\n", command.options.entries,
             command.smoke ? "; a smoke run: no number means anything" : "", heading());
  std::vector<BarResult> results;
  bool failed = false;
  for (const Bar& bar : bars()) {
    if (!is_wanted(command, bar)) continue;
    results.push_back(measure_bar(bar, run));
    failed = failed || results.back().verdict == Verdict::kFailed;
    fmt::print("{}\n", line_of(results.back()));
    std::fflush(stdout);
  }
  fmt::print("\n{}", details_of(results));
  if (!command.json_path.empty()) {
    if (const int code = write_file(command.json_path, json_of(results)); code != 0) return code;
  }
  return failed ? 1 : 0;
}

int run_report(const std::string& json_path, const std::string& html_path) {
  const std::ifstream file(json_path);
  if (!file)
    return refuse({Code::kSystem, fmt::format("cannot read {}: {}", json_path, errno_text(errno)), {}});
  std::ostringstream json;
  json << file.rdbuf();
  const Reported<std::string> page = html_of(json.str());
  if (!page) return refuse({page.error().code, json_path + ": " + page.error().what, page.error().next});
  return write_file(html_path, *page);
}

void describe_bars(arguments::Command& app, BarsCommand& command) {
  app.add({.names = "--json",
           .to = &command.json_path,
           .help = "write everything to this file as JSON ('-': standard output)"});
  app.add({.names = "--quick",
           .to = &command.quick,
           .help = "fewer and shorter rounds; memory with 1 M entries"});
  app.add({.names = "--smoke", .to = &command.smoke, .help = "1000 entries: whether everything runs"});
  app.add({.names = "--only", .to = &command.only, .help = "measure only the bars with these names"});
  app.add({.names = "--node-program",
           .to = &command.options.node_program,
           .help = "refractd (default: beside this program)"});
}

}  // namespace

int main(int argc, char** argv) {
  arguments::Command app(
      "Measures Refract: what it promises, a load of your choice, and a page of the result.",
      {.needs_command = true});
  BarsCommand bars_command;
  KvCommand kv_command;
  std::string report_json_path;
  std::string report_html_path = "report.html";
  arguments::Command& bars_app = app.add_command("bars", "measure every promise, one line each");
  describe_bars(bars_app, bars_command);
  arguments::Command& kv_app = app.add_command("kv", "load on a node: throughput and latencies");
  describe_kv(kv_app, kv_command);
  SuiteCommand suite_command;
  arguments::Command& suite_app =
      app.add_command("suite", "a claim of README.md measured, or a published experiment rebuilt");
  describe_suites(suite_app, suite_command);
  FabricCommand fabric_command;
  arguments::Command& fabric_app = app.add_command(
      "fabric", "every operation of every provider over sizes, beside UCX, libfabric and perftest");
  describe_fabric(fabric_app, fabric_command);
  GrowthCommand growth_command;
  arguments::Command& growth_app = app.add_command(
      "growth", "how cost grows with keys, connections, shards and bytes of a value, as curves");
  describe_growth(growth_app, growth_command);
  arguments::Command& report_app = app.add_command("report", "a page with plots from what --json wrote");
  report_app.add({.names = "json",
                  .to = &report_json_path,
                  .help = "what 'bars', 'kv', 'fabric', 'growth' or 'suite' wrote by --json",
                  .is_required = true});
  report_app.add(
      {.names = "-o,--output", .to = &report_html_path, .help = "the page", .shows_default = true});
  if (const std::optional<int> code = app.read_or_print(argc, argv)) return *code;
  if (bars_app.was_named()) return run_bars(bars_command);
  if (suite_app.was_named()) {
    const Reported<SuiteReport> suites = run_suite_command(suite_command);
    if (!suites) return refuse(suites.error());
    const int code =
        suite_command.json_path.empty() ? 0 : write_file(suite_command.json_path, json_of(suites->findings));
    return suites->has_failed ? 1 : code;
  }
  if (fabric_app.was_named()) {
    const Reported<std::string> json = run_fabric_command(fabric_command);
    if (!json) return refuse(json.error());
    return fabric_command.json_path.empty() ? 0 : write_file(fabric_command.json_path, *json);
  }
  if (growth_app.was_named()) {
    const Reported<std::string> json = run_growth_command(growth_command);
    if (!json) return refuse(json.error());
    return growth_command.json_path.empty() ? 0 : write_file(growth_command.json_path, *json);
  }
  if (kv_app.was_named()) {
    const Reported<std::string> json = run_kv_command(kv_app, kv_command);
    if (!json) return refuse(json.error());
    return kv_command.json_path.empty() ? 0 : write_file(kv_command.json_path, *json);
  }
  return run_report(report_json_path, report_html_path);
}
