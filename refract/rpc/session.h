// SPDX-License-Identifier: Apache-2.0
// The caller's end of remote procedure calls over one channel.
//
//   const OpResult reply = co_await session.call({.method = kPut, .head = head, .tail = value}, deadline_ns);
//
// or, where a coroutine would show in a blocking call:
//
//   const OpResult reply = session.call_and_wait(call, deadline_ns);
//
// or, in a coroutine that cannot afford another one (see Reply):
//
//   Session::Reply reply(session, deadline_ns);
//   if (reply.send(call)) result = co_await reply;
//
// A session has `credits` calls in flight at most; further callers wait in the order they came. The credit of
// a call whose caller gave up comes back only with its late reply, so that a server never holds more than it
// granted.
//
// Outcome: the reply's code; or kUnavailable (not sent: closed, never opened), kDeadlineExceeded (not sent in
// time), kTooLarge (does not fit a message), kOverloaded (no operation slot left), kIndeterminate (sent, but
// no reply came before the deadline or the end of the channel: it may have been executed; callers of harmless
// methods try again). `value` of the result is 1 where the peer answered, else 0, which tells a peer's own
// kIndeterminate from a reply that never came. `bytes` is the reply's payload, valid until the caller's next
// suspension or poll; the server may still be changing it.
//
// Nothing allocates after warm-up. Threads: used only by its shard.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/fabric/dispatcher.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::rpc {

struct SessionOptions {
  uint32_t credits = 64;  // Not more than the server's calls_max.
};

// The bytes are copied before the call is waited for: head and tail must live until start() has returned or
// the awaited call has ended. The head is copied one time more than the tail, so large bytes belong into the
// tail.
struct Call {
  uint16_t method = 0;
  std::span<const std::byte> head = {};
  std::span<const std::byte> tail = {};
};

// Takes replies as they come: for callers that have many calls under way and one wait for all of them.
class ReplyTaker {
 public:
  virtual ~ReplyTaker() = default;
  // Once for each call, inside the poll that brings its reply or its channel's end. `reply.bytes` are valid
  // during the call only. May start further calls, and may end the taker.
  virtual void on_reply(uint32_t place, const runtime::OpResult& reply) noexcept = 0;
};

// A caller that collects what came of a batch of replies before it sends any of it.
class AfterReplies {
 public:
  // Once, after the last reply of the batch, inside the same poll.
  virtual void after_replies() noexcept = 0;

 protected:
  ~AfterReplies() = default;
};

// What a reply has opened at the peer whose caller gave up before it came: it would stay open.
class LateReplies {
 public:
  // Inside the poll that brings the reply, whose bytes are valid during the call only. The call that closes
  // what is open, whose bytes are valid until the next time; nothing: nothing is.
  [[nodiscard]] virtual std::optional<Call> close_late(uint16_t method,
                                                       const runtime::OpResult& reply) noexcept = 0;

 protected:
  ~LateReplies() = default;
};

// What a caller does while its call is on the way.
class Meanwhile {
 public:
  virtual void sent() noexcept = 0;

 protected:
  ~Meanwhile() = default;
};

class Session final : public fabric::Receiver {
 public:
  enum class State : uint8_t { kOpening, kOpen, kClosed };

  // `channel` comes from Domain::connect, and its kOpened has not been polled yet.
  Session(fabric::Channel& channel, runtime::Shard& shard, const SessionOptions& options = {});
  // Closes the channel. REQUIRES: no call() is suspended, and the session is not at work further up the
  // stack, as it is while a coroutine runs that it has just answered: let a turn of the shard pass before
  // (sleep_for(0)).
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] runtime::Task<runtime::OpResult> call(Call call, uint64_t deadline_ns);
  // One call at most, awaited by a coroutine in whose frame it lies. The session outlives it.
  class Reply;

  // Drives the shard until the reply is there. REQUIRES: not called from inside a poll, and so from no task.
  [[nodiscard]] runtime::OpResult call_and_wait(const Call& call, uint64_t deadline_ns);
  // The same for at most `timeout_ns`, without a look at the clock before the call has left, and without any
  // where the reply comes at once. Calls `meanwhile`, unless null, once it has left.
  [[nodiscard]] runtime::OpResult call_and_wait_within(const Call& call, uint64_t timeout_ns,
                                                       Meanwhile* meanwhile = nullptr);

  // For callers with their own loop. start() gives a call's id, or 0: not now (no credit, channel full or not
  // open), poll and try again unless state() is kClosed. Exactly one finish() follows each id: the reply if
  // done(), else kIndeterminate, and the reply will be late. The call must fit(). While others wait in
  // call(), it gives 0.
  [[nodiscard]] uint64_t start(const Call& call) noexcept;
  // Likewise, but the outcome goes to `taker`, under the caller's number `place`, and finish() is only for
  // giving the call up. The taker outlives the call.
  [[nodiscard]] uint64_t start(const Call& call, ReplyTaker& taker, uint32_t place) noexcept;
  [[nodiscard]] bool done(uint64_t id) const noexcept;
  [[nodiscard]] runtime::OpResult finish(uint64_t id) noexcept;
  [[nodiscard]] bool fits(const Call& call) const noexcept;
  // Calls that were begun leave now, not at the end of the turn.
  void flush() noexcept;
  // True while replies that came together are handed out, one after the other.
  [[nodiscard]] bool is_among_replies() const noexcept { return is_among_replies_; }
  // REQUIRES: is_among_replies(); there is no other such request until it is called.
  void call_after_replies(AfterReplies& listener) noexcept { after_replies_ = &listener; }
  // Is told of late replies that say kOk, before others get the credit. Outlives the session, or is unset.
  void close_late_by(LateReplies* listener) noexcept { late_replies_ = listener; }
  [[nodiscard]] const LateReplies* closes_late() const noexcept { return late_replies_; }
  // How long a call's head and tail together may be; a reply's likewise.
  [[nodiscard]] size_t payload_bytes_max() const noexcept;

  [[nodiscard]] State state() const noexcept { return state_; }
  // Closed, but the provider expects the peer back; the session is then open again, with nothing outstanding.
  [[nodiscard]] bool reopens() const noexcept { return state_ == State::kClosed && reopens_; }
  // When it was opened last, by the shard's clock.
  [[nodiscard]] uint64_t opened_ns() const noexcept { return opened_ns_; }
  // Null when closed for good. Not null in state kClosed: the provider is reconnecting, and kOpen may follow.
  [[nodiscard]] fabric::Channel* channel() const noexcept { return endpoint_.channel; }
  // For one-sided requests on the session's channel (fabric/await.h). Lives as long as the session.
  [[nodiscard]] const fabric::Endpoint& endpoint() const noexcept { return endpoint_; }
  // Outstanding calls complete with kIndeterminate when the channel has closed.
  void close() noexcept;

  struct Counts {
    uint64_t calls = 0;              // Sent.
    uint64_t late_replies = 0;       // Whose caller had given up.
    uint64_t malformed_replies = 0;  // Each of them closes the session.
    uint64_t waits = 0;              // For a credit or for room.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

  void on_messages(std::span<const fabric::Completion> messages) noexcept override;
  void on_opened(fabric::Channel& channel, Code code) noexcept override;
  void on_closed(fabric::Channel& channel, Code code) noexcept override;

 private:
  enum class SlotState : uint8_t { kFree, kSent, kDone, kAbandoned };

  struct Slot {
    uint32_t generation = 1;
    uint32_t next_free = 0;
    runtime::Token waiter = 0;  // Of the operation to complete; 0: the owner polls done().
    ReplyTaker* taker = nullptr;
    std::span<const std::byte> bytes = {};
    uint32_t place = 0;  // Of the taker's.
    Code code = Code::kOk;
    uint16_t method = 0;
    SlotState state = SlotState::kFree;
    bool answered = false;
  };

  // A caller without a credit, in line; lies in its coroutine's frame.
  class WaitingCaller;

  [[nodiscard]] Slot* find(uint64_t id) noexcept;
  [[nodiscard]] const Slot* find(uint64_t id) const noexcept;
  void release(Slot& slot) noexcept;
  // The id, or 0: not now. Not inlined: the request that it makes is aligned more than a coroutine's frame.
  [[nodiscard, gnu::noinline]] uint64_t send(const Call& call, runtime::Token waiter) noexcept;
  // True: the reply came within some microseconds, with no turn of the shard.
  [[nodiscard]] bool came_at_once(uint64_t id) noexcept;
  void settle(Slot& slot, const runtime::OpResult& result) noexcept;
  void settle_abandoned(Slot& slot, const runtime::OpResult& result) noexcept;
  void take_replies(std::span<const fabric::Completion> messages) noexcept;
  [[nodiscard]] bool take_reply(std::span<const std::byte> message) noexcept;
  void end() noexcept;
  void wake_first() noexcept;

  fabric::Endpoint endpoint_;
  runtime::Shard* shard_;
  State state_ = State::kOpening;
  bool reopens_ = false;
  bool is_among_replies_ = false;
  AfterReplies* after_replies_ = nullptr;
  LateReplies* late_replies_ = nullptr;
  uint64_t opened_ns_ = 0;
  std::vector<Slot> slots_;
  uint32_t first_free_ = 0;  // An index; slots_.size() when there is no credit.
  WaitingCaller* first_waiting_ = nullptr;
  WaitingCaller* last_waiting_ = nullptr;
  size_t suspended_count_ = 0;
  std::vector<std::byte> scratch_;  // Header and head, put together.
  Counts counts_;
};

class Session::Reply {
 public:
  Reply(Session& session, uint64_t deadline_ns) noexcept
      : session_(session), pending_(session.shard_->ops().begin(deadline_ns)) {}
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  // Gives up what was sent and not awaited to its end.
  ~Reply() {
    if (id_ != 0) (void)take();
  }

  // False: there is no operation slot left.
  [[nodiscard]] bool has_slot() const noexcept { return pending_.token() != 0; }
  // False: not now, as start() has it. REQUIRES: nothing was sent; the call fits().
  [[nodiscard]] bool send(const Call& call) noexcept { return has_slot() && is_free() && send_in_turn(call); }
  [[nodiscard]] bool is_sent() const noexcept { return id_ != 0; }

  // These REQUIRE that it was sent; once.
  [[nodiscard]] bool await_ready() const noexcept { return pending_.await_ready(); }
  void await_suspend(std::coroutine_handle<> waiter) noexcept { pending_.await_suspend(waiter); }
  [[nodiscard]] runtime::OpResult await_resume() noexcept;

 private:
  friend class Session;
  [[nodiscard]] bool is_free() const noexcept { return session_.first_waiting_ == nullptr; }
  // For the call that is the first in line.
  [[nodiscard]] bool send_in_turn(const Call& call) noexcept;
  [[nodiscard]] runtime::OpResult take() noexcept;

  Session& session_;
  runtime::Pending pending_;
  uint64_t id_ = 0;  // 0: not sent, or taken.
};

}  // namespace refract::rpc
