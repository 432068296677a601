// SPDX-License-Identifier: Apache-2.0
// A channel over one queue pair, from its introduction to its end: what is the same at both ends.
//
// post() writes requests into a ring; issue(), once a turn, turns them into work requests and hands all of
// them to the device by one call. A request is one work request, or several pieces; one that the peer's
// answer about its region does not cover is none. The last work request of a turn asks for a completion,
// which stands for all before it, because a reliable connection completes in order.
//
// (I1) Requests are issued in the order posted, and completed in that order.
// (I2) Work requests that wait in wrs_ between wr_head_ and wr_tail_ are those that the device may work on;
//      their bytes are promised to it until a completion covers them or the queue pair is destroyed.
// (I3) credits_ never lets more messages be under way than the peer has receives for us.
// (I4) What changes the peer's memory carries the fence if a READ before it may still be under way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "refract/fabric/channel.h"
#include "refract/fabric/verbs/bounce_ring.h"
#include "refract/fabric/verbs/queue_pair.h"
#include "refract/fabric/verbs/receive_pool.h"
#include "refract/fabric/verbs/remote_regions.h"
#include "refract/fabric/verbs/tuning.h"
#include "refract/fabric/verbs/wire.h"

struct ibv_send_wr;  // NOLINT(readability-identifier-naming)
struct ibv_wc;       // NOLINT(readability-identifier-naming)

namespace refract::fabric::verbs {

class Hub;
struct WorkBatch;

class VerbsChannel final : public Channel {
 public:
  enum class Phase : uint8_t {
    kUnborn,   // Being introduced for the first time.
    kOpening,  // kOpened is due.
    kOpen,
    kClosing,  // There is no queue pair any more; what is outstanding fails, then kClosed is due.
    kWaiting,  // Closed, to be introduced again.
    kDead,     // Nothing will come any more.
  };

  // `slot`: how the hub finds it by the completions of its work requests.
  VerbsChannel(Hub& hub, uint32_t slot, DeviceMemory memory);
  VerbsChannel(const VerbsChannel&) = delete;
  VerbsChannel& operator=(const VerbsChannel&) = delete;
  ~VerbsChannel() override;

  [[nodiscard]] size_t post(std::span<const Request> requests) noexcept override;
  [[nodiscard]] size_t room() const noexcept override;
  [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
  [[nodiscard]] bool reconnects() const noexcept override { return phase_ == Phase::kWaiting; }
  void close() noexcept override;

  // The introduction.

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] uint32_t slot() const noexcept { return slot_; }
  // The channel that introduces and resolves; null once this one has ended.
  [[nodiscard]] Channel* introducer() const noexcept { return introducer_; }
  void set_introducer(Channel* introducer) noexcept { introducer_ = introducer; }
  [[nodiscard]] QueuePair* queue_pair() const noexcept { return pair_.get(); }
  void set_queue_pair(std::unique_ptr<QueuePair> pair) noexcept;
  [[nodiscard]] Reported<> meet(const Introduction& peer);
  // The part of it that is left where librdmacm connects the queue pairs.
  void agree(const Introduction& peer) noexcept;
  // The first message over the queue pair, at once. False: the device took it not.
  [[nodiscard]] bool greet(WorkBatch& batch, uint32_t bytes) noexcept;
  // Of one that is dead, for the next.
  [[nodiscard]] DeviceMemory take_memory() noexcept { return std::move(memory_); }
  // Both ends can receive: kOpened is due.
  void opened() noexcept;
  // The first introduction came to nothing: a failed kOpened is due.
  void failed(Code code) noexcept;
  // Ends without a word, since kOpened was never due.
  void abandon() noexcept;
  // Of one that waits: its new introduction came to nothing, another will follow.
  void drop_queue_pair() noexcept { destroy_queue_pair(); }
  // The queue pair is destroyed now. `returning`: kClosed says that kOpened may follow.
  void cut(bool returning) noexcept;

  // The turn.

  // Whether a work request's id is of this queue pair, and not of the one before or of another channel.
  [[nodiscard]] bool owns(uint64_t work_id) const noexcept;
  // A completion of the send queue, or a message. False: the queue pair is lost, or to be cut.
  [[nodiscard]] bool take_sent(const ibv_wc& done) noexcept;
  [[nodiscard]] bool take_message(uint32_t buffer, uint32_t bytes, uint32_t immediate) noexcept;
  // Fills a prefix of `completions`.
  [[nodiscard]] size_t give(std::span<Completion> completions) noexcept;
  [[nodiscard]] bool has_work() const noexcept;
  // The buffers given out in the last poll may be used again.
  void turn_began() noexcept;
  // What was posted, or had to wait, goes to the device. False: the device took it not, the queue pair is
  // lost.
  [[nodiscard]] bool issue(WorkBatch& batch) noexcept;

  // The peer's word about a region.
  void take_answer(const DecodedAnswer& answer);
  void take_revoked(uint16_t region) noexcept { regions_.forget(region); }
  [[nodiscard]] bool is_asking() const noexcept { return asking_; }

  // Regions of ours that the peer has asked for: it is told of their end.
  std::vector<uint16_t> resolved_for_peer;
  bool is_active = false;      // Is in the hub's list of those.
  bool is_to_flush = false;    // Likewise.
  bool has_delivered = false;  // Likewise.

 private:
  struct Record {
    Request request;
    uint64_t bytes = 0;   // kSend: of the message.
    uint64_t issued = 0;  // READ, WRITE: so many bytes have their work requests.
    uint64_t value = 0;
    uint32_t pieces = 0;   // Under way.
    uint32_t message = 0;  // kSend: its slot.
    Code code = Code::kOk;
  };
  struct Work {
    uint32_t record = kNoRecord;
    uint32_t bytes = 0;
    const std::byte* bounced = nullptr;  // To be copied to `target` when it is done.
    std::byte* target = nullptr;
    uint64_t bounce_mark = 0;
  };
  struct Message {
    uint32_t buffer;
    uint32_t bytes;
  };
  // Where one piece of a READ or WRITE goes.
  struct Piece {
    LocalPlace local;
    std::byte* bounced = nullptr;
    uint64_t bytes = 0;
    bool is_inline = false;
  };
  enum class Built : uint8_t { kWhole, kWaits };

  static constexpr uint32_t kNoRecord = ~uint32_t{0};
  static constexpr size_t kInbox = kReceivesEach;

  [[nodiscard]] Record& record_at(uint32_t index) noexcept { return records_[index % kDepth]; }
  [[nodiscard]] uint32_t in_flight() const noexcept { return tail_ - head_; }
  [[nodiscard]] bool has_send_queue_room() const noexcept {
    // One is kept for the message that returns credits, without which both ends could wait for ever.
    return wr_tail_ - wr_head_ < kSendQueue - 1;
  }
  void copy_message(const Request& request, Record& record) noexcept;
  [[nodiscard]] Built build(Record& record, uint32_t index, WorkBatch& batch) noexcept;
  void build_message(Record& record, uint32_t index, WorkBatch& batch) noexcept;
  [[nodiscard]] Built build_one_sided(Record& record, uint32_t index, WorkBatch& batch) noexcept;
  [[nodiscard]] Built build_atomic(Record& record, uint32_t index, const RemoteRegions::Row& row,
                                   WorkBatch& batch) noexcept;
  [[nodiscard]] Built build_transfer(Record& record, uint32_t index, const RemoteRegions::Row& row,
                                     WorkBatch& batch) noexcept;
  [[nodiscard]] bool find_piece(Record& record, const RemoteRegions::Row& row, Piece& piece) noexcept;
  void return_credits(WorkBatch& batch) noexcept;
  [[nodiscard]] bool ring_doorbell(WorkBatch& batch) noexcept;
  ibv_send_wr& add_work(WorkBatch& batch, const Work& work) noexcept;
  void ask(const Record& record) noexcept;
  void complete_work_until(uint32_t end) noexcept;
  void complete_work(const Work& work) noexcept;
  [[nodiscard]] size_t give_messages(std::span<Completion> completions) noexcept;
  [[nodiscard]] size_t give_records(std::span<Completion> completions) noexcept;
  [[nodiscard]] bool is_given_out() const noexcept { return head_ == tail_ && inbox_given_ == inbox_tail_; }
  [[nodiscard]] uint32_t take_owed() noexcept;
  [[nodiscard]] bool needs_fence(Op op) noexcept;
  void destroy_queue_pair() noexcept;

  Hub& hub_;
  uint32_t slot_;
  uint32_t generation_ = 0;  // Of the queue pair, so that completions of the one before are recognised.
  Capabilities capabilities_;
  Phase phase_ = Phase::kUnborn;
  Code open_code_ = Code::kOk;
  bool open_due_ = false;
  bool returning_ = false;
  bool asking_ = false;
  bool question_sent_ = false;
  uint16_t asked_region_ = 0;
  RemoteKey asked_key_;
  Channel* introducer_ = nullptr;
  std::unique_ptr<QueuePair> pair_;
  RemoteRegions regions_;

  // Message slots, then the bounce ring.
  DeviceMemory memory_;
  BounceRing bounce_{kBounceBytes};
  uint32_t messages_head_ = 0;  // Slots in use, as a ring: messages complete in order, too.
  uint32_t messages_tail_ = 0;

  std::array<Record, kDepth> records_;
  uint32_t head_ = 0;    // The oldest that has not been given out.
  uint32_t issued_ = 0;  // The oldest that is not wholly turned into work requests.
  uint32_t tail_ = 0;
  std::array<Work, kSendQueue> wrs_;
  uint32_t wr_head_ = 0;
  uint32_t wr_tail_ = 0;
  uint32_t unsignalled_ = 0;  // Since the last that was signalled.
  uint32_t last_read_ = 0;    // One behind the last READ's sequence number; 0 likewise for none.
  uint32_t last_atomic_ = 0;
  uint32_t last_fence_ = 0;

  uint32_t credits_ = 0;  // Messages that the peer can still receive.
  uint32_t credits_max_ = 0;
  uint32_t owed_ = 0;         // Receives that the peer may use again and does not know of.
  uint32_t outstanding_ = 0;  // Messages of the peer that are not credited yet: at most kCredits.
  std::array<Message, kInbox> inbox_;
  uint32_t inbox_first_ = 0;  // Those before it came by the queue pair before: their credits are not owed.
  uint32_t inbox_head_ = 0;
  uint32_t inbox_given_ = 0;  // Up to here their bytes have been handed out.
  uint32_t inbox_tail_ = 0;
};

}  // namespace refract::fabric::verbs
