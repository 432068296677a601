// SPDX-License-Identifier: Apache-2.0
// A get or a put while all is well: one message each way, awaited by a coroutine in whose frame it lies,
// because the frames of RpcClient::get and put cost more than the message does. Attempts take no operation of
// their shard either: the session hands them their reply, and one coroutine looks after the deadlines of all
// calls.
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

// A call of attempts that is under way, and for how long: one attempt's own, or a group's.
class RpcClient::TimedCall : public rpc::ReplyTaker {
 public:
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;

  void on_reply(uint32_t place, const runtime::OpResult& reply) noexcept final;

 protected:
  explicit TimedCall(RpcClient& client) noexcept : client_(client) {}
  ~TimedCall() override = default;

  [[nodiscard]] RpcClient& client() const noexcept { return client_; }
  [[nodiscard]] bool is_under_way() const noexcept { return call_ != 0; }
  // False: not now.
  [[nodiscard]] bool start(const rpc::Call& call) noexcept;
  // REQUIRES: it is under way.
  void drop() noexcept;
  // It is not under way any more. May end this.
  virtual void answered(const runtime::OpResult& reply) noexcept = 0;

 private:
  friend class RpcClient;
  void leave_line() noexcept;

  RpcClient& client_;
  uint64_t call_ = 0;  // 0: not under way.
  // Among those under way, in the order of their deadlines.
  TimedCall* earlier_;
  TimedCall* later_;
  uint64_t deadline_ns_;
};

// What gets and puts have in common: the call, alone or with others.
class RpcClient::Attempt : public TimedCall {
 public:
  // Instead of the coroutine that awaits it, where the attempt had no outcome.
  class Continuer {
   public:
    // It has ended, and may be destroyed inside the call.
    virtual void go_on() noexcept = 0;

   protected:
    ~Continuer() = default;
  };
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() override {
    if (is_awaited()) give_up();
  }

  [[nodiscard]] bool is_sent() const noexcept { return was_sent_; }
  // It has its outcome. REQUIRES: it has ended.
  [[nodiscard]] bool is_settled() const noexcept { return is_settled_; }
  [[nodiscard]] bool await_ready() const noexcept { return !is_awaited(); }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }

 protected:
  Attempt(RpcClient& client, Continuer* continuer) noexcept : TimedCall(client), continuer_(continuer) {}

  // Under way from now on: in a group, or by a call of its own, if it can be sent.
  void go_with(Group& group, uint32_t place) noexcept;
  void go_alone(const rpc::Call& call) noexcept;
  void settle_with(Code code) noexcept {
    code_ = code;
    is_settled_ = true;
  }
  [[nodiscard]] Code code() const noexcept { return code_; }
  // It has its outcome, or will never have it. May end this.
  void end() noexcept {
    group_ = nullptr;
    --client().attempt_count_;
    // Either of them may end this.
    if (!is_settled_ && continuer_ != nullptr) [[unlikely]]
      return continuer_->go_on();
    if (waiter_) waiter_.resume();
  }

 private:
  friend class Group;
  [[nodiscard]] bool is_awaited() const noexcept { return group_ != nullptr || is_under_way(); }
  void answered(const runtime::OpResult& reply) noexcept final;
  virtual void settle(const runtime::OpResult& reply) noexcept = 0;
  void give_up() noexcept;

  Continuer* continuer_;
  std::coroutine_handle<> waiter_;
  Group* group_ = nullptr;  // With which it is under way, or will be in this turn.
  uint32_t place_ = 0;      // In the group.
  Code code_ = Code::kUnavailable;
  bool was_sent_ = false;
  bool is_settled_ = false;
};

class RpcClient::GetAttempt final : public Attempt {
 public:
  // Sends, if that can be done at once.
  GetAttempt(RpcClient& client, std::span<const std::byte> key, ValueSink& sink,
             Continuer* continuer = nullptr);

  // The outcome; nothing: finish() has it, and must be awaited.
  [[nodiscard]] std::optional<Result<Got>> await_resume() const noexcept {
    if (!is_settled()) return std::nullopt;
    return code() == Code::kOk ? Result<Got>(got_) : fail(code());
  }
  // The same in parts. REQUIRES: is_settled(); of got(): that is kOk.
  using Attempt::code;
  [[nodiscard]] const Got& got() const noexcept { return got_; }

  [[nodiscard]] runtime::Task<Result<Got>> finish();

 private:
  friend class Group;
  void go_alone();
  void settle(const runtime::OpResult& reply) noexcept override;
  // What is its in an answer to many. In line, because it is what every get over a network runs through.
  [[gnu::always_inline]] void take(const wire::ManyAnswer& answer) noexcept {
    if (answer.code == Code::kOk) [[likely]] {
      settle_with(give(answer, sink_, got_));
    } else if (answer.code != Code::kTooLarge) {
      settle({.code = answer.code});
    }
    end();
  }

  std::span<const std::byte> key_;
  ValueSink& sink_;
  Got got_;
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
  PutAttempt(RpcClient& client, const Write& write, Continuer* continuer = nullptr);

  // Nothing: surely it was not executed, and put() may succeed.
  [[nodiscard]] std::optional<Result<uint64_t>> await_resume() const noexcept {
    if (!is_settled()) return std::nullopt;
    return code() == Code::kOk ? Result<uint64_t>(version_) : fail(code());
  }
  // The same in parts. REQUIRES: is_settled(); of version(): that is kOk.
  using Attempt::code;
  [[nodiscard]] uint64_t version() const noexcept { return version_; }

 private:
  friend class Group;
  void go_alone();
  void settle(const runtime::OpResult& reply) noexcept override;
  void take(const wire::ManyVersion& version) noexcept;

  Write write_;
  uint64_t version_ = 0;
};

}  // namespace refract::kv
