// SPDX-License-Identifier: Apache-2.0
#include "refract/txn/coordinator.h"

#include <algorithm>
#include <utility>

#include "refract/base/units.h"

namespace refract::txn {

using kv::RpcBatch;
using kv::RpcBatchWrite;
using kv::RpcCondition;
using runtime::Task;

namespace {

// For so long the home keeps what a session that is gone has decided; less, for the way there.
constexpr uint64_t kDecisionKept_ns = 50 * kSecond_ns;
constexpr uint64_t kAskingPause_ns = kMillisecond_ns;

// No two clocks differ more in their pace.
constexpr uint64_t kDrift = 1000;
constexpr uint64_t kHomeTimeFresh_ns = kSecond_ns;

// Whether a home that answers so has not decided for it, and never will.
bool is_never(Code code) noexcept {
  switch (code) {
    case Code::kConflict:
    case Code::kExists:
    case Code::kNotFound:
    case Code::kVersionMismatch:
    case Code::kInvalidArgument:
    case Code::kTooLarge:
    case Code::kNoSpace:
    case Code::kOverloaded:
    case Code::kWrongShard:
    case Code::kUnsupported:
    case Code::kUnavailable:
    case Code::kInvalidated:
      return true;
    default:
      return false;
  }
}

// What it does is not known before it is answered.
bool is_row(const RpcBatchWrite& one) noexcept {
  return one.kind == kv::WriteKind::kFunction || one.if_absent || one.if_present;
}

// Which of two refusals says more: what a condition says, then what the batch is, then who is in the way.
int weight(Code code) noexcept {
  switch (code) {
    case Code::kOk:
      return 0;
    case Code::kUnavailable:
    case Code::kIndeterminate:
      return 1;
    case Code::kConflict:
    case Code::kOverloaded:
      return 2;
    default:
      return 3;
  }
}

}  // namespace

Coordinator::Coordinator(ShardAccess& shards, runtime::Shard& shard, RpcBatch& batch, const Terms& terms)
    : shards_(shards), shard_(shard), batch_(batch), terms_(terms) {
  divide();
}

Coordinator::Part& Coordinator::part_of(uint32_t shard) {
  const auto found = std::ranges::find_if(parts_, [shard](const auto& part) { return part->shard == shard; });
  if (found != parts_.end()) return **found;
  parts_.push_back(std::make_unique<Part>());
  parts_.back()->shard = shard;
  parts_.back()->place = shards_.place_of(shard);
  return *parts_.back();
}

void Coordinator::divide() {
  uint32_t origin = 0;
  for (const RpcCondition& one : batch_.conditions) {
    Part& part = part_of(shards_.shard_of(one.key));
    part.conditions.push_back(one);
    part.origins.push_back(origin++);
  }
  for (const RpcBatchWrite& one : batch_.writes) {
    Part& part = part_of(shards_.shard_of(one.key));
    part.writes.push_back(one);
    part.origins.push_back(origin++);
  }
  // The home: the first with something to write; in order the last of them, which is asked behind the others.
  const bool is_last = terms_.effort.goes_in_order();
  const auto before = [is_last](const std::unique_ptr<Part>& one, const std::unique_ptr<Part>& other) {
    if (one->writes.empty() != other->writes.empty()) return !one->writes.empty();
    return is_last ? one->shard > other->shard : one->shard < other->shard;
  };
  const auto home = std::ranges::min_element(parts_, before);
  if (home != parts_.end()) std::swap(*home, parts_.front());
  find_far();
  const auto others = std::span(parts_).subspan(is_decided_at_home_ ? 1 : 0);
  std::ranges::sort(others, {}, [](const auto& part) { return part->shard; });
  for (const auto& part : parts_) {
    part->batch.conditions = part->conditions;
    part->batch.writes = part->writes;
  }
}

void Coordinator::find_far() {
  is_decided_at_home_ = !batch_.writes.empty();
  for (const auto& part : parts_) {
    part->is_far = part->place.member != parts_.front()->place.member;
    // No other node looks at its word: the home alone can tell all parts together that all has stood.
    is_decided_at_home_ = is_decided_at_home_ || part->is_far;
    if (part->is_far && !part->writes.empty()) far_places_.push_back(part->place);
  }
  is_home_prepared_ = !parts_.empty() && std::ranges::any_of(parts_.front()->writes, is_row);
}

kv::TransactionName Coordinator::name_for(const Part& part) const noexcept {
  if (!part.is_far) return name_;
  return {.place = name_.place.seen_from_afar(parts_.front()->place.member), .number = name_.number};
}

bool Coordinator::reach() {
  for (const auto& part : parts_) {
    part->calls = shards_.at(part->shard);
    unreached_ = part->shard;
    if (part->calls == nullptr) return false;
  }
  return true;
}

Task<Result<>> Coordinator::begin() {
  if (far_places_.size() > kv::wire::kFarPartsMax) {
    batch_.failed = batch_.conditions.size() + batch_.writes.size();
    co_return fail(Code::kTooLarge);
  }
  if (!reach()) co_return fail(Code::kUnavailable);
  node_ = shards_.node_of(parts_.front()->shard);
  Part& home = *parts_.front();
  const Result<kv::TransactionName> begun =
      co_await home.calls->begin(terms_.deadline_ns, !far_places_.empty());
  if (!begun) {
    unreached_ = home.shard;
    co_return fail(begun.error());
  }
  name_ = *begun;
  opened_ns_ = home.calls->opened_ns();
  generation_ = home.calls->home().generation;
  if (terms_.effort.goes_in_order()) {
    co_await prepare_in_order();
  } else {
    co_await prepare_all();
  }
  co_return Result<>();
}

Task<Result<>> Coordinator::run() {
  Result<> result = co_await begin();
  if (!result) co_return result;
  result = verdict();
  if (result && is_decided_at_home_) {
    result = co_await decide(*parts_.front());
    settle();
  } else {
    release();
  }
  if (result) tell_written(!is_learned_ || is_home_prepared_);
  co_return result;
}

Task<Result<>> Coordinator::hold() {
  is_decided_at_home_ = false;
  Result<> result = co_await begin();
  if (!result) co_return result;
  result = verdict();
  if (!result) release();
  co_return result;
}

void Coordinator::release() {
  fate_ = kv::wire::Fate::kNever;
  end(/*is_refused=*/true);
  settle();
}

Task<> Coordinator::prepare(Part& part) {
  part.is_asked = true;
  const Result<kv::TransactionCalls::Held> held = co_await part.calls->prepare(part.batch, terms(part));
  part.outcome = held ? Result<>() : fail(held.error());
  if (held) part.held = *held;
}

Task<> Coordinator::prepare_in(Part& part, kv::TaskTeam& team) {
  co_await prepare(part);
  team.leave();
}

Task<> Coordinator::prepare_all() {
  kv::TaskTeam team(shard_);
  for (const auto& part : parts_) {
    if (is_prepared(*part)) team.add(prepare_in(*part, team));
  }
  co_await team.run();
}

Task<> Coordinator::prepare_in_order() {
  for (const auto& part : std::span(parts_).subspan(is_decided_at_home_ ? 1 : 0)) {
    co_await prepare(*part);
    if (!part->outcome) co_return;
  }
  if (is_decided_at_home_ && is_home_prepared_) co_await prepare(*parts_.front());
}

uint64_t Coordinator::expires_wall_ns() const noexcept {
  uint64_t expires_wall_ns = 0;
  for (const auto& part : parts_) {
    if (!part->is_far) expires_wall_ns = kv::first_expiry(expires_wall_ns, part->held.expires_wall_ns);
  }
  return expires_wall_ns;
}

bool Coordinator::has_expiry_afar() const noexcept {
  return std::ranges::any_of(
      parts_, [](const auto& part) { return part->is_far && part->held.expires_wall_ns != 0; });
}

// Each node has a clock of its own. The part looked behind the moment at which it was asked, so that what
// was left then is over at this process's moment + that, or later; and the home's time was at least what it
// said when its answer had come.
uint64_t Coordinator::expires_afar_wall_ns(const kv::TransactionCalls::Home& home) const noexcept {
  uint64_t expires_wall_ns = 0;
  for (const auto& part : parts_) {
    const kv::TransactionCalls::Held& held = part->held;
    if (!part->is_far || held.expires_wall_ns == 0) continue;
    const uint64_t left_ns = held.expires_wall_ns - std::min(held.expires_wall_ns, held.looked_wall_ns);
    const uint64_t moment_ns = held.sent_ns + left_ns - left_ns / kDrift;
    const uint64_t since_ns = moment_ns - std::min(moment_ns, home.seen_ns);
    const uint64_t before_ns = home.seen_ns - std::min(home.seen_ns, moment_ns);
    const uint64_t at_ns = home.wall_ns + since_ns - since_ns / kDrift - before_ns - before_ns / kDrift;
    expires_wall_ns = kv::first_expiry(expires_wall_ns, std::max<uint64_t>(at_ns, 1));
  }
  return expires_wall_ns;
}

bool Coordinator::stood_together() const noexcept {
  uint64_t looked_wall_ns = 0;
  for (const auto& part : parts_) looked_wall_ns = std::max(looked_wall_ns, part->held.looked_wall_ns);
  const uint64_t expires_wall_ns = this->expires_wall_ns();
  return expires_wall_ns == 0 || looked_wall_ns < expires_wall_ns;
}

// Of equal ones that which comes first in the batch.
bool Coordinator::is_worse(const Part& one, const Part& other) noexcept {
  const int difference = weight(one.outcome.code()) - weight(other.outcome.code());
  return difference != 0 ? difference > 0 : one.failed() < other.failed();
}

Result<> Coordinator::verdict() {
  const Part* worst = nullptr;
  for (const auto& part : parts_) {
    if (part->outcome.code() == Code::kOk) continue;
    if (worst == nullptr || is_worse(*part, *worst)) worst = part.get();
  }
  if (worst == nullptr) {
    if (is_decided_at_home_ || stood_together()) return {};
    batch_.failed = batch_.conditions.size();
    return fail(Code::kConflict);
  }
  tell_failed(*worst);
  unreached_ = worst->shard;
  const Code code = worst->outcome.code();
  // Nothing is decided, and never will be. A word of an earlier session is likewise no one's.
  const bool is_lost =
      code == Code::kIndeterminate || code == Code::kInvalidated || code == Code::kDeadlineExceeded;
  return fail(is_lost ? Code::kUnavailable : code);
}

Task<Result<>> Coordinator::decide(Part& home) {
  if (has_expiry_afar() && shard_.refresh_now() - home.calls->home().seen_ns > kHomeTimeFresh_ns) {
    const Code looked = co_await home.calls->look_at_home(terms_.deadline_ns);
    if (looked != Code::kOk) {
      fate_ = kv::wire::Fate::kNever;
      unreached_ = home.shard;
      end(/*is_refused=*/true);
      co_return fail(Code::kUnavailable);
    }
  }
  const uint64_t sent_ns = shard_.refresh_now();
  kv::TransactionCalls::Terms terms = this->terms(home);
  terms.not_after_wall_ns = kv::first_expiry(expires_wall_ns(), expires_afar_wall_ns(home.calls->home()));
  terms.far_places = far_places_;
  RpcBatch nothing_more;
  RpcBatch& decided_with = is_home_prepared_ ? nothing_more : home.batch;
  const Result<kv::TransactionCalls::Held> decided = co_await home.calls->decide(decided_with, terms);
  Code code = decided.code();
  if (code == Code::kIndeterminate) {
    is_learned_ = true;
    code = co_await learn_outcome(sent_ns);
  } else if (code != Code::kOk) {
    tell_failed(home);
    if (is_home_prepared_) batch_.failed = batch_.conditions.size() + batch_.writes.size();
  }
  if (code == Code::kOk) fate_ = kv::wire::Fate::kHappened;
  if (is_never(code)) fate_ = kv::wire::Fate::kNever;
  end(/*is_refused=*/code != Code::kOk && code != Code::kIndeterminate);
  if (code == Code::kOk) co_return Result<>();
  unreached_ = home.shard;
  // The session is another one, which has not been given the word.
  if (code == Code::kInvalidated) code = Code::kUnavailable;
  co_return fail(code);
}

// The answer was lost. To ask is to decide, against the transaction, unless it has happened.
Task<Code> Coordinator::learn_outcome(uint64_t sent_ns) {
  Part& home = *parts_.front();
  for (;;) {
    // Of another node the word tells nothing.
    const uint64_t node = shards_.node_of(home.shard);
    if (node != 0 && node != node_) co_return Code::kIndeterminate;
    home.calls = shards_.at(home.shard);
    if (home.calls != nullptr) {
      const Code code = co_await home.calls->ask_outcome(name_, terms_.deadline_ns);
      if (code == Code::kOk || code == Code::kConflict) co_return code;
      // The home's log has failed: a crash of its host may still undo it.
      if (code == Code::kReadOnly) co_return Code::kIndeterminate;
      // The word has gone on, which one that was decided for does not do so soon.
      const bool is_soon = shard_.refresh_now() - sent_ns < kDecisionKept_ns;
      if (code == Code::kInvalidated) co_return is_soon ? Code::kConflict : Code::kIndeterminate;
      // It has not recovered yet, perhaps.
      co_await shard_.sleep_for(kAskingPause_ns);
    }
    const bool is_there = co_await shards_.await(home.shard, terms_.deadline_ns);
    if (!is_there) co_return Code::kIndeterminate;
  }
}

// Not awaited. What does not arrive, the owners do by themselves.
void Coordinator::settle() {
  for (const auto& part : parts_) {
    if (!part->is_asked) continue;
    if (kv::TransactionCalls* const calls = shards_.at(part->shard)) calls->settle(name_for(*part), fate_);
  }
}

// Where the home's session is another one by now, it has ended with that.
void Coordinator::end(bool is_refused) {
  kv::TransactionCalls* const home = shards_.at(parts_.front()->shard);
  if (home != nullptr) home->end(name_, is_refused, opened_ns_, !far_places_.empty());
}

void Coordinator::tell_failed(const Part& part) noexcept {
  batch_.failed = std::min(part.failed(), batch_.conditions.size() + batch_.writes.size());
}

void Coordinator::tell_written(bool is_home_known) noexcept {
  for (const auto& part : parts_) {
    const bool is_known = is_home_known || part != parts_.front();
    for (size_t i = 0; i < part->writes.size(); ++i) {
      const size_t origin = part->origins[part->conditions.size() + i] - batch_.conditions.size();
      RpcBatchWrite& told = batch_.writes[origin];
      const RpcBatchWrite& written = part->writes[i];
      told.version = written.version;
      told.sum = written.sum;
      told.code = written.code;
      told.answer_bytes = written.answer_bytes;
      told.answer = written.answer;
      const bool is_plain_put = written.kind == kv::WriteKind::kPut && !is_row(written);
      if (!is_known && !is_plain_put) told.code = Code::kIndeterminate;
    }
  }
}

}  // namespace refract::txn
