// SPDX-License-Identifier: Apache-2.0
#include "refract/client/async_calls.h"

#include <utility>

#include "refract/base/units.h"
#include "refract/client/answers.h"
#include "refract/client/shard_cursor.h"
#include "refract/kv/calls/task_team.h"

namespace refract::client {

using runtime::Task;

namespace {

constexpr uint64_t kReadsPerLook = 256;

// Coroutines of their own, because a lambda that captures must not be one.

Task<Code> ask_get(Connection& connection, const kv::HashedKey& key, kv::ValueSink& sink, Got& got,
                   uint64_t deadline_ns) {
  const Result<kv::Got> answer = co_await connection.get(key, sink, deadline_ns);
  co_return take(answer, got);
}

Task<Code> ask_exists(Connection& connection, const kv::HashedKey& key, Got& got, uint64_t deadline_ns) {
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
  const kv::HashedKey& key;  // Of who asks, who waits for the answer; likewise the options.
  Bytes value;
  const PutOptions& options;
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

Task<> stat_of_shard(Peers& peers, uint32_t shard, NodeStat& sum, Code& code, kv::TaskTeam& team) {
  const auto reply = co_await peers.ask<kv::wire::StatReply>(
      {.key = {}, .shard = shard}, [](Connection& connection, const kv::HashedKey&, uint64_t deadline_ns) {
        return connection.rpc().stat(deadline_ns);
      });
  if (reply) {
    add_to(sum, stat_of(*reply));
  } else {
    code = reply.code();
  }
  team.leave();
}

}  // namespace

// The connection whose reader has the key; null: there is none, and `code` says what to do.
Connection* AsyncCalls::reading_at(const KeyOwner& place, Code& code) {
  code = peers_.is_child() ? Code::kForked : check_key(place.key.bytes());
  if (code != Code::kOk) [[unlikely]]
    return nullptr;
  Connection* connection = peers_.at(place);
  if (connection == nullptr || connection->reader() == nullptr) {
    code = Code::kInvalidated;
    return nullptr;
  }
  // The shard's own turns poll the connections; this only has them look at what tells that a node has gone.
  if (++reads_ % kReadsPerLook == 0 || connection->is_node_stopping()) peers_.look_around();
  note_read(*connection, place.key.bytes());
  return connection;
}

Code AsyncCalls::get_directly(const KeyOwner& place, const Room& room, Got& got) {
  Code code = Code::kOk;
  Connection* const connection = reading_at(place, code);
  return connection == nullptr ? code : read_value(*connection, place.key, room, got);
}

Code AsyncCalls::look_directly(const KeyOwner& place, Got& got) {
  Code code = Code::kOk;
  Connection* const connection = reading_at(place, code);
  return connection == nullptr ? code : look_at_entry(*connection, place.key, got);
}

Result<View> AsyncCalls::view_by_loads(const KeyOwner& place) {
  Code code = Code::kOk;
  Connection* const connection = reading_at(place, code);
  if (connection == nullptr) return fail(code);
  Result<View> view(std::in_place);
  code = view_directly(*connection, place.key, *view);
  if (code != Code::kOk) return fail(code);
  return view;
}

Task<Result<Got>> AsyncCalls::get_slowly(KeyOwner place, Room room, uint64_t begun_ns) {
  Got got;
  Sink<Room> sink(room);
  const Code code = co_await peers_.read(
      place, [&](Connection& at, const kv::HashedKey& key) { return read_value(at, key, room, got); },
      [&](Connection& at, const kv::HashedKey& key, uint64_t deadline_ns) {
        return ask_get(at, key, sink, got, deadline_ns);
      },
      Patience{.begun_ns = begun_ns});
  if (code != Code::kOk) co_return fail(code);
  co_return got;
}

void AsyncCalls::hold(View& view, Connection& connection, const Connection::Reader::Pinned& pinned) noexcept {
  view.held_by_ = &connection;
  view.pin_ = pinned.pin;
  view.at_ = connection.at(pinned.value);
  view.size_ = pinned.found.value_bytes;
  view.version_ = pinned.found.version;
}

// Out of line, since short values are the more sensitive ones.
bool AsyncCalls::pin_at_once(Connection::Reader& reader, Connection& connection, Bytes key, uint64_t hash,
                             View& view) noexcept {
  Connection::Reader::Pinned pinned;
  if (!reader.pin_at_once(key, hash, pinned)) return false;
  hold(view, connection, pinned);
  return true;
}

Code AsyncCalls::view_directly(Connection& connection, const kv::HashedKey& key, View& view) {
  Connection::Reader& reader = *connection.reader();
  const Connection::Reader::Pinned seen =
      reader.copy_or_pin(key.bytes(), key.hash(reader.hash_seed()), view.own_);
  if (seen.found.code != Code::kOk) return seen.found.code;
  if (seen.pin >= 0) {
    hold(view, connection, seen);
  } else {
    view.size_ = seen.found.value_bytes;
    view.version_ = seen.found.version;
  }
  return Code::kOk;
}

namespace {

Code view_by_reader(Connection& connection, const kv::HashedKey& key, View& view) {
  Connection::Reader& reader = *connection.reader();
  const uint64_t hash = key.hash(reader.hash_seed());
  if (AsyncCalls::view_at_once(reader, connection, Bytes(key.bytes()), hash, view)) return Code::kOk;
  return AsyncCalls::view_directly(connection, key, view);
}

}  // namespace

// Of a view that owns its bytes.
struct AsyncCalls::CopyRoom {
  View* view;
  std::byte* operator()(uint64_t bytes) const {
    if (bytes <= View::kOwnBytes) return view->own_.data();
    view->copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    return view->copy_.get();
  }
};

Task<Result<View>> AsyncCalls::view(KeyOwner place) {
  if (const Code code = check_key(place.key.bytes()); code != Code::kOk) co_return fail(code);
  Result<View> result(std::in_place);
  View& view = *result;
  Got got;
  const CopyRoom room{&view};
  Sink<CopyRoom> sink(room);
  const Code code = co_await peers_.read(
      place,
      [&](Connection& connection, const kv::HashedKey& key) { return view_by_reader(connection, key, view); },
      [&](Connection& connection, const kv::HashedKey& key, uint64_t deadline_ns) {
        return ask_get(connection, key, sink, got, deadline_ns);
      });
  if (code != Code::kOk) co_return fail(code);
  // Not read directly.
  if (view.version_ == 0) {
    view.at_ = got.value_bytes <= View::kOwnBytes ? nullptr : view.copy_.get();
    view.size_ = got.value_bytes;
    view.version_ = got.version;
  }
  co_return result;
}

Task<Result<Got>> AsyncCalls::exists(KeyOwner place) {
  if (const Code code = check_key(place.key.bytes()); code != Code::kOk) co_return fail(code);
  Got got;
  const Code code = co_await peers_.read(
      place,
      [&](Connection& connection, const kv::HashedKey& key) { return look_at_entry(connection, key, got); },
      [&](Connection& connection, const kv::HashedKey& key, uint64_t deadline_ns) {
        return ask_exists(connection, key, got, deadline_ns);
      });
  if (code != Code::kOk) co_return fail(code);
  co_return got;
}

Task<Result<ScanPage>> AsyncCalls::scan(uint64_t cursor, size_t keys_min) {
  ScanPage page;
  const ShardCursor at = ShardCursor::from(cursor);
  const bool is_known = co_await peers_.find_all();
  if (!is_known) co_return fail(Code::kUnavailable);
  if (peers_.count() > ShardCursor::kShardsMax) co_return fail(Code::kUnsupported);
  const std::optional<uint32_t> shard = peers_.shard_at(at.shard);
  if (peers_.is_known() && !shard) co_return page;
  const Code code = co_await peers_.read(
      {.key = {}, .shard = shard.value_or(at.shard)},
      [&](Connection& connection, const kv::HashedKey&) {
        return scan_directly(*connection.reader(), at.own, keys_min, page);
      },
      [&](Connection& connection, const kv::HashedKey&, uint64_t deadline_ns) {
        return ask_scan(connection.rpc(), {.cursor = at.own, .keys_min = keys_min}, page, deadline_ns);
      });
  if (code != Code::kOk) co_return fail(code);
  page.next = at.followed_by(page.next, peers_.count());
  co_return std::move(page);
}

Task<Result<uint64_t>> AsyncCalls::put(Bytes key, Bytes value, PutOptions options, uint64_t begun_ns) {
  if (const Code code = check_put(key, options); code != Code::kOk) co_return fail(code);
  Write write(peers_, options.request, is_conditional(options));
  const Result<uint64_t> version = co_await put_on({.key = key}, value, options, write, begun_ns);
  co_return version;
}

Task<Result<uint64_t>> AsyncCalls::put_on(KeyOwner place, Bytes value, PutOptions options, Write& write,
                                          uint64_t begun_ns) {
  const Result<uint64_t> version = co_await peers_.ask<uint64_t>(
      place,
      [&](Connection& connection, const kv::HashedKey& key, uint64_t deadline_ns) {
        return ask_put(connection, {.key = key, .value = value, .options = options}, write, deadline_ns);
      },
      [&](const Connection& connection, Code code) { return write.may_go_again(connection, code); },
      Patience{.begun_ns = begun_ns});
  const Code code = write.outcome(version.code());
  write.end(peers_, code);
  if (code != Code::kOk) co_return fail(code);
  co_return version;
}

Task<Result<uint64_t>> AsyncCalls::erase(Bytes key, uint64_t if_version, RequestId request) {
  if (const Code code = check_key(key); code != Code::kOk) co_return fail(code);
  Write write(peers_, request, if_version != 0);
  const Result<uint64_t> version = co_await peers_.ask<uint64_t>(
      {.key = key},
      [&](Connection& connection, const kv::HashedKey&, uint64_t deadline_ns) {
        return ask_erase(connection, {.key = key, .if_version = if_version}, write, deadline_ns);
      },
      [&](const Connection& connection, Code code) { return write.may_go_again(connection, code); });
  const Code code = write.outcome(version.code());
  write.end(peers_, code);
  if (code != Code::kOk) co_return fail(code);
  co_return version;
}

Task<Result<NodeStat>> AsyncCalls::stat() {
  const bool is_known = co_await peers_.find_all();
  if (!is_known) co_return fail(Code::kUnavailable);
  NodeStat sum;
  Code code = Code::kOk;
  kv::TaskTeam team(peers_.shard());
  for (uint32_t index = 0; const std::optional<uint32_t> shard = peers_.shard_at(index); ++index) {
    team.add(stat_of_shard(peers_, *shard, sum, code, team));
  }
  co_await team.run();
  if (code != Code::kOk) co_return fail(code);
  co_return std::move(sum);
}

Task<Result<Pong>> AsyncCalls::ping() {
  co_await peers_.know_nodes();
  const Clock& clock = peers_.shard().clock();
  uint64_t sent_ns = 0;
  const auto reply = co_await peers_.ask<kv::wire::PingReply>(
      {.key = {}, .shard = peers_.first_shard()},
      [&](Connection& connection, const kv::HashedKey&, uint64_t deadline_ns) {
        sent_ns = clock.now_ns();
        return connection.rpc().ping(sent_ns, deadline_ns);
      });
  if (!reply) co_return fail(reply.error());
  co_return Pong{.round_trip_ns = clock.now_ns() - sent_ns, .node_wall_ns = reply->wall_ns};
}

Task<Result<ClusterMembers>> AsyncCalls::members() {
  co_await peers_.know_nodes();
  const auto told = co_await peers_.ask<cluster::ToldMembers>(
      {.key = {}, .shard = peers_.first_shard()},
      [](Connection& connection, const kv::HashedKey&, uint64_t deadline_ns) {
        return connection.members(deadline_ns);
      });
  if (!told) co_return fail(told.error());
  ClusterMembers members{.version = told->list.version, .members = {}, .self = told->self};
  for (const cluster::Member& member : told->list.members) {
    members.members.push_back({.name = member.name, .address = member.address()});
  }
  co_return std::move(members);
}

Route AsyncCalls::route() const {
  Route route;
  peers_.fill(route);
  return route;
}

}  // namespace refract::client
