// SPDX-License-Identifier: Apache-2.0
// Reading JSON that anybody may have written: each looks before it takes, and gives 0 or nothing where the
// member is not there, or is something else.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "refract/node/observe/metrics.h"

namespace refract::observe {

[[nodiscard]] inline uint64_t number_in(const nlohmann::json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

[[nodiscard]] inline bool flag_in(const nlohmann::json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

[[nodiscard]] inline std::string text_in(const nlohmann::json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

[[nodiscard]] inline const nlohmann::json& member_of(const nlohmann::json& object, std::string_view name) {
  static const nlohmann::json kNothing = nlohmann::json::object();
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : kNothing;
}

// The members that have rows (metrics.h), as an object.
template <typename State>
[[nodiscard]] nlohmann::json json_of_rows(const State& state) {
  nlohmann::json object = nlohmann::json::object();
  for (const Row<State>& row : rows<State>()) {
    std::visit([&](auto member) { object[row.metric.name] = state.*member; }, row.member);
  }
  return object;
}

template <typename State>
[[nodiscard]] State state_of_rows(const nlohmann::json& object) {
  State state;
  for (const Row<State>& row : rows<State>()) {
    std::visit(
        [&](auto member) {
          using Value = std::remove_cvref_t<decltype(state.*member)>;
          if constexpr (std::is_same_v<Value, std::string>) {
            state.*member = text_in(object, row.metric.name);
          } else {
            state.*member = static_cast<Value>(number_in(object, row.metric.name));
          }
        },
        row.member);
  }
  return state;
}

}  // namespace refract::observe
