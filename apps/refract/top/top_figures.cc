// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/top/top_figures.h"

#include <algorithm>
#include <map>
#include <utility>

#include "apps/refract/data_text.h"
#include "apps/refract/node_link.h"

#include "refract/documents/json.h"
#include "refract/node/observe/metrics.h"

namespace refract::cli {
namespace {

using observe::ConnectionState;
using observe::ShardState;

Quantiles quantiles_of(const Histogram& histogram) {
  return {.samples = histogram.count(),
          .p50 = histogram.quantile(0.5),
          .p99 = histogram.quantile(0.99),
          .p999 = histogram.quantile(0.999)};
}

double per_second(uint64_t before, uint64_t now, uint64_t interval_ns) {
  if (interval_ns == 0 || now < before) return 0;
  return static_cast<double>(now - before) * 1e9 / static_cast<double>(interval_ns);
}

uint64_t calls_of(const ShardState& state) {
  uint64_t calls = 0;
  for (const observe::MethodUse& use : state.methods) calls += use.calls;
  return calls;
}

const observe::MethodUse* use_of(const ShardState& state, std::string_view name) {
  const auto found = std::ranges::find(state.methods, name, &observe::MethodUse::name);
  return found == state.methods.end() ? nullptr : &*found;
}

// What a shard was before; nothing of it where this is another server.
const ShardState& earlier(const Look& before, const ShardState& now) {
  static const ShardState kNothing;
  for (const ShardState& state : before.shards) {
    const bool same = state.identity == now.identity && state.incarnation == now.incarnation;
    if (same && state.shard_index == now.shard_index && state.now_ns < now.now_ns) return state;
  }
  return kNothing;
}

uint64_t interval_of(const ShardState& before, const ShardState& now) {
  return before.now_ns == 0 ? now.uptime_ns : now.now_ns - before.now_ns;
}

ShardFigures shard_figures(const ShardState& before, const ShardState& now) {
  const uint64_t interval_ns = interval_of(before, now);
  Histogram batch_ns = now.batch_ns;
  batch_ns.subtract(before.batch_ns);
  const uint64_t calls = calls_of(now) - std::min(calls_of(before), calls_of(now));
  const uint64_t batches = now.batches - std::min(before.batches, now.batches);
  return {.index = now.shard_index,
          .calls_per_s = per_second(calls_of(before), calls_of(now), interval_ns),
          .cpu_share = per_second(before.cpu_ns, now.cpu_ns, interval_ns) / 1e9,
          .sleeps_per_s = per_second(before.sleeps, now.sleeps, interval_ns),
          .calls_per_batch = batches == 0 ? 0 : static_cast<double>(calls) / static_cast<double>(batches),
          .batch_ns = quantiles_of(batch_ns),
          .connections = now.connections,
          .waiting_for_memory = now.waiting_for_memory,
          .entries = now.entries,
          .memory = now.memory};
}

struct MethodSum {
  uint64_t calls = 0;
  double calls_per_s = 0;
  Histogram service_ns;
};

std::vector<MethodFigures> method_figures(const Look& before, const Look& now) {
  std::map<std::string, MethodSum> sums;
  for (const ShardState& shard : now.shards) {
    const ShardState& was = earlier(before, shard);
    for (const observe::MethodUse& use : shard.methods) {
      if (use.calls == 0) continue;
      MethodSum& sum = sums[use.name];
      const observe::MethodUse* used = use_of(was, use.name);
      Histogram service_ns = use.service_ns;
      if (used != nullptr) service_ns.subtract(used->service_ns);
      sum.calls += use.calls;
      sum.calls_per_s += per_second(used == nullptr ? 0 : used->calls, use.calls, interval_of(was, shard));
      sum.service_ns.merge(service_ns);
    }
  }
  std::vector<MethodFigures> methods;
  methods.reserve(sums.size());
  for (const auto& [name, sum] : sums) {
    methods.push_back({.name = name,
                       .calls = sum.calls,
                       .calls_per_s = sum.calls_per_s,
                       .service_ns = quantiles_of(sum.service_ns)});
  }
  std::ranges::sort(methods, [](const MethodFigures& a, const MethodFigures& b) {
    if (a.calls_per_s != b.calls_per_s) return a.calls_per_s > b.calls_per_s;
    return a.calls != b.calls ? a.calls > b.calls : a.name < b.name;
  });
  return methods;
}

std::vector<ConnectionFigures> connection_figures(const Look& before, const Look& now) {
  std::map<std::pair<uint32_t, uint64_t>, const ConnectionState*> earlier_ones;
  for (const Look::Connection& one : before.connections) {
    earlier_ones[{one.shard, one.state.place}] = &one.state;
  }
  std::vector<ConnectionFigures> all;
  for (const Look::Connection& one : now.connections) {
    ConnectionFigures figures{.shard = one.shard, .now = one.state};
    const ConnectionState nothing;
    const ConnectionState* was = &nothing;
    uint64_t interval_ns = one.state.age_ns;
    const auto found = earlier_ones.find({one.shard, one.state.place});
    // A younger one has taken the place of one that ended.
    if (found != earlier_ones.end() && found->second->age_ns < one.state.age_ns) {
      was = found->second;
      interval_ns = one.state.age_ns - was->age_ns;
    }
    figures.calls_per_s = per_second(was->calls, one.state.calls, interval_ns);
    figures.received_per_s = per_second(was->received_bytes, one.state.received_bytes, interval_ns);
    figures.sent_per_s = per_second(was->sent_bytes, one.state.sent_bytes, interval_ns);
    all.push_back(std::move(figures));
  }
  std::ranges::sort(all, [](const ConnectionFigures& a, const ConnectionFigures& b) {
    if (a.calls_per_s != b.calls_per_s) return a.calls_per_s > b.calls_per_s;
    if (a.now.calls != b.now.calls) return a.now.calls > b.now.calls;
    return a.shard != b.shard ? a.shard < b.shard : a.now.place < b.now.place;
  });
  return all;
}

documents::Value quantiles_json(const Quantiles& quantiles) {
  return {{"samples", quantiles.samples},
          {"p50", quantiles.p50},
          {"p99", quantiles.p99},
          {"p99.9", quantiles.p999}};
}

documents::Value connection_json(const ConnectionFigures& one) {
  return {{"shard", one.shard},
          {"place", one.now.place},
          {"transport", one.now.transport},
          {"peer", one.now.peer},
          {"reason", one.now.reason},
          {"calls", one.now.calls},
          {"calls_per_s", one.calls_per_s},
          {"received_bytes_per_s", one.received_per_s},
          {"sent_bytes_per_s", one.sent_per_s},
          {"in_flight", one.now.in_flight},
          {"waiting_replies", one.now.waiting_replies},
          {"age_ns", one.now.age_ns},
          {"idle_ns", one.now.idle_ns}};
}

documents::Value shard_json(const ShardFigures& shard) {
  return {{"shard", shard.index},
          {"calls_per_s", shard.calls_per_s},
          {"cpu_share", shard.cpu_share},
          {"sleeps_per_s", shard.sleeps_per_s},
          {"calls_per_batch", shard.calls_per_batch},
          {"batch_ns", quantiles_json(shard.batch_ns)},
          {"connections", shard.connections},
          {"waiting_for_memory", shard.waiting_for_memory},
          {"entries", shard.entries.count},
          {"memory", observe::json_of(shard.memory)}};
}

}  // namespace

Reported<Look> look_at(NodeLink& link, size_t connections_max) {
  Look look{.address = link.address(), .transport = link.transport(), .shards = {}, .connections = {}};
  for (size_t shard = 0; shard < link.shard_count(); ++shard) {
    auto state = link.watcher(shard).state();
    if (!state) return report(state.error());
    look.shards.push_back(std::move(*state));
    auto connections = link.watcher(shard).connections(connections_max);
    if (!connections) return report(connections.error());
    for (ConnectionState& one : *connections) {
      look.connections.push_back({.shard = static_cast<uint32_t>(shard), .state = std::move(one)});
    }
  }
  return look;
}

Figures figures_of(const Look& before, const Look& now) {
  Figures figures;
  figures.address = now.address;
  figures.transport = now.transport;
  if (now.shards.empty()) return figures;
  const ShardState& first = now.shards.front();
  figures.incarnation = first.incarnation;
  figures.process = first.process;
  figures.uptime_ns = first.uptime_ns;
  figures.since_start = earlier(before, first).now_ns == 0;
  figures.interval_ns = interval_of(earlier(before, first), first);
  std::map<std::string, uint64_t> counters;
  for (const ShardState& shard : now.shards) {
    figures.shards.push_back(shard_figures(earlier(before, shard), shard));
    figures.calls_per_s += figures.shards.back().calls_per_s;
    figures.connection_count += shard.connections;
    add(figures.memory, shard.memory);
    add(figures.entries, shard.entries);
    figures.data.push_back(shard.data);
    for (const auto& [name, count] : shard.counters) counters[name] += count;
  }
  figures.counters.assign(counters.begin(), counters.end());
  figures.methods = method_figures(before, now);
  figures.connections = connection_figures(before, now);
  return figures;
}

std::string to_json(const Figures& figures) {
  documents::Value json = {{"address", figures.address},
                           {"transport", figures.transport},
                           {"incarnation", figures.incarnation},
                           {"process", figures.process},
                           {"uptime_ns", figures.uptime_ns},
                           {"since_start", figures.since_start},
                           {"interval_ns", figures.interval_ns},
                           {"calls_per_s", figures.calls_per_s},
                           {"connection_count", figures.connection_count},
                           {"entries", figures.entries.count},
                           {"expiring_entries", figures.entries.expiring},
                           {"memory", observe::json_of(figures.memory)},
                           {"methods", documents::Value::array()},
                           {"shards", documents::Value::array()},
                           {"connections", documents::Value::array()},
                           {"data", observe::json_of(whole_of(figures.data))},
                           {"counters", documents::Value::object()}};
  for (const MethodFigures& method : figures.methods) {
    json["methods"].push_back({{"name", method.name},
                               {"calls", method.calls},
                               {"calls_per_s", method.calls_per_s},
                               {"service_ns", quantiles_json(method.service_ns)}});
  }
  for (const ShardFigures& shard : figures.shards) json["shards"].push_back(shard_json(shard));
  for (const ConnectionFigures& one : figures.connections)
    json["connections"].push_back(connection_json(one));
  for (const auto& [name, count] : figures.counters) json["counters"][name] = count;
  return documents::to_json_line(json);
}

}  // namespace refract::cli
