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
// The operations, their outcomes and what happens when server or node go are those of client.h. A direct get
// takes no coroutine: its awaitable is ready at once. Keys, values and targets must live until the awaited
// operation has ended.
//
// Threads: used only by its shard. It goes after all its operations, and not in the turn in which one of them
// ended: `co_await shard.sleep_for(0)` before.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "refract/base/api.h"
#include "refract/base/report.h"
#include "refract/base/result.h"
#include "refract/client/client.h"
#include "refract/client/types.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract {

namespace client {
class AsyncCalls;
class GetCall;
struct KeyOwner;

// Where a value goes; one of the two.
struct Room {
  std::string* string = nullptr;
  std::span<std::byte> buffer = {};
  std::byte* operator()(uint64_t bytes) const;
};
}  // namespace client

class REFRACT_API AsyncClient {
 public:
  [[nodiscard]] static runtime::Task<Reported<std::unique_ptr<AsyncClient>>> connect(
      runtime::Shard& shard, std::string address, ClientOptions options = {});
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;
  ~AsyncClient();

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

  [[nodiscard]] RequestId new_request() noexcept;
  [[nodiscard]] Route route() const;
  [[nodiscard]] const Report& trouble() const noexcept;
  [[nodiscard]] uint64_t messages_sent() const noexcept;

 private:
  explicit AsyncClient(std::unique_ptr<client::AsyncCalls> calls) noexcept;

  const std::unique_ptr<client::AsyncCalls> calls_;
};

// `co_await` gives a Result<Got>.
class [[nodiscard]] REFRACT_API AsyncClient::Get {
 public:
  Get(const Get&) = delete;
  Get& operator=(const Get&) = delete;
  ~Get() = default;

  [[nodiscard]] bool await_ready();
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiter);
  [[nodiscard]] Result<Got> await_resume();

 private:
  friend class AsyncClient;
  friend class client::GetCall;
  Get(client::AsyncCalls& calls, Bytes key, client::Room room) noexcept
      : calls_(calls), key_(key), room_(room) {}
  [[nodiscard]] bool ask_once();
  void on_call_end() noexcept;
  [[nodiscard]] bool go_on(runtime::Task<Result<Got>> slow, std::coroutine_handle<> waiter);
  [[nodiscard]] static runtime::Task<Result<Got>> finish(Get& get);

  // Many gets at a time are bounded by what each costs here, and frames of coroutines were most of it. So the
  // first attempt lies in the awaiting coroutine's frame, in this room: its type is the library's own.
  class CallRoom {
   public:
    static constexpr size_t kBytes = 288;
    static constexpr size_t kAlign = 8;

    CallRoom() noexcept {}  // The bytes stay as they are.
    CallRoom(const CallRoom&) = delete;
    CallRoom& operator=(const CallRoom&) = delete;
    ~CallRoom() {
      if (call_ != nullptr) clear();
    }
    [[nodiscard]] client::GetCall* operator->() const noexcept { return call_; }
    [[nodiscard]] void* bytes() noexcept { return bytes_; }
    void hold(client::GetCall* call) noexcept { call_ = call; }
    void clear() noexcept;

   private:
    client::GetCall* call_ = nullptr;  // In `bytes_`; null: there is none.
    alignas(kAlign) std::byte bytes_[kBytes];
  };

  [[nodiscard]] client::KeyOwner place() const noexcept;

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
  CallRoom call_;
  runtime::Task<Result<Got>> slow_;
};

}  // namespace refract
