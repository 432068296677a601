// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/expiry.h"

#include <fmt/format.h>

#include <limits>

#include "refract/base/units.h"
#include "refract/doors/redis/handlers.h"
#include "refract/doors/redis/words.h"
#include "refract/kv/functions/functions.h"

namespace refract::doors::redis {
namespace {

namespace functions = kv::functions;

constexpr auto kMillisecond = static_cast<int64_t>(kMillisecond_ns);
constexpr int64_t kMsMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMsMax = std::numeric_limits<int64_t>::max();

bool is_seconds(Expiry expiry) noexcept {
  return expiry == Expiry::kSeconds || expiry == Expiry::kMomentSeconds;
}
bool is_from_now(Expiry expiry) noexcept {
  return expiry == Expiry::kSeconds || expiry == Expiry::kMilliseconds;
}

std::string wrong_time(std::string_view name) {
  return fmt::format("ERR invalid expire time in '{}' command", name);
}

// Our time ends in the year 2262.
uint64_t wall_ns_of(int64_t ms) noexcept {
  if (ms <= 0) return 1;
  constexpr int64_t kLastMs = kMsMax / kMillisecond;
  return static_cast<uint64_t>(std::min(ms, kLastMs) * kMillisecond);
}

// Of GETEX's and SET's options one of these, and no other beside it.
Expiry expiry_named(std::string_view word) noexcept {
  if (is_option(word, "ex")) return Expiry::kSeconds;
  if (is_option(word, "px")) return Expiry::kMilliseconds;
  if (is_option(word, "exat")) return Expiry::kMomentSeconds;
  if (is_option(word, "pxat")) return Expiry::kMomentMilliseconds;
  return Expiry::kNone;
}

// False: it is no option that is allowed behind those before it.
bool take_flag(std::string_view word, OptionsOf command, StringOptions& options) noexcept {
  const bool is_set = command == OptionsOf::kSet;
  const bool has_time = options.expiry != Expiry::kNone && options.expiry != Expiry::kKept;
  if (is_set && is_option(word, "nx") && !options.if_present) {
    options.if_absent = true;
  } else if (is_set && is_option(word, "xx") && !options.if_absent) {
    options.if_present = true;
  } else if (is_set && is_option(word, "get")) {
    options.wants_old = true;
  } else if (is_set && is_option(word, "keepttl") && !has_time) {
    options.expiry = Expiry::kKept;
  } else if (!is_set && is_option(word, "persist") && !has_time) {
    options.persists = true;
  } else {
    return false;
  }
  return true;
}

}  // namespace

Expiry expiry_of(std::string_view name) noexcept {
  if (name == "expire") return Expiry::kSeconds;
  if (name == "pexpire") return Expiry::kMilliseconds;
  return name == "expireat" ? Expiry::kMomentSeconds : Expiry::kMomentMilliseconds;
}

StringOptions string_options_of(Words words, OptionsOf command) {
  StringOptions options;
  for (size_t i = 0; i < words.size(); ++i) {
    const Expiry named = expiry_named(words[i]);
    if (named == Expiry::kNone) {
      if (take_flag(words[i], command, options)) continue;
      options.is_wrong = true;
      return options;
    }
    const bool is_other = options.expiry != Expiry::kNone && options.expiry != named;
    if (is_other || options.persists || i + 1 == words.size()) {
      options.is_wrong = true;
      return options;
    }
    options.expiry = named;
    options.time = words[++i];
  }
  return options;
}

Moment positive_moment_of(std::string_view time, Expiry expiry, std::string_view name, uint64_t now_ns) {
  const auto number = integer_of(time);
  if (!number) return {.wrong = std::string(kNoInteger)};
  int64_t ms = 0;
  const auto now_ms = static_cast<int64_t>(now_ns / kMillisecond_ns);
  if (*number <= 0 || __builtin_mul_overflow(*number, is_seconds(expiry) ? 1000 : 1, &ms) ||
      (is_from_now(expiry) && __builtin_add_overflow(ms, now_ms, &ms))) {
    return {.wrong = wrong_time(name)};
  }
  return {.wall_ns = wall_ns_of(ms)};
}

Moment moment_of(std::string_view time, Expiry expiry, std::string_view name, uint64_t now_ns) {
  const auto number = integer_of(time);
  if (!number) return {.wrong = std::string(kNoInteger)};
  int64_t ms = *number;
  const auto now_ms = static_cast<int64_t>(now_ns / kMillisecond_ns);
  const bool is_long = is_seconds(expiry) && (ms > kMsMax / 1000 || ms < kMsMin / 1000);
  if (!is_long) ms *= is_seconds(expiry) ? 1000 : 1;
  if (is_long || (is_from_now(expiry) && __builtin_add_overflow(ms, now_ms, &ms))) {
    return {.wrong = wrong_time(name)};
  }
  return {.wall_ns = wall_ns_of(ms)};
}

ExpireOptions expire_options_of(Words words) {
  ExpireOptions options;
  const auto has = [&options](int conditions) { return (options.conditions & conditions) != 0; };
  for (const std::string_view word : words) {
    if (is_option(word, "nx")) {
      options.conditions |= functions::kIfNone;
    } else if (is_option(word, "xx")) {
      options.conditions |= functions::kIfSome;
    } else if (is_option(word, "gt")) {
      options.conditions |= functions::kIfLater;
    } else if (is_option(word, "lt")) {
      options.conditions |= functions::kIfEarlier;
    } else {
      options.wrong = fmt::format("ERR Unsupported option {}", word.substr(0, word.find('\0')));
      return options;
    }
  }
  if (has(functions::kIfNone) && has(functions::kIfSome | functions::kIfLater | functions::kIfEarlier)) {
    options.wrong = "ERR NX and XX, GT or LT options at the same time are not compatible";
  } else if (has(functions::kIfLater) && has(functions::kIfEarlier)) {
    options.wrong = "ERR GT and LT options at the same time are not compatible";
  }
  return options;
}

}  // namespace refract::doors::redis
