// SPDX-License-Identifier: Apache-2.0
// Connections that do nothing: the memory and the processor time that they take.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

#include "bench/bars/bars.h"
#include "bench/bars/doors/door_beside_redis.h"
#include "bench/bars/loaded_node.h"
#include "bench/sides/socket_crowd.h"

#include "refract/base/units.h"

namespace refract::bench::bar_door_idle {
namespace {

constexpr size_t kConnections = 10'000;
constexpr size_t kConnectionsSmall = 100;
constexpr uint64_t kOtherDescriptors = 500;  // Of a process that holds them.
constexpr uint64_t kEntries = 1'000;
constexpr uint64_t kSettled_ns = 500 * kMillisecond_ns;

// As many as are wanted, or as the limit on descriptors allows.
size_t connections_for(const BarRun& run) {
  if (!run.options.judged) return kConnectionsSmall;
  if (allow_descriptors(kConnections + kOtherDescriptors)) return kConnections;
  rlimit limit = {};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > 2 * kOtherDescriptors ? limit.rlim_cur - kOtherDescriptors : kConnectionsSmall;
}

struct Scene {
  DoorBesideRedis sides;
  size_t connections;
};

Reported<Scene> start(const BarRun& run, bool has_redis) {
  const size_t connections = connections_for(run);
  Reported<DoorBesideRedis> sides = DoorBesideRedis::start(
      run,
      {.keys = kEntries, .held = Held::kNothing, .has_redis = has_redis, .redis_clients = connections + 100});
  if (!sides) return report(sides.error());
  // Those that the crowd asks for.
  Reported<Client> client = connect_to(sides->node());
  if (!client) return report(client.error());
  if (const Reported<> loaded = load_entries(*client, kEntries); !loaded) return report(loaded.error());
  if (has_redis) {
    if (const Reported<> loaded = sides->redis().load(kEntries); !loaded) return report(loaded.error());
  }
  return Scene{std::move(*sides), connections};
}

// What a process has more with that many connections than with one, each of which has had a reply.
Reported<double> growth_of(pid_t process, uint16_t port, size_t connections) {
  const auto first = SocketCrowd::connect(CrowdSide::kRedis, port, 1, kEntries);
  if (!first) return report(first.error());
  sleep_ns(kSettled_ns);
  const uint64_t before = test::use_of(process).private_bytes;
  const auto crowd = SocketCrowd::connect(CrowdSide::kRedis, port, connections, kEntries);
  if (!crowd) return report(crowd.error());
  sleep_ns(kSettled_ns);
  const uint64_t after = test::use_of(process).private_bytes;
  return static_cast<double>(after - std::min(before, after));
}

Reported<Outcome> measure_memory(BarRun& run) {
  Reported<Scene> scene = start(run, true);
  if (!scene) return report(scene.error());
  DoorBesideRedis& sides = scene->sides;
  const Reported<Turn> turn = ratio_of(
      {.ours = {"doors", growth_of(sides.node().doors(), sides.door_port(), scene->connections)},
       .theirs = {sides.redis_name(), growth_of(sides.redis().pid(), sides.redis_port(), scene->connections)},
       .unit = "B a connection",
       .scale = 1 / static_cast<double>(scene->connections)});
  if (!turn) return report(turn.error());
  return Outcome{
      .samples = {turn->sample},
      .details = turn->details,
      .blocks = {},
      .note = fmt::format("{} connections, a GET was answered on each; what the process has more of "
                          "private memory then; what the kernel has for sockets is in neither",
                          scene->connections)};
}

Reported<Outcome> measure_time(BarRun& run) {
  const Reported<Scene> scene = start(run, false);
  if (!scene) return report(scene.error());
  const PrivateNode& node = scene->sides.node();
  const auto crowd = SocketCrowd::connect(CrowdSide::kRedis, node.door_port(), scene->connections, kEntries);
  if (!crowd) return report(crowd.error());
  sleep_ns(kSettled_ns);
  const std::array<pid_t, 3> processes = {node.keeper(), node.server(), node.doors()};
  constexpr std::array<const char*, 3> kNames = {"keeper", "server", "doors"};
  std::array<test::ProcessUse, 3> before;
  for (size_t i = 0; i < processes.size(); ++i) before[i] = test::use_of(processes[i]);
  const uint64_t start_ns = now_ns();
  sleep_ns(run.options.idle_ns);
  const double seconds = static_cast<double>(now_ns() - start_ns) * 1e-9;
  if (node.server() != processes[1] || node.doors() != processes[2]) {
    return report(Code::kUnavailable, "server or doors did not outlive connections that do nothing");
  }
  Outcome outcome;
  double total_ms = 0;
  for (size_t i = 0; i < processes.size(); ++i) {
    const test::ProcessUse after = test::use_of(processes[i]);
    const double ms = static_cast<double>(after.cpu_ns - before[i].cpu_ns) * 1e-6;
    total_ms += ms;
    outcome.details.push_back({kNames[i], ms, "ms"});
    outcome.details.push_back({fmt::format("{} woken", kNames[i]),
                               static_cast<double>(after.context_switches - before[i].context_switches),
                               "times"});
  }
  outcome.samples = {total_ms / seconds};
  outcome.note = fmt::format("over {:.1f} s; {} connections", seconds, scene->connections);
  return outcome;
}

const BarRows kRows = {
    {"door-idle-memory", "memory of idle connections, doors / Redis", "at most 1.0", Sense::kAtMost, 1, "x",
     measure_memory},
    {"door-idle-time", "processor time of keeper, server and doors with them", "under 1 ms/s", Sense::kAtMost,
     1, "ms/s", measure_time},
};

}  // namespace
}  // namespace refract::bench::bar_door_idle
