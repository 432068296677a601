// SPDX-License-Identifier: Apache-2.0
#include "refract/client/async_client.h"

#include <algorithm>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/address.h"
#include "refract/client/answers.h"

namespace refract::client {

using runtime::Pending;
using runtime::Task;

namespace {

constexpr int kGrowthWaits = 6;
constexpr uint64_t kPause_ns = kMillisecond_ns;
constexpr uint64_t kReadsPerLook = 256;

}  // namespace

// An operation inside a connection, which must not go before it.
class AsyncClient::Use {
 public:
  explicit Use(Connection& connection) noexcept : connection_(connection) { ++connection_.users; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { --connection_.users; }

 private:
  Connection& connection_;
};

std::byte* AsyncClient::Room::operator()(uint64_t bytes) const {
  return string != nullptr ? StringRoom{string}(bytes) : BufferRoom{buffer}(bytes);
}

Task<Reported<std::unique_ptr<AsyncClient>>> AsyncClient::connect(runtime::Shard& shard, std::string address,
                                                                  ClientOptions options) {
  auto path = socket_path_of(address);
  if (!path) co_return report(path.error());
  std::unique_ptr<AsyncClient> client(new AsyncClient(shard, std::move(*path), options));
  const bool established = co_await client->establish(shard.refresh_now() + options.timeout_ns);
  if (!established) co_return report(client->trouble_);
  co_return client;
}

Task<bool> AsyncClient::establish(uint64_t deadline_ns) {
  connecting_ = true;
  auto begun = Connection::begin(shard_, path_, options_);
  if (!begun) {
    trouble_ = begun.error();
    connecting_ = false;
    co_return false;
  }
  std::unique_ptr<Connection> fresh = std::move(*begun);
  while (fresh->state() == Connection::State::kConnecting) {
    // Awaiting changes it, which the check does not see.
    Pending change = shard_.ops().begin(deadline_ns);  // NOLINT(misc-const-correctness)
    fresh->wake_at_change(change.token());
    const runtime::OpResult woken = co_await change;
    if (woken.code != Code::kOk) break;
  }
  // We may have been woken by a connection in the middle of its poll: let it end before any is destroyed.
  co_await shard_.sleep_for(0);
  connecting_ = false;
  std::erase_if(ended_, [](const auto& connection) { return connection->users == 0; });
  if (fresh->state() == Connection::State::kConnecting || fresh->state() == Connection::State::kEnded) {
    trouble_ = fresh->trouble();
    co_return false;
  }
  if (connection_ != nullptr) ended_.push_back(std::move(connection_));
  connection_ = std::move(fresh);
  co_return true;
}

Task<bool> AsyncClient::await_server(Patience& patience) {
  const uint64_t now = shard_.refresh_now();
  if (patience.deadline_ns == 0) patience.deadline_ns = now + options_.timeout_ns;
  if (connection_->state() == Connection::State::kUp && patience.waits++ > 0) {
    co_await shard_.sleep_for(kPause_ns);
  }
  while (connection_->state() == Connection::State::kNoServer && !connection_->has_server_given_up()) {
    // Awaiting changes it, which the check does not see.
    Pending change = shard_.ops().begin(patience.deadline_ns);  // NOLINT(misc-const-correctness)
    connection_->wake_at_change(change.token());
    const runtime::OpResult woken = co_await change;
    if (woken.code != Code::kOk) break;
  }
  if (connection_->state() == Connection::State::kEnded) {
    if (!connecting_) {
      if (patience.losses++ > 0) co_return false;
      const bool established = co_await establish(patience.deadline_ns);
      co_return established;
    }
    // Another operation is at it.
    while (connecting_) co_await shard_.sleep_for(kPause_ns);
  }
  if (connection_->state() == Connection::State::kUp && shard_.now_ns() < patience.deadline_ns) {
    co_return true;
  }
  trouble_ = connection_->trouble();
  co_return false;
}

Task<bool> AsyncClient::await_growth(int waits) {
  if (connection_->refresh()) co_return true;
  if (waits >= kGrowthWaits) co_return false;
  co_await shard_.sleep_for(kPause_ns << waits);
  co_return true;
}

template <typename Direct, typename Ask>
Task<Code> AsyncClient::read(Direct direct, Ask ask) {
  Patience patience;
  int growth_waits = 0;
  for (;;) {
    if (guard_.is_child()) co_return Code::kForked;
    if (connection_->reader() != nullptr) {
      const Code code = direct(*connection_->reader());
      if (code != Code::kInvalidated && code != Code::kCorrupt) co_return code;
      if (code == Code::kCorrupt) {
        const bool again = co_await await_growth(growth_waits++);
        if (again) continue;
        co_return code;
      }
    }
    if (connection_->state() == Connection::State::kUp) {
      const Use use(*connection_);
      const Code code = co_await ask(connection_->rpc(), patience.deadline_ns);
      if (code != Code::kUnavailable) co_return code;
    }
    const bool again = co_await await_server(patience);
    if (!again) co_return Code::kUnavailable;
  }
}

template <typename T, typename Ask>
Task<Result<T>> AsyncClient::ask_server(Ask ask) {
  Patience patience;
  for (;;) {
    if (guard_.is_child()) co_return fail(Code::kForked);
    if (connection_->state() == Connection::State::kUp) {
      const Use use(*connection_);
      Result<T> result = co_await ask(connection_->rpc(), patience.deadline_ns);
      if (result.code() != Code::kUnavailable) co_return result;
    }
    const bool again = co_await await_server(patience);
    if (!again) co_return fail(Code::kUnavailable);
  }
}

// Coroutines of their own, because a lambda that captures must not be one.
namespace {

Task<Code> ask_get(kv::RpcClient& rpc, Bytes key, kv::ValueSink& sink, Got& got, uint64_t deadline_ns) {
  const Result<kv::Got> answer = co_await rpc.get(key, sink, deadline_ns);
  co_return take(answer, got);
}

Task<Code> ask_exists(kv::RpcClient& rpc, Bytes key, Got& got, uint64_t deadline_ns) {
  const Result<kv::Got> answer = co_await rpc.exists(key, deadline_ns);
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

// What surely was not sent is left over, for the next server.
struct Puts {
  std::vector<kv::RpcClient::PutItem> open;
  std::vector<PutItem*> owners;
};
Task<Result<bool>> ask_multi_put(kv::RpcClient& rpc, Puts& puts, uint64_t deadline_ns) {
  co_await rpc.multi_put(puts.open, deadline_ns);
  size_t left = 0;
  for (size_t i = 0; i < puts.open.size(); ++i) {
    puts.owners[i]->result = puts.open[i].result;
    if (puts.open[i].result.code() != Code::kUnavailable) continue;
    puts.open[left] = puts.open[i];
    puts.owners[left++] = puts.owners[i];
  }
  puts.open.resize(left);
  puts.owners.resize(left);
  if (left > 0) co_return fail(Code::kUnavailable);
  co_return true;
}

}  // namespace

Code AsyncClient::get_directly(Bytes key, const Room& room, Got& got) {
  if (guard_.is_child()) [[unlikely]]
    return Code::kForked;
  if (const Code code = check_key(key); code != Code::kOk) return code;
  Connection::Reader* reader = connection_->reader();
  if (reader == nullptr) return Code::kInvalidated;
  // The shard's own turns poll the connection; this only has it look at the keeper's socket.
  if (++reads_ % kReadsPerLook == 0 || connection_->is_node_stopping()) connection_->look_at_keeper();
  const kv::Found found = reader->get(key, reader->hash(key), room);
  got = got_of(found);
  return found.code;
}

Task<Result<Got>> AsyncClient::get_slowly(Bytes key, Room room) {
  Got got;
  Sink<Room> sink(room);
  const Code code = co_await read(
      [&](Connection::Reader&) { return get_directly(key, room, got); },
      [&](kv::RpcClient& rpc, uint64_t deadline_ns) { return ask_get(rpc, key, sink, got, deadline_ns); });
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
  slow_ = client_.get_slowly(key_, room_);
  return std::move(slow_).operator co_await().await_suspend(waiter);
}

Result<Got> AsyncClient::Get::await_resume() {
  if (slow_.valid()) return slow_.take();
  if (code_ != Code::kOk) return fail(code_);
  return got_;
}

Task<Result<Got>> AsyncClient::exists(Bytes key) {
  if (const Code code = check_key(key); code != Code::kOk) co_return fail(code);
  Got got;
  const Code code = co_await read(
      [&](Connection::Reader& reader) {
        const kv::Found found = reader.look(key, reader.hash(key));
        got = got_of(found);
        return found.code;
      },
      [&](kv::RpcClient& rpc, uint64_t deadline_ns) { return ask_exists(rpc, key, got, deadline_ns); });
  if (code != Code::kOk) co_return fail(code);
  co_return got;
}

Task<Result<ScanPage>> AsyncClient::scan(uint64_t cursor, size_t keys_min) {
  ScanPage page;
  const Code code =
      co_await read([&](Connection::Reader& reader) { return scan_directly(reader, cursor, keys_min, page); },
                    [&](kv::RpcClient& rpc, uint64_t deadline_ns) {
                      return ask_scan(rpc, {.cursor = cursor, .keys_min = keys_min}, page, deadline_ns);
                    });
  if (code != Code::kOk) co_return fail(code);
  co_return page;
}

Task<Result<uint64_t>> AsyncClient::put(Bytes key, Bytes value, PutOptions options) {
  if (options.if_absent && options.if_version != 0) co_return fail(Code::kInvalidArgument);
  const Result<uint64_t> version =
      co_await ask_server<uint64_t>([&](kv::RpcClient& rpc, uint64_t deadline_ns) {
        return rpc.put(key, value, options_of(options), deadline_ns);
      });
  co_return version;
}

Task<Result<uint64_t>> AsyncClient::erase(Bytes key, uint64_t if_version) {
  const Result<uint64_t> version = co_await ask_server<uint64_t>(
      [&](kv::RpcClient& rpc, uint64_t deadline_ns) { return rpc.erase(key, if_version, deadline_ns); });
  co_return version;
}

Task<> AsyncClient::multi_put(std::span<PutItem> items) {
  Puts puts;
  for (PutItem& item : items) {
    if (item.options.if_absent && item.options.if_version != 0) {
      item.result = fail(Code::kInvalidArgument);
      continue;
    }
    puts.open.push_back({.key = item.key, .value = item.value, .options = options_of(item.options)});
    puts.owners.push_back(&item);
  }
  const Result<bool> all = co_await ask_server<bool>(
      [&](kv::RpcClient& rpc, uint64_t deadline_ns) { return ask_multi_put(rpc, puts, deadline_ns); });
  for (PutItem* item : puts.owners) item->result = fail(all.code());
}

Task<Result<NodeStat>> AsyncClient::stat() {
  const auto reply = co_await ask_server<kv::wire::StatReply>(
      [](kv::RpcClient& rpc, uint64_t deadline_ns) { return rpc.stat(deadline_ns); });
  if (!reply) co_return fail(reply.error());
  co_return stat_of(*reply);
}

Task<Result<Pong>> AsyncClient::ping() {
  const Clock& clock = shard_.clock();
  uint64_t sent_ns = 0;
  const auto reply = co_await ask_server<kv::wire::PingReply>([&](kv::RpcClient& rpc, uint64_t deadline_ns) {
    sent_ns = clock.now_ns();
    return rpc.ping(sent_ns, deadline_ns);
  });
  if (!reply) co_return fail(reply.error());
  co_return Pong{.round_trip_ns = clock.now_ns() - sent_ns, .node_wall_ns = reply->wall_ns};
}

Route AsyncClient::route() const {
  Route route;
  connection_->fill(route);
  return route;
}

}  // namespace refract::client
