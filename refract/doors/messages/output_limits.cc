// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/messages/output_limits.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <vector>

#include "refract/base/units.h"
#include "refract/doors/redis/words.h"

namespace refract::doors::redis {
namespace {

constexpr std::string_view kOthers = "normal 0 0 0 slave 268435456 67108864 60 pubsub";
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

// As Redis cuts them: a space behind another one is a word, too.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    if (end == text.size()) return words;
    text.remove_prefix(end + 1);
    if (text.empty()) words.emplace_back();
  }
  return words;
}

// Digits and a unit; too large a number is the largest.
std::optional<uint64_t> bytes_of(std::string_view word) {
  struct Unit {
    std::string_view name;
    uint64_t bytes;
  };
  constexpr Unit kUnits[] = {{"", 1},          {"b", 1},        {"k", 1000},          {"kb", 1 << 10},
                             {"m", 1'000'000}, {"mb", 1 << 20}, {"g", 1'000'000'000}, {"gb", 1 << 30}};
  const size_t digits = std::min(word.find_first_not_of("0123456789"), word.size());
  const std::string_view number_word = word.substr(0, digits);
  for (const Unit& unit : kUnits) {
    if (!is(word.substr(digits), unit.name)) continue;
    uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(number_word.data(), number_word.data() + number_word.size(), number);
    if (error == std::errc::result_out_of_range) return kMost;
    uint64_t bytes = 0;
    return __builtin_mul_overflow(number, unit.bytes, &bytes) ? kMost : bytes;
  }
  return std::nullopt;
}

struct Limits {
  uint64_t hard_bytes = 0;
  uint64_t soft_bytes = 0;
  uint64_t soft_seconds = 0;
  bool operator==(const Limits&) const = default;
};

}  // namespace

std::string OutputLimits::text() const {
  return fmt::format("{} {} {} {}", kOthers, hard_bytes_.load(), soft_bytes_.load(), soft_seconds_.load());
}

std::string OutputLimits::set(std::string_view value, bool is_trial) {
  const std::vector<std::string_view> words = words_of(value);
  if (words.size() % 4 != 0) return "Wrong number of arguments in buffer limit configuration.";
  std::optional<Limits> wanted;
  for (size_t i = 0; i < words.size(); i += 4) {
    const bool is_pubsub = is(words[i], "pubsub");
    const bool is_replica = is(words[i], "slave") || is(words[i], "replica");
    if (!is_pubsub && !is_replica && !is(words[i], "normal")) {
      return "Invalid client class specified in buffer limit configuration.";
    }
    const auto hard = bytes_of(words[i + 1]);
    const auto soft = bytes_of(words[i + 2]);
    const auto seconds = integer_of(words[i + 3]);
    if (!hard || !soft || !seconds || *seconds < 0) {
      return "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    }
    const Limits limits{
        .hard_bytes = *hard, .soft_bytes = *soft, .soft_seconds = static_cast<uint64_t>(*seconds)};
    constexpr Limits kOfReplicas{.hard_bytes = 256 << 20, .soft_bytes = 64 << 20, .soft_seconds = 60};
    if (is_pubsub) {
      wanted = limits;
    } else if (limits != (is_replica ? kOfReplicas : Limits())) {
      return "the door bounds clients of this class by itself";
    }
  }
  if (is_trial || !wanted) return {};
  hard_bytes_ = wanted->hard_bytes;
  soft_bytes_ = wanted->soft_bytes;
  soft_seconds_ = wanted->soft_seconds;
  return {};
}

bool OutputLimits::are_passed(size_t bytes, uint64_t& since_ns, uint64_t now_ns) const noexcept {
  const uint64_t hard_bytes = hard_bytes_.load(std::memory_order_relaxed);
  const uint64_t soft_bytes = soft_bytes_.load(std::memory_order_relaxed);
  const bool is_at_soft = soft_bytes != 0 && bytes >= soft_bytes;
  if (!is_at_soft) {
    since_ns = 0;
  } else if (since_ns == 0) {
    since_ns = now_ns;
  }
  if (hard_bytes != 0 && bytes >= hard_bytes) return true;
  if (!is_at_soft || now_ns < since_ns) return false;
  return (now_ns - since_ns) / kSecond_ns > soft_seconds_.load(std::memory_order_relaxed);
}

}  // namespace refract::doors::redis
