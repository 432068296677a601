// SPDX-License-Identifier: Apache-2.0
// The serving end of remote procedure calls: hands whole batches of calls to a Service and carries its
// replies back.
//
// A reply may be given inside handle() or any time later, in any order, from the server's shard. While a
// session's channel is full its replies wait in an outbox, which holds at most calls_max of them, since a
// session that has more calls unanswered is closed; only this outbox allocates. A reply to a session that has
// ended is dropped and counted.
//
// Calls of a batch are handed on in turns: every session's first before any second, so that a session
// with many calls under way does not make one with a single call wait for them. A session's own calls stay in
// their order.
//
// A peer that breaks the format (header, length, more calls than granted) is closed and counted; no other
// peer notices.
//
// Threads: used only by its shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "refract/fabric/dispatcher.h"
#include "refract/rpc/message.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::rpc {

// Never reused within the life of a server.
struct SessionId {
  uint64_t bits = 0;
  auto operator<=>(const SessionId&) const = default;
};

// Where the answer goes; may be kept as long as wanted, and is answered exactly once.
struct Responder {
  SessionId session;
  uint64_t id = 0;
  uint16_t method = 0;
};

struct IncomingCall {
  Responder from;
  MessageHeader header;  // A copy of what the peer sent, checked against the message's length.
  // Still writable by the peer, valid until handle() returns: copy what you check before you check it.
  std::span<const std::byte> payload;
};

class Service {
 public:
  virtual ~Service() = default;
  // Every call needs one reply(), sooner or later. An unknown method is answered with kUnsupported.
  virtual void handle(std::span<const IncomingCall> calls) noexcept = 0;
  virtual void session_opened(SessionId session) noexcept;
  // Replies to it may still be given; they are dropped.
  virtual void session_closed(SessionId session) noexcept;
};

// Sees every reply at the moment it is given: for traces.
class ReplyTap {
 public:
  virtual ~ReplyTap() = default;
  virtual void replied(const Responder& to, Code code, size_t bytes) noexcept = 0;
};

struct ServerOptions {
  uint32_t sessions_max = 1024;
  uint32_t calls_max = 64;                     // Unanswered, for each session.
  uint64_t outbox_retry_ns = kMillisecond_ns;  // How often replies try again that found the channel full.
};

// The receiver of a dispatcher's accepted channels.
class Server final : public fabric::Receiver {
 public:
  // `service` and `shard` must outlive the server; the server must outlive the dispatcher, or be detached
  // from all channels by their end.
  Server(Service& service, runtime::Shard& shard, const ServerOptions& options = {});
  ~Server() override;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Takes the bytes before it returns. REQUIRES: the call has not been answered yet. What does not fit a
  // message (header, head and tail together) is a bug of the service; the caller gets kTooLarge instead.
  void reply(const Responder& to, Code code, std::span<const std::byte> head = {},
             std::span<const std::byte> tail = {}) noexcept;

  // The session's replies leave now, not at the end of the turn.
  void flush(SessionId session) noexcept;

  // Ends a session from this side: for services that find a peer's payload malformed beyond an answer.
  void close_session(SessionId session) noexcept;

  struct Counts {
    uint64_t calls = 0;
    uint64_t replies = 0;
    uint64_t dropped_replies = 0;   // Their session had ended.
    uint64_t deferred_replies = 0;  // They found the channel full.
    uint64_t closed_malformed = 0;  // Sessions closed for a bad header or length.
    uint64_t closed_overrun = 0;    // Sessions closed for more than calls_max unanswered calls.
    uint64_t refused_sessions = 0;  // Beyond sessions_max.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  [[nodiscard]] size_t session_count() const noexcept { return session_count_; }

  // A session as people look at it. Bytes are those of whole messages; times are the shard's clock, as fresh
  // as its last look.
  struct SessionFacts {
    SessionId id;
    const fabric::Channel* channel = nullptr;
    uint32_t unanswered = 0;       // Calls in flight.
    uint32_t waiting_replies = 0;  // Among them, those that found the channel full.
    uint64_t calls = 0;
    uint64_t received_bytes = 0;
    uint64_t sent_bytes = 0;
    uint64_t opened_ns = 0;
    uint64_t active_ns = 0;  // Of its last call; opened_ns before the first.
  };
  // Control path. Sessions stand in places below session_places(); nothing where a place is empty.
  [[nodiscard]] size_t session_places() const noexcept { return sessions_.size(); }
  [[nodiscard]] std::optional<SessionFacts> session_at(size_t place) const noexcept;
  // Null: no tap, which costs one branch a reply. The tap outlives the server or is taken away before.
  void set_reply_tap(ReplyTap* tap) noexcept { reply_tap_ = tap; }

  // For one-sided requests to the session's peer. Null: the session has ended. All that was posted has
  // completed before the service is told of the end.
  [[nodiscard]] fabric::Channel* channel(SessionId session) noexcept;
  // What the session's channel can do; null: the session has ended.
  [[nodiscard]] const fabric::Capabilities* capabilities(SessionId session) noexcept;
  // How long a reply's head and tail together may be. 0: the session has ended.
  [[nodiscard]] size_t payload_bytes_max(SessionId session) noexcept;

  void on_messages(std::span<const fabric::Completion> messages) noexcept override;
  void on_opened(fabric::Channel& channel, Code code) noexcept override;
  void on_closed(fabric::Channel& channel, Code code) noexcept override;

 private:
  static constexpr size_t kBatch = 64;

  struct Session : fabric::Endpoint {
    uint32_t index = 0;
    uint32_t generation = 1;
    uint32_t unanswered = 0;
    bool closing = false;
    uint64_t calls = 0;
    uint64_t received_bytes = 0;
    uint64_t sent_bytes = 0;
    uint64_t active_ns = 0;
    uint64_t opened_ns = 0;
    uint64_t batch = 0;  // The last one that had a call of it.
    uint32_t calls_in_batch = 0;
    std::deque<std::vector<std::byte>> outbox;
  };

  [[nodiscard]] Session* find(SessionId id) noexcept;
  [[nodiscard]] static SessionId id_of(const Session& session) noexcept;
  [[nodiscard]] static Session* session_of(const fabric::Channel& channel) noexcept;
  void close(Session& session) noexcept;
  // False: the call is not to be handled.
  [[nodiscard]] bool admit(const fabric::Completion& message, IncomingCall& call) noexcept;
  // The same calls, every session's first before any second, and so on.
  [[nodiscard]] std::span<const IncomingCall> take_turns(std::span<const IncomingCall> calls,
                                                         std::span<const uint32_t> ranks) noexcept;
  void defer(Session& session, std::span<const std::byte> first, std::span<const std::byte> tail) noexcept;
  void drain(Session& session) noexcept;
  runtime::Task<> drain_outboxes();

  Service* service_;
  runtime::Shard* shard_;
  ServerOptions options_;
  ReplyTap* reply_tap_ = nullptr;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<uint32_t> free_sessions_;
  size_t session_count_ = 0;
  size_t outbox_count_ = 0;  // Replies in all outboxes.
  runtime::Task<> draining_;
  std::vector<std::byte> scratch_;  // Header and head, put together.
  std::array<IncomingCall, kBatch> calls_{};
  std::array<IncomingCall, kBatch> in_turn_{};
  uint64_t batch_ = 0;
  uint32_t sessions_in_batch_ = 0;
  uint32_t call_rank_ = 0;  // Of the call that was admitted last, among its session's in the batch.
  Counts counts_;
};

}  // namespace refract::rpc
