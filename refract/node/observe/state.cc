// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/state.h"

#include <nlohmann/json.hpp>

namespace refract::observe {
namespace {

using Json = nlohmann::json;

// A histogram of more buckets than a real one has is cut, so that nobody's text costs more than its length.
constexpr size_t kPairsMax = 4'096;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::unexpected<Report> not_understood(const char* what) {
  return report(Code::kMalformed, std::string("the node's ") + what + " is not what this version understands",
                "is the node of another version? compare: refract --version, refractd --version");
}

Json pairs_of(const Histogram& histogram) {
  Json pairs = Json::array();
  histogram.visit([&](uint64_t value, uint64_t times) { pairs.push_back(Json::array({value, times})); });
  return pairs;
}

// The readers of hostile text: each looks before it takes.
uint64_t number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::string text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Json& member(const Json& object, const char* name) {
  static const Json kNothing = Json::object();
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : kNothing;
}

Histogram histogram(const Json& object, const char* name) {
  Histogram out;
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return out;
  size_t pairs = 0;
  for (const Json& pair : *found) {
    if (++pairs > kPairsMax) break;
    if (!pair.is_array() || pair.size() != 2) continue;
    if (!pair[0].is_number_unsigned() || !pair[1].is_number_unsigned()) continue;
    out.record_n(pair[0].get<uint64_t>(), pair[1].get<uint64_t>());
  }
  return out;
}

Json memory_json(const MemoryState& memory) {
  return {{"total", memory.total},     {"free", memory.free},   {"live", memory.live},
          {"retired", memory.retired}, {"table", memory.table}, {"largest_free_run", memory.largest_free_run},
          {"pins", memory.pins}};
}

MemoryState memory_of(const Json& object) {
  return {.total = number(object, "total"),
          .free = number(object, "free"),
          .live = number(object, "live"),
          .retired = number(object, "retired"),
          .table = number(object, "table"),
          .largest_free_run = number(object, "largest_free_run"),
          .pins = number(object, "pins")};
}

Json entries_json(const EntriesState& entries) {
  return {{"count", entries.count},     {"expiring", entries.expiring},
          {"expired", entries.expired}, {"buckets", entries.buckets},
          {"splits", entries.splits},   {"overflow_lines", entries.overflow_lines}};
}

EntriesState entries_of(const Json& object) {
  return {.count = number(object, "count"),
          .expiring = number(object, "expiring"),
          .expired = number(object, "expired"),
          .buckets = number(object, "buckets"),
          .overflow_lines = number(object, "overflow_lines"),
          .splits = number(object, "splits")};
}

}  // namespace

std::string to_json(const ShardState& state) {
  Json json = {{"identity", state.identity},
               {"incarnation", state.incarnation},
               {"shard", state.shard_index},
               {"shards", state.shard_count},
               {"process", state.process},
               {"now_ns", state.now_ns},
               {"uptime_ns", state.uptime_ns},
               {"cpu_ns", state.cpu_ns},
               {"sleeps", state.sleeps},
               {"operations", state.operations},
               {"connections", state.connections},
               {"uploads", state.uploads},
               {"views", state.views},
               {"waiting_for_memory", state.waiting_for_memory},
               {"memory", memory_json(state.memory)},
               {"entries", entries_json(state.entries)},
               {"batches", state.batches},
               {"batch_ns", pairs_of(state.batch_ns)},
               {"batch_calls", pairs_of(state.batch_calls)}};
  Json& methods = json["methods"] = Json::array();
  for (const MethodUse& use : state.methods) {
    methods.push_back({{"name", use.name}, {"calls", use.calls}, {"service_ns", pairs_of(use.service_ns)}});
  }
  Json& counters = json["counters"] = Json::object();
  for (const auto& [name, count] : state.counters) counters[name] = count;
  return text_of(json);
}

Reported<ShardState> shard_state_of(std::string_view text_given) {
  const Json json = Json::parse(text_given, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return not_understood("state");
  ShardState state{.incarnation = number(json, "incarnation"),
                   .shard_index = static_cast<uint32_t>(number(json, "shard")),
                   .shard_count = static_cast<uint32_t>(number(json, "shards")),
                   .process = number(json, "process"),
                   .now_ns = number(json, "now_ns"),
                   .uptime_ns = number(json, "uptime_ns"),
                   .cpu_ns = number(json, "cpu_ns"),
                   .sleeps = number(json, "sleeps"),
                   .operations = number(json, "operations"),
                   .connections = number(json, "connections"),
                   .uploads = number(json, "uploads"),
                   .views = number(json, "views"),
                   .waiting_for_memory = number(json, "waiting_for_memory"),
                   .memory = memory_of(member(json, "memory")),
                   .entries = entries_of(member(json, "entries")),
                   .batches = number(json, "batches"),
                   .batch_ns = histogram(json, "batch_ns"),
                   .batch_calls = histogram(json, "batch_calls"),
                   .methods = {},
                   .counters = {}};
  if (const auto identity = json.find("identity");
      identity != json.end() && identity->is_array() && identity->size() == 2) {
    for (size_t i = 0; i < 2; ++i) {
      if ((*identity)[i].is_number_unsigned()) state.identity[i] = (*identity)[i].get<uint64_t>();
    }
  }
  if (const auto methods = json.find("methods"); methods != json.end() && methods->is_array()) {
    for (const Json& use : *methods) {
      if (!use.is_object()) continue;
      state.methods.push_back({.name = text(use, "name"),
                               .calls = number(use, "calls"),
                               .service_ns = histogram(use, "service_ns")});
    }
  }
  for (const auto& [name, count] : member(json, "counters").items()) {
    if (count.is_number_unsigned()) state.counters.emplace_back(name, count.get<uint64_t>());
  }
  return state;
}

std::string to_json(const ConnectionPage& page) {
  Json rows = Json::array();
  for (const ConnectionState& one : page.connections) {
    rows.push_back({{"place", one.place},
                    {"transport", one.transport},
                    {"peer", one.peer},
                    {"reason", one.reason},
                    {"age_ns", one.age_ns},
                    {"idle_ns", one.idle_ns},
                    {"calls", one.calls},
                    {"received_bytes", one.received_bytes},
                    {"sent_bytes", one.sent_bytes},
                    {"in_flight", one.in_flight},
                    {"waiting_replies", one.waiting_replies}});
  }
  return text_of({{"next", page.next}, {"connections", rows}});
}

Reported<ConnectionPage> connection_page_of(std::string_view text_given) {
  const Json json = Json::parse(text_given, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return not_understood("list of connections");
  ConnectionPage page{.connections = {}, .next = number(json, "next")};
  const auto rows = json.find("connections");
  if (rows == json.end() || !rows->is_array()) return not_understood("list of connections");
  for (const Json& row : *rows) {
    if (!row.is_object()) continue;
    page.connections.push_back({.place = number(row, "place"),
                                .transport = text(row, "transport"),
                                .peer = text(row, "peer"),
                                .reason = text(row, "reason"),
                                .age_ns = number(row, "age_ns"),
                                .idle_ns = number(row, "idle_ns"),
                                .calls = number(row, "calls"),
                                .received_bytes = number(row, "received_bytes"),
                                .sent_bytes = number(row, "sent_bytes"),
                                .in_flight = number(row, "in_flight"),
                                .waiting_replies = number(row, "waiting_replies")});
  }
  return page;
}

}  // namespace refract::observe
