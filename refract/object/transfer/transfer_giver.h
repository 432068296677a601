// SPDX-License-Identifier: Apache-2.0
// The holder's end of transfers: gives other members the bytes of the objects that are here, in messages or
// by windows for their READs (docs/design/055-object-transport.md).
//
// What is being given stays in its place: it is pinned until the puller says that it is done, its session
// ends, or nothing was asked of the transfer for kIdle_ns and kIdlePerMiB_ns for each MiB. A window is closed
// before its object is let go, so a late READ is refused. A holder that gives nothing needs no CPU.
//
// What is on its way here is given to those that follow the same plan (docs/design/061-broadcast.md): its
// room is not pinned, as no object is there yet, so each window on it is closed before that room goes. No
// word that is published leads a READ to it, only what is said here of `ready`: so a fence stands between the
// stores of those bytes and the first answer that tells of them. Where nothing is followed there is none.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refract/base/units.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/session_state.h"
#include "refract/memory/writer.h"
#include "refract/object/owner/elsewhere.h"
#include "refract/object/owner/object_sessions.h"
#include "refract/object/owner/object_store.h"
#include "refract/object/transfer/arrivals.h"
#include "refract/object/transfer/transfer_wire.h"
#include "refract/rpc/server.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::object {

class TransferGiver final : public rpc::Service, private Arrivals::Giver {
 public:
  static constexpr uint64_t kIdle_ns = 30 * kSecond_ns;
  static constexpr uint64_t kIdlePerMiB_ns = kSecond_ns;

  // All outlive the giver.
  struct Parts {
    ObjectStore& store;
    Writer& writer;
    kv::SessionPins& pins;  // Among the sources that the heap asks.
    runtime::Shard& shard;
    Elsewhere& elsewhere;              // Which sessions may ask; it is told what they get.
    kv::WindowSource* windows;         // Null: bytes go in messages alone.
    std::function<void()> has_let_go;  // An object is not held for a transfer any more: room may have come.
    Arrivals* arrivals = nullptr;      // Null: what is on its way here is not given.
  };
  explicit TransferGiver(Parts parts);
  TransferGiver(const TransferGiver&) = delete;
  TransferGiver& operator=(const TransferGiver&) = delete;
  ~TransferGiver() override;

  // What carries the answers. Before the first session; null: no call is answered any more, and all sessions
  // have ended.
  void answer_through(rpc::Server* server) noexcept { server_ = server; }

  void handle(std::span<const rpc::IncomingCall> calls) noexcept override;
  void session_opened(rpc::SessionId session) noexcept override;
  void session_closed(rpc::SessionId session) noexcept override;

  struct Counts {
    uint64_t transfers = 0;      // That were begun,
    uint64_t windows = 0;        // among them by READs.
    uint64_t messages = 0;       // With bytes,
    uint64_t message_bytes = 0;  // and how many of them.
    uint64_t digests = 0;
    uint64_t idle = 0;               // Transfers that ended because nothing was asked of them.
    uint64_t arriving = 0;           // Of what was on its way here itself,
    uint64_t arriving_messages = 0;  // and the messages with bytes of it, as long as it was.
    uint64_t open = 0;               // Now.
    uint64_t waiting = 0;            // Likewise: for what has not begun to come here.
  };
  [[nodiscard]] Counts counts() const noexcept;

 private:
  // Of kProgress, which is answered when so many bytes are ready, or at that moment.
  struct Asker {
    rpc::Responder from;
    uint64_t least = 0;
    uint64_t answer_ns = 0;
  };
  struct Open {
    uint64_t number = 0;
    Offset object;
    std::span<const std::byte> bytes;
    std::optional<kv::Window> window;
    uint64_t due_ns = 0;  // Unless something is asked.
    uint64_t ready = 0;   // Of the bytes, so many can be asked for.
    bool is_arriving = false;
    std::vector<Asker> askers = {};  // The oldest first.
  };
  // What a transfer gives.
  struct Given {
    Offset object;
    ObjectParts parts;
    uint64_t ready = 0;
    bool is_arriving = false;
  };
  // A kFollow of what is not here, and may begin to come.
  struct Waiting {
    rpc::Responder from;
    wire::FollowRequest request;
    std::string id;
    uint64_t due_ns = 0;
  };

  // --- transfer_giver.cc ---
  void answer(const rpc::Responder& to, Code code, std::span<const std::byte> head = {},
              std::span<const std::byte> tail = {}) noexcept;
  [[nodiscard]] static bool is_sound(const wire::TransferRequest& request) noexcept;
  void transfer(const rpc::Responder& from, std::span<const std::byte> body);
  // kOk: `reply` is to be answered, and behind it `place`, if it names a piece, else wanted_of().
  [[nodiscard]] Code begin(const rpc::Responder& from, const wire::TransferRequest& request,
                           const Given& given, size_t head_bytes, wire::TransferReply& reply,
                           wire::TransferPiece& place);
  [[nodiscard]] std::span<const std::byte> wanted_of(const Given& given,
                                                     const wire::TransferRequest& request) const noexcept;
  void data(const rpc::Responder& from, std::span<const std::byte> body, bool is_digest);
  void done(const rpc::Responder& from, std::span<const std::byte> body);
  [[nodiscard]] Open* find(rpc::SessionId session, uint64_t number) noexcept;
  void touch(Open& open) noexcept;
  [[nodiscard]] std::span<const std::byte> bytes_of_given(const Given& given) const noexcept;
  // It stands in no list any more.
  void end(const Open& open);
  void start_timer();
  [[nodiscard]] runtime::Task<> run_timer();
  // When the next one is due.
  [[nodiscard]] uint64_t end_idle(uint64_t now_ns);

  // --- transfer_giver_arrivals.cc ---
  void arrival_grew(const Arrivals::Arrival& arrival) noexcept override;
  void arrival_sealed(const Arrivals::Arrival& arrival) noexcept override;
  void arrival_failed(const Arrivals::Arrival& arrival) noexcept override;
  void follow(const rpc::Responder& from, std::span<const std::byte> body);
  // Nothing: it is answered. Else whether it may come.
  [[nodiscard]] std::optional<Code> try_follow(const rpc::Responder& from, const wire::FollowRequest& request,
                                               std::string_view id);
  [[nodiscard]] bool may_come(std::string_view id, uint64_t birth);
  void progress(const rpc::Responder& from, std::span<const std::byte> body);
  // Those to which that applies.
  void answer_askers(Open& open, uint64_t now_ns) noexcept;
  // What has come of the arrivals by now may be told.
  void take_ready() noexcept;
  void answer_progress(const Open& open, const Asker& asker) noexcept;
  // In the next turn: answers what the arrivals have brought.
  void start_telling() noexcept;
  [[nodiscard]] runtime::Task<> run_telling();
  void tell_all();
  // What waits is answered in time, news or not.
  void start_late_timer();
  [[nodiscard]] runtime::Task<> run_late_timer();
  // Whether something waits still.
  [[nodiscard]] bool answer_late(uint64_t now_ns);

  const Parts parts_;
  rpc::Server* server_ = nullptr;
  std::unordered_map<uint64_t, std::vector<Open>> open_;  // By session.
  size_t followers_ = 0;                                  // Of them, those of what is arriving.
  uint64_t last_number_ = 0;
  bool is_timing_ = false;
  runtime::Task<> timer_;
  std::vector<Waiting> waiting_;
  bool has_news_ = false;
  bool is_telling_ = false;
  runtime::Task<> telling_;
  bool is_late_timing_ = false;
  runtime::Task<> late_timer_;
  Counts counts_;
};

}  // namespace refract::object
