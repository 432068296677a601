// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "refract/doors/admin/slow_log.h"
#include "refract/doors/redis/commands.h"
#include "refract/doors/redis/request_parser.h"
#include "refract/doors/redis/words.h"

namespace refract::doors::redis {
namespace {

template <char kFirst, char... kRest>
std::string always(const Common& /*common*/) {
  return std::string{kFirst, kRest...};
}
std::string nothing(const Common& /*common*/) {
  return {};
}
std::string no(const Common& /*common*/) {
  return "no";
}

// Returns what is wrong with it.
std::string number_between(std::string_view value, int64_t least, int64_t most) {
  const auto number = integer_of(value);
  if (!number) return "argument couldn't be parsed into an integer";
  if (*number >= least && *number <= most) return {};
  return fmt::format("argument must be between {} and {} inclusive", least, most);
}

std::string set_slower_than(Common& common, std::string_view value, bool is_trial) {
  std::string wrong = number_between(value, -1, std::numeric_limits<int64_t>::max());
  if (wrong.empty() && !is_trial) common.slow_log.set_slower_than_us(*integer_of(value));
  return wrong;
}
std::string set_slow_length(Common& common, std::string_view value, bool is_trial) {
  std::string wrong = number_between(value, 0, SlowLog::kLengthMax);
  if (wrong.empty() && !is_trial) common.slow_log.set_length_max(static_cast<size_t>(*integer_of(value)));
  return wrong;
}

// "100mb" as a number of bytes, in digits; other values as they are.
std::string in_bytes(std::string_view value) {
  struct Unit {
    std::string_view name;
    int64_t bytes;
  };
  constexpr Unit kUnits[] = {{"kb", 1 << 10}, {"mb", 1 << 20},     {"gb", 1 << 30}, {"k", 1000},
                             {"m", 1000'000}, {"g", 1000'000'000}, {"b", 1}};
  for (const Unit& unit : kUnits) {
    if (value.size() <= unit.name.size() || !is(value.substr(value.size() - unit.name.size()), unit.name)) {
      continue;
    }
    const auto number = integer_of(value.substr(0, value.size() - unit.name.size()));
    int64_t bytes = 0;
    if (!number || __builtin_mul_overflow(*number, unit.bytes, &bytes)) break;
    return std::to_string(bytes);
  }
  return std::string(value);
}

constexpr Setting kSettings[] = {
    {.name = "appendfsync",
     .show = [](const Common& common) -> std::string {
       return common.facts.durability == "always" ? "always" : "everysec";
     }},
    {.name = "appendonly",
     .show = [](const Common& common) -> std::string {
       return common.facts.durability == "none" ? "no" : "yes";
     }},
    {.name = "client-output-buffer-limit",
     .show = [](const Common& common) { return common.output_limits.text(); },
     .set = [](Common& common, std::string_view value,
               bool is_trial) { return common.output_limits.set(value, is_trial); }},
    {.name = "cluster-enabled", .show = no, .is_fixed = true},
    {.name = "daemonize", .show = no, .is_fixed = true},
    {.name = "databases", .show = always<'1'>, .is_fixed = true},
    {.name = "dir", .show = [](const Common& common) { return common.facts.folder; }},
    {.name = "enable-debug-command", .show = no, .is_fixed = true},
    {.name = "io-threads",
     .show = [](const Common& common) { return std::to_string(common.facts.threads); },
     .is_fixed = true},
    {.name = "latency-monitor-threshold", .show = always<'0'>},
    {.name = "maxclients",
     .show = [](const Common& common) { return std::to_string(common.facts.lines_max); }},
    {.name = "maxmemory",
     .show = [](const Common& common) { return std::to_string(common.facts.memory_limit_bytes); }},
    {.name = "maxmemory-policy", .show = [](const Common& common) { return common.facts.eviction; }},
    {.name = "notify-keyspace-events", .show = nothing},
    {.name = "port", .show = [](const Common& common) { return std::to_string(common.facts.tcp_port); }},
    {.name = "proto-max-bulk-len",
     .show = [](const Common& /*common*/) { return std::to_string(RequestParser::kBulkBytesMax); }},
    {.name = "save", .show = nothing},
    {.name = "slowlog-log-slower-than",
     .show = [](const Common& common) { return std::to_string(common.slow_log.slower_than_us()); },
     .set = set_slower_than},
    {.name = "slowlog-max-len",
     .show = [](const Common& common) { return std::to_string(common.slow_log.length_max()); },
     .set = set_slow_length},
    {.name = "tcp-keepalive", .show = always<'3', '0', '0'>},
    {.name = "timeout", .show = always<'0'>},
};

// `name`: as the client has written it.
std::string failed(std::string_view name, std::string_view why) {
  return fmt::format("ERR CONFIG SET failed (possibly related to argument '{}') - {}", name.substr(0, 128),
                     why);
}

const Setting* setting_of(std::string_view name) noexcept {
  const auto* const found =
      std::ranges::find_if(kSettings, [name](const Setting& one) { return is(name, one.name); });
  return found == std::ranges::end(kSettings) ? nullptr : found;
}

constexpr std::string_view kFixed = "can't set immutable config";

// What it has already may be set, as programs do that want to be sure of it.
std::string wrong_with(Common& common, std::string_view name, std::string_view value) {
  constexpr size_t kValueBytesMax = 256;
  const Setting& setting = *setting_of(name);
  std::string wrong;
  if (setting.set != nullptr) {
    wrong = setting.set(common, value, /*is_trial=*/true);
  } else {
    const std::string now = setting.show(common);
    const bool is_same = value.size() <= kValueBytesMax && (value == now || in_bytes(value) == now);
    if (!is_same) wrong = kFixed;
  }
  return wrong.empty() ? wrong : failed(name, wrong);
}

}  // namespace

std::span<const Setting> settings() noexcept {
  return kSettings;
}

std::string set_settings(Common& common, std::span<const std::string_view> words) {
  for (size_t i = 0; i < words.size(); i += 2) {
    const Setting* const setting = setting_of(words[i]);
    if (setting == nullptr) {
      return fmt::format("ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                         words[i].substr(0, 128));
    }
    if (setting->is_fixed) return failed(words[i], kFixed);
    for (size_t k = 0; k < i; k += 2) {
      if (setting_of(words[k]) == setting) return failed(words[i], "duplicate parameter");
    }
  }
  for (size_t i = 0; i < words.size(); i += 2) {
    std::string wrong = wrong_with(common, words[i], words[i + 1]);
    if (!wrong.empty()) return wrong;
  }
  for (size_t i = 0; i < words.size(); i += 2) {
    const Setting& setting = *setting_of(words[i]);
    if (setting.set != nullptr) (void)setting.set(common, words[i + 1], /*is_trial=*/false);
  }
  return {};
}

}  // namespace refract::doors::redis
