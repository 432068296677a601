// SPDX-License-Identifier: Apache-2.0
#include "refract/client/async_client.h"

#include <new>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/answers.h"
#include "refract/client/async_calls.h"
#include "refract/client/reservation_shelf.h"
#include "refract/kv/calls/rpc_client_attempts.h"

namespace refract {

using client::AsyncCalls;
using client::check_key;
using client::Connection;
using client::got_of;
using client::needs_identity;
using client::Room;
using client::take;
using runtime::Task;

namespace {

// Values that are shorter are whole in the message that has their first bytes.
constexpr uint64_t kInOneMessage = 16 * kKiB;

}  // namespace

namespace client {

// The first attempt of a get that is a call.
class GetCall final : private kv::RpcClient::GetAttempt::Continuer {
 public:
  GetCall(AsyncClient::Get& get, Connection& at)
      : connection(at), use(at), sink(get.room_), attempt(at.rpc(), get.key_, sink, this), get_(get) {}

  Connection& connection;
  Peers::Use use;
  Sink<Room> sink;
  kv::RpcClient::GetAttempt attempt;

 private:
  void go_on() noexcept override { get_.go_on(); }
  AsyncClient::Get& get_;
};

// Likewise of a put without identity and conditions.
class PutCall final : private kv::RpcClient::PutAttempt::Continuer {
 public:
  PutCall(AsyncClient::Put& put, Connection& at, std::coroutine_handle<> who)
      : connection(at),
        use(at),
        attempt(at.rpc(), {.key = put.key_, .value = put.value_, .ttl_ns = put.options_.ttl_ns}, this),
        put_(put),
        waiter_(who) {
    attempt.await_suspend(waiter_);
  }

  Connection& connection;
  Peers::Use use;
  kv::RpcClient::PutAttempt attempt;

 private:
  void go_on() noexcept override {
    const std::coroutine_handle<> waiter = waiter_;
    if (!put_.go_on(waiter)) waiter.resume();
  }
  AsyncClient::Put& put_;
  std::coroutine_handle<> waiter_;
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

AsyncClient::AsyncClient(std::unique_ptr<AsyncCalls> calls)
    : calls_(std::move(calls)), shelf_(client::ReservationShelf::make_empty().release()) {}

AsyncClient::~AsyncClient() {
  // In a child of the process what is kept is the parent's, and left as it is.
  if (calls_->peers().is_child()) {
    [[maybe_unused]] const auto* const left = shelf_.release();
  } else {
    shelf_->close();
  }
}

void AsyncClient::LetGo::operator()(client::ReservationShelf* shelf) const noexcept {
  client::ReservationShelf::Release()(shelf);
}

AsyncClient::Get AsyncClient::get(Bytes key, std::string& value) noexcept {
  return {*calls_, key, Room{.string = &value, .buffer = {}}};
}

AsyncClient::Get AsyncClient::get_into(Bytes key, std::span<std::byte> value) noexcept {
  return {*calls_, key, Room{.string = nullptr, .buffer = value}};
}

client::KeyOwner AsyncClient::Get::place() const noexcept {
  return {.key = {key_, {.seed = hash_seed_, .hash = hash_, .is_known = is_hashed_}}};
}

bool AsyncClient::Get::await_ready() {
  if (calls_.peers().short_ways().answering == nullptr || check_key(key_) != Code::kOk) return read();
  code_ = Code::kInvalidated;
  return false;
}

// Directly. False: that cannot tell.
bool AsyncClient::Get::read() {
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
  const client::Peers& peers = calls_.peers();
  Connection* connection = peers.is_child() ? nullptr : peers.short_ways().answering;
  if (connection == nullptr) [[unlikely]] {
    connection = peers.answering_at(place());
    if (code_ != Code::kInvalidated || connection == nullptr || connection->reader() != nullptr ||
        connection->rpc_alone_for_gets() == nullptr) {
      return false;
    }
  }
  begun_ns_ = peers.shard().now_ns();
  static_assert(sizeof(client::GetCall) <= sizeof(call_room_) && alignof(client::GetCall) <= 8);
  call_ = new (call_room_) client::GetCall(*this, *connection);
  call_->attempt.await_suspend(waiter_);
  if (call_->attempt.is_sent()) [[likely]]
    return true;
  end_call();
  return false;
}

void AsyncClient::Get::end_call() noexcept {
  std::destroy_at(std::exchange(call_, nullptr));
}

// What is under way of it uses the call.
void AsyncClient::Get::give_up() noexcept {
  slow_ = {};
  end_call();
}

bool AsyncClient::Get::go_on(Task<Result<Got>> slow, std::coroutine_handle<> waiter) {
  slow_ = std::move(slow);
  return std::move(slow_).operator co_await().await_suspend(waiter);
}

// The attempt had no outcome.
void AsyncClient::Get::go_on() noexcept {
  const std::coroutine_handle<> waiter = waiter_;
  if (!go_on(finish(*this), waiter)) waiter.resume();
}

// The rest of a get whose first answer was not all.
Task<Result<Got>> AsyncClient::Get::finish(Get& get) {
  const Connection& connection = get.call_->connection;
  const Result<kv::Got> answer = co_await get.call_->attempt.finish();
  Got got;
  const Code code = take(answer, got);
  if (code != Code::kOk && code != Code::kUnavailable) get.calls_.peers().note(connection, code);
  get.end_call();
  if (code == Code::kOk) co_return got;
  if (code != Code::kUnavailable) co_return fail(code);
  const Result<Got> later = co_await get.calls_.get_slowly(get.place(), get.room_, get.begun_ns_);
  co_return later;
}

Result<Got> AsyncClient::Get::result_of_call() {
  const Code code = call_->attempt.code();
  if (code != Code::kOk) calls_.peers().note(call_->connection, code);
  Result<Got> result = code == Code::kOk ? Result<Got>(got_of(call_->attempt.got())) : fail(code);
  end_call();
  return result;
}

Result<Got> AsyncClient::Get::await_resume() {
  if (call_ != nullptr) return result_of_call();
  if (slow_.valid()) return slow_.take();
  if (code_ != Code::kOk) return fail(code_);
  return got_;
}

bool AsyncClient::Put::await_suspend(std::coroutine_handle<> waiter) {
  return ask_once(waiter) || go_on(waiter);
}

// False: not now. What surely did nothing is begun again by the way that knows about retries, and so is all
// else that is not simple.
bool AsyncClient::Put::ask_once(std::coroutine_handle<> waiter) {
  if (needs_identity(options_) || !options_.front.empty()) return false;
  const client::Peers& peers = calls_.peers();
  Connection* const connection = peers.answering_at({.key = key_});
  if (connection == nullptr || connection->rpc_alone() == nullptr) return false;
  begun_ns_ = peers.shard().now_ns();
  static_assert(sizeof(client::PutCall) <= sizeof(call_room_) && alignof(client::PutCall) <= 8);
  call_ = new (call_room_) client::PutCall(*this, *connection, waiter);
  return call_->attempt.is_sent();
}

void AsyncClient::Put::end_call() noexcept {
  std::destroy_at(std::exchange(call_, nullptr));
}

bool AsyncClient::Put::go_on(std::coroutine_handle<> waiter) {
  const bool was_sent = call_ != nullptr && call_->attempt.is_sent();
  if (call_ != nullptr) end_call();
  slow_ = calls_.put(key_, value_, options_, was_sent ? begun_ns_ : 0);
  return std::move(slow_).operator co_await().await_suspend(waiter);
}

Result<uint64_t> AsyncClient::Put::await_resume() {
  if (call_ == nullptr) return slow_.take();
  const Code code = call_->attempt.code();
  if (code != Code::kOk) calls_.peers().note(call_->connection, code);
  const Result<uint64_t> version =
      code == Code::kOk ? Result<uint64_t>(call_->attempt.version()) : fail(code);
  end_call();
  return version;
}

Task<Result<View>> AsyncClient::view(Bytes key) {
  return calls_->view({.key = key});
}

Task<Result<Got>> AsyncClient::exists(Bytes key) {
  return calls_->exists({.key = key});
}

Result<View> AsyncClient::view_at_once(Bytes key) {
  return calls_->view_by_loads({.key = key});
}

Result<Got> AsyncClient::exists_at_once(Bytes key) {
  Got got;
  const Code code = calls_->look_directly({.key = key}, got);
  if (code != Code::kOk) return fail(code);
  return got;
}

Task<Result<ScanPage>> AsyncClient::scan(uint64_t cursor, size_t keys_min) {
  return calls_->scan(cursor, keys_min);
}

AsyncClient::Put AsyncClient::put(Bytes key, Bytes value, const PutOptions& options) noexcept {
  return {*calls_, key, value, options};
}

AsyncClient::Put AsyncClient::put(Bytes key, const Reservation& value, const PutOptions& options) noexcept {
  PutOptions built = options;
  built.built_in = &value;
  return {*calls_, key, Bytes(value.bytes()), built};
}

Result<Reservation> AsyncClient::reserve(uint64_t bytes) {
  if (calls_->peers().is_child()) return fail(Code::kForked);
  return shelf_->reserve(bytes);
}

Task<Result<uint64_t>> AsyncClient::erase(Bytes key, uint64_t if_version, RequestId request) {
  return calls_->erase(key, if_version, request);
}

Task<> AsyncClient::multi_get(std::span<GetItem> items) {
  return calls_->multi_get(items);
}

Task<> AsyncClient::multi_get_into(std::span<GetIntoItem> items) {
  return calls_->multi_get_into(items);
}

bool AsyncClient::take_buffers_back(std::span<GetIntoItem> items, std::span<std::byte> instead) noexcept {
  bool ends_by_itself = true;
  for (GetIntoItem& item : items) {
    if (item.result) continue;
    // How long a value is becomes known when its first bytes are here. Those of a short one all are.
    const bool is_begun = item.value_bytes >= kInOneMessage && item.value_bytes <= item.buffer.size();
    if (is_begun) ends_by_itself = false;
    if (!is_begun) item.buffer = instead;
  }
  return ends_by_itself;
}

Task<Result<size_t>> AsyncClient::prefix_exists(std::span<const Bytes> keys) {
  return calls_->prefix_exists(keys);
}

Task<> AsyncClient::multi_put(std::span<PutItem> items) {
  return calls_->multi_put(items);
}

Task<> AsyncClient::multi_exists(std::span<ExistsItem> items) {
  return calls_->multi_exists(items);
}

Task<Result<uint64_t>> AsyncClient::clear() {
  return calls_->clear();
}

Task<Result<NodeStat>> AsyncClient::stat() {
  return calls_->stat();
}

Task<Result<Pong>> AsyncClient::ping() {
  return calls_->ping();
}

Task<Result<ClusterMembers>> AsyncClient::members() {
  return calls_->members();
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
