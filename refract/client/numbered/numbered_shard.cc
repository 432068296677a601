// SPDX-License-Identifier: Apache-2.0
#include "refract/client/numbered/numbered_shard.h"

#include <algorithm>

#include "refract/base/units.h"
#include "refract/kv/functions/functions.h"

namespace refract::client {

using kv::wire::OperationKind;
using runtime::Task;

namespace {

// For a credit, or a place in the channel, that others have.
constexpr uint64_t kCreditPause_ns = 50 * kMicrosecond_ns;
constexpr uint64_t kRefusalPause_ns = kMillisecond_ns;
constexpr uint64_t kServerPause_ns = 10 * kMillisecond_ns;

kv::wire::Operation wire_form(const NumberedCall::Item& item) noexcept {
  kv::wire::Operation operation{};
  operation.number = item.number;
  operation.tag = item.tag;
  operation.kind = static_cast<uint8_t>(OperationKind::kWithdraw);
  if (item.operation == nullptr) return operation;
  if (item.draft != 0) {
    // What its begin has said is not said again.
    operation.kind = static_cast<uint8_t>(OperationKind::kCommit);
    operation.value_bytes = item.operation->argument != 0 ? sizeof(item.operation->argument) : 0;
    operation.argument = item.draft;
    operation.if_version = item.operation->if_version;
    operation.flags = item.operation->flags;
    return operation;
  }
  operation.value_bytes = static_cast<uint32_t>(item.operation->value.size());
  operation.argument = item.operation->argument;
  operation.if_version = item.operation->if_version;
  operation.key_bytes = static_cast<uint16_t>(item.operation->key.size());
  operation.kind = static_cast<uint8_t>(item.operation->kind);
  operation.flags = item.operation->flags;
  operation.function = item.operation->function;
  return operation;
}

}  // namespace

void TimedWrite::told(const NumberedOutcome& outcome) noexcept {
  if (timed_ != nullptr) TimedWrites::remove(*this);
  if (drafts_ != nullptr) drafts_->end(*this);
  over(outcome);
}

void TimedWrites::add(TimedWrite& one) noexcept {
  one.timed_ = this;
  one.earlier_ = last_;
  one.later_ = nullptr;
  (last_ != nullptr ? last_->later_ : first_) = &one;
  last_ = &one;
}

void TimedWrites::remove(TimedWrite& one) noexcept {
  TimedWrites& list = *one.timed_;
  (one.earlier_ != nullptr ? one.earlier_->later_ : list.first_) = one.later_;
  (one.later_ != nullptr ? one.later_->earlier_ : list.last_) = one.earlier_;
  one.timed_ = nullptr;
}

NumberedShard::NumberedShard(Peers& peers, uint32_t number)
    : peers_(peers),
      number_(number),
      layout_(peers.layout_of(number)),
      writes_(kv::functions::version()),
      drafts_(peers.shard(), *this) {}

NumberedShard::~NumberedShard() {
  detach();
}

Code NumberedShard::add(TimedWrite& write, uint64_t begun_ns) {
  // What is not sound would have the owner refuse all that goes with it.
  const bool is_condition = write.operation.kind == OperationKind::kCondition;
  const kv::wire::Operation form = wire_form({.number = is_condition ? uint64_t{0} : uint64_t{1},
                                              .tag = write.operation.tag,
                                              .operation = &write.operation});
  if (!is_sound(form) || !is_consistent(form)) return Code::kInvalidArgument;
  const Code code = writes_.add(write);
  if (code != Code::kOk) return code;
  write.begun_ns_ = begun_ns;
  timed_.add(write);
  wake();
  if (!is_watching_) {
    is_watching_ = true;
    watching_ = watch();
    watching_.start();
  }
  return Code::kOk;
}

bool NumberedShard::give_up(TimedWrite& write) noexcept {
  const bool is_out = writes_.give_up(write);
  if (is_out && write.timed_ != nullptr) TimedWrites::remove(write);
  wake();
  return is_out;
}

void NumberedShard::leave(TimedWrite& write) noexcept {
  if (write.timed_ != nullptr) TimedWrites::remove(write);
  drafts_.end(write);
  writes_.leave(write);
  wake();
}

void NumberedShard::wake() {
  if (is_running_ || !has_to_do()) return;
  is_running_ = true;
  running_ = run();
  running_.start();
}

Task<> NumberedShard::run() {
  runtime::Shard& shard = peers_.shard();
  // What others of this turn add goes with it.
  co_await shard.sleep_for(0);
  Patience patience;
  while (has_to_do()) {
    drafts_.tell(writes_);
    if (attach()) {
      patience = {};
      if (send_all() && !drafts_.has_to_tell()) break;
      co_await shard.sleep_until(std::max(not_before_ns_, shard.now_ns() + kCreditPause_ns));
      continue;
    }
    // What has no caller any more is asked when another write needs the shard.
    if (writes_.writes() == 0) break;
    const bool is_there = co_await peers_.await_server(place(), patience);
    if (is_there) continue;
    patience = {};
    co_await shard.sleep_for(kServerPause_ns);
  }
  is_running_ = false;
}

bool NumberedShard::attach() {
  Connection* const connection = peers_.answering_at(place());
  const rpc::Session* const session = connection != nullptr ? &connection->numbered().session() : nullptr;
  const bool is_open = session != nullptr && session->state() == rpc::Session::State::kOpen;
  const bool is_same = connection == connection_ && writes_.is_connected();
  if (is_open && is_same && opened_ns_ == session->opened_ns()) return true;
  detach();
  // The node may be another one, which has other shards.
  if (layout_ != peers_.layout_of(number_)) {
    layout_ = peers_.layout_of(number_);
    writes_.end_unsent(Code::kWrongShard);
  }
  if (!is_open) return false;
  connection_ = connection;
  opened_ns_ = session->opened_ns();
  connection->numbered().listen(this);
  writes_.connected({.body_bytes_max = session->payload_bytes_max(),
                     .answer_bytes_max = session->payload_bytes_max(),
                     .messages_are_stores = session->channel()->capabilities().messages_are_stores});
  return true;
}

// One that nothing was under way in may be gone.
void NumberedShard::detach() noexcept {
  const bool is_there = use_.has_value() || (connection_ != nullptr && peers_.at(place()) == connection_);
  if (is_there) connection_->numbered().listen(nullptr);
  connection_ = nullptr;
  use_.reset();
  drafts_.end_all();
  if (writes_.is_connected()) writes_.lost();
}

bool NumberedShard::send_all() noexcept {
  if (not_before_ns_ > peers_.shard().now_ns()) return false;
  size_t sent = 0;
  while (const NumberedCall* const call = writes_.next()) {
    if (!send(*call)) {
      writes_.not_sent(call->place);
      connection_->numbered().flush();
      return false;
    }
    if (!use_) use_.emplace(*connection_);
    sent += std::max<size_t>(call->count, 1);
    // The owner begins with these meanwhile.
    if (sent < kv::wire::kKeysPerTurn) continue;
    connection_->numbered().flush();
    sent = 0;
  }
  if (sent > 0) connection_->numbered().flush();
  begin_drafts();
  return true;
}

void NumberedShard::begin_drafts() {
  while (drafts_.has_room()) {
    auto* const write = static_cast<TimedWrite*>(writes_.next_draft());
    if (write == nullptr) return;
    write->drafts_ = &drafts_;
    drafts_.begin(*connection_, *write, write->begun_ns_ + withdraw_after_ns());
  }
}

bool NumberedShard::send(const NumberedCall& call) noexcept {
  kv::NumberedChannel& channel = connection_->numbered();
  if (call.what == NumberedCall::What::kBegin) return channel.begin_session(call.place);
  if (call.what == NumberedCall::What::kResume) return channel.resume_session(call.place, writes_.session());
  body_.clear();
  if (call.may_wait) body_.may_wait();
  for (const kv::wire::Acknowledged& one : call.acknowledged()) {
    body_.acknowledge(one.number(), one.place());
  }
  for (const NumberedCall::Item& item : call.items()) {
    const NumberedOperation* const operation = item.operation;
    if (item.draft != 0) {
      const std::span<const uint64_t> expiry(&operation->argument, operation->argument != 0 ? 1 : 0);
      body_.add(wire_form(item), {}, std::as_bytes(expiry));
      continue;
    }
    body_.add(wire_form(item), operation != nullptr ? operation->key : std::span<const std::byte>(),
              operation != nullptr ? operation->value : std::span<const std::byte>());
  }
  return channel.send(call.place, body_);
}

void NumberedShard::look_further() {
  if (writes_.calls() == 0) use_.reset();
  wake();
}

void NumberedShard::session_came(uint32_t place, const kv::wire::SessionReply& reply) noexcept {
  writes_.opened(place, reply);
  look_further();
}

bool NumberedShard::answers_came(uint32_t place, std::span<const kv::wire::TakenAnswer> answers) noexcept {
  const bool makes_sense = writes_.answered(place, answers);
  look_further();
  return makes_sense;
}

void NumberedShard::call_was_refused(uint32_t place, Code code) noexcept {
  // The session is another connection's; that of the next one knows more.
  if (code == Code::kInvalidated && writes_.is_open()) {
    connection_->close();
    return answers_were_lost();
  }
  if (code == Code::kOverloaded) not_before_ns_ = peers_.shard().now_ns() + kRefusalPause_ns;
  writes_.refused(place, code);
  look_further();
}

void NumberedShard::answers_were_lost() noexcept {
  if (writes_.is_connected()) writes_.lost();
  look_further();
}

Task<> NumberedShard::watch() {
  runtime::Shard& shard = peers_.shard();
  const uint64_t timeout = timeout_ns();
  const uint64_t withdraw_after = withdraw_after_ns();
  while (timed_.first() != nullptr || withdrawn_.first() != nullptr) {
    uint64_t next_ns = kForever_ns;
    if (timed_.first() != nullptr) next_ns = timed_.first()->begun_ns_ + withdraw_after;
    if (withdrawn_.first() != nullptr) next_ns = std::min(next_ns, withdrawn_.first()->begun_ns_ + timeout);
    co_await shard.sleep_until(next_ns);
    end_overdue(shard.refresh_now());
  }
  is_watching_ = false;
}

void NumberedShard::end_overdue(uint64_t now_ns) {
  const uint64_t timeout = timeout_ns();
  if (const Connection* const connection = peers_.at(place())) {
    if (withdrawn_.first() != nullptr) peers_.note(*connection, Code::kIndeterminate);
  }
  while (TimedWrite* const write = timed_.first()) {
    if (write->begun_ns_ + withdraw_after_ns() > now_ns) break;
    TimedWrites::remove(*write);
    if (writes_.give_up(*write)) {
      drafts_.end(*write);
      write->over(NumberedOutcome::of(writes_.is_connected() ? Code::kDeadlineExceeded : Code::kUnavailable));
    } else {
      withdrawn_.add(*write);
    }
  }
  while (TimedWrite* const write = withdrawn_.first()) {
    if (write->begun_ns_ + timeout > now_ns) break;
    TimedWrites::remove(*write);
    drafts_.end(*write);
    writes_.leave(*write);
    write->over(NumberedOutcome::of(Code::kIndeterminate));
  }
  wake();
}

}  // namespace refract::client
