// SPDX-License-Identifier: Apache-2.0
// The settings of node and door by Redis's names: CONFIG GET and CONFIG SET.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace refract::doors::redis {

struct Common;

struct Setting {
  std::string_view name;
  std::string (*show)(const Common& common);
  // Null: it is the node's, or as it is. Returns what is wrong with the value, or nothing; `is_trial`: it is
  // only looked at.
  std::string (*set)(Common& common, std::string_view value, bool is_trial) = nullptr;
  // Redis cannot set it while it runs, whatever the value. Otherwise what it has already may be set.
  bool is_fixed = false;
};

[[nodiscard]] std::span<const Setting> settings() noexcept;

// Names and values by turns; all of them, or none. Returns Redis's error, or nothing.
[[nodiscard]] std::string set_settings(Common& common, std::span<const std::string_view> words);

}  // namespace refract::doors::redis
