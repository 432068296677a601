// SPDX-License-Identifier: Apache-2.0
// Client as coroutines, on a shard of the caller's: for programs that do many things at once in one thread.
//
//   runtime::Task<> greet(AsyncClient& client) {
//     std::string value;
//     const Result<Got> got = co_await client.get("greeting", value);
//   }
//
//   runtime::Shard shard(system_clock());
//   auto client = block_on(shard, AsyncClient::connect(shard, ""));
//   for (int i = 0; i < 64; ++i) shard.spawn(greet(**client));
//   (void)shard.run_until([&] { return shard.gate().count() == 0; });
//
// The operations, their outcomes and what happens when server or node go are those of client.h. Gets and puts
// take no coroutine while all is well, and the awaitable of a direct get is ready at once. Keys, values and
// targets must live until the awaited operation has ended.
//
// Threads: used only by its shard. It goes after all its operations, and not in the turn in which one of them
// ended: `co_await shard.sleep_for(0)` before.
#pragma once

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "refract/base/api.h"
#include "refract/base/report.h"
#include "refract/base/result.h"
#include "refract/client/client.h"
#include "refract/client/numbered/operation.h"
#include "refract/client/reservation.h"
#include "refract/client/transactions/transaction.h"
#include "refract/client/types.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract {

namespace client {
class AsyncCalls;
class GetCall;
class PutCall;
class ReservationShelf;
struct KeyOwner;

// Where a value goes; one of the two.
struct Room {
  std::string* string = nullptr;
  std::span<std::byte> buffer = {};
  std::byte* operator()(uint64_t bytes) const;
};
}  // namespace client

// As Transaction: client/transaction.h.
class REFRACT_API AsyncTransaction {
 public:
  AsyncTransaction(const AsyncTransaction&) = delete;
  AsyncTransaction& operator=(const AsyncTransaction&) = delete;
  ~AsyncTransaction() = default;

  // Keys live until the task has ended.
  [[nodiscard]] runtime::Task<Result<std::string>> get(Bytes key);
  [[nodiscard]] runtime::Task<> multi_get(std::span<GetItem> items);
  [[nodiscard]] runtime::Task<Result<bool>> exists(Bytes key);
  [[nodiscard]] Result<> put(Bytes key, Bytes value, uint64_t ttl_ns = 0);
  [[nodiscard]] Result<> erase(Bytes key);
  [[nodiscard]] Result<> add(Bytes key, int64_t addend);
  [[nodiscard]] runtime::Task<Result<>> validate();

 private:
  friend class client::AsyncCalls;
  AsyncTransaction(client::AsyncCalls& calls, txn::Changes& changes, bool is_read_only) noexcept
      : calls_(calls), changes_(changes), is_read_only_(is_read_only) {}

  client::AsyncCalls& calls_;
  txn::Changes& changes_;
  bool is_read_only_;
};

class REFRACT_API AsyncClient {
 public:
  [[nodiscard]] static runtime::Task<Reported<std::unique_ptr<AsyncClient>>> connect(
      runtime::Shard& shard, std::string address, ClientOptions options = {});
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;
  ~AsyncClient();

  class Get;
  class Put;
  [[nodiscard]] Get get(Bytes key, std::string& value) noexcept;
  [[nodiscard]] Get get_into(Bytes key, std::span<std::byte> value) noexcept;
  [[nodiscard]] runtime::Task<Result<View>> view(Bytes key);
  [[nodiscard]] runtime::Task<Result<Got>> exists(Bytes key);
  // By loads alone, as of Client.
  [[nodiscard]] Result<View> view_at_once(Bytes key);
  [[nodiscard]] Result<Got> exists_at_once(Bytes key);
  [[nodiscard]] runtime::Task<Result<ScanPage>> scan(uint64_t cursor, size_t keys_min = 128);
  [[nodiscard]] Put put(Bytes key, Bytes value, const PutOptions& options = {}) noexcept;
  // As of Client, and no coroutine: fresh memory is taken by the calling thread, which may be any. A
  // reservation that is put lives until the awaited operation has ended; it may outlive the client.
  [[nodiscard]] Result<Reservation> reserve(uint64_t bytes);
  [[nodiscard]] Put put(Bytes key, const Reservation& value, const PutOptions& options = {}) noexcept;
  [[nodiscard]] runtime::Task<Result<uint64_t>> erase(Bytes key, uint64_t if_version = 0,
                                                      RequestId request = {});
  // A write of which it is known what became of it, however servers end: operation.h.
  [[nodiscard]] Operating operate(Bytes key, const KeyOperation& operation) noexcept;
  // As of Client.
  [[nodiscard]] runtime::Task<Result<uint64_t>> clear();
  // As of Client. The batch lives as long as the task.
  [[nodiscard]] runtime::Task<Result<>> commit(Batch& batch, RequestId request = {});
  using Body = std::function<runtime::Task<Result<>>(AsyncTransaction&)>;
  [[nodiscard]] runtime::Task<Result<>> transaction(Body body, TransactionOptions options = {});
  [[nodiscard]] runtime::Task<Result<>> read_only(Body body, TransactionOptions options = {});
  // All shards at once, each at its own pace.
  [[nodiscard]] runtime::Task<> multi_get(std::span<GetItem> items);
  [[nodiscard]] runtime::Task<> multi_get_into(std::span<GetIntoItem> items);
  // Takes the buffers away from one that is under way, whose caller does not want it any more: those whose
  // values have not begun to come are not written from now on. Their values go to `instead`, all of them, or
  // nowhere where it is shorter. True: these are all, and the task ends by itself, until when items and
  // `instead` live; dropped, it could leave values open at the owner, for half a minute, of which a
  // connection has few. False: wait for its end, or drop it, behind which no buffer is written, either; where
  // one-sided requests write one, that ends the connection, and the client makes another. Not called from
  // inside of the shard.
  [[nodiscard]] static bool take_buffers_back(std::span<GetIntoItem> items,
                                              std::span<std::byte> instead) noexcept;
  [[nodiscard]] runtime::Task<> multi_put(std::span<PutItem> items);
  [[nodiscard]] runtime::Task<> multi_exists(std::span<ExistsItem> items);
  // As of Client. The keys live as long as the task.
  [[nodiscard]] runtime::Task<Result<size_t>> prefix_exists(std::span<const Bytes> keys);
  [[nodiscard]] runtime::Task<Result<NodeStat>> stat();
  [[nodiscard]] runtime::Task<Result<Pong>> ping();  // The node's first shard.
  [[nodiscard]] runtime::Task<Result<ClusterMembers>> members();

  [[nodiscard]] RequestId new_request() noexcept;
  [[nodiscard]] Route route() const;
  [[nodiscard]] std::string why() const;  // The route in a few lines for people.
  [[nodiscard]] const Report& trouble() const noexcept;
  [[nodiscard]] uint64_t messages_sent() const noexcept;

 private:
  struct LetGo {
    void operator()(client::ReservationShelf* shelf) const noexcept;
  };
  friend class OperationCall;
  explicit AsyncClient(std::unique_ptr<client::AsyncCalls> calls);

  const std::unique_ptr<client::AsyncCalls> calls_;
  std::unique_ptr<client::ReservationShelf, LetGo> shelf_;
};

// `co_await` gives a Result<Got>.
class [[nodiscard]] REFRACT_API AsyncClient::Get {
 public:
  Get(const Get&) = delete;
  Get& operator=(const Get&) = delete;
  ~Get() {
    if (call_ != nullptr) [[unlikely]]
      give_up();
  }

  [[nodiscard]] bool await_ready();
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiter);
  [[nodiscard]] Result<Got> await_resume();

 private:
  friend class AsyncClient;
  friend class client::GetCall;
  Get(client::AsyncCalls& calls, Bytes key, client::Room room) noexcept
      : calls_(calls), key_(key), room_(room) {}
  [[nodiscard]] bool read();
  [[nodiscard]] bool ask_once();
  void go_on() noexcept;
  [[nodiscard]] bool go_on(runtime::Task<Result<Got>> slow, std::coroutine_handle<> waiter);
  [[nodiscard]] static runtime::Task<Result<Got>> finish(Get& get);

  [[nodiscard]] client::KeyOwner place() const noexcept;
  [[nodiscard]] Result<Got> result_of_call();
  void give_up() noexcept;
  void end_call() noexcept;

  client::AsyncCalls& calls_;
  Bytes key_;
  // The key's, once it was needed: as kv/layout/hashed_key.h has it.
  uint64_t hash_seed_ = 0;
  uint64_t hash_ = 0;
  bool is_hashed_ = false;
  client::Room room_;
  Got got_;
  Code code_ = Code::kOk;
  uint64_t begun_ns_ = 0;
  std::coroutine_handle<> waiter_;
  // Many operations at a time are bounded by what each costs here, and frames of coroutines were most of it.
  // So the first attempt lies in the awaiting coroutine's frame, in this room: its type is the library's own.
  client::GetCall* call_ = nullptr;  // Null: there is none.
  alignas(8) std::byte call_room_[256];
  runtime::Task<Result<Got>> slow_;
};

// `co_await` gives a Result<uint64_t>: the new version.
class [[nodiscard]] REFRACT_API AsyncClient::Put {
 public:
  Put(const Put&) = delete;
  Put& operator=(const Put&) = delete;
  ~Put() {
    if (call_ != nullptr) [[unlikely]]
      end_call();
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiter);
  [[nodiscard]] Result<uint64_t> await_resume();

 private:
  friend class AsyncClient;
  friend class client::PutCall;
  Put(client::AsyncCalls& calls, Bytes key, Bytes value, const PutOptions& options) noexcept
      : calls_(calls), key_(key), value_(value), options_(options) {}
  [[nodiscard]] bool ask_once(std::coroutine_handle<> waiter);
  [[nodiscard]] bool go_on(std::coroutine_handle<> waiter);
  void end_call() noexcept;

  client::AsyncCalls& calls_;
  Bytes key_;
  Bytes value_;
  PutOptions options_;
  uint64_t begun_ns_ = 0;
  client::PutCall* call_ = nullptr;  // As a Get's.
  alignas(8) std::byte call_room_[176];
  runtime::Task<Result<uint64_t>> slow_;
};

// As block_on of a task: of one of the awaitables above.
template <typename Awaited>
  requires std::same_as<Awaited, AsyncClient::Get> || std::same_as<Awaited, AsyncClient::Put> ||
           std::same_as<Awaited, Operating>
auto block_on(runtime::Shard& shard, Awaited&& operation) {
  using Outcome = decltype(operation.await_resume());
  constexpr auto kAwait = [](Awaited& awaited) -> runtime::Task<Outcome> {
    const Outcome outcome = co_await awaited;
    co_return outcome;
  };
  return runtime::block_on(shard, kAwait(operation));
}

}  // namespace refract
