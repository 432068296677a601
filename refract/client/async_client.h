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
#include <string>
#include <vector>

#include "refract/client/client.h"
#include "refract/client/connection.h"
#include "refract/client/forks.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::client {

class AsyncClient {
 public:
  [[nodiscard]] static runtime::Task<Reported<std::unique_ptr<AsyncClient>>> connect(
      runtime::Shard& shard, std::string address, ClientOptions options = {});
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;
  ~AsyncClient() = default;

  class Get;
  [[nodiscard]] Get get(Bytes key, std::string& value) noexcept;
  [[nodiscard]] Get get_into(Bytes key, std::span<std::byte> value) noexcept;
  [[nodiscard]] runtime::Task<Result<Got>> exists(Bytes key);
  [[nodiscard]] runtime::Task<Result<ScanPage>> scan(uint64_t cursor, size_t keys_min = 128);
  [[nodiscard]] runtime::Task<Result<uint64_t>> put(Bytes key, Bytes value, PutOptions options = {});
  [[nodiscard]] runtime::Task<Result<uint64_t>> erase(Bytes key, uint64_t if_version = 0);
  [[nodiscard]] runtime::Task<> multi_put(std::span<PutItem> items);
  [[nodiscard]] runtime::Task<Result<NodeStat>> stat();
  [[nodiscard]] runtime::Task<Result<Pong>> ping();

  [[nodiscard]] Route route() const;
  [[nodiscard]] const Report& trouble() const noexcept { return trouble_; }
  [[nodiscard]] uint64_t messages_sent() const noexcept { return connection_->messages_sent(); }

 private:
  struct Patience {
    uint64_t deadline_ns = 0;  // 0: time has not mattered yet.
    int losses = 0;            // Of the whole node.
    int waits = 0;
  };
  // Where a value goes; one of the two.
  struct Room {
    std::string* string = nullptr;
    std::span<std::byte> buffer;
    std::byte* operator()(uint64_t bytes) const;
  };
  class Use;

  AsyncClient(runtime::Shard& shard, std::string path, const ClientOptions& options)
      : shard_(shard), path_(std::move(path)), options_(options) {}

  // kInvalidated, kCorrupt: the caller goes on with read_slowly.
  [[nodiscard]] Code get_directly(Bytes key, const Room& room, Got& got);
  [[nodiscard]] runtime::Task<Result<Got>> get_slowly(Bytes key, Room room);
  [[nodiscard]] runtime::Task<bool> await_growth(int waits);
  [[nodiscard]] runtime::Task<bool> await_server(Patience& patience);
  [[nodiscard]] runtime::Task<bool> establish(uint64_t deadline_ns);
  template <typename Direct, typename Ask>
  [[nodiscard]] runtime::Task<Code> read(Direct direct, Ask ask);
  template <typename T, typename Ask>
  [[nodiscard]] runtime::Task<Result<T>> ask_server(Ask ask);

  runtime::Shard& shard_;
  std::string path_;
  ClientOptions options_;
  ForkGuard guard_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::unique_ptr<Connection>> ended_;  // Some operation may still be on its way out of them.
  bool connecting_ = false;
  Report trouble_{Code::kOk, "", ""};
  uint64_t reads_ = 0;
};

// `co_await` gives a Result<Got>.
class [[nodiscard]] AsyncClient::Get {
 public:
  [[nodiscard]] bool await_ready();
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiter);
  [[nodiscard]] Result<Got> await_resume();

 private:
  friend class AsyncClient;
  Get(AsyncClient& client, Bytes key, Room room) noexcept : client_(client), key_(key), room_(room) {}

  AsyncClient& client_;
  Bytes key_;
  Room room_;
  Got got_;
  Code code_ = Code::kOk;
  runtime::Task<Result<Got>> slow_;
};

}  // namespace refract::client
