// SPDX-License-Identifier: Apache-2.0
#include "refract/client/async_client.h"

#include <optional>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/answers.h"
#include "refract/client/shard_cursor.h"
#include "refract/kv/calls/rpc_client_attempts.h"
#include "refract/kv/calls/task_team.h"

namespace refract::client {

using runtime::Task;

namespace {

constexpr uint64_t kReadsPerLook = 256;

// Coroutines of their own, because a lambda that captures must not be one.

Task<Code> ask_get(Connection& connection, Bytes key, kv::ValueSink& sink, Got& got, uint64_t deadline_ns) {
  const Result<kv::Got> answer = co_await connection.get(key, sink, deadline_ns);
  co_return take(answer, got);
}

Task<Code> ask_exists(Connection& connection, Bytes key, Got& got, uint64_t deadline_ns) {
  const Result<kv::Got> answer = co_await connection.exists(key, deadline_ns);
  co_return take(answer, got);
}

struct ScanRequest {
  uint64_t cursor;
  size_t keys_min;
};
Task<Code> ask_scan(kv::RpcClient& rpc, ScanRequest request, ScanPage& page, uint64_t deadline_ns) {
  auto answer = co_await rpc.scan(request.cursor, request.keys_min, deadline_ns);
  page.entries.clear();
  if (!answer) co_return answer.code();
  page.next = answer->next;
  for (auto& key : answer->keys) {
    page.entries.push_back({std::move(key.key), key.version, key.value_bytes});
  }
  co_return Code::kOk;
}

struct PutCall {
  Bytes key;
  Bytes value;
  PutOptions options;
};
Task<Result<uint64_t>> ask_put(Connection& connection, PutCall call, Write& write, uint64_t deadline_ns) {
  const uint64_t begun_ns = connection.now_ns();
  const kv::RpcPutOptions options = options_of(call.options, write.attempt());
  const Result<uint64_t> version = co_await connection.put(call.key, call.value, options, deadline_ns);
  write.note(version.code(), begun_ns);
  co_return version;
}

struct EraseCall {
  Bytes key;
  uint64_t if_version;
};
Task<Result<uint64_t>> ask_erase(Connection& connection, EraseCall call, Write& write, uint64_t deadline_ns) {
  const uint64_t begun_ns = connection.now_ns();
  const Result<uint64_t> version =
      co_await connection.rpc().erase(call.key, call.if_version, deadline_ns, write.attempt());
  write.note(version.code(), begun_ns);
  co_return version;
}

// A view's own bytes.
struct CopyRoom {
  std::unique_ptr<std::byte[]>* target;
  std::byte* operator()(uint64_t bytes) const {
    // One more, so that a view of nothing has bytes of its own, too.
    *target = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);
    return target->get();
  }
};

Task<> stat_of_shard(Peers& peers, uint32_t shard, NodeStat& sum, Code& code, kv::TaskTeam& team) {
  const auto reply = co_await peers.ask<kv::wire::StatReply>(
      {.key = {}, .shard = shard},
      [](Connection& connection, uint64_t deadline_ns) { return connection.rpc().stat(deadline_ns); });
  if (reply) {
    add_to(sum, stat_of(*reply));
  } else {
    code = reply.code();
  }
  team.leave();
}

}  // namespace

std::byte* Room::operator()(uint64_t bytes) const {
  return string != nullptr ? StringRoom{string}(bytes) : BufferRoom{buffer}(bytes);
}

Task<Reported<std::unique_ptr<AsyncClient>>> AsyncClient::connect(runtime::Shard& shard, std::string address,
                                                                  ClientOptions options) {
  auto settings = Settings::make(address, options);
  if (!settings) co_return report(std::move(settings).error());
  std::unique_ptr<AsyncClient> client(new AsyncClient(shard, std::move(*settings)));
  const bool reached = co_await client->peers_.establish(shard.refresh_now() + options.timeout_ns);
  if (!reached) co_return report(client->trouble());
  co_return client;
}

Code AsyncClient::get_directly(Bytes key, const Room& room, Got& got) {
  if (peers_.is_child()) [[unlikely]]
    return Code::kForked;
  if (const Code code = check_key(key); code != Code::kOk) return code;
  Connection* connection = peers_.at(Place{.key = key});
  if (connection == nullptr || connection->reader() == nullptr) return Code::kInvalidated;
  // The shard's own turns poll the connections; this only has them look at what tells that a node has gone.
  if (++reads_ % kReadsPerLook == 0 || connection->is_node_stopping()) peers_.look_around();
  note_read(*connection, key);
  return read_value(*connection, key, room, got);
}

Task<Result<Got>> AsyncClient::get_slowly(Bytes key, Room room, uint64_t begun_ns) {
  Got got;
  Sink<Room> sink(room);
  const Code code = co_await peers_.read(
      {.key = key}, [&](Connection& at) { return read_value(at, key, room, got); },
      [&](Connection& at, uint64_t deadline_ns) { return ask_get(at, key, sink, got, deadline_ns); },
      Patience{.begun_ns = begun_ns});
  if (code != Code::kOk) co_return fail(code);
  co_return got;
}

AsyncClient::Get AsyncClient::get(Bytes key, std::string& value) noexcept {
  return {*this, key, Room{.string = &value, .buffer = {}}};
}

AsyncClient::Get AsyncClient::get_into(Bytes key, std::span<std::byte> value) noexcept {
  return {*this, key, Room{.string = nullptr, .buffer = value}};
}

bool AsyncClient::Get::await_ready() {
  code_ = client_.get_directly(key_, room_, got_);
  return code_ != Code::kInvalidated && code_ != Code::kCorrupt;
}

bool AsyncClient::Get::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  return ask_once() || go_on(client_.get_slowly(key_, room_), waiter);
}

// False: not now. What ends other than well is begun anew by the ways that know about retries.
bool AsyncClient::Get::ask_once() {
  Connection* const connection = client_.peers_.answering_at({.key = key_});
  if (code_ != Code::kInvalidated || connection == nullptr || connection->reader() != nullptr) return false;
  kv::RpcClient* const rpc = connection->rpc_alone_for_gets();
  if (rpc == nullptr) return false;
  begun_ns_ = client_.peers_.shard().now_ns();
  attempt_.emplace(*this, *connection, *rpc);
  if (attempt_->call.is_sent()) [[likely]]
    return true;
  attempt_.reset();
  return false;
}

bool AsyncClient::Get::go_on(runtime::Task<Result<Got>> slow, std::coroutine_handle<> waiter) {
  slow_ = std::move(slow);
  return std::move(slow_).operator co_await().await_suspend(waiter);
}

void AsyncClient::Get::on_attempt_end() noexcept {
  const std::optional<Result<kv::Got>> answer = attempt_->call.outcome();
  const std::coroutine_handle<> waiter = waiter_;
  if (!answer) {
    if (!go_on(client_.finish_get(*this), waiter)) waiter.resume();
    return;
  }
  code_ = take(*answer, got_);
  if (code_ != Code::kOk) client_.peers_.note(attempt_->connection, code_);
  attempt_.reset();
  waiter.resume();
}

Task<Result<Got>> AsyncClient::finish_get(Get& get) {
  const Connection& connection = get.attempt_->connection;
  const Result<kv::Got> answer = co_await get.attempt_->call.finish();
  Got got;
  const Code code = take(answer, got);
  if (code != Code::kOk && code != Code::kUnavailable) peers_.note(connection, code);
  get.attempt_.reset();
  if (code == Code::kOk) co_return got;
  if (code != Code::kUnavailable) co_return fail(code);
  const Result<Got> later = co_await get_slowly(get.key_, get.room_, get.begun_ns_);
  co_return later;
}

Result<Got> AsyncClient::Get::await_resume() {
  if (slow_.valid()) return slow_.take();
  if (code_ != Code::kOk) return fail(code_);
  return got_;
}

Code AsyncClient::view_directly(Connection& connection, Bytes key, View& view) {
  Connection::Reader& reader = *connection.reader();
  const Connection::Reader::Pinned pinned = reader.pin(key, reader.hash(key));
  if (pinned.found.code != Code::kOk) return pinned.found.code;
  view = view_of(connection, pinned);
  return Code::kOk;
}

Task<Result<View>> AsyncClient::view(Bytes key) {
  if (const Code code = check_key(key); code != Code::kOk) co_return fail(code);
  View view;
  Got got;
  const CopyRoom room{&view.copy_};
  Sink<CopyRoom> sink(room);
  const Code code = co_await peers_.read(
      {.key = key}, [&](Connection& connection) { return view_directly(connection, key, view); },
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_get(connection, key, sink, got, deadline_ns);
      });
  if (code != Code::kOk) co_return fail(code);
  if (view.held_by_ == nullptr) {
    view.bytes_ = {view.copy_.get(), got.value_bytes};
    view.version_ = got.version;
  }
  co_return std::move(view);
}

Task<Result<Got>> AsyncClient::exists(Bytes key) {
  if (const Code code = check_key(key); code != Code::kOk) co_return fail(code);
  Got got;
  const Code code = co_await peers_.read(
      {.key = key}, [&](Connection& connection) { return look_at_entry(connection, key, got); },
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_exists(connection, key, got, deadline_ns);
      });
  if (code != Code::kOk) co_return fail(code);
  co_return got;
}

Task<Result<ScanPage>> AsyncClient::scan(uint64_t cursor, size_t keys_min) {
  ScanPage page;
  const ShardCursor at = ShardCursor::from(cursor);
  co_await peers_.find_out();
  if (peers_.is_known() && at.shard >= peers_.count()) co_return page;
  const Code code = co_await peers_.read(
      {.key = {}, .shard = at.shard},
      [&](Connection& connection) { return scan_directly(*connection.reader(), at.own, keys_min, page); },
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_scan(connection.rpc(), {.cursor = at.own, .keys_min = keys_min}, page, deadline_ns);
      });
  if (code != Code::kOk) co_return fail(code);
  page.next = at.followed_by(page.next, peers_.count());
  co_return std::move(page);
}

Task<Result<uint64_t>> AsyncClient::put(Bytes key, Bytes value, PutOptions options) {
  if (const Code code = check_put(key, options); code != Code::kOk) co_return fail(code);
  Connection* connection = needs_identity(options) ? nullptr : peers_.answering_at({.key = key});
  kv::RpcClient* const rpc = connection != nullptr ? connection->rpc_alone() : nullptr;
  uint64_t begun_ns = 0;
  if (rpc != nullptr) {
    const Peers::Use use(*connection);
    // Awaiting changes it, which the check does not see.
    kv::RpcClient::PutAttempt attempt(  // NOLINT(misc-const-correctness)
        *rpc, {.key = key, .value = value, .ttl_ns = options.ttl_ns});
    if (attempt.is_sent()) {
      begun_ns = peers_.shard().now_ns();
      const std::optional<Result<uint64_t>> version = co_await attempt;
      if (version) {
        peers_.note(*connection, version->code());
        co_return *version;
      }
    }
  }
  Write write(peers_, options.request, is_conditional(options));
  const Result<uint64_t> version = co_await put_on(key, value, options, write, begun_ns);
  co_return version;
}

Task<Result<uint64_t>> AsyncClient::put_on(Bytes key, Bytes value, PutOptions options, Write& write,
                                           uint64_t begun_ns) {
  const Result<uint64_t> version = co_await peers_.ask<uint64_t>(
      {.key = key},
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_put(connection, {.key = key, .value = value, .options = options}, write, deadline_ns);
      },
      [&](const Connection& connection, Code code) { return write.may_go_again(connection, code); },
      Patience{.begun_ns = begun_ns});
  write.end(peers_, version.code());
  co_return version;
}

Task<Result<uint64_t>> AsyncClient::erase(Bytes key, uint64_t if_version, RequestId request) {
  if (const Code code = check_key(key); code != Code::kOk) co_return fail(code);
  Write write(peers_, request, if_version != 0);
  const Result<uint64_t> version = co_await peers_.ask<uint64_t>(
      {.key = key},
      [&](Connection& connection, uint64_t deadline_ns) {
        return ask_erase(connection, {.key = key, .if_version = if_version}, write, deadline_ns);
      },
      [&](const Connection& connection, Code code) { return write.may_go_again(connection, code); });
  write.end(peers_, version.code());
  co_return version;
}

Task<Result<NodeStat>> AsyncClient::stat() {
  co_await peers_.find_out();
  NodeStat sum;
  Code code = Code::kOk;
  kv::TaskTeam team(peers_.shard());
  for (uint32_t shard = 0; shard < peers_.count(); ++shard) {
    team.add(stat_of_shard(peers_, shard, sum, code, team));
  }
  co_await team.run();
  if (code != Code::kOk) co_return fail(code);
  co_return std::move(sum);
}

Task<Result<Pong>> AsyncClient::ping() {
  const Clock& clock = peers_.shard().clock();
  uint64_t sent_ns = 0;
  const auto reply = co_await peers_.ask<kv::wire::PingReply>(
      {.key = {}, .shard = 0}, [&](Connection& connection, uint64_t deadline_ns) {
        sent_ns = clock.now_ns();
        return connection.rpc().ping(sent_ns, deadline_ns);
      });
  if (!reply) co_return fail(reply.error());
  co_return Pong{.round_trip_ns = clock.now_ns() - sent_ns, .node_wall_ns = reply->wall_ns};
}

Route AsyncClient::route() const {
  Route route;
  peers_.fill(route);
  return route;
}

}  // namespace refract::client
