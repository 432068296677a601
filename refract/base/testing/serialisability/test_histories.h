// SPDX-License-Identifier: Apache-2.0
// Histories of a store that is right by construction: every transaction takes effect at one chosen moment of
// its call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/serialisability/history.h"

namespace refract::serialisability::test {

struct Recipe {
  uint64_t seed = 1;
  uint32_t clients = 3;
  uint32_t keys = 3;
  size_t transactions = 6;
  uint64_t operations_max = 3;  // Of a transaction.
  uint64_t call_ns = 100;       // Half of a call, at most; as long as the pause between two.
  uint64_t pause_ns = 50;
  double unknown_chance = 0.1;
  double refused_chance = 0.1;
  double erase_chance = 0.15;
  double add_chance = 0.15;
  double condition_chance = 0.2;
  double tells_writes = 0.8;  // How often a committed write's version is told.
  double tells_erased = 0.5;  // How often what an erase removed is told.
  double tells_values = 0.7;
};

// The true store.
class TrueStore {
 public:
  TrueStore(const Recipe& recipe, Prng& prng) : recipe_(recipe), prng_(prng) {}

  // What is told of operation and outcome. `operations`: kinds and keys.
  void execute(Transaction& one) {
    std::map<uint32_t, Entry> before;
    for (const Operation& operation : one.operations) before[operation.key] = entries_[operation.key];
    std::map<uint32_t, size_t> last_write;
    bool is_refused = false;
    for (size_t i = 0; i < one.operations.size() && !is_refused; ++i) {
      Operation& operation = one.operations[i];
      choose_condition(operation);
      is_refused = !take(operation);
      if (is_refused) one.operations.resize(i + 1);
      if (!is_refused && operation.kind != Kind::kGet) last_write[operation.key] = i;
    }
    if (is_refused || prng_.chance(recipe_.refused_chance)) {
      one.outcome = Outcome::kRefused;
      one.is_validated = prng_.chance(0.7);
      for (const auto& [key, entry] : before) entries_[key] = entry;
      return;
    }
    one.outcome = Outcome::kCommitted;
    for (const auto& [key, i] : last_write) {
      Entry& entry = entries_[key];
      if (!entry.is_there) continue;
      entry.version = versions_ += 1 + prng_.below(2);
      if (prng_.chance(recipe_.tells_writes)) one.operations[i].version = entry.version;
    }
  }

 private:
  struct Entry {
    bool is_there = false;
    uint64_t version = 0;
    int64_t value = 0;
  };

  void choose_condition(Operation& operation) {
    if (operation.kind == Kind::kGet || !prng_.chance(recipe_.condition_chance)) return;
    const Entry& entry = entries_[operation.key];
    const uint64_t which = prng_.below(4);
    operation.want = static_cast<Want>(1 + which);
    operation.condition = Condition::kMet;
    const bool is_wrong = prng_.chance(0.3);
    if (operation.want == Want::kVersion) operation.want_version = entry.version + (is_wrong ? 1 : 0);
    if (operation.want == Want::kValue) operation.want_value = entry.value + (is_wrong ? 1 : 0);
    if (operation.want == Want::kVersion && operation.want_version == 0) operation.want = Want::kPresent;
  }

  [[nodiscard]] static bool is_met(const Operation& operation, const Entry& entry) {
    switch (operation.want) {
      case Want::kAnything:
        return true;
      case Want::kAbsent:
        return !entry.is_there;
      case Want::kPresent:
        return entry.is_there;
      case Want::kVersion:
        return entry.is_there && entry.version == operation.want_version;
      case Want::kValue:
        return entry.is_there && entry.value == operation.want_value;
    }
    return true;
  }

  void tell_found(Operation& operation, const Entry& entry) {
    operation.found = entry.is_there ? Found::kPresent : Found::kAbsent;
    if (!entry.is_there) return;
    operation.found_version = entry.version;
    if (prng_.chance(recipe_.tells_values)) operation.found_value = entry.value;
  }

  [[nodiscard]] bool take(Operation& operation) {
    Entry& entry = entries_[operation.key];
    if (!is_met(operation, entry)) {
      operation.condition = Condition::kUnmet;
      if (prng_.chance(0.5)) tell_found(operation, entry);
      return false;
    }
    switch (operation.kind) {
      case Kind::kGet:
        tell_found(operation, entry);
        break;
      case Kind::kPut:
        operation.value = ++values_;
        entry = {.is_there = true, .value = *operation.value};
        break;
      case Kind::kErase:
        if (prng_.chance(recipe_.tells_erased)) tell_found(operation, entry);
        entry = {};
        break;
      case Kind::kAdd:
        operation.amount = 1 + static_cast<int64_t>(prng_.below(3));
        entry = {.is_there = true, .value = entry.value + operation.amount};
        if (prng_.chance(0.5)) operation.value = entry.value;
        break;
    }
    return true;
  }

  const Recipe& recipe_;
  Prng& prng_;
  std::map<uint32_t, Entry> entries_;
  uint64_t versions_ = 10;
  int64_t values_ = 100;
};

inline History right_history(const Recipe& recipe) {
  Prng prng(mix(recipe.seed));
  History history;
  for (uint32_t i = 0; i < recipe.clients; ++i) history.clients.push_back("c" + std::to_string(i));
  for (uint32_t i = 0; i < recipe.keys; ++i) history.keys.push_back("k" + std::to_string(i));
  struct Planned {
    uint64_t moment_ns = 0;
    size_t index = 0;
  };
  std::vector<uint64_t> free_ns(recipe.clients, 0);
  std::vector<Planned> plan;
  while (history.transactions.size() < recipe.transactions) {
    const auto client = static_cast<uint32_t>(std::ranges::min_element(free_ns) - free_ns.begin());
    Transaction one{.client = client, .operations = {}};
    one.began_ns = free_ns[client] + prng.below(recipe.pause_ns);
    const uint64_t moment_ns = one.began_ns + prng.below(recipe.call_ns);
    one.ended_ns = moment_ns + 1 + prng.below(recipe.call_ns);
    free_ns[client] = one.ended_ns;
    for (uint64_t count = 1 + prng.below(recipe.operations_max); count > 0; --count) {
      const bool is_erase = prng.chance(recipe.erase_chance);
      const bool is_add = prng.chance(recipe.add_chance);
      const bool is_put = prng.chance(0.5);
      one.operations.push_back({.kind = is_erase ? Kind::kErase
                                        : is_add ? Kind::kAdd
                                        : is_put ? Kind::kPut
                                                 : Kind::kGet,
                                .key = static_cast<uint32_t>(prng.below(recipe.keys))});
    }
    plan.push_back({.moment_ns = moment_ns, .index = history.transactions.size()});
    history.transactions.push_back(std::move(one));
  }
  std::ranges::sort(plan, {}, [](const Planned& one) { return std::pair(one.moment_ns, one.index); });
  TrueStore store(recipe, prng);
  for (const Planned& planned : plan) {
    Transaction& one = history.transactions[planned.index];
    const bool is_unknown = prng.chance(recipe.unknown_chance);
    const bool never = is_unknown && prng.chance(0.4);
    if (!never) store.execute(one);
    if (!is_unknown) continue;
    one.outcome = Outcome::kUnknown;
    one.is_validated = false;
    one.ended_ns = kNever;
    for (Operation& operation : one.operations) {
      operation.version = 0;
      if (never || operation.condition == Condition::kUnmet) {
        if (operation.kind == Kind::kPut) operation.value = 5'000 + static_cast<int64_t>(planned.index);
        if (operation.kind == Kind::kAdd) operation.amount = 1;
        operation.condition = Condition::kNotTold;
      }
      if (operation.kind == Kind::kAdd) operation.value.reset();
      if (!prng.chance(0.5)) continue;
      operation.found = Found::kNotTold;
      operation.found_version = 0;
      operation.found_value.reset();
    }
  }
  return history;
}

}  // namespace refract::serialisability::test
