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

}  // namespace

std::string to_json(const ShardState& state) {
  Json json = json_of_rows(state);
  json["identity"] = state.identity;
  json["memory"] = json_of_rows(state.memory);
  json["entries"] = json_of_rows(state.entries);
  json["batch_ns"] = pairs_of(state.batch_ns);
  json["batch_calls"] = pairs_of(state.batch_calls);
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
  auto state = state_of_rows<ShardState>(json);
  state.memory = state_of_rows<MemoryState>(member_of(json, "memory"));
  state.entries = state_of_rows<EntriesState>(member_of(json, "entries"));
  state.batch_ns = histogram(json, "batch_ns");
  state.batch_calls = histogram(json, "batch_calls");
  state.data = data_state_of(member_of(json, "data"));
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

nlohmann::json json_of(const MemoryState& state) {
  return json_of_rows(state);
}

std::string to_json(const ConnectionPage& page) {
  Json listed = Json::array();
  for (const ConnectionState& one : page.connections) listed.push_back(json_of_rows(one));
  return text_of({{"next", page.next}, {"connections", listed}});
}

Reported<ConnectionPage> connection_page_of(std::string_view text_given) {
  const Json json = Json::parse(text_given, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return not_understood("list of connections");
  ConnectionPage page{.connections = {}, .next = number_in(json, "next")};
  const auto rows = json.find("connections");
  if (rows == json.end() || !rows->is_array()) return not_understood("list of connections");
  for (const Json& row : *rows) {
    if (!row.is_object()) continue;
    page.connections.push_back(state_of_rows<ConnectionState>(row));
  }
  return page;
}

}  // namespace refract::observe
