// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/rpc_client_attempts.h"

#include "refract/kv/calls/call_batcher.h"
#include "refract/kv/calls/rpc_client_calls.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;
using wire::Method;

namespace {

// Outcomes of a single attempt after which get() and put() try again.
bool is_passing(Code code) noexcept {
  return code == Code::kOverloaded || code == Code::kInvalidated || code == Code::kUnavailable;
}

}  // namespace

// All wait equally long, so the call that comes last stands last.
bool RpcClient::TimedCall::start(const rpc::Call& call) noexcept {
  call_ = client_.session_.start(call, *this, 0);
  if (call_ == 0) return false;
  deadline_ns_ = client_.deadline_or_default(0);
  earlier_ = client_.last_call_;
  later_ = nullptr;
  (earlier_ == nullptr ? client_.first_call_ : earlier_->later_) = this;
  client_.last_call_ = this;
  if (!client_.calls_watch_.valid() || client_.calls_watch_.done()) [[unlikely]] {
    client_.calls_watch_ = client_.watch_calls();
    client_.calls_watch_.start();
  }
  return true;
}

void RpcClient::TimedCall::leave_line() noexcept {
  (earlier_ == nullptr ? client_.first_call_ : earlier_->later_) = later_;
  (later_ == nullptr ? client_.last_call_ : later_->earlier_) = earlier_;
}

void RpcClient::TimedCall::drop() noexcept {
  leave_line();
  (void)client_.session_.finish(std::exchange(call_, 0));
}

void RpcClient::TimedCall::on_reply(uint32_t /*place*/, const OpResult& reply) noexcept {
  leave_line();
  call_ = 0;
  answered(reply);
}

Task<> RpcClient::watch_calls() {
  while (first_call_ != nullptr) {
    co_await shard_.sleep_until(first_call_->deadline_ns_);
    // The caller that is told of it may begin another one, which is not late.
    while (first_call_ != nullptr && first_call_->deadline_ns_ <= shard_.now_ns()) {
      TimedCall& late = *first_call_;
      late.drop();
      late.answered({.code = Code::kIndeterminate});
    }
  }
}

void RpcClient::Attempt::go_with(Group& group, uint32_t place) noexcept {
  group_ = &group;
  place_ = place;
  was_sent_ = true;
  ++client().attempt_count_;
}

void RpcClient::Attempt::go_alone(const rpc::Call& call) noexcept {
  was_sent_ = start(call);
  client().attempt_count_ += was_sent_ ? 1 : 0;
}

void RpcClient::Attempt::give_up() noexcept {
  --client().attempt_count_;
  if (group_ != nullptr) {
    group_->leave(place_);
  } else {
    drop();
  }
}

void RpcClient::Attempt::answered(const OpResult& reply) noexcept {
  settle(reply);
  end();
}

RpcClient::GetAttempt::GetAttempt(RpcClient& client, std::span<const std::byte> key, ValueSink& sink,
                                  Continuer* continuer)
    : Attempt(client, continuer), key_(key), sink_(sink) {
  if (const auto shared = client.batcher_->batch_get(*this, key)) {
    go_with(*shared->group, shared->place);
  } else {
    go_alone();
  }
}

void RpcClient::GetAttempt::go_alone() {
  if (check_lengths(key_, 0) != Code::kOk) return;
  const Keyed call = Keyed::of_get(key_, client().prefers_one_sided());
  if (call.front_bytes() + key_.size() > client().body_bytes_max_) return;
  const CallHead head = call.head();
  Attempt::go_alone({.method = call.number(), .head = head.bytes()});
}

void RpcClient::GetAttempt::settle(const OpResult& reply) noexcept {
  if (reply.code != Code::kOk) {
    const Code code = client().read_outcome(reply.code);
    if (!is_passing(code)) settle_with(code);
    return;
  }
  GetAnswer answer;
  const Code taken = take_get_answer(reply.bytes, client().prefers_one_sided(), sink_, answer);
  if (taken == Code::kOk) client().batcher_->saw_value(answer.got.value_bytes);
  if (taken == Code::kOk && answer.view == 0) [[likely]] {
    got_ = answer.got;
    settle_with(Code::kOk);
  } else if (taken == Code::kOk) {
    opened_ = answer;
  } else {
    const OpenHandle view(client().session_, Method::kViewClose, answer.view);
    settle_with(taken);
  }
}

Task<Result<Got>> RpcClient::GetAttempt::finish() {
  if (opened_) {
    OpenHandle view(client().session_, Method::kViewClose, opened_->view);
    const Code code = co_await client().read_view(ViewRest::of(*opened_), 0);
    if (code == Code::kOk) {
      view.forget();
      co_return opened_->got;
    }
    if (code != Code::kInvalidated) co_return fail(code);
  }
  const Result<Got> got = co_await client().get(key_, sink_);
  co_return got;
}

RpcClient::PutAttempt::PutAttempt(RpcClient& client, const Write& write, Continuer* continuer)
    : Attempt(client, continuer), write_(write) {
  if (const auto shared = client.batcher_->batch_put(*this, write)) {
    go_with(*shared->group, shared->place);
  } else {
    go_alone();
  }
}

void RpcClient::PutAttempt::go_alone() {
  if (check_lengths(write_.key, write_.value.size()) != Code::kOk) return;
  const Keyed call = Keyed::of_put(write_.key, write_.value.size(), {.ttl_ns = write_.ttl_ns});
  if (call.front_bytes() + write_.key.size() + write_.value.size() > client().body_bytes_max_) return;
  const CallHead head = call.head();
  Attempt::go_alone({.method = call.number(), .head = head.bytes(), .tail = write_.value});
}

void RpcClient::PutAttempt::settle(const OpResult& reply) noexcept {
  Writing writing = Writing::of({}, 0);
  const Result<uint64_t> version = writing.version_of(reply);
  if (version) version_ = *version;
  if (!is_passing(version.code())) settle_with(version.code());
}

void RpcClient::PutAttempt::take(const wire::ManyVersion& version) noexcept {
  const Code code = code_from_wire(version.code);
  version_ = version.version;
  if (!is_passing(code)) settle_with(code);
  end();
}

}  // namespace refract::kv
