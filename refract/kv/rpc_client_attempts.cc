// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/rpc_client_attempts.h"

#include "refract/kv/rpc_client_calls.h"

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

RpcClient::GetAttempt::GetAttempt(RpcClient& client, std::span<const std::byte> key, ValueSink& sink)
    : client_(client),
      key_(key),
      sink_(sink),
      wants_window_(client.prefers_one_sided()),
      reply_(client.session_, client.deadline_or_default(0)) {
  if (check_lengths(key, 0) != Code::kOk) return;
  const Keyed call = Keyed::of_get(key, wants_window_);
  if (call.front_bytes() + key.size() > client.body_bytes_max_) return;
  const CallHead head = call.head();
  (void)reply_.send({.method = call.number(), .head = head.bytes()});
}

std::optional<Result<Got>> RpcClient::GetAttempt::await_resume() {
  const OpResult reply = reply_.await_resume();
  if (reply.code != Code::kOk) {
    const Code code = client_.harmless(reply.code);
    if (is_passing(code)) return {};
    return fail(code);
  }
  GetAnswer answer;
  const Code taken = take_get_answer(reply.bytes, wants_window_, sink_, answer);
  if (taken == Code::kOk && answer.view == 0) [[likely]]
    return answer.got;
  if (taken == Code::kOk) {
    opened_ = answer;
    return {};
  }
  const OpenHandle view(client_.session_, Method::kViewClose, answer.view);
  return fail(taken);
}

Task<Result<Got>> RpcClient::GetAttempt::finish() {
  if (opened_) {
    OpenHandle view(client_.session_, Method::kViewClose, opened_->view);
    const Code code = co_await client_.read_view(ViewRest::of(*opened_), 0);
    if (code == Code::kOk) {
      view.forget();
      co_return opened_->got;
    }
    if (code != Code::kInvalidated) co_return fail(code);
  }
  const Result<Got> got = co_await client_.get(key_, sink_);
  co_return got;
}

RpcClient::PutAttempt::PutAttempt(RpcClient& client, const Write& write)
    : reply_(client.session_, client.deadline_or_default(0)) {
  if (check_lengths(write.key, write.value.size()) != Code::kOk) return;
  const Keyed call = Keyed::of_put(write.key, write.value.size(), {.ttl_ns = write.ttl_ns});
  if (call.front_bytes() + write.key.size() + write.value.size() > client.body_bytes_max_) return;
  const CallHead head = call.head();
  (void)reply_.send({.method = call.number(), .head = head.bytes(), .tail = write.value});
}

std::optional<Result<uint64_t>> RpcClient::PutAttempt::await_resume() noexcept {
  Writing writing = Writing::of({}, 0);
  const Result<uint64_t> version = writing.version_of(reply_.await_resume());
  if (is_passing(version.code())) return {};
  return version;
}

}  // namespace refract::kv
