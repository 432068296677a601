// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/serialisability/access.h"

#include <fmt/format.h>

#include <algorithm>

namespace refract::serialisability {
namespace {

template <typename T>
bool has(const std::vector<T>& all, const T& one) {
  return std::ranges::find(all, one) != all.end();
}

// What is known of one key while the operations of a transaction are read in their order. Before the
// transaction's own first write all that is told is a claim; behind it, it is compared with what was written.
class OneKey {
 public:
  explicit OneKey(Access& access) : access_(access) {}

  // Empty, or what is contradicted.
  [[nodiscard]] std::string take(const Operation& operation, bool is_committed) {
    const bool is_unmet = operation.condition == Condition::kUnmet;
    const bool is_met = operation.condition == Condition::kMet || (is_committed && !is_unmet);
    bool is_right = see(operation.found, operation.found_version, operation.found_value);
    if (operation.want != Want::kAnything && (is_met || is_unmet)) {
      is_right = is_right && (is_unmet ? see_unmet(operation) : see_met(operation));
    }
    if (!is_right) return "it contradicts what the transaction itself read or wrote before";
    if (is_unmet || operation.kind == Kind::kGet) return {};
    if (operation.kind == Kind::kPut) put(operation);
    if (operation.kind == Kind::kErase) erase();
    if (operation.kind == Kind::kAdd && !add(operation)) {
      return "the sum contradicts what the transaction itself read or wrote before";
    }
    return {};
  }

 private:
  [[nodiscard]] bool see(Found found, uint64_t version, const Value& value) {
    if (version != 0 || (value && found == Found::kNotTold)) found = Found::kPresent;
    if (found == Found::kNotTold) return true;
    if (has_written_) {
      if (is_present_ != (found == Found::kPresent)) return false;
      return found == Found::kAbsent || see_own(version, value);
    }
    Claim& claim = access_.claim;
    if (claim.found != Found::kNotTold && claim.found != found) return false;
    if (found == Found::kAbsent && claim.version != 0) return false;
    claim.found = found;
    if (version != 0 && claim.version != 0 && version != claim.version) return false;
    if (version != 0) claim.version = version;
    if (value && claim.value && *value != *claim.value) return false;
    if (value) claim.value = value;
    return is_consistent();
  }

  [[nodiscard]] bool see_own(uint64_t version, const Value& value) {
    if (version != 0 && access_.version != 0 && version != access_.version) return false;
    if (!value || value_) return !value || *value == *value_;
    value_ = access_.value = value;
    return access_.effect != Effect::kAdd || see_sum(*value);
  }

  // What was there before an add follows from the sum.
  [[nodiscard]] bool see_sum(int64_t sum) {
    access_.claim.value = difference_of(sum, access_.delta);
    access_.claim.absent_is_zero = access_.claim.found != Found::kPresent;
    return is_consistent();
  }

  [[nodiscard]] bool is_consistent() const {
    const Claim& claim = access_.claim;
    if (claim.found != Found::kPresent) return true;
    if (claim.version != 0 && has(claim.other_versions, claim.version)) return false;
    return !claim.value || !has(claim.other_values, *claim.value);
  }

  [[nodiscard]] bool see_met(const Operation& operation) {
    switch (operation.want) {
      case Want::kAnything:
        return true;
      case Want::kAbsent:
        return see(Found::kAbsent, 0, {});
      case Want::kPresent:
        return see(Found::kPresent, 0, {});
      case Want::kVersion:
        return see(Found::kPresent, operation.want_version, {});
      case Want::kValue:
        return see(Found::kPresent, 0, operation.want_value);
    }
    return true;
  }

  [[nodiscard]] bool see_unmet(const Operation& operation) {
    if (operation.want == Want::kAbsent) return see(Found::kPresent, 0, {});
    if (operation.want == Want::kPresent) return see(Found::kAbsent, 0, {});
    const bool is_value = operation.want == Want::kValue;
    if (has_written_) return !is_present_ || !is_value || !value_ || *value_ != operation.want_value;
    if (is_value) {
      access_.claim.other_values.push_back(operation.want_value);
    } else {
      access_.claim.other_versions.push_back(operation.want_version);
    }
    return is_consistent();
  }

  void replace() {
    if (has_written_ && access_.leaves_entry()) access_.passing.emplace_back(access_.version, access_.value);
  }

  void put(const Operation& operation) {
    replace();
    access_.effect = Effect::kPut;
    access_.version = operation.version;
    access_.value = operation.value;
    wrote(true, operation.value);
  }

  void erase() {
    replace();
    access_.version = 0;
    access_.value = {};
    // What was absent before and is absent behind the transaction was not changed.
    access_.effect = access_.claim.found == Found::kAbsent ? Effect::kNone : Effect::kErase;
    wrote(false, {});
  }

  [[nodiscard]] bool add(const Operation& operation) {
    const int64_t delta = sum_of(access_.delta, operation.amount);
    const Claim& claim = access_.claim;
    const bool is_relative = !has_written_ || access_.effect == Effect::kAdd;
    const bool was_absent = has_written_ ? !is_present_ : claim.found == Found::kAbsent;
    const Value before = has_written_ ? value_ : claim.value;
    Value sum;
    if (was_absent) sum = operation.amount;
    if (!was_absent && before) sum = sum_of(*before, operation.amount);
    if (operation.value && sum && *operation.value != *sum) return false;
    replace();
    access_.delta = delta;
    if (operation.value && !sum && is_relative && !see_sum(*operation.value)) return false;
    access_.effect = is_relative ? Effect::kAdd : Effect::kPut;
    access_.version = operation.version;
    access_.value = operation.value ? operation.value : sum;
    wrote(true, access_.value);
    return true;
  }

  void wrote(bool is_present, const Value& value) {
    has_written_ = true;
    is_present_ = is_present;
    value_ = value;
  }

  Access& access_;
  bool has_written_ = false;
  bool is_present_ = false;
  Value value_;
};

}  // namespace

int64_t sum_of(int64_t one, int64_t other) {
  return static_cast<int64_t>(static_cast<uint64_t>(one) + static_cast<uint64_t>(other));
}

int64_t difference_of(int64_t one, int64_t other) {
  return static_cast<int64_t>(static_cast<uint64_t>(one) - static_cast<uint64_t>(other));
}

bool Claim::allows(uint64_t present_version, const Value& present_value) const {
  if (found == Found::kAbsent) return false;
  if (version != 0 && present_version != 0 && version != present_version) return false;
  if (value && present_value && *value != *present_value) return false;
  if (present_version != 0 && has(other_versions, present_version)) return false;
  return !present_value || !has(other_values, *present_value);
}

std::string append_accesses(const History& history, uint32_t transaction, std::vector<Access>& accesses) {
  const Transaction& one = history.transactions[transaction];
  const size_t first = accesses.size();
  std::vector<uint32_t> keys;
  for (const Operation& operation : one.operations) {
    if (!has(keys, operation.key)) keys.push_back(operation.key);
  }
  for (const uint32_t key : keys) accesses.push_back({.transaction = transaction, .key = key});
  std::vector<OneKey> open;
  open.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) open.emplace_back(accesses[first + i]);
  for (const Operation& operation : one.operations) {
    const auto at = std::ranges::find(keys, operation.key) - keys.begin();
    // What a transaction of unknown outcome asked for held, if it happened.
    const std::string wrong = open[static_cast<size_t>(at)].take(operation, one.outcome != Outcome::kRefused);
    if (!wrong.empty()) return fmt::format("{}: {}", to_text(history, operation), wrong);
  }
  return {};
}

}  // namespace refract::serialisability
