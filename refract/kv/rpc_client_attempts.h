// SPDX-License-Identifier: Apache-2.0
// A get or a put while all is well: one message each way, awaited by a coroutine in whose frame it lies,
// because the frames of RpcClient::get and put cost more than the message does.
//
//   RpcClient::GetAttempt attempt(rpc, key, sink);
//   if (attempt.is_sent()) {
//     std::optional<Result<Got>> got = co_await attempt;
//     if (!got) got = co_await attempt.finish();
//   }
//
// What is not so simple is left to get() and put(), the only place where anything is repeated: an attempt
// that is not sent (no credit, a long key or value) has done nothing, and one whose answer is no outcome yet
// (an owner that is busy, a value longer than a message) goes on with finish().
//
// Keys, values and sinks must live as long as the attempt, and the client longer. Dropping it gives it up.
// Threads: used only by the client's shard.
#pragma once

#include <coroutine>
#include <optional>
#include <span>

#include "refract/kv/rpc_client.h"
#include "refract/kv/rpc_client_parts.h"
#include "refract/rpc/session.h"

namespace refract::kv {

class RpcClient::GetAttempt {
 public:
  // Sends, if that can be done at once.
  GetAttempt(RpcClient& client, std::span<const std::byte> key, ValueSink& sink);
  GetAttempt(const GetAttempt&) = delete;
  GetAttempt& operator=(const GetAttempt&) = delete;
  ~GetAttempt() = default;

  [[nodiscard]] bool is_sent() const noexcept { return reply_.is_sent(); }

  // The outcome; nothing: finish() has it, and must be awaited.
  [[nodiscard]] bool await_ready() const noexcept { return reply_.await_ready(); }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { reply_.await_suspend(waiter); }
  [[nodiscard]] std::optional<Result<Got>> await_resume();

  [[nodiscard]] runtime::Task<Result<Got>> finish();

 private:
  RpcClient& client_;
  std::span<const std::byte> key_;
  ValueSink& sink_;
  bool wants_window_;
  rpc::Session::Reply reply_;
  std::optional<GetAnswer> opened_;  // Of a long value: to be read, then closed.
};

// Of a write without an identity and without a condition.
class RpcClient::PutAttempt {
 public:
  struct Write {
    std::span<const std::byte> key;
    std::span<const std::byte> value;
    uint64_t ttl_ns = 0;
  };
  PutAttempt(RpcClient& client, const Write& write);
  PutAttempt(const PutAttempt&) = delete;
  PutAttempt& operator=(const PutAttempt&) = delete;
  ~PutAttempt() = default;

  [[nodiscard]] bool is_sent() const noexcept { return reply_.is_sent(); }

  // Nothing: surely it was not executed, and put() may succeed.
  [[nodiscard]] bool await_ready() const noexcept { return reply_.await_ready(); }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { reply_.await_suspend(waiter); }
  [[nodiscard]] std::optional<Result<uint64_t>> await_resume() noexcept;

 private:
  rpc::Session::Reply reply_;
};

}  // namespace refract::kv
