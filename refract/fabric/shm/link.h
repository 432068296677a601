// SPDX-License-Identifier: Apache-2.0
// What the two ends of a connection have in common: a channel over two rings.
//
// Requests in flight need room for their completions at the peer, or two ends that wait for each other's room
// would wait for ever. So an end that posts one-sided requests keeps what their completions take below
// kAnswerBytesMax, and an end that sends anything but completions leaves kAnswerReserve of its ring free: a
// completion always fits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/region_table.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/ring.h"
#include "refract/memory/copy_team.h"
#include "refract/memory/streaming_copy.h"

namespace refract::fabric::shm {

class Link;

// What all links of a domain share.
struct Hub {
  static constexpr size_t kCompletionsMax = 4096;

  explicit Hub(bool is_server) : accepted(is_server), completed(kCompletionsMax) {}

  [[nodiscard]] bool has_room() const noexcept { return completed_tail - completed_head < kCompletionsMax; }
  void complete(const Completion& completion) noexcept {
    completed[completed_tail++ % kCompletionsMax] = completion;
  }
  [[nodiscard]] size_t drain(std::span<Completion> completions) noexcept;
  // A long copy of what is kept, and not looked at.
  void keep(std::byte* target, const std::byte* source, size_t bytes) const noexcept {
    if (copies != nullptr) {
      copies->copy(target, source, bytes);
    } else {
      store_streaming(target, source, bytes);
    }
  }
  [[nodiscard]] bool drained() const noexcept { return completed_head == completed_tail; }

  const bool accepted;         // The links of this domain are of the accepting side.
  CopyTeam* copies = nullptr;  // Of what the accepting side READs. May be null.
  RegionTable regions;
  DomainCounters counters;
  std::vector<Completion> completed;  // Of requests that were done when posted; a ring.
  uint64_t completed_head = 0;
  uint64_t completed_tail = 0;
  std::vector<Link*> to_ring;  // Have published something since the last flush. Room for every link.
};

class Link : public Channel {
 public:
  static constexpr uint32_t kDepth = 64;
  static constexpr uint64_t kReadPieceBytesMax = 8 * kKiB;
  static constexpr uint64_t kWritePieceBytesMax = 16 * kKiB;
  static constexpr uint64_t kAnswerBytesMax = 2 * frame_bytes(kReadPieceBytesMax + 8);
  // A completion that does not fit before the ring's end costs one skip frame more.
  static constexpr uint64_t kAnswerReserve =
      kAnswerBytesMax + frame_bytes(kReadPieceBytesMax + 8) + kFrameUnit;

  enum class Phase : uint8_t {
    kUnborn,   // Handshake, or the client has not yet reset its rings.
    kOpening,  // kOpened is due.
    kOpen,
    kClosing,  // What is outstanding fails, then kClosed is due.
    kWaiting,  // Closed, reconnecting.
    kDead,     // Nothing will come any more.
  };

  // Where a link's words lie in the connection memory.
  struct Memory {
    std::byte* out_ring = nullptr;
    const std::byte* in_ring = nullptr;
    uint64_t* own_consumed = nullptr;
    uint64_t* own_wants_room = nullptr;
    const uint64_t* peer_consumed = nullptr;
    const uint64_t* peer_wants_room = nullptr;
  };

  explicit Link(Hub& hub) noexcept : hub_(hub) {}

  [[nodiscard]] size_t post(std::span<const Request> requests) noexcept override;
  [[nodiscard]] std::span<const std::byte> await_message(unsigned looks) noexcept override;
  [[nodiscard]] size_t room() const noexcept override { return out_.frames_max(kAnswerReserve); }
  [[nodiscard]] const Capabilities& capabilities() const noexcept override;

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] bool reconnects() const noexcept override { return phase_ == Phase::kWaiting; }
  // One turn; returns how many completions it filled.
  [[nodiscard]] size_t poll(std::span<Completion> completions) noexcept;
  // Would poll do something now?
  [[nodiscard]] bool has_work() noexcept;
  // Wakes the peer if it sleeps. Called by flush, behind a store-load fence.
  virtual void ring_if_asleep() noexcept = 0;

 protected:
  // Both rings begin at position 0; kOpened is due.
  void start(const Memory& memory) noexcept;
  // Nothing more will be written by the peer: what has arrived is delivered, then the link closes.
  void lose_peer() noexcept { peer_gone_ = true; }
  // `reconnecting`: kClosed says that kOpened may follow.
  void begin_closing(bool reconnecting) noexcept;
  void set_phase(Phase phase) noexcept { phase_ = phase; }
  [[nodiscard]] Hub& hub() const noexcept { return hub_; }
  void say_goodbye() noexcept;

  // A frame of the provider's own. False: there is no room for it now.
  [[nodiscard]] bool post_frame(FrameKind kind, std::span<const std::byte> payload) noexcept;
  // Whether both ends know kLend.
  [[nodiscard]] virtual bool knows_lending() const noexcept { return true; }
  // What the peer lends, or takes back. False: nonsense.
  [[nodiscard]] virtual bool take_loan(FrameKind, std::span<const std::byte>) noexcept { return false; }
  // The bytes of a READ as mapped here; null: ask the peer.
  [[nodiscard]] virtual const std::byte* locally_mapped(const RemoteSpan&, uint64_t) const noexcept {
    return nullptr;
  }
  // The peer is gone, misbehaves or said goodbye; all that arrived before is delivered.
  virtual void peer_ended() noexcept { begin_closing(false); }

 private:
  // One piece of a one-sided request, in the order of the frames.
  struct Outstanding {
    uint64_t token = 0;
    std::byte* target = nullptr;
    uint32_t bytes = 0;
    uint32_t answer_bytes = 0;
    Op op = Op::kRead;
    bool last = false;
  };

  [[nodiscard]] bool post_one(const Request& request) noexcept;
  [[nodiscard]] bool post_send(const Request& request) noexcept;
  [[nodiscard]] bool read_here(const Request& request, const std::byte* source) noexcept;
  [[nodiscard]] bool done_here(const Request& request, Code code) noexcept;
  void pump() noexcept;
  [[nodiscard]] bool post_piece() noexcept;
  [[nodiscard]] std::byte* reserve(uint64_t payload_bytes, uint64_t keep_bytes) noexcept;
  void refresh_consumed() noexcept;
  void publish_consumed() noexcept;
  void mark_to_ring() noexcept;
  void ask_for_room() noexcept;

  [[nodiscard]] size_t take_frames(std::span<Completion> completions) noexcept;
  enum class Step : uint8_t { kDone, kNoRoom, kNonsense };
  [[nodiscard]] Step execute(const RingConsumer::Frame& frame) noexcept;
  [[nodiscard]] Step take_completion(const RingConsumer::Frame& frame, Completion& completion) noexcept;
  [[nodiscard]] bool may_deliver(size_t messages, size_t& room_known) noexcept;
  void stall() noexcept;
  [[nodiscard]] size_t fail_outstanding(std::span<Completion> completions) noexcept;
  void give_up_on(uint64_t& counter) noexcept;

  Hub& hub_;
  Memory memory_;
  RingProducer out_;
  RingConsumer in_;
  uint64_t consumed_published_ = 0;
  Phase phase_ = Phase::kUnborn;
  bool reconnecting_ = false;
  bool close_wanted_ = false;  // Before kOpened was reported.
  bool peer_gone_ = false;
  bool busy_ = false;     // The last turn took a frame.
  bool stalled_ = false;  // The frame at the head needs room in the other ring.
  uint64_t stalled_consumed_ = 0;
  bool wants_room_ = false;
  bool to_ring_ = false;  // Is in hub_.to_ring.

  Request transfer_;              // The request whose pieces are being posted.
  uint64_t transfer_posted_ = 0;  // Bytes of it.
  bool transferring_ = false;
  Code piece_code_ = Code::kOk;  // The first failure among the pieces of one request.
  std::array<Outstanding, kDepth> outstanding_;
  uint64_t outstanding_head_ = 0;
  uint64_t outstanding_tail_ = 0;
  uint64_t answer_bytes_ = 0;

  friend void flush_links(Hub& hub) noexcept;
};

// Wakes the peers of all links that published something since the last call.
void flush_links(Hub& hub) noexcept;

}  // namespace refract::fabric::shm
