// SPDX-License-Identifier: Apache-2.0
// The definition of linearizability, tried out: every order of a few operations on one key. Written without
// a look at the search, which is measured against it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "refract/base/testing/linearizability/history.h"

namespace refract::linearizability::test {

class BruteForce {
 public:
  explicit BruteForce(std::vector<Operation> operations) : operations_(std::move(operations)) {
    std::erase_if(operations_, [](const Operation& one) { return one.outcome == Outcome::kRefused; });
    for (Operation& one : operations_) {
      if (one.outcome == Outcome::kUnknown) one.ended = one.ended_ns = kNever;
      named_.insert(one.version);
      named_.insert(one.if_version);
    }
    named_.insert(0);
  }

  [[nodiscard]] bool is_linearizable() { return try_versions(0); }

 private:
  struct Entry {
    bool is_there = false;
    uint64_t value = 0;
    uint64_t version = 0;  // 0: one that no client names.
    uint64_t expires_from_ns = kNever;
    uint64_t expires_until_ns = kNever;
    uint64_t highest = 0;
    uint64_t now_ns = 0;
  };

  // A put that was not acknowledged may have got any version that some client names.
  [[nodiscard]] bool try_versions(size_t index) {
    if (index == operations_.size()) {
      done_.assign(operations_.size(), false);
      return try_orders({});
    }
    Operation& one = operations_[index];
    if (one.kind != Kind::kPut || !one.changes() || one.version != 0) return try_versions(index + 1);
    for (const uint64_t version : named_) {
      one.version = version;
      const bool works = try_versions(index + 1);
      one.version = 0;
      if (works) return true;
    }
    return false;
  }

  [[nodiscard]] bool try_orders(const Entry& entry) {
    bool all = true;
    uint64_t first_return = kNever;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (done_[i] || operations_[i].outcome == Outcome::kUnknown) continue;
      all = false;
      first_return = std::min(first_return, operations_[i].ended);
    }
    if (all) return true;
    for (size_t i = 0; i < operations_.size(); ++i) {
      if (done_[i] || operations_[i].began > first_return) continue;
      Entry after = entry;
      if (!happen(operations_[i], after)) continue;
      done_[i] = true;
      const bool works = try_orders(after);
      done_[i] = false;
      if (works) return true;
    }
    return false;
  }

  [[nodiscard]] static bool happen(const Operation& one, Entry& entry) {
    entry.now_ns = std::max(entry.now_ns, one.began_ns);
    const bool wants_none = one.outcome == Outcome::kAbsent || (one.changes() && one.if_absent);
    const bool wants_one =
        one.outcome == Outcome::kExists || one.outcome == Outcome::kMismatch ||
        (one.kind == Kind::kGet && one.outcome == Outcome::kDone) ||
        (one.changes() && (one.if_version != 0 || one.if_value != 0 || one.kind == Kind::kErase));
    if (wants_none && entry.is_there) {
      if (entry.expires_from_ns == kNever) return false;
      entry.now_ns = std::max(entry.now_ns, entry.expires_from_ns);
    }
    if (wants_one && (!entry.is_there || entry.now_ns >= entry.expires_until_ns)) return false;
    if (entry.now_ns > one.ended_ns) return false;
    const bool is_wanted = (one.if_version == 0 || entry.version == one.if_version) &&
                           (one.if_value == 0 || entry.value == one.if_value);
    if (one.outcome == Outcome::kMismatch && is_wanted) return false;
    if (one.outcome == Outcome::kUnmet && entry.is_there && is_wanted) return false;
    if (one.outcome == Outcome::kAbsent || one.outcome == Outcome::kExists ||
        one.outcome == Outcome::kMismatch || one.outcome == Outcome::kUnmet) {
      return true;
    }
    if (one.changes() && !is_wanted) return false;
    if (one.kind == Kind::kGet || one.kind == Kind::kErase) {
      if (one.version != 0 && one.version != entry.version) return false;
      if (one.kind == Kind::kGet) return one.value == 0 || one.value == entry.value;
      entry.is_there = false;
      return true;
    }
    if (one.version != 0 && one.version <= entry.highest) return false;
    entry = {.is_there = true,
             .value = one.value,
             .version = one.version,
             .expires_from_ns = one.expires_from_ns,
             .expires_until_ns = one.expires_until_ns,
             .highest = std::max(entry.highest, one.version),
             .now_ns = entry.now_ns};
    return true;
  }

  std::vector<Operation> operations_;
  std::vector<bool> done_;
  std::set<uint64_t> named_;
};

}  // namespace refract::linearizability::test
