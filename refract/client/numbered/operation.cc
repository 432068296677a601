// SPDX-License-Identifier: Apache-2.0
#include "refract/client/numbered/operation.h"

#include <memory>
#include <new>
#include <utility>

#include "refract/base/check.h"
#include "refract/client/answers.h"
#include "refract/client/async_calls.h"
#include "refract/client/async_client.h"
#include "refract/client/numbered/numbered_shard.h"
#include "refract/kv/layout/contract.h"

namespace refract {

using client::AsyncCalls;
using client::NumberedOutcome;
using client::NumberedShard;
using runtime::Task;

namespace {

using WireKind = kv::wire::OperationKind;
using WireForm = kv::wire::Operation;

constexpr WireKind kind_of(KeyOperation::Kind kind) noexcept {
  switch (kind) {
    case KeyOperation::Kind::kErase:
      return WireKind::kErase;
    case KeyOperation::Kind::kFunction:
      return WireKind::kFunction;
    case KeyOperation::Kind::kCondition:
      return WireKind::kCondition;
    case KeyOperation::Kind::kPut:
      break;
  }
  return WireKind::kPut;
}

Bytes value_of(const KeyOperation& operation) noexcept {
  return operation.built_in == nullptr ? operation.value : Bytes(operation.built_in->bytes());
}

client::NumberedOperation numbered_form(Bytes key, const KeyOperation& operation) noexcept {
  uint8_t flags = operation.if_absent ? WireForm::kIfAbsent : 0;
  flags |= operation.if_present ? WireForm::kIfPresent : 0;
  flags |= operation.keeps_ttl ? WireForm::kKeepsExpiry : 0;
  flags |= operation.ttl_ns != 0 ? WireForm::kForSoLong : 0;
  return {.kind = kind_of(operation.kind),
          .flags = flags,
          .function = operation.function,
          .tag = operation.tag,
          .argument = operation.ttl_ns != 0 ? operation.ttl_ns : operation.expires_wall_ns,
          .if_version = operation.if_version,
          .key = key,
          .value = value_of(operation),
          .shared = operation.built_in == nullptr ? nullptr : operation.built_in->buffer()};
}

Code check(Bytes key, const KeyOperation& operation) noexcept {
  if (const Code code = client::check_key(key); code != Code::kOk) return code;
  if (value_of(operation).size() > kv::kValueBytesMax) return Code::kTooLarge;
  const bool may_be_built = operation.kind == KeyOperation::Kind::kPut && operation.value.empty();
  if (operation.built_in != nullptr && !may_be_built) return Code::kInvalidArgument;
  return operation.ttl_ns != 0 && operation.expires_wall_ns != 0 ? Code::kInvalidArgument : Code::kOk;
}

}  // namespace

namespace client {

class OperateCall final : public TimedWrite {
 public:
  OperateCall(OperationCall& by, AsyncCalls& calls, const NumberedOperation& what, uint64_t begun_ns)
      : TimedWrite(what), by_(by), calls_(calls), at_(shard_of_key()), begun_ns_(begun_ns) {}

  [[nodiscard]] Code begin() { return at_->add(*this, begun_ns_); }
  [[nodiscard]] bool give_up() noexcept { return at_->give_up(*this); }
  void leave() noexcept { at_->leave(*this); }
  void over(const NumberedOutcome& outcome) noexcept override {
    // The node may have other shards by now.
    if (outcome.code == Code::kWrongShard && !std::exchange(was_misplaced_, true)) {
      at_ = shard_of_key();
      const Code code = begin();
      if (code == Code::kOk) return;
      return by_.was_told(NumberedOutcome::of(code));
    }
    by_.was_told(outcome);
  }

 private:
  [[nodiscard]] NumberedShard* shard_of_key() const {
    return &calls_.numbered(calls_.peers().number_of({.key = Bytes(operation.key)}));
  }

  OperationCall& by_;
  AsyncCalls& calls_;
  NumberedShard* at_;
  const uint64_t begun_ns_;
  bool was_misplaced_ = false;
};

AsyncCalls::AsyncCalls(runtime::Shard& shard, const Settings& settings) : peers_(shard, settings) {}
AsyncCalls::AsyncCalls(runtime::Shard& shard, std::unique_ptr<const Settings> settings)
    : own_settings_(std::move(settings)), peers_(shard, *own_settings_) {}
AsyncCalls::~AsyncCalls() = default;

NumberedShard& AsyncCalls::numbered(uint32_t number) {
  for (const auto& one : numbered_) {
    if (one->number() == number) return *one;
  }
  return *numbered_.emplace_back(std::make_unique<NumberedShard>(peers_, number));
}

Task<Operated> AsyncCalls::operate_slowly(Bytes key, KeyOperation operation) {
  const uint64_t begun_ns = peers_.shard().refresh_now();
  co_await peers_.find_node_of({key}, begun_ns + peers_.settings().options.timeout_ns);
  Operating found(*this, key, operation);
  found.begun_ns_ = begun_ns;
  co_return co_await found;
}

// What keeps an expiry and is too long for a message: a draft cannot, so that it is told which.
Task<Operated> AsyncCalls::operate_on_version(Bytes key, KeyOperation operation, uint64_t begun_ns) {
  const uint64_t deadline_ns = begun_ns + peers_.settings().options.timeout_ns;
  for (;;) {
    const Result<Got> got = co_await exists({.key = key});
    if (!got && got.code() != Code::kNotFound) co_return Operated{.code = got.code()};
    KeyOperation put = operation;
    put.keeps_ttl = false;
    if (!got) {
      if (operation.if_present || operation.if_version != 0) co_return Operated{.code = Code::kNotFound};
      put.if_absent = true;
    } else {
      if (operation.if_absent) co_return Operated{.code = Code::kExists};
      const bool is_it = operation.if_version == 0 || operation.if_version == got->version;
      if (!is_it) co_return Operated{.code = Code::kVersionMismatch};
      put.if_present = false;
      put.if_version = got->version;
      put.expires_wall_ns = got->expires_wall_ns;
    }
    Operating operating(*this, key, put);
    operating.begun_ns_ = begun_ns;
    const Operated outcome = co_await operating;
    const bool has_changed = outcome.code == Code::kVersionMismatch || outcome.code == Code::kNotFound ||
                             outcome.code == Code::kExists;
    if (!has_changed) co_return outcome;
    if (peers_.shard().refresh_now() >= deadline_ns) co_return Operated{.code = Code::kDeadlineExceeded};
  }
}

}  // namespace client

Operating AsyncClient::operate(Bytes key, const KeyOperation& operation) noexcept {
  return {*calls_, key, operation};
}

Code OperationCall::begin(AsyncClient& client, Bytes key, const KeyOperation& operation) {
  client::AsyncCalls& calls = *client.calls_;
  const client::Peers& peers = calls.peers();
  if (peers.is_child()) return Code::kForked;
  if (const Code code = check(key, operation); code != Code::kOk) return code;
  if (peers.at({.key = key}) == nullptr) [[unlikely]]
    return Code::kUnavailable;
  return begin_at_shard(calls, key, operation, peers.shard().now_ns());
}

Code OperationCall::begin_at_shard(client::AsyncCalls& calls, Bytes key, const KeyOperation& operation,
                                   uint64_t begun_ns) {
  static_assert(sizeof(client::OperateCall) <= sizeof(call_room_) && alignof(client::OperateCall) <= 8);
  REFRACT_DCHECK(call_ == nullptr);
  call_ = new (call_room_) client::OperateCall(*this, calls, numbered_form(key, operation), begun_ns);
  const Code code = call_->begin();
  if (code != Code::kOk) std::destroy_at(std::exchange(call_, nullptr));
  return code;
}

// What tells it lies in the room, and is gone then.
void OperationCall::was_told(const NumberedOutcome& outcome) noexcept {
  const Operated operated{.code = outcome.code,
                          .answer_bytes = outcome.answer_bytes,
                          .version = outcome.version,
                          .bytes = outcome.bytes};
  std::destroy_at(std::exchange(call_, nullptr));
  over(operated);
}

bool OperationCall::give_up() noexcept {
  if (!call_->give_up()) return false;
  std::destroy_at(std::exchange(call_, nullptr));
  return true;
}

void OperationCall::leave() noexcept {
  call_->leave();
  std::destroy_at(std::exchange(call_, nullptr));
}

bool Operating::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  const client::Peers& peers = calls_.peers();
  outcome_.code = peers.is_child() ? Code::kForked : check(key_, operation_);
  if (outcome_.code != Code::kOk) return false;
  // Which shard it is of is known when its node was reached.
  if (begun_ns_ == 0 && peers.at({.key = key_}) == nullptr) [[unlikely]] {
    return continue_by(calls_.operate_slowly(key_, operation_));
  }
  if (begun_ns_ == 0) begun_ns_ = peers.shard().now_ns();
  outcome_.code = begin_at_shard(calls_, key_, operation_, begun_ns_);
  if (outcome_.code == Code::kOk) return true;
  return is_to_be_read_first() && continue_by(calls_.operate_on_version(key_, operation_, begun_ns_));
}

bool Operating::continue_by(Task<Operated> slow) {
  slow_ = std::move(slow);
  return std::move(slow_).operator co_await().await_suspend(waiter_);
}

bool Operating::is_to_be_read_first() const noexcept {
  return outcome_.code == Code::kTooLarge && operation_.keeps_ttl &&
         operation_.kind == KeyOperation::Kind::kPut && !slow_.valid();
}

void Operating::over(const Operated& outcome) noexcept {
  outcome_ = outcome;
  if (is_to_be_read_first() && continue_by(calls_.operate_on_version(key_, operation_, begun_ns_))) return;
  waiter_.resume();
}

Operated Operating::await_resume() {
  if (slow_.valid()) return slow_.take();
  return outcome_;
}

}  // namespace refract
