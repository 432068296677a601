// SPDX-License-Identifier: Apache-2.0
// Reading JSON from any source: each looks before it takes, and gives 0 or nothing where the
// member is not there, or is something else.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "refract/documents/json.h"
#include "refract/node/observe/metrics.h"

namespace refract::observe {

[[nodiscard]] inline uint64_t number_in(const documents::Value& object, std::string_view name) {
  const documents::Value* found = object.find(name);
  return found != nullptr && found->is_unsigned() ? found->as_unsigned() : 0;
}

[[nodiscard]] inline bool flag_in(const documents::Value& object, std::string_view name) {
  const documents::Value* found = object.find(name);
  return found != nullptr && found->is_bool() && found->as_bool();
}

[[nodiscard]] inline std::string text_in(const documents::Value& object, std::string_view name) {
  const documents::Value* found = object.find(name);
  return found != nullptr && found->is_text() ? found->as_text() : std::string();
}

[[nodiscard]] inline const documents::Value& member_of(const documents::Value& object,
                                                       std::string_view name) {
  static const documents::Value kNothing = documents::Value::object();
  const documents::Value* found = object.find(name);
  return found != nullptr && found->is_object() ? *found : kNothing;
}

// The members that have rows (metrics.h), as an object.
template <typename State>
[[nodiscard]] documents::Value json_of_rows(const State& state) {
  documents::Value object = documents::Value::object();
  for (const Row<State>& row : rows<State>()) {
    std::visit([&](auto member) { object[row.metric.name] = state.*member; }, row.member);
  }
  return object;
}

template <typename State>
[[nodiscard]] State state_of_rows(const documents::Value& object) {
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
