// SPDX-License-Identifier: Apache-2.0
// `refract-bench kv`.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "bench/kv/kv_results.h"
#include "bench/report/command.h"

#include "refract/kv/designs/designs.h"

namespace refract::bench {
namespace {

struct KvCommand final : public BenchCommand {
  KvLoad load;
  std::string mix = "get";
  std::string ycsb;
  std::vector<std::string> designs;
  std::string path;
  arguments::Given sweep;  // Of rates, where nothing is said.

  KvCommand() : BenchCommand("kv", "load on a node: throughput and latencies") {}
  void describe(arguments::Command& app) override;
  [[nodiscard]] Reported<Found> run(const arguments::Command& app, bool is_shown) override;
} kv_command;

using arguments::Between;
using arguments::Sign;
using arguments::Words;

constexpr std::string_view kAll = "all";
const std::map<std::string, Sweep> kSweeps = {{"rate", Sweep::kRate},
                                              {"depth", Sweep::kDepth},
                                              {"clients", Sweep::kClients},
                                              {"shards", Sweep::kShards},
                                              {"size", Sweep::kSize}};
const std::map<std::string, KvPeer> kPeerNames = {{"redis", KvPeer::kRedis},
                                                  {"memcached", KvPeer::kMemcached},
                                                  {"cuckoo", KvPeer::kCuckoo},
                                                  {"table", KvPeer::kTable}};

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
    return report(Code::kInvalidArgument, "--path direct: over tcp no client reads a node's memory directly",
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

void describe_entries(arguments::Command& app, KvCommand& command) {
  WorkloadOptions& workload = command.load.workload;
  app.add({.names = "--keys",
           .to = &workload.keys,
           .help = "how many keys",
           .limit = Sign::kPositive,
           .shows_default = true});
  app.add({.names = "--key-bytes",
           .to = &workload.key_bytes,
           .help = "bytes of a key",
           .limit = Between<uint64_t>{kKeyBytesMin, kKeyBytesMax},
           .shows_default = true});
  app.add({.names = "--value-bytes",
           .to = &workload.value_bytes,
           .help = "bytes of a value",
           .limit = Between<uint64_t>{0, uint64_t{512} << 20},
           .shows_default = true});
  app.add({.names = "--mix",
           .to = &command.mix,
           .help = "get, put, mixed (half of each), or the percentage of gets",
           .shows_default = true});
  app.add({.names = "--workload",
           .to = &command.ycsb,
           .help =
               "instead of a mix, YCSB's a (half gets), b (95 % gets), c (gets), d (gets of the latest, 5 % "
               "inserts), e (scans, 5 % inserts) or f (half gets, half gets that a put follows)",
           .limit = Words{"a", "b", "c", "d", "e", "f"},
           .excludes = "--mix"});
  app.add({.names = "--zipf",
           .to = &workload.skew,
           .help = "skew of the keys, 0: uniform (0.99 with --workload, else 0)",
           .limit = Between<double>{0.0, 0.999}});
  app.add({.names = "--seconds",
           .to = &workload.seconds,
           .help = "stop a turn after so long",
           .limit = Sign::kPositive,
           .shows_default = true});
  app.add({.names = "--ops", .to = &workload.operations, .help = "stop a turn after so many operations"});
  app.add({.names = "--rate",
           .to = &workload.rate,
           .help = "operations a second; latency counts from when each was due",
           .limit = Sign::kNotNegative});
}

Reported<Found> run_sweep(const KvLoad& load, bool is_shown) {
  if (const Reported<> possible = check_sweep(load); !possible) return report(possible.error());
  const Reported<KvSweep> sweep = run_kv_sweep(load);
  if (!sweep) return report(sweep.error());
  if (is_shown) fmt::print("{}", lines_of(load, *sweep));
  return Found{.findings = findings_of(load, *sweep)};
}

void KvCommand::describe(arguments::Command& app) {
  const std::map<std::string, Provider> providers = {{"shm", Provider::kShm}, {"tcp", Provider::kTcp}};
  const std::map<std::string, Waiting> waitings = {
      {"adaptive", Waiting::kAdaptive}, {"poll", Waiting::kPolling}, {"block", Waiting::kBlocking}};
  app.add({.names = "--address,--socket",
           .to = &load.address,
           .help = "the node to load (default: a private one)"});
  app.add({.names = "--design",
           .to = &designs,
           .help = "the stores under the load, in turns: refract (ours), published designs, or all of them",
           .limit = design_names(),
           .separator = ','});
  app.add({.names = "--provider",
           .to = arguments::one_of(providers, load.provider),
           .help = "of private nodes and other designs' servers: shm or tcp",
           .excludes = "--address"});
  app.add({.names = "--path",
           .to = &path,
           .help = "of our gets: direct (over shm), rpc (by messages), chain, which puts take, too, or all",
           .limit = Words{"direct", "chain", "rpc", "all"}});
  app.add({.names = "--shards",
           .to = &load.shards,
           .help = "of a private node",
           .limit = Between<int>{1, 256},
           .excludes = "--address"});
  describe_entries(app, *this);
  app.add({.names = "--clients",
           .to = &load.clients,
           .help = "each with its thread and connections",
           .limit = Between<int>{1, 256}});
  app.add({.names = "--depth",
           .to = &load.driver.depth,
           .help = "operations in flight, of each client",
           .limit = Between<int>{1, 4096}});
  app.add({.names = "--batch",
           .to = &load.driver.batch,
           .help = "of which so many are asked for together (multi_get, multi_put)",
           .limit = Between<int>{1, 4096}});
  app.add(
      {.names = "--waiting",
       .to = arguments::one_of(waitings, load.driver.waiting),
       .help = "what clients and a private server do when there is nothing to do: adaptive, poll or block"});
  app.add(
      {.names = "--sweep",
       .to = &sweep,
       .help =
           "go over rate (up to half more than can be served; the default), depth (1 to 256), clients (1 to "
           "16), shards (1 to 8) or size (values of 16 B to 4 MiB), all sides in turns at each point",
       .limit = Words{"", "rate", "depth", "clients", "shards", "size"},
       .may_be_bare = true});
  app.add({.names = "--turns",
           .to = &load.turns,
           .help = "repeat, and show the median and the range",
           .limit = Between<int>{1, 1000}});
  app.add({.names = "--beside",
           .to = arguments::some_of(kPeerNames, load.beside),
           .help =
               "the same load in turns on redis or memcached (servers of our own over TCP), cuckoo or table "
               "(libcuckoo's and our bars' table, in the client's process), or several with commas; "
               "--turns 3 unless said, as wherever there is more than one side",
           .separator = ','});
  app.add({.names = "--node-program",
           .to = &load.node_program,
           .help = "refractd for a private node (default: beside this program)"});
}

Reported<Found> KvCommand::run(const arguments::Command& app, bool is_shown) {
  const Reported<double> get_share = get_share_of(mix);
  if (!get_share) return report(get_share.error());
  load.workload.get_share = *get_share;
  load.ycsb = find_ycsb(ycsb);
  if (load.ycsb != nullptr) {
    load.ycsb->apply_to(load.workload);
    if (!app.has("--zipf")) load.workload.skew = kYcsbSkew;
  }
  if (sweep.is_there) {
    const std::string& over = sweep.last();
    load.sweep = over.empty() ? Sweep::kRate : kSweeps.at(over);
  }
  load.designs = designs_of(designs);
  Reported<std::vector<Path>> paths = chosen_paths(*this);
  if (!paths) return report(paths.error());
  load.paths = std::move(*paths);
  // Alternation is what makes a ratio of two sides worth anything.
  const bool has_sides = !load.beside.empty() || load.designs.size() > 1 || load.paths.size() != 1;
  if (has_sides && !app.has("--turns")) load.turns = 3;
  if (!values_of(load.sweep).empty()) return run_sweep(load, is_shown);
  if (const Reported<> possible = check(load); !possible) return report(possible.error());
  const Reported<KvResult> result = run_kv_load(load);
  if (!result) return report(result.error());
  if (is_shown) fmt::print("{}", lines_of(load, *result));
  return Found{.findings = findings_of(load, *result)};
}

}  // namespace

}  // namespace refract::bench
