// SPDX-License-Identifier: Apache-2.0
// The definition of strict serialisability, tried out: every order of a few transactions, with and without
// those of unknown outcome. Written without a look at the graph, which is measured against it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "refract/base/testing/serialisability/history.h"

namespace refract::serialisability::test {

class BruteForce {
 public:
  explicit BruteForce(const History& history) {
    for (const Transaction& one : history.transactions) {
      if (one.outcome == Outcome::kRefused && !one.is_validated) continue;
      transactions_.push_back(one);
      if (one.outcome == Outcome::kUnknown) transactions_.back().ended_ns = kNever;
    }
    done_.assign(transactions_.size(), false);
  }

  [[nodiscard]] bool is_strictly_serialisable() { return try_orders({}); }

 private:
  struct Entry {
    bool is_there = false;
    uint64_t version = 0;  // 0: no client has named it yet.
    Value value = {};
    uint64_t highest = 0;               // Of the key.
    uint64_t below = 0;                 // What an unnamed version is greater than,
    std::vector<uint64_t> others = {};  // and what it is not.
  };
  using Store = std::map<uint32_t, Entry>;

  [[nodiscard]] bool try_orders(const Store& store) {
    bool all = true;
    uint64_t first_end = kNever;
    for (size_t i = 0; i < transactions_.size(); ++i) {
      if (done_[i] || transactions_[i].outcome == Outcome::kUnknown) continue;
      all = false;
      first_end = std::min(first_end, transactions_[i].ended_ns);
    }
    if (all) return true;
    for (size_t i = 0; i < transactions_.size(); ++i) {
      if (done_[i] || transactions_[i].began_ns > first_end || !is_turn_of(i)) continue;
      Store after = store;
      if (!happen(transactions_[i], after)) continue;
      done_[i] = true;
      const bool works = try_orders(after);
      done_[i] = false;
      if (works) return true;
    }
    return false;
  }

  // A client's own transactions follow each other even where no time passes between them.
  [[nodiscard]] bool is_turn_of(size_t index) const {
    const Transaction& mine = transactions_[index];
    for (size_t i = 0; i < transactions_.size(); ++i) {
      const Transaction& other = transactions_[i];
      if (done_[i] || other.client != mine.client || other.ended_ns > mine.began_ns) continue;
      if (other.began_ns < mine.began_ns || (other.began_ns == mine.began_ns && i < index)) return false;
    }
    return true;
  }

  [[nodiscard]] static bool happen(const Transaction& one, Store& store) {
    Store replaced;  // What stood there before its first write of each key.
    for (const Operation& operation : one.operations) {
      Entry& entry = store[operation.key];
      if (!found_as_told(operation, entry)) return false;
      if (operation.want != Want::kAnything && !is_condition_as_told(operation, one, entry)) return false;
      if (operation.condition == Condition::kUnmet || operation.kind == Kind::kGet) continue;
      replaced.try_emplace(operation.key, entry);
      if (!write(operation, entry)) return false;
    }
    for (const auto& [key, old] : replaced) {
      Entry& last = store[key];
      // A refused one has changed nothing.
      if (one.outcome == Outcome::kRefused) last = old;
      if (one.outcome == Outcome::kRefused) continue;
      // Only the last version of a key is one that others see.
      last.highest = last.below = old.highest;
      if (!last.is_there || last.version == 0) continue;
      if (last.version <= old.highest) return false;
      last.highest = last.version;
    }
    return true;
  }

  [[nodiscard]] static bool name(uint64_t version, Entry& entry) {
    if (entry.version != 0) return entry.version == version;
    if (version <= entry.below || std::ranges::find(entry.others, version) != entry.others.end())
      return false;
    entry.version = version;
    entry.highest = version;
    return true;
  }

  [[nodiscard]] static bool found_as_told(const Operation& operation, Entry& entry) {
    const bool is_found = operation.found == Found::kPresent || operation.found_version != 0 ||
                          operation.found_value.has_value();
    if (operation.found == Found::kAbsent && entry.is_there) return false;
    if (is_found && !entry.is_there) return false;
    if (operation.found_value && entry.value && *operation.found_value != *entry.value) return false;
    return operation.found_version == 0 || name(operation.found_version, entry);
  }

  [[nodiscard]] static bool is_condition_as_told(const Operation& operation, const Transaction& one,
                                                 Entry& entry) {
    const bool is_unmet = operation.condition == Condition::kUnmet;
    if (operation.condition == Condition::kNotTold && one.outcome == Outcome::kRefused) return true;
    switch (operation.want) {
      case Want::kAnything:
        return true;
      case Want::kAbsent:
        return entry.is_there == is_unmet;
      case Want::kPresent:
        return entry.is_there != is_unmet;
      case Want::kVersion:
        if (is_unmet && entry.is_there && entry.version == 0) entry.others.push_back(operation.want_version);
        if (is_unmet) return !entry.is_there || entry.version != operation.want_version;
        return entry.is_there && name(operation.want_version, entry);
      case Want::kValue:
        if (is_unmet) return !entry.is_there || !entry.value || *entry.value != operation.want_value;
        return entry.is_there && (!entry.value || *entry.value == operation.want_value);
    }
    return true;
  }

  [[nodiscard]] static bool write(const Operation& operation, Entry& entry) {
    Value value = operation.value;
    if (operation.kind == Kind::kAdd) {
      if (!entry.is_there) value = operation.amount;
      if (entry.is_there && entry.value) value = *entry.value + operation.amount;
      if (operation.value && value && *operation.value != *value) return false;
      if (!value) value = operation.value;
    }
    entry.is_there = operation.kind != Kind::kErase;
    entry.value = entry.is_there ? value : Value{};
    entry.version = entry.is_there ? operation.version : 0;
    entry.below = entry.highest;
    entry.others.clear();
    return true;
  }

  std::vector<Transaction> transactions_;
  std::vector<bool> done_;
};

}  // namespace refract::serialisability::test
