// SPDX-License-Identifier: Apache-2.0
#include "bench/redis_driver.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "bench/tcp_socket.h"

namespace refract::bench {
namespace {

// From here on a value is sent from where it lies instead of being copied behind its command.
constexpr size_t kLargeBytes = size_t{16} << 10;
constexpr size_t kPiecesPerCall = 64;

std::unexpected<Report> lost(int error) {
  return report(Code::kUnavailable,
                "redis-server went away: " + (error == 0 ? "end of the stream" : errno_text(error)));
}

}  // namespace

RedisDriver::RedisDriver(Descriptor socket, const DriverOptions& options, const Contents& contents)
    : socket_(std::move(socket)),
      options_(options),
      contents_(contents),
      values_are_large_(contents.value_bytes() >= kLargeBytes),
      target_(std::max<size_t>(contents.value_bytes(), 1)),
      reader_(target_),
      slots_(options.depth),
      get_head_(fmt::format("*2\r\n$3\r\nGET\r\n${}\r\n", contents.key_bytes())),
      put_head_(fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n", contents.key_bytes())),
      value_head_(fmt::format("${}\r\n", contents.value_bytes())) {
  contents_.prepare_value(target_.data());
  for (Slot& slot : slots_) {
    slot.value.resize(contents.value_bytes());
    contents_.prepare_value(slot.value.data());
  }
  vectors_.reserve(kPiecesPerCall);
}

Reported<std::unique_ptr<RedisDriver>> RedisDriver::connect(uint16_t port, const DriverOptions& options,
                                                            const Contents& contents) {
  Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
  if (!socket) return report(socket.error());
  return std::unique_ptr<RedisDriver>(new RedisDriver(std::move(*socket), options, contents));
}

Reported<> RedisDriver::run(Workload& workload) {
  spin_ns_ = spin_ns_of(options_.waiting, options_.has_rate);
  ended_ = false;
  while (true) {
    while (asked_ - answered_ + options_.batch <= slots_.size() && take_batch(workload)) {
      for (const Operation& operation : batch_) {
        Slot& slot = slots_[asked_++ % slots_.size()];
        slot.operation = operation;
        append(slot);
      }
      batch_.clear();
    }
    if (ended_ && batch_.empty() && asked_ == answered_) return {};
    if (const Reported<> sent = send(); !sent) return sent;
    if (asked_ == answered_) continue;  // The next operation is due later.
    const Reported<bool> got = receive();
    if (!got) return report(got.error());
    if (!*got) continue;
    if (const Reported<> taken = take_replies(&workload); !taken) return taken;
  }
}

Reported<> RedisDriver::fill(uint64_t first, uint64_t end) {
  spin_ns_ = spin_ns_of(options_.waiting, false);
  while (first < end || asked_ > answered_) {
    while (first < end && asked_ - answered_ < slots_.size()) {
      Slot& slot = slots_[asked_++ % slots_.size()];
      slot.operation = {.index = first++, .from_ticks = 0, .is_get = false};
      append(slot);
    }
    if (const Reported<> sent = send(); !sent) return sent;
    const Reported<bool> got = receive();
    if (!got) return report(got.error());
    if (!*got) continue;
    if (const Reported<> taken = take_replies(nullptr); !taken) return taken;
  }
  return {};
}

// True: a batch is there and due.
bool RedisDriver::take_batch(Workload& workload) {
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

void RedisDriver::append_text(std::string_view text) {
  commands_ += text;
  if (has_unsent() && pieces_.back().large == nullptr) {
    pieces_.back().bytes += text.size();
  } else {
    pieces_.push_back({.large = nullptr, .bytes = text.size()});
  }
}

void RedisDriver::append(Slot& slot) {
  std::array<char, kKeyBytesMax> key;
  const std::string_view key_text(key.data(), contents_.key_bytes());
  contents_.write_key(slot.operation.index, reinterpret_cast<std::byte*>(key.data()));
  append_text(slot.operation.is_get ? get_head_ : put_head_);
  append_text(key_text);
  append_text("\r\n");
  if (slot.operation.is_get) return;
  append_text(value_head_);
  contents_.make_value(slot.operation.index, slot.value.data());
  if (values_are_large_) {
    pieces_.push_back({.large = slot.value.data(), .bytes = slot.value.size()});
  } else {
    append_text({reinterpret_cast<const char*>(slot.value.data()), slot.value.size()});
  }
  append_text("\r\n");
}

// As much as the socket takes.
Reported<> RedisDriver::send() {
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
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (sent <= 0) return lost(errno);
    for (auto left = static_cast<size_t>(sent); left > 0;) {
      Piece& piece = pieces_[first_piece_];
      const size_t taken = std::min(left, piece.bytes);
      piece.bytes -= taken;
      left -= taken;
      if (piece.large != nullptr) {
        piece.large += taken;
      } else {
        commands_sent_ += taken;
      }
      if (piece.bytes == 0) ++first_piece_;
    }
  }
  commands_.clear();
  commands_sent_ = 0;
  pieces_.clear();
  first_piece_ = 0;
  return {};
}

// False: nothing has come yet.
Reported<bool> RedisDriver::receive() {
  const std::span<iovec> room = reader_.room();
  msghdr message = {};
  message.msg_iov = room.data();
  message.msg_iovlen = room.size();
  // Without anything left to send, a client that does not poll may sleep in the very call that receives.
  const bool sleeps_inside = spin_ns_ == 0 && !has_unsent();
  const ssize_t got = ::recvmsg(socket_.get(), &message, sleeps_inside ? 0 : MSG_DONTWAIT);
  if (got > 0) {
    reader_.received(static_cast<size_t>(got));
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

Reported<> RedisDriver::wait_for_socket() {
  const auto events = static_cast<short>(has_unsent() ? POLLIN | POLLOUT : POLLIN);
  pollfd wanted = {.fd = socket_.get(), .events = events, .revents = 0};
  if (::poll(&wanted, 1, -1) < 0 && errno != EINTR) return lost(errno);
  return {};
}

Code RedisDriver::outcome_of(const Reply& reply, const Operation& operation) {
  switch (reply.kind) {
    case Reply::Kind::kStatus:
      return operation.is_get ? Code::kMalformed : Code::kOk;
    case Reply::Kind::kValue:
      return operation.is_get ? Code::kOk : Code::kMalformed;
    case Reply::Kind::kMissing:
      return operation.is_get ? Code::kNotFound : Code::kMalformed;
    default:
      return Code::kMalformed;
  }
}

Reported<> RedisDriver::take_replies(Workload* workload) {
  for (Reply reply = reader_.next(); reply.kind != Reply::Kind::kNone; reply = reader_.next()) {
    if (asked_ == answered_) return report(Code::kMalformed, "redis-server answers what nobody asked");
    const Operation& operation = slots_[answered_++ % slots_.size()].operation;
    Code code = outcome_of(reply, operation);
    if (code == Code::kMalformed) {
      return report(code, fmt::format("redis-server refused a {}: {}", operation.is_get ? "GET" : "SET",
                                      reply.text.substr(0, 120)));
    }
    if (reply.kind == Reply::Kind::kValue) {
      const bool right =
          reply.bytes == contents_.value_bytes() && contents_.take_value(operation.index, target_.data());
      if (!right) code = Code::kCorrupt;
    }
    if (workload != nullptr) workload->finished(operation, code);
  }
  return {};
}

}  // namespace refract::bench
