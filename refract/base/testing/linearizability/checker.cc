// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/linearizability/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "refract/base/testing/linearizability/search.h"
#include "refract/base/testing/linearizability/window.h"

namespace refract::linearizability {
namespace {

using Pointers = std::vector<const Operation*>;

std::string name_of(const std::vector<std::string>& names, uint32_t number) {
  return number < names.size() ? names[number] : fmt::format("{}", number);
}

std::string reason(const History& history, const Operation& convicted, const Pointers& operations) {
  const bool is_get = convicted.kind == Kind::kGet && convicted.outcome == Outcome::kDone;
  const auto put = [&](const Operation* other) {
    return other->kind == Kind::kPut && other->value == convicted.value;
  };
  if (is_get && convicted.value != 0) {
    const auto found = std::ranges::find_if(operations, put);
    if (found == operations.end()) return "no client ever put that value";
    if (std::ranges::count_if(operations, put) > 1) return "no order of the operations explains it";
    if ((*found)->outcome != Outcome::kDone && (*found)->outcome != Outcome::kUnknown) {
      return fmt::format("the put of that value by {} had no effect: {}",
                         name_of(history.clients, (*found)->client), to_text(**found));
    }
    if ((*found)->began > convicted.ended) return "that value was put only later";
    if ((*found)->version != 0 && convicted.version != 0 && (*found)->version != convicted.version) {
      return fmt::format("that value was put once, with version {}", (*found)->version);
    }
  }
  return "no order of the operations explains it";
}

Violation violation_of(const History& history, const Pointers& operations, std::span<const Item> items,
                       size_t first_convicted) {
  const Window window = smallest_window(items, first_convicted);
  const Operation& operation = *items[window.convicted].operation;
  const auto index_of = [&](size_t item) {
    return static_cast<size_t>(items[item].operation - history.operations.data());
  };
  Violation violation{
      .sentence = fmt::format("key {}: {} of {} at {} ns: {}", name_of(history.keys, operation.key),
                              to_text(operation), name_of(history.clients, operation.client),
                              operation.began_ns, reason(history, operation, operations)),
      .key = operation.key,
      .convicted = index_of(window.convicted),
      .involved = {},
      .surrounding = {}};
  for (const size_t item : window.involved) violation.involved.push_back(index_of(item));
  for (const size_t item : window.surrounding) violation.surrounding.push_back(index_of(item));
  std::ranges::sort(violation.involved);
  std::ranges::sort(violation.surrounding);
  return violation;
}

// Whether it was absent or another one, an unmet condition does not say; where entries expire, too, that
// would be two states at once.
bool is_out_of_reach(const Pointers& operations) {
  const auto is_unmet = [](const Operation* one) { return one->outcome == Outcome::kUnmet; };
  const auto expires = [](const Operation* one) { return one->may_expire(); };
  return std::ranges::any_of(operations, is_unmet) && std::ranges::any_of(operations, expires);
}

}  // namespace

Judgement check(const History& history, const CheckOptions& options) {
  std::vector<Pointers> by_key;
  for (const Operation& operation : history.operations) {
    if (operation.key >= by_key.size()) by_key.resize(operation.key + 1);
    by_key[operation.key].push_back(&operation);
  }
  Judgement judgement;
  for (uint32_t key = 0; key < by_key.size(); ++key) {
    if (is_out_of_reach(by_key[key])) {
      judgement.undecided.push_back(key);
      continue;
    }
    const std::vector<Item> items = items_of(by_key[key]);
    const Answer answer = find_order(items, {}, options.steps_max_per_key + 200 * items.size());
    judgement.steps += answer.steps;
    judgement.excluded_max = std::max(judgement.excluded_max, answer.excluded_max);
    if (answer.verdict == Answer::Verdict::kUndecided) judgement.undecided.push_back(key);
    if (answer.verdict != Answer::Verdict::kBad) continue;
    judgement.violation = violation_of(history, by_key[key], items, answer.item);
    return judgement;
  }
  return judgement;
}

namespace {

// What an answer tells of a version: that it had been given when the answer came.
bool tells_version(const Operation& operation) {
  return operation.outcome == Outcome::kDone && operation.version != 0 && operation.ended != kNever;
}

Violation disorder(const History& history, std::string_view what, size_t first, size_t second) {
  const Operation& one = history.operations[first];
  const Operation& other = history.operations[second];
  return {.sentence = fmt::format("{}: {} of {} on {}, and {} of {} on {}", what, to_text(one),
                                  name_of(history.clients, one.client), name_of(history.keys, one.key),
                                  to_text(other), name_of(history.clients, other.client),
                                  name_of(history.keys, other.key)),
          .key = other.key,
          .convicted = second,
          .involved = {first, second},
          .surrounding = {}};
}

}  // namespace

std::optional<Violation> check_versions(const History& history, const std::vector<bool>& is_in_shard) {
  const std::vector<Operation>& operations = history.operations;
  std::vector<size_t> puts;   // By their beginning,
  std::vector<size_t> tells;  // by their end.
  std::unordered_map<uint64_t, size_t> owner;
  for (size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (!tells_version(operation)) continue;
    if (!is_in_shard.empty() && (operation.key >= is_in_shard.size() || !is_in_shard[operation.key]))
      continue;
    tells.push_back(i);
    const auto [found, is_new] = owner.try_emplace(operation.version, i);
    if (!is_new && operations[found->second].key != operation.key) {
      return disorder(history, "a version was given to two keys", found->second, i);
    }
    if (operation.kind == Kind::kPut) puts.push_back(i);
  }
  std::ranges::sort(puts, {}, [&](size_t i) { return std::pair(operations[i].began, i); });
  std::ranges::sort(tells, {}, [&](size_t i) { return std::pair(operations[i].ended, i); });
  auto next = tells.begin();
  std::optional<size_t> highest;
  for (const size_t put : puts) {
    for (; next != tells.end() && operations[*next].ended < operations[put].began; ++next) {
      if (!highest || operations[*next].version > operations[*highest].version) highest = *next;
    }
    if (highest && operations[*highest].version >= operations[put].version) {
      return disorder(history, "a version is not greater than one that was known before", *highest, put);
    }
  }
  return std::nullopt;
}

}  // namespace refract::linearizability
