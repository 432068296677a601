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

RpcClient::Attempt::~Attempt() {
  if (!is_under_way_) return;
  leave_line();
  leave_call();
}

void RpcClient::Attempt::go_with(Group& group, uint32_t place) noexcept {
  group_ = &group;
  place_ = place;
  was_sent_ = is_under_way_ = true;
  join_line();
}

void RpcClient::Attempt::go_alone(const rpc::Call& call) noexcept {
  call_ = client_.session_.start(call, *this, 0);
  if (call_ == 0) return;
  was_sent_ = is_under_way_ = true;
  join_line();
}

void RpcClient::Attempt::leave_call() noexcept {
  if (group_ != nullptr) {
    group_->leave(place_);
  } else {
    (void)client_.session_.finish(call_);
  }
}

// All wait equally long, so the attempt that comes last stands last.
void RpcClient::Attempt::join_line() noexcept {
  deadline_ns_ = client_.deadline_or_default(0);
  earlier_ = client_.last_attempt_;
  (earlier_ == nullptr ? client_.first_attempt_ : earlier_->later_) = this;
  client_.last_attempt_ = this;
  ++client_.attempt_count_;
  if (client_.attempts_watch_.valid() && !client_.attempts_watch_.done()) [[likely]]
    return;
  client_.attempts_watch_ = client_.watch_attempts();
  client_.attempts_watch_.start();
}

void RpcClient::Attempt::leave_line() noexcept {
  --client_.attempt_count_;
  (earlier_ == nullptr ? client_.first_attempt_ : earlier_->later_) = later_;
  (later_ == nullptr ? client_.last_attempt_ : later_->earlier_) = earlier_;
}

Task<> RpcClient::watch_attempts() {
  while (first_attempt_ != nullptr) {
    co_await shard_.sleep_until(first_attempt_->deadline_ns_);
    // The caller that is told of it may begin another one, which is not late.
    while (first_attempt_ != nullptr && first_attempt_->deadline_ns_ <= shard_.now_ns()) {
      first_attempt_->give_up();
    }
  }
}

void RpcClient::Attempt::give_up() noexcept {
  leave_call();
  on_reply(0, {.code = Code::kIndeterminate});
}

void RpcClient::Attempt::on_reply(uint32_t /*place*/, const OpResult& reply) noexcept {
  settle(reply);
  end();
}

void RpcClient::Attempt::end() noexcept {
  is_under_way_ = false;
  leave_line();
  // Either of them may end this.
  if (taker_ != nullptr) {
    taker_->on_attempt_end();
  } else if (waiter_) {
    waiter_.resume();
  }
}

RpcClient::GetAttempt::GetAttempt(RpcClient& client, std::span<const std::byte> key, ValueSink& sink,
                                  EndTaker* taker)
    : Attempt(client, taker), key_(key), sink_(sink), wants_window_(client.prefers_one_sided()) {
  if (check_lengths(key, 0) != Code::kOk) return;
  if (const auto shared = client.batcher_->batch_get(*this, key)) {
    go_with(*shared->group, shared->place);
    return;
  }
  const Keyed call = Keyed::of_get(key, wants_window_);
  if (call.front_bytes() + key.size() > client.body_bytes_max_) return;
  const CallHead head = call.head();
  go_alone({.method = call.number(), .head = head.bytes()});
}

void RpcClient::GetAttempt::on_answer(const wire::ManyAnswer& answer) noexcept {
  if (answer.code == Code::kOk) [[likely]] {
    outcome_ = give(answer, sink_);
    is_settled_ = true;
  } else if (answer.code != Code::kTooLarge) {
    settle({.code = answer.code});
  }
  end();
}

void RpcClient::GetAttempt::settle(const OpResult& reply) noexcept {
  if (reply.code != Code::kOk) {
    const Code code = client().read_outcome(reply.code);
    is_settled_ = !is_passing(code);
    outcome_ = fail(code);
    return;
  }
  GetAnswer answer;
  const Code taken = take_get_answer(reply.bytes, wants_window_, sink_, answer);
  if (taken == Code::kOk) client().batcher_->saw_value(answer.got.value_bytes);
  if (taken == Code::kOk && answer.view == 0) [[likely]] {
    is_settled_ = true;
    outcome_ = answer.got;
  } else if (taken == Code::kOk) {
    opened_ = answer;
  } else {
    const OpenHandle view(client().session_, Method::kViewClose, answer.view);
    is_settled_ = true;
    outcome_ = fail(taken);
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

RpcClient::PutAttempt::PutAttempt(RpcClient& client, const Write& write, EndTaker* taker)
    : Attempt(client, taker), write_(write) {
  if (check_lengths(write.key, write.value.size()) != Code::kOk) return;
  if (const auto shared = client.batcher_->batch_put(*this, write)) {
    go_with(*shared->group, shared->place);
    return;
  }
  const Keyed call = Keyed::of_put(write.key, write.value.size(), {.ttl_ns = write.ttl_ns});
  if (call.front_bytes() + write.key.size() + write.value.size() > client.body_bytes_max_) return;
  const CallHead head = call.head();
  go_alone({.method = call.number(), .head = head.bytes(), .tail = write.value});
}

void RpcClient::PutAttempt::settle(const OpResult& reply) noexcept {
  Writing writing = Writing::of({}, 0);
  settle_with(writing.version_of(reply));
}

void RpcClient::PutAttempt::settle_with(const Result<uint64_t>& version) noexcept {
  is_settled_ = !is_passing(version.code());
  outcome_ = version;
}

void RpcClient::PutAttempt::on_version(const wire::ManyVersion& version) noexcept {
  const Code code = code_from_wire(version.code);
  settle_with(code == Code::kOk ? Result<uint64_t>(version.version) : fail(code));
  end();
}

}  // namespace refract::kv
