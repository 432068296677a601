// SPDX-License-Identifier: Apache-2.0
// stat, ping: how the node is.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

#include "apps/progress/progress.h"
#include "apps/refract/commands.h"
#include "apps/refract/data_text.h"
#include "apps/refract/node_link.h"
#include "apps/refract/terminal.h"

#include "refract/base/units.h"
#include "refract/documents/value.h"

namespace refract::cli {
namespace {

using Json = documents::Value;
using progress::bytes_text;
using progress::count_text;

std::string span_of_time(uint64_t ns) {
  return progress::duration_text(static_cast<double>(ns) / 1e9);
}

std::string microseconds_text(uint64_t ns) {
  return fmt::format("{:.1f} us", static_cast<double>(ns) / 1e3);
}

// The memory as a bar: # live, - retired (reusable soon), . the rest.
std::string memory_bar(const NodeStat& stat) {
  constexpr uint64_t kCells = 40;
  const double total = static_cast<double>(stat.bytes_total > 0 ? stat.bytes_total : 1);
  const auto cells = [&](uint64_t bytes) {
    const auto rounded = static_cast<uint64_t>(std::llround(static_cast<double>(bytes) / total * kCells));
    return rounded == 0 && bytes > 0 ? 1 : rounded < kCells ? rounded : kCells;
  };
  const uint64_t held = stat.bytes_live - (stat.bytes_retired < stat.bytes_live ? stat.bytes_retired : 0);
  std::string bar(cells(held), '#');
  bar.append(cells(stat.bytes_retired), '-');
  bar.resize(kCells, '.');
  return "[" + bar + "]";
}

std::string stat_table(const NodeStat& stat, const Route& route) {
  const uint64_t held = stat.bytes_live - (stat.bytes_retired < stat.bytes_live ? stat.bytes_retired : 0);
  const uint64_t rest = stat.bytes_total - (stat.bytes_live + stat.bytes_free < stat.bytes_total
                                                ? stat.bytes_live + stat.bytes_free
                                                : stat.bytes_total);
  const double share = stat.bytes_total == 0 ? 0
                                             : 100 * static_cast<double>(stat.bytes_live) /
                                                   static_cast<double>(stat.bytes_total);
  std::string out = fmt::format("node         {}\n", route.address);
  if (!route.nodes.empty()) {
    out += fmt::format("nodes        {}: what is counted below is of all of them\n", route.nodes.size());
  }
  out += fmt::format("server       {}, up {}, incarnation {}, process {}\n", route.server,
                     span_of_time(stat.uptime_ns), route.incarnation, route.server_pid);
  out += fmt::format("entries      {}", count_text(stat.entries));
  if (stat.expiring_entries > 0) out += fmt::format(", {} of them expire", count_text(stat.expiring_entries));
  if (stat.expired > 0) out += fmt::format("; {} have expired", count_text(stat.expired));
  out += fmt::format("\ntable        {} buckets, {} overflow lines, {} splits\n", count_text(stat.buckets),
                     count_text(stat.overflow_lines), count_text(stat.splits));
  out += fmt::format("memory       {} {:.0f} % of {} in {} region{}\n", memory_bar(stat), share,
                     bytes_text(stat.bytes_total), route.regions, route.regions == 1 ? "" : "s");
  const std::array rows = {std::pair("# live", held), std::pair("- reusable soon", stat.bytes_retired),
                           std::pair(". room in chunks", rest), std::pair(". free", stat.bytes_free)};
  for (const auto& [name, bytes] : rows) {
    out += fmt::format("             {:<16} {:>10}\n", name, bytes_text(bytes));
  }
  out += fmt::format("connections  {}\n", stat.connections);
  out += fmt::format("writes       {}\n", count_text(stat.writes));
  out += "calls       ";
  for (const auto& [name, count] : stat.calls) {
    if (count > 0) out += fmt::format(" {} {}", name, count_text(count));
  }
  return out + "\n";
}

Json stat_json(const NodeStat& stat, const Route& route) {
  Json calls = Json::object();
  for (const auto& [name, count] : stat.calls) calls.append_member(name, count);
  return {{"address", route.address},
          {"server", route.server},
          {"incarnation", route.incarnation},
          {"server_pid", route.server_pid},
          {"regions", route.regions},
          {"uptime_ns", stat.uptime_ns},
          {"connections", stat.connections},
          {"entries", stat.entries},
          {"expiring_entries", stat.expiring_entries},
          {"expired", stat.expired},
          {"buckets", stat.buckets},
          {"overflow_lines", stat.overflow_lines},
          {"splits", stat.splits},
          {"bytes_total", stat.bytes_total},
          {"bytes_free", stat.bytes_free},
          {"bytes_live", stat.bytes_live},
          {"bytes_retired", stat.bytes_retired},
          {"buffers_live", stat.buffers_live},
          {"writes", stat.writes},
          {"calls", calls}};
}

// What each shard has, where there are several.
std::string shard_table(std::span<const observe::ShardState> shards) {
  std::string out =
      fmt::format("\n{:<6} {:>12} {:>10} {:>10} {:>10} {:>10} {:>11} {:>11} {:>14}\n", "shard", "entries",
                  "live", "reusable", "table", "free", "largest", "connections", "CPU since start");
  for (const observe::ShardState& shard : shards) {
    const observe::MemoryState& memory = shard.memory;
    out += fmt::format("{:<6} {:>12} {:>10} {:>10} {:>10} {:>10} {:>11} {:>11} {:>15}\n", shard.shard_index,
                       count_text(shard.entries.count), bytes_text(memory.live), bytes_text(memory.retired),
                       bytes_text(memory.table), bytes_text(memory.free), bytes_text(memory.largest_free_run),
                       shard.connections, span_of_time(shard.cpu_ns));
  }
  return out;
}

std::vector<observe::DataState> data_of(std::span<const observe::ShardState> shards) {
  std::vector<observe::DataState> all;
  all.reserve(shards.size());
  for (const observe::ShardState& shard : shards) all.push_back(shard.data);
  return all;
}

Json shards_json(std::span<const observe::ShardState> shards) {
  Json rows = Json::array();
  for (const observe::ShardState& shard : shards) {
    const observe::MemoryState& memory = shard.memory;
    rows.push_back({{"shard", shard.shard_index},
                    {"entries", shard.entries.count},
                    {"live", memory.live},
                    {"retired", memory.retired},
                    {"table", memory.table},
                    {"free", memory.free},
                    {"largest_free_run", memory.largest_free_run},
                    {"connections", shard.connections},
                    {"cpu_ns", shard.cpu_ns}});
  }
  return rows;
}

Reported<std::vector<observe::ShardState>> shard_states(const Invocation& invocation) {
  auto link = NodeLink::open(link_options(invocation));
  if (!link) return report(link.error());
  std::vector<observe::ShardState> states;
  for (size_t shard = 0; shard < (*link)->shard_count(); ++shard) {
    auto state = (*link)->watcher(shard).state();
    if (!state) return report(state.error());
    states.push_back(std::move(*state));
  }
  return states;
}

Json ping_json(const Result<Pong>& pong, uint64_t first_ns, const Route& route) {
  Json others = Json::array();
  for (const OtherTransport& other : route.others) {
    others.push_back({{"transport", other.transport}, {"reason", other.reason}});
  }
  return {{"answers", pong.has_value()},
          {"round_trip_ns", pong ? pong->round_trip_ns : 0},
          {"first_round_trip_ns", first_ns},
          {"address", route.address},
          {"transport", route.transport},
          {"chosen", route.chosen},
          {"others", others},
          {"direct", route.direct},
          {"reason", route.reason},
          {"server", route.server},
          {"incarnation", route.incarnation},
          {"shards", route.shards}};
}

}  // namespace

int run_stat(const Invocation& invocation) {
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  const Result<NodeStat> stat = client->stat();
  if (!stat) return complain(explain(*client, stat.code(), "cannot ask the server"));
  const Route route = client->route();
  const auto shards = shard_states(invocation);
  if (!shards) return complain(shards.error());
  if (invocation.json) {
    Json json = stat_json(*stat, route);
    json.append_member("shards", shards_json(*shards));
    json.append_member("data", observe::json_of(whole_of(data_of(*shards))));
    return write_json(json);
  }
  return write_text(stat_table(*stat, route) + data_lines(data_of(*shards)) +
                    (shards->size() > 1 ? shard_table(*shards) : std::string()));
}

int run_ping(const Invocation& invocation) {
  auto client = connect(invocation);
  if (!client) return complain(client.error());
  // The first message finds caches cold and the server asleep; the second is what calls will see.
  Result<Pong> pong = client->ping();
  const Route route = client->route();
  const uint64_t first_ns = pong ? pong->round_trip_ns : 0;
  if (pong) pong = client->ping();
  if (invocation.json) {
    if (const int written = write_json(ping_json(pong, first_ns, route)); written != kDone) return written;
  }
  if (pong && !invocation.json) {
    const std::string text = fmt::format("{} answers in {} (the first time in {})\n", route.address,
                                         microseconds_text(pong->round_trip_ns), microseconds_text(first_ns));
    if (const int written = write_text(text); written != kDone) return written;
  }
  if (invocation.why && !invocation.json) {
    if (const int written = write_text(client->why()); written != kDone) return written;
  }
  if (pong) return kDone;
  Report said = explain(*client, pong.code(), "the server does not answer");
  if (route.direct) {
    said.next += fmt::format("{}get, scan, dump and check still work: they read the node's memory directly",
                             said.next.empty() ? "" : "\n  ");
  }
  return complain(said);
}

}  // namespace refract::cli
