// SPDX-License-Identifier: Apache-2.0
#include "tests/transactions/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

namespace refract::campaign {
namespace {

using serialisability::Condition;
using serialisability::Found;
using serialisability::Kind;
using serialisability::Operation;
using serialisability::Outcome;
using serialisability::Transaction;

// Of one key in one death.
struct LostKey {
  uint64_t from_ns = UINT64_MAX;
  std::set<uint64_t> stamps;
  std::set<uint64_t> erased;  // Versions.
  std::set<int64_t> values;
};
using LostKeys = std::map<uint32_t, LostKey>;

// Transactor::new_value() has it there.
std::optional<int64_t> number_in(const std::string& value) {
  int64_t number = 0;
  const size_t from = value.find('#') + 1;
  const auto [end, error] = std::from_chars(value.data() + from, value.data() + value.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

LostKeys keys_of(TransactionStage& stage, const NodeLogs::Loss& loss) {
  LostKeys keys;
  for (const NodeLogs::Change& change : loss.changes) {
    if (change.key.starts_with(TransactionStage::kFill)) continue;
    LostKey& key = keys[stage.recorder.key(change.key)];
    key.from_ns = std::min(key.from_ns, change.moment_ns);
    if (change.is_erasure) {
      key.erased.insert(change.replaced);
    } else {
      key.stamps.insert(change.stamp);
      if (const auto number = number_in(change.value)) key.values.insert(*number);
    }
  }
  return keys;
}

bool writes(const Operation& operation) noexcept {
  if (operation.kind == Kind::kGet || operation.condition == Condition::kUnmet) return false;
  return operation.kind != Kind::kErase || operation.found != Found::kAbsent;
}

enum class Trace : uint8_t { kNone, kUntold, kThere, kLost };

// What the client was told of this write, and what became of that.
Trace trace_of(const Operation& operation, const LostKeys& lost) {
  const auto found = lost.find(operation.key);
  const LostKey none;
  const LostKey& key = found == lost.end() ? none : found->second;
  if (operation.kind == Kind::kErase) {
    if (operation.found_version == 0) return Trace::kUntold;
    return key.erased.contains(operation.found_version) ? Trace::kLost : Trace::kThere;
  }
  if (operation.version != 0) return key.stamps.contains(operation.version) ? Trace::kLost : Trace::kThere;
  if (operation.kind != Kind::kPut || !operation.value) return Trace::kUntold;
  return key.values.contains(*operation.value) ? Trace::kLost : Trace::kUntold;
}

class Death {
 public:
  Death(TransactionStage& stage, const NodeLogs::Loss& loss)
      : stage_(stage), loss_(loss), lost_(keys_of(stage, loss)) {}

  void judge(Transaction& one) {
    if (lost_.empty() || one.began_ns > loss_.crashed_ns || one.outcome != Outcome::kCommitted) return;
    bool has_written = false;
    Trace trace = Trace::kNone;
    for (const Operation& operation : one.operations) {
      if (!writes(operation)) continue;
      has_written = true;
      trace = std::max(trace, trace_of(operation, lost_));
    }
    if (trace == Trace::kLost) return forget_lost(one);
    if (!is_near(one) || trace == Trace::kThere) return;
    ++stage_.outcome.unjudged;
    // It read, or which of its writes are there is not known.
    one.outcome = has_written ? Outcome::kUnknown : Outcome::kRefused;
    if (has_written) one.ended_ns = serialisability::kNever;
  }

 private:
  void forget_lost(Transaction& one) {
    const bool is_eviction = stage_.recorder.history().clients[one.client] == TransactionStage::kEvictor;
    const bool is_always = stage_.logs->durability() == Durability::kAlways;
    const std::string text = to_text(stage_.recorder.history(), one);
    if (is_always && !is_eviction) stage_.complain("what was acknowledged is lost: " + text);
    if (one.ended_ns < loss_.decided_ns && !is_eviction) {
      stage_.complain("what was acknowledged before a transaction was decided is lost without it: " + text);
    }
    one.outcome = Outcome::kRefused;
    ++stage_.outcome.taken_back;
  }

  // Whether it was there while a key that it has to do with had what went.
  [[nodiscard]] bool is_near(const Transaction& one) const {
    return std::ranges::any_of(one.operations, [&](const Operation& operation) {
      const auto found = lost_.find(operation.key);
      return found != lost_.end() && one.ended_ns >= found->second.from_ns;
    });
  }

  TransactionStage& stage_;
  const NodeLogs::Loss& loss_;
  const LostKeys lost_;
};

}  // namespace

void forget_what_was_taken_back(TransactionStage& stage) {
  if (stage.logs == nullptr) return;
  const size_t count = stage.recorder.history().transactions.size();
  for (const NodeLogs::Loss& loss : stage.logs->losses()) {
    Death death(stage, loss);
    for (size_t i = 0; i < count && !stage.is_over(); ++i) death.judge(stage.recorder.transaction(i));
  }
}

}  // namespace refract::campaign
