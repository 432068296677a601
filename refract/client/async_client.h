// SPDX-License-Identifier: Apache-2.0
// Client as coroutines, on a shard of the caller's: for programs that do many things at once in one thread.
//
//   auto client = co_await AsyncClient::connect(shard, "");
//   std::string value;
//   const Result<Got> got = co_await (*client)->get("greeting", value);
//
// The operations, their outcomes and what happens when server or node go are those of client.h. A direct get
// takes no coroutine: its awaitable is ready at once. Keys, values and targets must live until the awaited
// operation has ended.
//
// Threads: used only by its shard. It goes after all its operations, and not in the turn in which one of them
// ended: `co_await shard.sleep_for(0)` before.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "refract/client/answers.h"
#include "refract/client/client.h"
#include "refract/client/link/peers.h"
#include "refract/client/link/settings.h"
#include "refract/client/use_notes.h"
#include "refract/kv/calls/rpc_client_attempts.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::client {

class Write;

// Where a value goes; one of the two.
struct Room {
  std::string* string = nullptr;
  std::span<std::byte> buffer = {};
  std::byte* operator()(uint64_t bytes) const;
};

class AsyncClient {
 public:
  [[nodiscard]] static runtime::Task<Reported<std::unique_ptr<AsyncClient>>> connect(
      runtime::Shard& shard, std::string address, ClientOptions options = {});
  // Of settings that outlive it; not connected until its first operation, or peers().establish().
  AsyncClient(runtime::Shard& shard, const Settings& settings) : peers_(shard, settings) {}
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;
  ~AsyncClient() = default;

  class Get;
  [[nodiscard]] Get get(Bytes key, std::string& value) noexcept;
  [[nodiscard]] Get get_into(Bytes key, std::span<std::byte> value) noexcept;
  [[nodiscard]] runtime::Task<Result<View>> view(Bytes key);
  [[nodiscard]] runtime::Task<Result<Got>> exists(Bytes key);
  [[nodiscard]] runtime::Task<Result<ScanPage>> scan(uint64_t cursor, size_t keys_min = 128);
  [[nodiscard]] runtime::Task<Result<uint64_t>> put(Bytes key, Bytes value, PutOptions options = {});
  [[nodiscard]] runtime::Task<Result<uint64_t>> erase(Bytes key, uint64_t if_version = 0,
                                                      RequestId request = {});
  // All shards at once, each at its own pace.
  [[nodiscard]] runtime::Task<> multi_get(std::span<GetItem> items);
  [[nodiscard]] runtime::Task<> multi_put(std::span<PutItem> items);
  [[nodiscard]] runtime::Task<Result<NodeStat>> stat();
  [[nodiscard]] runtime::Task<Result<Pong>> ping();  // The node's first shard.

  [[nodiscard]] RequestId new_request() noexcept { return peers_.new_request(); }
  [[nodiscard]] Route route() const;
  [[nodiscard]] const Report& trouble() const noexcept { return peers_.trouble(); }
  [[nodiscard]] uint64_t messages_sent() const noexcept { return peers_.messages_sent(); }

  // For the blocking client, which takes shorter ways and comes here when they do not lead anywhere.
  [[nodiscard]] Peers& peers() noexcept { return peers_; }
  [[nodiscard]] const Peers& peers() const noexcept { return peers_; }
  // `begun_ns`: when an attempt began that has failed already; 0: there was none.
  [[nodiscard]] runtime::Task<Result<Got>> get_slowly(Bytes key, Room room, uint64_t begun_ns = 0);
  // REQUIRES: the connection has a reader. kInvalidated, kCorrupt: try view().
  [[nodiscard]] static Code view_directly(Connection& connection, Bytes key, View& view);
  [[nodiscard]] static View empty_view() noexcept { return {}; }
  // REQUIRES: the connection's reader has pinned it just now.
  [[nodiscard]] static View view_of(Connection& connection,
                                    const Connection::Reader::Pinned& pinned) noexcept {
    View view;
    view.held_by_ = &connection;
    view.pin_ = pinned.pin;
    view.bytes_ = {connection.at(pinned.value), pinned.found.value_bytes};
    view.version_ = pinned.found.version;
    return view;
  }
  // The rest of a put that was begun, perhaps.
  [[nodiscard]] runtime::Task<Result<uint64_t>> put_on(Bytes key, Bytes value, PutOptions options,
                                                       Write& write, uint64_t begun_ns = 0);
  // Those of several keys whose shards answer directly; the others are left to `rest`, as indices.
  void get_directly(std::span<GetItem> items, std::vector<uint32_t>& rest);
  [[nodiscard]] runtime::Task<> get_by_calls(std::span<GetItem> items, std::span<const uint32_t> which);

 private:
  // The rest of a get whose first answer was not all.
  [[nodiscard]] runtime::Task<Result<Got>> finish_get(Get& get);
  struct ShardGets;
  struct ShardPuts;

  AsyncClient(runtime::Shard& shard, std::unique_ptr<const Settings> settings)
      : own_settings_(std::move(settings)), peers_(shard, *own_settings_) {}

  // kInvalidated, kCorrupt: the caller goes on with get_slowly.
  [[nodiscard]] Code get_directly(Bytes key, const Room& room, Got& got);
  void note_read(Connection& connection, Connection::Key key) noexcept {
    if (++noted_reads_ >= notes_.due()) [[unlikely]]
      notes_.note(connection, key, noted_reads_);
  }
  struct Way;
  [[nodiscard]] bool read_ahead(GetItem& item, const Way& way);
  // All at once.
  template <typename Job>
  [[nodiscard]] runtime::Task<> run(std::vector<Job>& jobs, runtime::Task<> (AsyncClient::*work)(Job&));
  [[nodiscard]] runtime::Task<> get_of_shard(ShardGets& job);
  [[nodiscard]] runtime::Task<> put_of_shard(ShardPuts& job);

  std::unique_ptr<const Settings> own_settings_;
  Peers peers_;
  uint64_t reads_ = 0;
  UseNotes notes_;
  uint64_t noted_reads_ = 0;
};

// `co_await` gives a Result<Got>.
class [[nodiscard]] AsyncClient::Get : private kv::RpcClient::GetAttempt::EndTaker {
 public:
  Get(const Get&) = delete;
  Get& operator=(const Get&) = delete;
  ~Get() = default;

  [[nodiscard]] bool await_ready();
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiter);
  [[nodiscard]] Result<Got> await_resume();

 private:
  friend class AsyncClient;
  Get(AsyncClient& client, Bytes key, Room room) noexcept : client_(client), key_(key), room_(room) {}
  [[nodiscard]] bool ask_once();
  void on_attempt_end() noexcept override;
  [[nodiscard]] bool go_on(runtime::Task<Result<Got>> slow, std::coroutine_handle<> waiter);

  // Many gets and puts at a time are bounded by what each costs here, and frames of coroutines were most of
  // it. So the first attempt lies in the awaiting coroutine's frame.
  struct Attempt {
    Attempt(Get& get, Connection& at, kv::RpcClient& rpc)
        : connection(at), use(at), sink(get.room_), call(rpc, get.key_, sink, &get) {}
    Connection& connection;
    Peers::Use use;
    Sink<Room> sink;
    kv::RpcClient::GetAttempt call;
  };

  AsyncClient& client_;
  Bytes key_;
  Room room_;
  Got got_;
  Code code_ = Code::kOk;
  uint64_t begun_ns_ = 0;
  std::coroutine_handle<> waiter_;
  std::optional<Attempt> attempt_;
  runtime::Task<Result<Got>> slow_;
};

}  // namespace refract::client
