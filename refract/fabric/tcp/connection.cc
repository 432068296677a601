// SPDX-License-Identifier: Apache-2.0
// Posting, sending, and the life of a connection; what arrives is in connection_input.cc.
#include "refract/fabric/tcp/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "refract/base/check.h"
#include "refract/fabric/tcp/socket.h"

namespace refract::fabric::tcp {
namespace {

constexpr bool is_atomic(Op op) noexcept {
  return op == Op::kCompareSwap || op == Op::kFetchAdd;
}

}  // namespace

Connection::~Connection() {
  drop_output();
  if (block_ != nullptr) hub_.blocks.give_back(block_);
}

const Capabilities& Connection::capabilities() const noexcept {
  static constexpr Capabilities kCapabilities{
      .depth = kDepth, .message_bytes_max = kMessageBytesMax, .one_sided_bytes_min = kOneSidedBytesMin};
  return kCapabilities;
}

bool Connection::start(Descriptor socket) noexcept {
  if (!hub_.watch(socket.get(), *this)) return false;
  socket_ = std::move(socket);
  watched_ = true;
  reconnecting_ = close_wanted_ = hung_up_ = peer_gone_ = stalled_ = cut_short_ = false;
  considered_large_ = false;
  // What came with the handshake's last packet may have had its event before we watched.
  readable_ = true;
  transfer_ = {};
  outstanding_head_ = outstanding_tail_ = 0;
  phase_ = Phase::kOpening;
  hub_.activate(*this);
  return true;
}

size_t Connection::post(std::span<const Request> requests) noexcept {
  size_t taken = 0;
  while (taken < requests.size() && post_one(requests[taken])) ++taken;
  return taken;
}

bool Connection::post_one(const Request& request) noexcept {
  if (phase_ != Phase::kOpen && phase_ != Phase::kOpening) [[unlikely]] {
    return phase_ == Phase::kDead || done_here(request, Code::kUnavailable);
  }
  if (request.op == Op::kSend) [[likely]]
    return post_send(request);
  if (request.op > Op::kSend) return done_here(request, Code::kInvalidArgument);
  return post_one_sided(request);
}

// Completes a request that needs no answer. False: the queue of completions is full.
bool Connection::done_here(const Request& request, Code code) noexcept {
  if (request.token == 0 && code == Code::kOk) return true;
  if (!hub_.has_room()) return false;
  hub_.complete({.token = request.token, .channel = this, .bytes = {}, .op = request.op, .code = code});
  return true;
}

size_t Connection::room() const noexcept {
  if (output_ == nullptr) return kDepth;
  const uint64_t used = output_->copied_bytes();
  if (used >= kOutputBytesMax || !output_->takes_messages()) return 0;
  return (kOutputBytesMax - used) / frame_bytes(kMessageBytesMax);
}

bool Connection::post_send(const Request& request) noexcept {
  // The two lengths are compared one by one, so that their sum cannot overflow.
  if (request.local.bytes > kMessageBytesMax || request.tail.bytes > kMessageBytesMax - request.local.bytes) {
    return done_here(request, Code::kTooLarge);
  }
  if (request.token != 0 && !hub_.has_room()) return false;
  Output& out = output();
  const uint64_t bytes = request.local.bytes + request.tail.bytes;
  const uint64_t whole = frame_bytes(bytes);
  if (out.copied_bytes() + whole > kOutputBytesMax || !out.takes_a_frame()) return false;
  const uint64_t header = FrameHeader{.bytes = bytes, .kind = FrameKind::kMessage}.word();
  if (std::byte* place = out.reserve(whole); place != nullptr) [[likely]] {
    std::memset(place + whole - 8, 0, 8);
    std::memcpy(place, &header, sizeof(header));
    place += sizeof(header);
    if (request.local.bytes > 0) std::memcpy(place, request.local.data, request.local.bytes);
    if (request.tail.bytes > 0) {
      std::memcpy(place + request.local.bytes, request.tail.data, request.tail.bytes);
    }
  } else {
    out.word(header);
    if (request.local.bytes > 0) out.copy(request.local.data, request.local.bytes);
    if (request.tail.bytes > 0) out.copy(request.tail.data, request.tail.bytes);
    out.zeros(padding_of(bytes));
  }
  mark_to_flush();
  return done_here(request, Code::kOk);
}

bool Connection::post_one_sided(const Request& request) noexcept {
  // A request's length at the peer; for atomics `local` is not used.
  const uint64_t bytes = is_atomic(request.op) ? sizeof(uint64_t) : request.local.bytes;
  // Neither fits into the 48 bits of an offset, so no region could cover it.
  if (bytes > RemotePointer::kOffsetMask - request.remote.address.offset() ||
      bytes > FrameHeader::kBytesMax - sizeof(Target)) {
    return done_here(request, Code::kAccessDenied);
  }
  if (outstanding_tail_ - outstanding_head_ == kDepth) return false;
  Output& out = output();
  if (out.copied_bytes() + kCopiedBytesMax + 64 > kOutputBytesMax || !out.takes_a_transfer()) return false;
  if (outstanding_ == nullptr) outstanding_ = std::make_unique<OutstandingRing>();
  const Target place{request.remote.address.bits, request.remote.key.bits};
  switch (request.op) {
    case Op::kRead: {
      const TargetAndOperand read{place, bytes};
      out.word(FrameHeader{.bytes = sizeof(read), .kind = FrameKind::kRead}.word());
      out.copy(&read, sizeof(read));
      break;
    }
    case Op::kWrite:
      out.word(FrameHeader{.bytes = sizeof(place) + bytes, .kind = FrameKind::kWrite}.word());
      out.copy(&place, sizeof(place));
      if (bytes > kCopiedBytesMax) {
        out.refer(request.local.data, bytes);
      } else if (bytes > 0) {
        out.copy(request.local.data, bytes);
        out.zeros(padding_of(bytes));
      }
      break;
    case Op::kCompareSwap: {
      const TargetAndSwap swap{place, request.operand, request.compare};
      out.word(FrameHeader{.bytes = sizeof(swap), .kind = FrameKind::kCompareSwap}.word());
      out.copy(&swap, sizeof(swap));
      break;
    }
    default: {
      const TargetAndOperand add{place, request.operand};
      out.word(FrameHeader{.bytes = sizeof(add), .kind = FrameKind::kFetchAdd}.word());
      out.copy(&add, sizeof(add));
      break;
    }
  }
  const bool is_read = request.op == Op::kRead;
  (*outstanding_)[outstanding_tail_++ % kDepth] = {.token = request.token,
                                                   .target = is_read ? request.local.data : nullptr,
                                                   .bytes = is_read ? bytes : 0,
                                                   .op = request.op};
  mark_to_flush();
  return true;
}

Output& Connection::output() noexcept {
  if (output_ == nullptr) output_ = hub_.outputs.take();
  return *output_;
}

void Connection::mark_to_flush() noexcept {
  if (to_flush_) return;
  to_flush_ = true;
  hub_.will_flush(*this);
}

void Connection::unwatch_if_busy() noexcept {
  if (!watched_ || phase_ != Phase::kOpen || blocked_ || idle_polls_ > kPollsBetweenEvents) return;
  hub_.unwatch(fd());
  watched_ = false;
  hub_.count_unwatched(true);
}

void Connection::watch_again() noexcept {
  if (watched_ || !socket_) return;
  watched_ = true;
  hub_.count_unwatched(false);
  if (hub_.watch(fd(), *this)) return;
  // The kernel has no memory for it: unwatched, it could be forgotten.
  peer_gone_ = true;
  hub_.activate(*this);
}

void Connection::set_blocked(bool blocked) noexcept {
  if (blocked_ == blocked) return;
  if (blocked) watch_again();
  blocked_ = blocked;
  hub_.count_blocked(blocked);
}

void Connection::drop_output() noexcept {
  set_blocked(false);
  if (output_ != nullptr) hub_.outputs.give_back(std::move(output_));
}

// One system call a turn. What the socket does not take waits for its event.
void Connection::flush_output() noexcept {
  if (output_ == nullptr || blocked_) return;
  if (output_->empty()) return drop_output();
  std::array<iovec, kSpansASend> spans;
  const bool is_large_alone = !hub_.has_others_active() && output_->large_bytes() >= kSendBytesAlone / 2;
  const size_t count = output_->next(spans, is_large_alone ? kSendBytesAlone : kSendBytesATurn);
  size_t offered = 0;
  for (const iovec& span : std::span(spans).first(count)) offered += span.iov_len;
  ssize_t sent = 0;
  if (count == 1) {
    sent = ::send(fd(), spans[0].iov_base, spans[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
  } else {
    msghdr message{};
    message.msg_iov = spans.data();
    message.msg_iovlen = count;
    sent = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  ++hub_.counters.sends;
  if (sent < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      set_blocked(true);
      consider_large_buffers();
    } else if (errno != EINTR) {
      // Reading tells how it ended, behind whatever arrived before.
      drop_output();
      readable_ = hung_up_ = true;
    }
    hub_.activate(*this);
    return;
  }
  hub_.counters.bytes_sent += static_cast<uint64_t>(sent);
  output_->sent(static_cast<size_t>(sent));
  if (output_->empty()) return drop_output();
  if (static_cast<size_t>(sent) < offered) {
    set_blocked(true);
    consider_large_buffers();
  }
  hub_.activate(*this);
}

void Connection::consider_large_buffers() noexcept {
  if (considered_large_ || !output_->has_large_transfer()) return;
  considered_large_ = true;
  if (round_trip_us(fd()) >= kLongPath_us) enlarge_buffers(fd());
}

void Connection::hear(uint32_t events) noexcept {
  if (phase_ != Phase::kOpen && phase_ != Phase::kOpening) return;
  if ((events & EPOLLOUT) != 0) set_blocked(false);
  if ((events & EPOLLIN) != 0) readable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = hung_up_ = true;
  // The event that every socket has when it begins to be watched is no reason to look at it.
  if (readable_ || output_ != nullptr) hub_.activate(*this);
}

size_t Connection::poll(std::span<Completion> completions, bool direct) noexcept {
  if (completions.empty()) return 0;
  size_t count = 0;
  if (phase_ == Phase::kOpening) [[unlikely]] {
    completions[count++] = {.channel = this, .bytes = {}, .op = Op::kOpened};
    ++hub_.counters.opened;
    phase_ = Phase::kOpen;
    if (close_wanted_) {
      say_goodbye(Code::kOk);
      begin_closing(false);
    }
  }
  if (phase_ == Phase::kOpen) [[likely]] {
    if (output_ != nullptr && !blocked_ && !to_flush_) flush_output();
    // What the last turn left comes first; no byte that it delivers may be moved by receiving more.
    if (begin_ != end_) count += take_frames(completions.subspan(count));
    if (phase_ == Phase::kOpen && count == 0 && !stalled_ && !cut_short_ && (readable_ || direct)) {
      if (receive()) count += take_frames(completions);
    }
    if (phase_ == Phase::kOpen && !cut_short_ && (peer_gone_ || (hung_up_ && stalled_))) peer_lost();
  }
  if (phase_ == Phase::kClosing) count += fail_outstanding(completions.subspan(count));
  idle_polls_ = count > 0 ? 0 : idle_polls_ + 1;
  return count;
}

bool Connection::has_work() const noexcept {
  switch (phase_) {
    case Phase::kOpening:
    case Phase::kClosing:
      return true;
    case Phase::kOpen:
      if (peer_gone_ || cut_short_) return true;
      if (output_ != nullptr && !blocked_) return true;
      // Bytes in the block are a part of a frame, or wait until the socket takes the answers.
      return stalled_ ? hung_up_ : readable_;
    default:
      return false;
  }
}

size_t Connection::fail_outstanding(std::span<Completion> completions) noexcept {
  size_t count = 0;
  while (count < completions.size()) {
    Completion& completion = completions[count++];
    completion = {.channel = this, .bytes = {}, .code = Code::kUnavailable};
    if (outstanding_head_ != outstanding_tail_) {
      const Outstanding& request = (*outstanding_)[outstanding_head_++ % kDepth];
      completion.token = request.token;
      completion.op = request.op;
      continue;
    }
    completion.op = Op::kClosed;
    completion.value = reconnecting_ ? 1 : 0;
    ++hub_.counters.closed;
    phase_ = reconnecting_ ? Phase::kWaiting : Phase::kDead;
    break;
  }
  return count;
}

void Connection::close() noexcept {
  if (phase_ == Phase::kOpening) {
    close_wanted_ = true;
  } else if (phase_ == Phase::kOpen) {
    say_goodbye(Code::kOk);
    begin_closing(false);
  } else if (phase_ == Phase::kClosing) {
    reconnecting_ = false;
  }
}

// Whether it gets through or not, nothing is waited for: without it the peer takes us for dead.
void Connection::say_goodbye(Code code) noexcept {
  Output& out = output();
  if (!out.takes_a_frame()) return;
  out.word(FrameHeader{.kind = FrameKind::kGoodbye, .code = static_cast<uint8_t>(code)}.word());
  set_blocked(false);
  flush_output();
}

void Connection::begin_closing(bool reconnecting) noexcept {
  if (phase_ != Phase::kOpen && phase_ != Phase::kOpening) return;
  drop_output();
  // Bytes of the block may have been delivered in this very turn.
  begin_ = end_;
  transfer_ = {};
  release_block_if_empty();
  if (socket_) {
    if (watched_) hub_.unwatch(fd());
    if (!watched_) hub_.count_unwatched(false);
    watched_ = true;
    socket_ = Descriptor();
  }
  reconnecting_ = reconnecting;
  peer_gone_ = false;
  phase_ = Phase::kClosing;
  hub_.activate(*this);
}

void Connection::give_up_on(uint64_t& counter) noexcept {
  ++counter;
  say_goodbye(Code::kMalformed);
  peer_left();
}

void Connection::mark_moving() noexcept {
  if (moving_) return;
  moving_ = true;
  hub_.moves(*this);
}

bool Connection::revoke(uint16_t region) noexcept {
  if (output_ != nullptr) output_->revoke(region);
  const bool is_writing = transfer_.active && transfer_.is_write;
  if (is_writing && transfer_.region == region) {
    transfer_.target = nullptr;
    transfer_.code = Code::kAccessDenied;
  }
  moving_ = is_writing || (output_ != nullptr && output_->is_gathering());
  return moving_;
}

}  // namespace refract::fabric::tcp
