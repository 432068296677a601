// SPDX-License-Identifier: Apache-2.0
// A get or a put while all is well: one message each way, awaited by a coroutine in whose frame it lies,
// because the frames of RpcClient::get and put cost more than the message does. Attempts take no operation of
// their shard either: the session hands them their reply, and one coroutine looks after the deadlines of all.
//
//   RpcClient::GetAttempt attempt(rpc, key, sink);
//   if (attempt.is_sent()) {
//     std::optional<Result<Got>> got = co_await attempt;
//     if (!got) got = co_await attempt.finish();
//   }
//
// What is not so simple is left to get() and put(), the only place where anything is repeated: an attempt
// that is not sent (no credit, a long key or value) has done nothing, and one whose answer is no outcome yet
// (an owner that is busy, a value longer than a message) continues with finish(), or with put().
//
// Attempts that are begun while the session hands out replies share calls (call_batcher.h).
//
// Keys, values and sinks must live as long as the attempt, and the client longer. Dropping it gives it up.
// Threads: used only by the client's shard.
#pragma once

#include <coroutine>
#include <optional>
#include <span>

#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/rpc_client_parts.h"
#include "refract/kv/layout/many_wire.h"
#include "refract/rpc/session.h"

namespace refract::kv {

// What gets and puts have in common: the call, alone or with others, and the deadline.
class RpcClient::Attempt : public rpc::ReplyTaker {
 public:
  // Instead of a coroutine that awaits it.
  class EndTaker {
   public:
    // It has ended, may be asked for its outcome, and destroyed inside the call.
    virtual void on_attempt_end() noexcept = 0;

   protected:
    ~EndTaker() = default;
  };
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() override;

  [[nodiscard]] bool is_sent() const noexcept { return was_sent_; }
  [[nodiscard]] bool await_ready() const noexcept { return !is_under_way_; }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }

  void on_reply(uint32_t place, const runtime::OpResult& reply) noexcept final;

 protected:
  Attempt(RpcClient& client, EndTaker* taker) noexcept : client_(client), taker_(taker) {}

  [[nodiscard]] RpcClient& client() const noexcept { return client_; }
  // Under way from now on: in a group, or by a call of its own, if it can be sent.
  void go_with(Group& group, uint32_t place) noexcept;
  void go_alone(const rpc::Call& call) noexcept;
  // It has its outcome, or will never have it. May end this.
  void end() noexcept;

 private:
  friend class RpcClient;
  friend class Group;
  virtual void settle(const runtime::OpResult& reply) noexcept = 0;
  void join_line() noexcept;
  void leave_line() noexcept;
  void leave_call() noexcept;
  void give_up() noexcept;

  RpcClient& client_;
  EndTaker* taker_;
  std::coroutine_handle<> waiter_;
  // Among those under way, in the order of their deadlines.
  Attempt* earlier_ = nullptr;
  Attempt* later_ = nullptr;
  uint64_t deadline_ns_ = 0;
  uint64_t call_ = 0;       // Its own; 0: it is with others.
  Group* group_ = nullptr;  // The call that it shares.
  uint32_t place_ = 0;      // In the group.
  bool was_sent_ = false;
  bool is_under_way_ = false;
};

class RpcClient::GetAttempt final : public Attempt {
 public:
  // Sends, if that can be done at once. `taker` null: a coroutine will wait.
  GetAttempt(RpcClient& client, std::span<const std::byte> key, ValueSink& sink, EndTaker* taker = nullptr);

  // The outcome; nothing: finish() has it, and must be awaited.
  [[nodiscard]] std::optional<Result<Got>> await_resume() noexcept { return outcome(); }
  [[nodiscard]] std::optional<Result<Got>> outcome() const noexcept {
    return is_settled_ ? std::optional<Result<Got>>(outcome_) : std::nullopt;
  }

  [[nodiscard]] runtime::Task<Result<Got>> finish();

 private:
  friend class Group;
  void settle(const runtime::OpResult& reply) noexcept override;
  // What is its in an answer to many.
  void on_answer(const wire::ManyAnswer& answer) noexcept;

  std::span<const std::byte> key_;
  ValueSink& sink_;
  bool wants_window_;
  bool is_settled_ = false;
  Result<Got> outcome_ = fail(Code::kUnavailable);
  std::optional<GetAnswer> opened_;  // Of a long value: to be read, then closed.
};

// Of a write without an identity and without a condition.
class RpcClient::PutAttempt final : public Attempt {
 public:
  struct Write {
    std::span<const std::byte> key;
    std::span<const std::byte> value;
    uint64_t ttl_ns = 0;
  };
  PutAttempt(RpcClient& client, const Write& write, EndTaker* taker = nullptr);

  // Nothing: surely it was not executed, and put() may succeed.
  [[nodiscard]] std::optional<Result<uint64_t>> await_resume() noexcept { return outcome(); }
  [[nodiscard]] std::optional<Result<uint64_t>> outcome() const noexcept {
    return is_settled_ ? std::optional<Result<uint64_t>>(outcome_) : std::nullopt;
  }

 private:
  friend class Group;
  void settle(const runtime::OpResult& reply) noexcept override;
  void settle_with(const Result<uint64_t>& version) noexcept;
  void on_version(const wire::ManyVersion& version) noexcept;

  Write write_;
  bool is_settled_ = false;
  Result<uint64_t> outcome_ = fail(Code::kUnavailable);
};

}  // namespace refract::kv
