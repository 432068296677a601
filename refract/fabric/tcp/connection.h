// SPDX-License-Identifier: Apache-2.0
// A channel over a socket, from Welcome to its end: what is the same at both ends.
//
// Out: frames go into an Output and leave in flush. In: what arrives is read into a block of the pool and
// delivered from there; the data of a large READ's answer or of a WRITE go straight to their place, with the
// block behind it for what follows.
//
// Order: requests take effect as posted. The bytes of a large READ are gathered when the socket takes them,
// which may be turns later, so while some wait, what could change them (WRITEs, atomics, at the accepting end
// messages) waits too. Bounds: an end stops reading its socket when its answers do not fit; the connecting
// end delivers every message, so the two never wait for each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "refract/fabric/channel.h"
#include "refract/fabric/tcp/frame.h"
#include "refract/fabric/tcp/hub.h"
#include "refract/fabric/tcp/output.h"
#include "refract/memory/host/descriptor.h"

namespace refract::fabric::tcp {

class Connection : public Channel {
 public:
  enum class Phase : uint8_t {
    kUnborn,   // Handshake.
    kOpening,  // kOpened is due.
    kOpen,
    kClosing,  // What is outstanding fails, then kClosed is due.
    kWaiting,  // Closed, reconnecting.
    kDead,     // Nothing will come any more.
  };

  explicit Connection(Hub& hub) noexcept : hub_(hub) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override;

  [[nodiscard]] size_t post(std::span<const Request> requests) noexcept override;
  [[nodiscard]] size_t room() const noexcept override;
  [[nodiscard]] const Capabilities& capabilities() const noexcept override;
  [[nodiscard]] bool reconnects() const noexcept override { return phase_ == Phase::kWaiting; }
  void flush() noexcept override { flush_output(); }
  void close() noexcept override;

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

  // One turn; returns how many completions it filled. `direct`: read the socket though epoll did not name it.
  [[nodiscard]] size_t poll(std::span<Completion> completions, bool direct) noexcept;
  // Would poll do something now?
  [[nodiscard]] bool has_work() const noexcept;
  // What was posted in the turn leaves.
  void end_turn() noexcept {
    to_flush_ = false;
    flush_output();
  }
  // An event of the socket.
  virtual void hear(uint32_t events) noexcept;
  // Touches the region no more. False: no region is of concern to this connection now.
  [[nodiscard]] bool revoke(uint16_t region) noexcept;
  // The bytes given out in the last poll are not needed any more.
  void turn_began() noexcept {
    delivered_ = false;
    release_delivered();
  }

  // Only while it is active and read directly.
  void unwatch_if_busy() noexcept;
  void watch_again() noexcept;

  [[nodiscard]] bool is_active() const noexcept { return active_; }
  void set_active(bool active) noexcept { active_ = active; }
  void begin_activity() noexcept { idle_polls_ = 0; }
  [[nodiscard]] uint32_t idle_polls() const noexcept { return idle_polls_; }

 protected:
  // The socket is this connection's from now on and kOpened is due. False: it cannot be watched.
  [[nodiscard]] bool start(Descriptor socket) noexcept;
  void set_phase(Phase phase) noexcept { phase_ = phase; }
  [[nodiscard]] Hub& hub() const noexcept { return hub_; }
  // `reconnecting`: kClosed says that kOpened may follow.
  void begin_closing(bool reconnecting) noexcept;
  // The peer is gone without a goodbye; all that arrived before is delivered.
  virtual void peer_lost() noexcept { begin_closing(false); }
  // The peer said goodbye, or talked nonsense.
  virtual void peer_left() noexcept { begin_closing(false); }

 private:
  struct Outstanding {
    uint64_t token = 0;
    std::byte* target = nullptr;  // kRead.
    uint64_t bytes = 0;           // kRead.
    Op op = Op::kRead;
    bool received = false;  // kRead: the bytes are here, what is missing is the kDone behind them.
  };
  using OutstandingRing = std::array<Outstanding, kDepth>;

  // The data of a kWrite or kData frame that is arriving.
  struct Transfer {
    std::byte* target = nullptr;  // Null: refused, the bytes go nowhere.
    uint64_t left = 0;
    uint64_t padding = 0;
    uint32_t region = Output::kNoRegion;
    Code code = Code::kOk;
    uint64_t write_bytes = 0;  // Of a whole WRITE.
    bool is_write = false;
    bool active = false;
  };

  [[nodiscard]] bool post_one(const Request& request) noexcept;
  [[nodiscard]] bool post_send(const Request& request) noexcept;
  [[nodiscard]] bool post_one_sided(const Request& request) noexcept;
  [[nodiscard]] bool done_here(const Request& request, Code code) noexcept;
  Output& output() noexcept;
  void mark_to_flush() noexcept;
  void mark_moving() noexcept;
  void set_blocked(bool blocked) noexcept;
  void flush_output() noexcept;
  void drop_output() noexcept;
  void consider_large_buffers() noexcept;
  void say_goodbye(Code code) noexcept;

  enum class Step : uint8_t { kDone, kWait, kNonsense };
  [[nodiscard]] size_t take_frames(std::span<Completion> completions) noexcept;
  [[nodiscard]] bool may_deliver(size_t messages) const noexcept;
  [[nodiscard]] Step take_frame(const FrameHeader& header, Completion& completion) noexcept;
  [[nodiscard]] Step execute(const FrameHeader& header) noexcept;
  [[nodiscard]] Step execute_read(const TargetAndOperand& read) noexcept;
  [[nodiscard]] Step begin_write(const FrameHeader& header) noexcept;
  [[nodiscard]] Step begin_data(const FrameHeader& header) noexcept;
  [[nodiscard]] Step take_done(const FrameHeader& header, Completion& completion) noexcept;
  [[nodiscard]] bool advance_transfer() noexcept;
  void finish_transfer(Completion& completion) noexcept;
  void finish_outstanding(Code code, uint64_t value, Completion& completion) noexcept;
  void answer(Code code, uint64_t value) noexcept;
  [[nodiscard]] bool can_answer() const noexcept;
  [[nodiscard]] bool changes_wait() noexcept;
  // True: something arrived.
  bool receive() noexcept;
  [[nodiscard]] Block& prepare_block() noexcept;
  void took(size_t bytes) noexcept;
  void release_block_if_empty() noexcept;
  void release_delivered() noexcept;
  [[nodiscard]] size_t fail_outstanding(std::span<Completion> completions) noexcept;
  void give_up_on(uint64_t& counter) noexcept;
  template <typename T>
  [[nodiscard]] T payload() const noexcept;

  Hub& hub_;
  Descriptor socket_;
  Phase phase_ = Phase::kUnborn;
  bool active_ = false;     // Is in the hub's list of those.
  bool to_flush_ = false;   // Likewise.
  bool delivered_ = false;  // Likewise.
  bool moving_ = false;     // Likewise.
  bool reconnecting_ = false;
  bool close_wanted_ = false;  // Before kOpened was reported.
  bool watched_ = false;       // By epoll.
  bool readable_ = false;      // The socket may hold more.
  bool hung_up_ = false;       // An event said that the peer sends nothing more.
  bool peer_gone_ = false;     // And all that it sent has been read.
  bool blocked_ = false;       // The socket takes nothing now; an event will say when.
  bool stalled_ = false;       // The next frame needs room for its answer.
  bool cut_short_ = false;     // The last turn ended because no completion was left.
  bool considered_large_ = false;
  uint32_t idle_polls_ = 0;

  std::unique_ptr<Output> output_;
  Block* block_ = nullptr;
  size_t begin_ = 0;  // Of what has arrived in the block and is not used yet.
  size_t end_ = 0;
  Transfer transfer_;
  std::unique_ptr<OutstandingRing> outstanding_;  // Made with the first one-sided request.
  uint64_t outstanding_head_ = 0;
  uint64_t outstanding_tail_ = 0;
};

}  // namespace refract::fabric::tcp
