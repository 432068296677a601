// SPDX-License-Identifier: Apache-2.0
// Reading JSON that anybody may have written: each looks before it takes, and gives 0 or nothing where the
// member is not there, or is something else.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace refract::observe {

[[nodiscard]] inline uint64_t number_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

[[nodiscard]] inline bool flag_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

[[nodiscard]] inline std::string text_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

[[nodiscard]] inline const nlohmann::json& member_of(const nlohmann::json& object, const char* name) {
  static const nlohmann::json kNothing = nlohmann::json::object();
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : kNothing;
}

}  // namespace refract::observe
