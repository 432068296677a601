// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/doors/checked_writers.h"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string_view>
#include <utility>

#include "bench/bars/doors/redis_connection.h"
#include "bench/measure/measure.h"
#include "bench/measure/tcp_socket.h"
#include "bench/sides/redis_commands.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kWritersPatience_ns = 20 * kSecond_ns;
constexpr std::string_view kWritten = "+OK\r\n";

}  // namespace

CheckedWriters::CheckedWriters(uint16_t port, size_t count, uint64_t keys, size_t value_bytes)
    : port_(port), value_bytes_(value_bytes), writers_(count), held_(keys) {}

Reported<CheckedWriters> CheckedWriters::connect(uint16_t port, size_t count, uint64_t keys,
                                                 size_t value_bytes) {
  CheckedWriters writers(port, count, keys, value_bytes);
  writers.epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!writers.epoll_) return report(Code::kSystem, "cannot make an epoll: " + errno_text(errno));
  for (size_t i = 0; i < count; ++i) {
    writers.writers_[i].key = i;
    if (const Reported<> joined = writers.join(i); !joined) return report(joined.error());
  }
  return writers;
}

Reported<> CheckedWriters::join(size_t index) {
  Reported<Descriptor> socket = connect_tcp("127.0.0.1", port_);
  if (!socket) return report(socket.error());
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = index}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket->get(), &event) != 0) {
    return report(Code::kSystem, "cannot watch a socket: " + errno_text(errno));
  }
  writers_[index].socket = std::move(*socket);
  writers_[index].reply.clear();
  return {};
}

bool CheckedWriters::send(Writer& writer) {
  command_.clear();
  append_command(command_, {"SET", numbered_key(writer.key), numbered_value(writer.number, value_bytes_)});
  // A socket with nothing under way takes so few bytes whole.
  return ::send(writer.socket.get(), command_.data(), command_.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(command_.size());
}

void CheckedWriters::begin(size_t index) {
  Writer& writer = writers_[index];
  writer.number = ++numbers_;
  writer.begun_ns = now_ns();
  writer.is_busy = true;
  // What has ended is heard of by the next look at the sockets.
  (void)send(writer);
}

Reported<> CheckedWriters::hear(size_t index) {
  Writer& writer = writers_[index];
  std::array<char, 512> piece;
  const ssize_t got = ::recv(writer.socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got <= 0) {
    ++lost_;
    if (const Reported<> joined = join(index); !joined) return joined;
    if (writer.is_busy) (void)send(writer);
    return {};
  }
  writer.reply.append(piece.data(), static_cast<size_t>(got));
  if (writer.reply.size() < kWritten.size()) return {};
  if (writer.reply != kWritten || !writer.is_busy) {
    return report(Code::kMalformed, "a SET was replied to with: " + writer.reply);
  }
  writer.reply.clear();
  writer.is_busy = false;
  longest_ns_ = std::max(longest_ns_, now_ns() - writer.begun_ns);
  ++acknowledged_;
  held_[writer.key] = writer.number;
  writer.key += writers_.size();
  if (writer.key >= held_.size()) writer.key = index;
  return {};
}

Reported<> CheckedWriters::turn() {
  std::array<epoll_event, 64> events;
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 1);
  for (const epoll_event& event : std::span(events).first(static_cast<size_t>(std::max(ready, 0)))) {
    if (const Reported<> heard = hear(event.data.u64); !heard) return heard;
  }
  return {};
}

Reported<> CheckedWriters::write_until(uint64_t end_ns) {
  while (now_ns() < end_ns) {
    for (size_t i = 0; i < writers_.size(); ++i) {
      if (!writers_[i].is_busy) begin(i);
    }
    if (const Reported<> turned = turn(); !turned) return turned;
  }
  return {};
}

Reported<> CheckedWriters::finish() {
  const uint64_t end_ns = now_ns() + kWritersPatience_ns;
  while (std::ranges::any_of(writers_, &Writer::is_busy)) {
    if (now_ns() > end_ns) return report(Code::kDeadlineExceeded, "a SET is not replied to");
    if (const Reported<> turned = turn(); !turned) return turned;
  }
  return {};
}

Reported<> CheckedWriters::check() const {
  Reported<RedisConnection> connection = RedisConnection::connect(port_, value_bytes_);
  if (!connection) return report(connection.error());
  return connection->run(
      held_.size(), [&](uint64_t i) { connection->append({"GET", numbered_key(i)}); },
      [&](uint64_t i, const Reply& reply) -> Reported<> {
        const bool is_value = reply.kind == Reply::Kind::kValue;
        if (is_value && connection->value(reply) == numbered_value(held_[i], value_bytes_)) return {};
        return report(Code::kCorrupt, fmt::format("key {} holds '{}' instead of write {}", i,
                                                  is_value ? connection->value(reply) : "", held_[i]));
      });
}

uint64_t CheckedWriters::take_longest_ns() noexcept {
  return std::exchange(longest_ns_, 0);
}

}  // namespace refract::bench
