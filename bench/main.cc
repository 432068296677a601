// SPDX-License-Identifier: Apache-2.0
// refract-bench: every promise in numbers, measured here; load on a node; a page of what was found.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "bench/bars.h"
#include "bench/kv_load.h"
#include "bench/machine.h"
#include "bench/private_node.h"
#include "bench/results.h"

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
  if (command.quick) {
    options.memory_entries = 1'000'000;
    options.operations = 500'000;
    options.alternations = 5;
    options.idle_ns = 1'000'000'000;
  }
  if (command.smoke) {
    options.entries = options.memory_entries = 1'000;
    options.operations = 2'000;
    options.alternations = 1;
    options.attempts = 1;
    options.judged = false;
    options.idle_ns = 100'000'000;
  }
}

bool is_wanted(const BarsCommand& command, const Bar& bar) {
  if (command.only.empty()) return true;
  for (const std::string& name : command.only) {
    if (name == bar.name) return true;
  }
  return false;
}

BarResult measure(const Bar& bar, BarRun& run) {
  Reported<Outcome> outcome = bar.measure(run);
  if (!outcome) {
    Outcome nothing;
    nothing.note = outcome.error().to_string();
    // Something that the machine lacks is no fault; everything else that kept a bar from its number is.
    const bool lacking = outcome.error().code == Code::kUnsupported;
    return {.bar = &bar,
            .outcome = std::move(nothing),
            .verdict = lacking ? Verdict::kNotMeasured : Verdict::kFailed};
  }
  const Verdict verdict = run.options.judged ? judge(bar, *outcome) : Verdict::kNotJudged;
  return {.bar = &bar, .outcome = std::move(*outcome), .verdict = verdict};
}

int run_bars(BarsCommand& command) {
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
    results.push_back(measure(bar, run));
    failed = failed || results.back().verdict == Verdict::kFailed;
    fmt::print("{}\n", line_of(results.back()));
    std::fflush(stdout);
  }
  fmt::print("\n{}", details_of(results));
  if (!command.json_path.empty()) {
    if (const int code = write_file(command.json_path, json_of(machine, results)); code != 0) return code;
  }
  return failed ? 1 : 0;
}

int run_kv(const KvLoad& load, const std::string& json_path) {
  const Reported<KvLoadResult> result = run_kv_load(load);
  if (!result) return refuse(result.error());
  if (json_path != "-") fmt::print("{}", lines_of(load, *result));
  return json_path.empty() ? 0 : write_file(json_path, json_of(load, *result));
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

void describe_bars(CLI::App& app, BarsCommand& command) {
  app.add_option("--json", command.json_path, "write everything to this file as JSON ('-': standard output)");
  app.add_flag("--quick", command.quick, "fewer and shorter rounds; memory with 1 M entries");
  app.add_flag("--smoke", command.smoke, "1000 entries: whether everything runs");
  app.add_option("--only", command.only, "measure only the bars with these names");
  app.add_option("--node-program", command.options.node_program, "refractd (default: beside this program)");
}

void describe_kv(CLI::App& app, KvLoad& load, std::string& json_path) {
  const std::map<std::string, Mix> mixes = {{"get", Mix::kGet}, {"put", Mix::kPut}, {"mixed", Mix::kMixed}};
  app.add_option("--socket", load.socket_path, "the node to load (default: a private one)");
  app.add_option("--keys", load.keys, "how many keys")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--value-bytes", load.value_bytes, "bytes of a value")->capture_default_str();
  app.add_option("--ops", load.operations, "stop after so many operations");
  app.add_option("--seconds", load.seconds, "stop after so long")->capture_default_str();
  app.add_option("--mix", load.mix, "get, put, or mixed (half of each)")
      ->transform(CLI::CheckedTransformer(mixes));
  app.add_option("--zipf", load.skew, "skew of the keys, 0: uniform")->check(CLI::Range(0.0, 0.999));
  app.add_option("--depth", load.depth, "operations handed over together")->check(CLI::Range(1, 1024));
  app.add_option("--rate", load.rate, "operations a second; latency counts from when each was due");
  app.add_option("--json", json_path, "write the result to this file as JSON ('-': standard output)");
  app.add_option("--node-program", load.node_program,
                 "refractd for a private node (default: beside this program)");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures Refract: what it promises, a load of your choice, and a page of the result.");
  app.require_subcommand(1);
  BarsCommand bars_command;
  KvLoad load;
  std::string kv_json_path;
  std::string report_json_path;
  std::string report_html_path = "report.html";
  CLI::App& bars_app = *app.add_subcommand("bars", "measure every promise, one line each");
  describe_bars(bars_app, bars_command);
  CLI::App& kv_app = *app.add_subcommand("kv", "load on a node: throughput and latencies");
  describe_kv(kv_app, load, kv_json_path);
  CLI::App& report_app = *app.add_subcommand("report", "a page with plots from what 'bars --json' wrote");
  report_app.add_option("json", report_json_path, "what 'bars --json' wrote")->required();
  report_app.add_option("-o,--output", report_html_path, "the page")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (bars_app.parsed()) return run_bars(bars_command);
  if (kv_app.parsed()) return run_kv(load, kv_json_path);
  return run_report(report_json_path, report_html_path);
}
