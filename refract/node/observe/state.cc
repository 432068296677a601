// SPDX-License-Identifier: Apache-2.0
#include "refract/node/observe/state.h"

#include "refract/node/observe/lenient_json.h"

namespace refract::observe {
namespace {

using Json = documents::Value;

// A histogram of more buckets than a real one has is cut, so that no text costs more than its length.
constexpr size_t kPairsMax = 4'096;

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
  const Json* found = object.find(name);
  if (found == nullptr || !found->is_array()) return out;
  size_t pairs = 0;
  for (const Json& pair : *found) {
    if (++pairs > kPairsMax) break;
    if (!pair.is_array() || pair.size() != 2) continue;
    const std::span<const Json> both = pair.elements();
    if (!both[0].is_unsigned() || !both[1].is_unsigned()) continue;
    out.record_n(both[0].as_unsigned(), both[1].as_unsigned());
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
  return documents::to_json_line(json);
}

Reported<ShardState> shard_state_of(std::string_view text_given) {
  const Json json = documents::parse_json(text_given).value_or(Json());
  if (!json.is_object()) return not_understood("state");
  auto state = state_of_rows<ShardState>(json);
  state.memory = state_of_rows<MemoryState>(member_of(json, "memory"));
  state.entries = state_of_rows<EntriesState>(member_of(json, "entries"));
  state.batch_ns = histogram(json, "batch_ns");
  state.batch_calls = histogram(json, "batch_calls");
  state.data = data_state_of(member_of(json, "data"));
  if (const Json* identity = json.find("identity"); identity != nullptr && identity->size() == 2) {
    const std::span<const Json> halves = identity->elements();
    for (size_t i = 0; i < halves.size(); ++i) {
      if (halves[i].is_unsigned()) state.identity[i] = halves[i].as_unsigned();
    }
  }
  if (const Json* methods = json.find("methods"); methods != nullptr) {
    for (const Json& use : *methods) {
      if (!use.is_object()) continue;
      state.methods.push_back({.name = text_in(use, "name"),
                               .calls = number_in(use, "calls"),
                               .service_ns = histogram(use, "service_ns")});
    }
  }
  for (const auto& [name, count] : member_of(json, "counters").members()) {
    if (count.is_unsigned()) state.counters.emplace_back(name, count.as_unsigned());
  }
  return state;
}

documents::Value json_of(const MemoryState& state) {
  return json_of_rows(state);
}

std::string to_json(const ConnectionPage& page) {
  Json listed = Json::array();
  for (const ConnectionState& one : page.connections) listed.push_back(json_of_rows(one));
  return documents::to_json_line({{"next", page.next}, {"connections", listed}});
}

Reported<ConnectionPage> connection_page_of(std::string_view text_given) {
  const Json json = documents::parse_json(text_given).value_or(Json());
  if (!json.is_object()) return not_understood("list of connections");
  ConnectionPage page{.connections = {}, .next = number_in(json, "next")};
  const Json* rows = json.find("connections");
  if (rows == nullptr || !rows->is_array()) return not_understood("list of connections");
  for (const Json& row : *rows) {
    if (!row.is_object()) continue;
    page.connections.push_back(state_of_rows<ConnectionState>(row));
  }
  return page;
}

}  // namespace refract::observe
