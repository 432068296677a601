// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/state.h"

#include <nlohmann/json.hpp>

#include "refract/node/observe/lenient_json.h"

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

// As lenient_json.h has it.
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
  return {.total = number_in(object, "total"),
          .free = number_in(object, "free"),
          .live = number_in(object, "live"),
          .retired = number_in(object, "retired"),
          .table = number_in(object, "table"),
          .largest_free_run = number_in(object, "largest_free_run"),
          .pins = number_in(object, "pins")};
}

Json entries_json(const EntriesState& entries) {
  return {{"count", entries.count},     {"expiring", entries.expiring},
          {"expired", entries.expired}, {"buckets", entries.buckets},
          {"splits", entries.splits},   {"overflow_lines", entries.overflow_lines}};
}

EntriesState entries_of(const Json& object) {
  return {.count = number_in(object, "count"),
          .expiring = number_in(object, "expiring"),
          .expired = number_in(object, "expired"),
          .buckets = number_in(object, "buckets"),
          .overflow_lines = number_in(object, "overflow_lines"),
          .splits = number_in(object, "splits")};
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
  json["data"] = json_of(state.data);
  Json& counters = json["counters"] = Json::object();
  for (const auto& [name, count] : state.counters) counters[name] = count;
  return text_of(json);
}

Reported<ShardState> shard_state_of(std::string_view text_given) {
  const Json json = Json::parse(text_given, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return not_understood("state");
  ShardState state{.incarnation = number_in(json, "incarnation"),
                   .shard_index = static_cast<uint32_t>(number_in(json, "shard")),
                   .shard_count = static_cast<uint32_t>(number_in(json, "shards")),
                   .process = number_in(json, "process"),
                   .now_ns = number_in(json, "now_ns"),
                   .uptime_ns = number_in(json, "uptime_ns"),
                   .cpu_ns = number_in(json, "cpu_ns"),
                   .sleeps = number_in(json, "sleeps"),
                   .operations = number_in(json, "operations"),
                   .connections = number_in(json, "connections"),
                   .uploads = number_in(json, "uploads"),
                   .views = number_in(json, "views"),
                   .waiting_for_memory = number_in(json, "waiting_for_memory"),
                   .memory = memory_of(member_of(json, "memory")),
                   .entries = entries_of(member_of(json, "entries")),
                   .batches = number_in(json, "batches"),
                   .batch_ns = histogram(json, "batch_ns"),
                   .batch_calls = histogram(json, "batch_calls"),
                   .methods = {},
                   .data = data_state_of(member_of(json, "data")),
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
      state.methods.push_back({.name = text_in(use, "name"),
                               .calls = number_in(use, "calls"),
                               .service_ns = histogram(use, "service_ns")});
    }
  }
  for (const auto& [name, count] : member_of(json, "counters").items()) {
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
  ConnectionPage page{.connections = {}, .next = number_in(json, "next")};
  const auto rows = json.find("connections");
  if (rows == json.end() || !rows->is_array()) return not_understood("list of connections");
  for (const Json& row : *rows) {
    if (!row.is_object()) continue;
    page.connections.push_back({.place = number_in(row, "place"),
                                .transport = text_in(row, "transport"),
                                .peer = text_in(row, "peer"),
                                .reason = text_in(row, "reason"),
                                .age_ns = number_in(row, "age_ns"),
                                .idle_ns = number_in(row, "idle_ns"),
                                .calls = number_in(row, "calls"),
                                .received_bytes = number_in(row, "received_bytes"),
                                .sent_bytes = number_in(row, "sent_bytes"),
                                .in_flight = number_in(row, "in_flight"),
                                .waiting_replies = number_in(row, "waiting_replies")});
  }
  return page;
}

}  // namespace refract::observe
