// SPDX-License-Identifier: Apache-2.0
#include "bench/load/pipelined_driver.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "bench/measure/tcp_socket.h"

namespace refract::bench {
namespace {

// From here on a value is sent from where it lies instead of being copied behind its command.
constexpr size_t kLargeBytes = size_t{16} << 10;
constexpr size_t kPiecesPerCall = 64;
constexpr size_t kCursorBytes = 24;  // Of a scan: a number in digits.

}  // namespace

PipelinedDriver::PipelinedDriver(std::string_view server, Descriptor socket, const DriverOptions& options,
                                 const Contents& contents)
    : server_(server),
      socket_(std::move(socket)),
      options_(options),
      contents_(contents),
      values_are_large_(contents.value_bytes() >= kLargeBytes),
      target_(std::max({contents.value_bytes(), contents.key_bytes(), kCursorBytes})),
      slots_(options.depth),
      waiting_(options.depth) {
  contents_.prepare_value(target_.data());
  for (Slot& slot : slots_) {
    slot.value.resize(contents.value_bytes());
    contents_.prepare_value(slot.value.data());
  }
  for (uint32_t number = 0; number < slots_.size(); ++number) free_.push_back(number);
  vectors_.reserve(kPiecesPerCall);
}

std::unexpected<Report> PipelinedDriver::lost(int error) const {
  return report(Code::kUnavailable, fmt::format("{} went away: {}", server_,
                                                error == 0 ? "end of the stream" : errno_text(error)));
}

Reported<> PipelinedDriver::run(Workload& workload) {
  spin_ns_ = spin_ns_of(options_.waiting, options_.has_rate);
  ended_ = false;
  while (true) {
    while (free_.size() >= options_.batch && take_batch(workload)) {
      for (const Operation& operation : batch_) begin(operation);
      batch_.clear();
    }
    if (ended_ && batch_.empty() && is_idle()) return {};
    // Else the next operation is due later.
    if (const Reported<bool> went_on = turn(&workload); !went_on) return report(went_on.error());
  }
}

Reported<> PipelinedDriver::fill(uint64_t first, uint64_t end) {
  spin_ns_ = spin_ns_of(options_.waiting, false);
  while (first < end || !is_idle()) {
    while (first < end && !free_.empty()) begin({.index = first++, .act = Act::kPut});
    if (const Reported<bool> went_on = turn(nullptr); !went_on) return report(went_on.error());
  }
  return {};
}

Reported<> PipelinedDriver::perform(const Operation& operation) {
  spin_ns_ = spin_ns_of(options_.waiting, false);
  begin(operation);
  while (!is_idle()) {
    if (const Reported<bool> went_on = turn(nullptr); !went_on) return report(went_on.error());
  }
  return {};
}

Reported<bool> PipelinedDriver::turn(Workload* workload) {
  if (const Reported<> sent = send(); !sent) return report(sent.error());
  if (is_idle()) return false;
  const Reported<bool> got = receive();
  if (!got) return report(got.error());
  if (!*got) return false;
  if (const Reported<> taken = take_answers(workload); !taken) return report(taken.error());
  return true;
}

// True: a batch is there and due.
bool PipelinedDriver::take_batch(Workload& workload) {
  Operation operation;
  while (!ended_ && batch_.size() < options_.batch) {
    if (workload.next(operation)) {
      batch_.push_back(operation);
    } else {
      ended_ = true;
    }
  }
  return !batch_.empty() && (!workload.has_rate() || workload.ns_until(batch_.back()) == 0);
}

void PipelinedDriver::begin(const Operation& operation) {
  const uint32_t number = free_.back();
  free_.pop_back();
  waiting_[asked_++ % waiting_.size()] = number;
  Slot& slot = slots_[number];
  slot.operation = operation;
  slot.phase = 0;
  if (!operation.is_get()) contents_.make_value(operation.index, slot.value.data());
  ask(slot);
}

void PipelinedDriver::append_text(std::string_view text) {
  commands_ += text;
  if (has_unsent() && pieces_.back().large == nullptr) {
    pieces_.back().bytes += text.size();
  } else {
    pieces_.push_back({.large = nullptr, .bytes = text.size()});
  }
}

void PipelinedDriver::append_value(const Slot& slot) {
  if (values_are_large_) {
    pieces_.push_back({.large = slot.value.data(), .bytes = slot.value.size()});
  } else {
    append_text({reinterpret_cast<const char*>(slot.value.data()), slot.value.size()});
  }
}

// As much as the socket takes.
Reported<> PipelinedDriver::send() {
  while (has_unsent()) {
    vectors_.clear();
    size_t command = commands_sent_;
    for (size_t i = first_piece_; i < pieces_.size() && vectors_.size() < kPiecesPerCall; ++i) {
      const Piece& piece = pieces_[i];
      const void* from = piece.large != nullptr ? static_cast<const void*>(piece.large) : &commands_[command];
      if (piece.large == nullptr) command += piece.bytes;
      vectors_.push_back({.iov_base = const_cast<void*>(from), .iov_len = piece.bytes});
    }
    msghdr message = {};
    message.msg_iov = vectors_.data();
    message.msg_iovlen = vectors_.size();
    const ssize_t taken = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (taken <= 0) return lost(errno);
    sent(static_cast<size_t>(taken));
  }
  commands_.clear();
  commands_sent_ = 0;
  pieces_.clear();
  first_piece_ = 0;
  return {};
}

void PipelinedDriver::sent(size_t bytes) {
  while (bytes > 0) {
    Piece& piece = pieces_[first_piece_];
    const size_t taken = std::min(bytes, piece.bytes);
    piece.bytes -= taken;
    bytes -= taken;
    if (piece.large != nullptr) {
      piece.large += taken;
    } else {
      commands_sent_ += taken;
    }
    if (piece.bytes == 0) ++first_piece_;
  }
}

// False: nothing has come yet.
Reported<bool> PipelinedDriver::receive() {
  const std::span<iovec> places = room();
  msghdr message = {};
  message.msg_iov = places.data();
  message.msg_iovlen = places.size();
  // Without anything left to send, a client that does not poll may sleep in the very call that receives.
  const bool sleeps_inside = spin_ns_ == 0 && !has_unsent();
  const ssize_t got = ::recvmsg(socket_.get(), &message, sleeps_inside ? 0 : MSG_DONTWAIT);
  if (got > 0) {
    received(static_cast<size_t>(got));
    idle_since_ns_ = 0;
    return true;
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) return lost(got == 0 ? 0 : errno);
  if (spin_ns_ == kForever_ns) {
    _mm_pause();
    return false;
  }
  const uint64_t now = now_ns();
  if (idle_since_ns_ == 0) idle_since_ns_ = now;
  if (now - idle_since_ns_ < spin_ns_) return false;
  if (const Reported<> waited = wait_for_socket(); !waited) return report(waited.error());
  return false;
}

Reported<> PipelinedDriver::wait_for_socket() {
  const auto events = static_cast<short>(has_unsent() ? POLLIN | POLLOUT : POLLIN);
  pollfd wanted = {.fd = socket_.get(), .events = events, .revents = 0};
  if (::poll(&wanted, 1, -1) < 0 && errno != EINTR) return lost(errno);
  return {};
}

Reported<> PipelinedDriver::take_answers(Workload* workload) {
  while (true) {
    const uint32_t number = waiting_[answered_ % waiting_.size()];
    Slot* const slot = asked_ == answered_ ? nullptr : &slots_[number];
    const Answer answer = take_answer(slot);
    if (answer.step == Step::kNone) return {};
    if (slot == nullptr) {
      return report(Code::kMalformed, fmt::format("{} answers what was not asked", server_));
    }
    if (answer.step == Step::kBroken) {
      return report(Code::kMalformed, fmt::format("{} {}", server_, answer.what));
    }
    ++answered_;
    if (answer.step == Step::kAsked) {
      waiting_[asked_++ % waiting_.size()] = number;
      continue;
    }
    free_.push_back(number);
    if (workload != nullptr) workload->finished(slot->operation, answer.code);
  }
}

}  // namespace refract::bench
