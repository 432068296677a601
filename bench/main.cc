// SPDX-License-Identifier: Apache-2.0
// refract-bench: every promise in numbers, measured here; load on a node; a page of what was found.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/bar_run.h"
#include "bench/bars.h"
#include "bench/fabric_command.h"
#include "bench/growth_command.h"
#include "bench/kv_load.h"
#include "bench/machine.h"
#include "bench/private_node.h"
#include "bench/results.h"
#include "bench/suite.h"
#include "bench/suite_command.h"

#include "refract/kv/designs/designs.h"

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
    if (const int code = write_file(command.json_path, json_of(machine, results)); code != 0) return code;
  }
  return failed ? 1 : 0;
}

struct KvCommand {
  KvLoad load;
  std::string mix = "get";
  std::vector<std::string> designs;
  std::string path;
  std::string json_path;
};

constexpr std::string_view kAll = "all";

// Each once, ours first.
std::vector<std::string> designs_of(const std::vector<std::string>& named) {
  const auto is_named = [&named](std::string_view name) {
    return std::ranges::any_of(named, [name](const auto& each) { return each == name || each == kAll; });
  };
  std::vector<std::string> designs;
  if (named.empty() || is_named(kOurs)) designs.emplace_back(kOurs);
  for (const kv::designs::Design& design : kv::designs::all()) {
    if (is_named(design.name)) designs.emplace_back(design.name);
  }
  return designs;
}

std::vector<std::string> design_names() {
  std::vector<std::string> names = designs_of({std::string(kAll)});
  names.emplace_back(kAll);
  return names;
}

// Beside other designs ours goes by all its paths, unless one is named.
Reported<std::vector<Path>> chosen_paths(const KvCommand& command) {
  const KvLoad& load = command.load;
  if (!command.path.empty() && !load.has(kOurs)) {
    return report(Code::kInvalidArgument,
                  fmt::format("--path {}: {} has one way of its own", command.path, load.designs.front()),
                  fmt::format("--path is for {}; leave it out, or add --design {}", kOurs, kOurs));
  }
  if (command.path == text(Path::kDirect) && load.provider == Provider::kTcp) {
    return report(Code::kInvalidArgument, "--path direct: over tcp nobody reads a node's memory directly",
                  "use chain or rpc, or --provider shm");
  }
  for (const Path path : {Path::kDirect, Path::kChain, Path::kRpc}) {
    if (command.path == text(path)) return std::vector{path};
  }
  if (command.path == kAll || load.designs.size() > 1) return std::vector<Path>{};
  return std::vector{Path::kDirect};
}

Reported<double> get_share_of(const std::string& mix) {
  if (mix == "get") return 1.0;
  if (mix == "put") return 0.0;
  if (mix == "mixed") return 0.5;
  double percent = 0;
  const auto [end, error] = std::from_chars(mix.data(), mix.data() + mix.size(), percent);
  if (error == std::errc() && end == mix.data() + mix.size() && percent >= 0 && percent <= 100) {
    return percent / 100;
  }
  return report(Code::kInvalidArgument, fmt::format("--mix {}: expected get, put, mixed or a number", mix),
                "a number is the percentage of gets, such as 95");
}

int run_kv(KvCommand& command, bool has_turns) {
  KvLoad& load = command.load;
  const Reported<double> get_share = get_share_of(command.mix);
  if (!get_share) return refuse(get_share.error());
  load.workload.get_share = *get_share;
  load.designs = designs_of(command.designs);
  Reported<std::vector<Path>> paths = chosen_paths(command);
  if (!paths) return refuse(paths.error());
  load.paths = std::move(*paths);
  // Alternation is what makes a ratio of two sides worth anything.
  const bool has_sides = load.beside_redis || load.designs.size() > 1 || load.paths.size() != 1;
  if (has_sides && !has_turns) load.turns = 3;
  if (const Reported<> possible = check(load); !possible) return refuse(possible.error());
  const Reported<KvResult> result = run_kv_load(load);
  if (!result) return refuse(result.error());
  if (command.json_path != "-") fmt::print("{}", lines_of(load, *result));
  return command.json_path.empty() ? 0 : write_file(command.json_path, json_of(load, *result));
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

void describe_entries(CLI::App& app, KvCommand& command) {
  WorkloadOptions& workload = command.load.workload;
  app.add_option("--keys", workload.keys, "how many keys")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--key-bytes", workload.key_bytes, "bytes of a key")
      ->check(CLI::Range(kKeyBytesMin, kKeyBytesMax))
      ->capture_default_str();
  app.add_option("--value-bytes", workload.value_bytes, "bytes of a value")
      ->check(CLI::Range(size_t{0}, size_t{512} << 20))
      ->capture_default_str();
  app.add_option("--mix", command.mix, "get, put, mixed (half of each), or the percentage of gets")
      ->capture_default_str();
  app.add_option("--zipf", workload.skew, "skew of the keys, 0: uniform")->check(CLI::Range(0.0, 0.999));
  app.add_option("--seconds", workload.seconds, "stop a turn after so long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--ops", workload.operations, "stop a turn after so many operations");
  app.add_option("--rate", workload.rate, "operations a second; latency counts from when each was due")
      ->check(CLI::NonNegativeNumber);
}

void describe_kv(CLI::App& app, KvCommand& command) {
  const std::map<std::string, Provider> providers = {{"shm", Provider::kShm}, {"tcp", Provider::kTcp}};
  const std::map<std::string, Waiting> waitings = {
      {"adaptive", Waiting::kAdaptive}, {"poll", Waiting::kPolling}, {"block", Waiting::kBlocking}};
  KvLoad& load = command.load;
  CLI::Option* address =
      app.add_option("--address,--socket", load.address, "the node to load (default: a private one)");
  app.add_option("--design", command.designs,
                 "the stores under the load, in turns: refract (ours), published designs, or all of them")
      ->delimiter(',')
      ->check(CLI::IsMember(design_names()));
  app.add_option("--provider", load.provider, "of private nodes and other designs' servers: shm or tcp")
      ->transform(CLI::CheckedTransformer(providers))
      ->excludes(address);
  app.add_option("--path", command.path,
                 "of our gets: direct (over shm), rpc (by messages), chain, which puts take, too, or all")
      ->check(CLI::IsMember({"direct", "chain", "rpc", "all"}));
  app.add_option("--shards", load.shards, "of a private node")->check(CLI::Range(1, 256))->excludes(address);
  describe_entries(app, command);
  app.add_option("--clients", load.clients, "each with its thread and connections")
      ->check(CLI::Range(1, 256));
  app.add_option("--depth", load.driver.depth, "operations in flight, of each client")
      ->check(CLI::Range(1, 4096));
  app.add_option("--batch", load.driver.batch,
                 "of which so many are asked for together (multi_get, multi_put)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--waiting", load.driver.waiting,
                 "what clients and a private server do when there is nothing to do: adaptive, poll or block")
      ->transform(CLI::CheckedTransformer(waitings));
  app.add_flag("--sweep", load.sweep, "a sweep of rates, up to half more than can be served");
  app.add_option("--turns", load.turns, "repeat, and show the median and the range")
      ->check(CLI::Range(1, 1000));
  app.add_option_function<std::string>(
         "--beside", [&load](const std::string&) { load.beside_redis = true; },
         "redis: the same load on a Redis of our own over TCP, in turns (--turns 3 unless said, as wherever "
         "there is more than one side)")
      ->check(CLI::IsMember({"redis"}));
  app.add_option("--json", command.json_path, "write the result to this file as JSON ('-': standard output)");
  app.add_option("--node-program", load.node_program,
                 "refractd for a private node (default: beside this program)");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures Refract: what it promises, a load of your choice, and a page of the result.");
  app.require_subcommand(1);
  BarsCommand bars_command;
  KvCommand kv_command;
  std::string report_json_path;
  std::string report_html_path = "report.html";
  CLI::App& bars_app = *app.add_subcommand("bars", "measure every promise, one line each");
  describe_bars(bars_app, bars_command);
  CLI::App& kv_app = *app.add_subcommand("kv", "load on a node: throughput and latencies");
  describe_kv(kv_app, kv_command);
  SuiteCommand suite_command;
  CLI::App& suite_app =
      *app.add_subcommand("suite", "a claim of README.md measured, or a published experiment rebuilt");
  describe_suites(suite_app, suite_command);
  FabricCommand fabric_command;
  CLI::App& fabric_app = *app.add_subcommand(
      "fabric", "every operation of every provider over sizes, beside UCX, libfabric and perftest");
  describe_fabric(fabric_app, fabric_command);
  GrowthCommand growth_command;
  CLI::App& growth_app = *app.add_subcommand(
      "growth", "how cost grows with keys, connections, shards and bytes of a value, as curves");
  describe_growth(growth_app, growth_command);
  CLI::App& report_app = *app.add_subcommand("report", "a page with plots from what --json wrote");
  report_app.add_option("json", report_json_path, "what 'bars', 'kv', 'fabric' or 'growth' wrote by --json")
      ->required();
  report_app.add_option("-o,--output", report_html_path, "the page")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (bars_app.parsed()) return run_bars(bars_command);
  if (suite_app.parsed()) {
    const Reported<SuiteReport> suites = run_suite_command(suite_command);
    if (!suites) return refuse(suites.error());
    const int code = suite_command.json_path.empty() ? 0 : write_file(suite_command.json_path, suites->json);
    return suites->has_failed ? 1 : code;
  }
  if (fabric_app.parsed()) {
    const Reported<std::string> json = run_fabric_command(fabric_command);
    if (!json) return refuse(json.error());
    return fabric_command.json_path.empty() ? 0 : write_file(fabric_command.json_path, *json);
  }
  if (growth_app.parsed()) {
    const Reported<std::string> json = run_growth_command(growth_command);
    if (!json) return refuse(json.error());
    return growth_command.json_path.empty() ? 0 : write_file(growth_command.json_path, *json);
  }
  if (kv_app.parsed()) return run_kv(kv_command, kv_app.count("--turns") > 0);
  return run_report(report_json_path, report_html_path);
}
