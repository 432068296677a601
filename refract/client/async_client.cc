// SPDX-License-Identifier: Apache-2.0
#include "refract/client/async_client.h"

#include <new>
#include <optional>
#include <utility>

#include "refract/client/answers.h"
#include "refract/client/async_calls.h"
#include "refract/kv/calls/rpc_client_attempts.h"

namespace refract {

using client::AsyncCalls;
using client::Connection;
using client::Room;
using client::take;
using runtime::Task;

namespace client {

// The first attempt of a get that is a call.
class GetCall final : private kv::RpcClient::GetAttempt::EndTaker {
 public:
  GetCall(AsyncClient::Get& get, Connection& at, kv::RpcClient& rpc)
      : connection(at), use(at), sink(get.room_), attempt(rpc, get.key_, sink, this), get_(get) {}

  Connection& connection;
  Peers::Use use;
  Sink<Room> sink;
  kv::RpcClient::GetAttempt attempt;

 private:
  void on_attempt_end() noexcept override { get_.on_call_end(); }
  AsyncClient::Get& get_;
};

}  // namespace client

Task<Reported<std::unique_ptr<AsyncClient>>> AsyncClient::connect(runtime::Shard& shard, std::string address,
                                                                  ClientOptions options) {
  auto settings = client::Settings::make(address, options);
  if (!settings) co_return report(std::move(settings).error());
  auto calls = std::make_unique<AsyncCalls>(shard, std::move(*settings));
  const bool reached = co_await calls->peers().establish(shard.refresh_now() + options.timeout_ns);
  if (!reached) co_return report(calls->trouble());
  co_return std::unique_ptr<AsyncClient>(new AsyncClient(std::move(calls)));
}

AsyncClient::AsyncClient(std::unique_ptr<AsyncCalls> calls) noexcept : calls_(std::move(calls)) {}
AsyncClient::~AsyncClient() = default;

AsyncClient::Get AsyncClient::get(Bytes key, std::string& value) noexcept {
  return {*calls_, key, Room{.string = &value, .buffer = {}}};
}

AsyncClient::Get AsyncClient::get_into(Bytes key, std::span<std::byte> value) noexcept {
  return {*calls_, key, Room{.string = nullptr, .buffer = value}};
}

void AsyncClient::Get::CallRoom::clear() noexcept {
  std::destroy_at(std::exchange(call_, nullptr));
}

client::KeyOwner AsyncClient::Get::place() const noexcept {
  return {.key = {key_, {.seed = hash_seed_, .hash = hash_, .is_known = is_hashed_}}};
}

bool AsyncClient::Get::await_ready() {
  const client::KeyOwner place = this->place();
  code_ = calls_.get_directly(place, room_, got_);
  const kv::KeyHash& known = place.key.known();
  hash_seed_ = known.seed;
  hash_ = known.hash;
  is_hashed_ = known.is_known;
  return code_ != Code::kInvalidated && code_ != Code::kCorrupt;
}

bool AsyncClient::Get::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  return ask_once() || go_on(calls_.get_slowly(place(), room_), waiter);
}

// False: not now. What ends other than well is begun again by the ways that know about retries.
bool AsyncClient::Get::ask_once() {
  Connection* const connection = calls_.peers().answering_at(place());
  if (code_ != Code::kInvalidated || connection == nullptr || connection->reader() != nullptr) return false;
  kv::RpcClient* const rpc = connection->rpc_alone_for_gets();
  if (rpc == nullptr) return false;
  begun_ns_ = calls_.peers().shard().now_ns();
  static_assert(sizeof(client::GetCall) <= CallRoom::kBytes && alignof(client::GetCall) <= CallRoom::kAlign);
  call_.hold(new (call_.bytes()) client::GetCall(*this, *connection, *rpc));
  if (call_->attempt.is_sent()) [[likely]]
    return true;
  call_.clear();
  return false;
}

bool AsyncClient::Get::go_on(Task<Result<Got>> slow, std::coroutine_handle<> waiter) {
  slow_ = std::move(slow);
  return std::move(slow_).operator co_await().await_suspend(waiter);
}

void AsyncClient::Get::on_call_end() noexcept {
  const std::optional<Result<kv::Got>> answer = call_->attempt.outcome();
  const std::coroutine_handle<> waiter = waiter_;
  if (!answer) {
    if (!go_on(finish(*this), waiter)) waiter.resume();
    return;
  }
  code_ = take(*answer, got_);
  if (code_ != Code::kOk) calls_.peers().note(call_->connection, code_);
  call_.clear();
  waiter.resume();
}

// The rest of a get whose first answer was not all.
Task<Result<Got>> AsyncClient::Get::finish(Get& get) {
  const Connection& connection = get.call_->connection;
  const Result<kv::Got> answer = co_await get.call_->attempt.finish();
  Got got;
  const Code code = take(answer, got);
  if (code != Code::kOk && code != Code::kUnavailable) get.calls_.peers().note(connection, code);
  get.call_.clear();
  if (code == Code::kOk) co_return got;
  if (code != Code::kUnavailable) co_return fail(code);
  const Result<Got> later = co_await get.calls_.get_slowly(get.place(), get.room_, get.begun_ns_);
  co_return later;
}

Result<Got> AsyncClient::Get::await_resume() {
  if (slow_.valid()) return slow_.take();
  if (code_ != Code::kOk) return fail(code_);
  return got_;
}

Task<Result<View>> AsyncClient::view(Bytes key) {
  return calls_->view({.key = key});
}

Task<Result<Got>> AsyncClient::exists(Bytes key) {
  return calls_->exists({.key = key});
}

Task<Result<ScanPage>> AsyncClient::scan(uint64_t cursor, size_t keys_min) {
  return calls_->scan(cursor, keys_min);
}

Task<Result<uint64_t>> AsyncClient::put(Bytes key, Bytes value, PutOptions options) {
  return calls_->put(key, value, options);
}

Task<Result<uint64_t>> AsyncClient::erase(Bytes key, uint64_t if_version, RequestId request) {
  return calls_->erase(key, if_version, request);
}

Task<> AsyncClient::multi_get(std::span<GetItem> items) {
  return calls_->multi_get(items);
}

Task<> AsyncClient::multi_put(std::span<PutItem> items) {
  return calls_->multi_put(items);
}

Task<Result<NodeStat>> AsyncClient::stat() {
  return calls_->stat();
}

Task<Result<Pong>> AsyncClient::ping() {
  return calls_->ping();
}

RequestId AsyncClient::new_request() noexcept {
  return calls_->new_request();
}

Route AsyncClient::route() const {
  return calls_->route();
}

const Report& AsyncClient::trouble() const noexcept {
  return calls_->trouble();
}

uint64_t AsyncClient::messages_sent() const noexcept {
  return calls_->messages_sent();
}

}  // namespace refract
