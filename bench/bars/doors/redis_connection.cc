// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/doors/redis_connection.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "bench/measure/tcp_socket.h"
#include "bench/sides/redis_commands.h"

namespace refract::bench {
namespace {

constexpr uint64_t kCommandsTogether = 256;
constexpr size_t kDigitsMax = 24;  // A number in digits.

std::unexpected<Report> hung_up(int error) {
  return report(Code::kUnavailable, "the server hung up: " + errno_text(error));
}

}  // namespace

Reported<RedisConnection> RedisConnection::connect(uint16_t port, size_t value_bytes_max) {
  Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
  if (!socket) return report(socket.error());
  return RedisConnection(std::move(*socket), std::max(value_bytes_max, kDigitsMax));
}

void RedisConnection::append(std::initializer_list<std::string_view> words) {
  append_command(out_, words);
}

Reported<> RedisConnection::flush() {
  for (std::string_view rest = out_; !rest.empty();) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent <= 0) return hung_up(errno);
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  out_.clear();
  return {};
}

Reported<Reply> RedisConnection::next() {
  for (;;) {
    const Reply reply = reader_.next();
    if (reply.kind == Reply::Kind::kMalformed) return report(Code::kMalformed, "a reply makes no sense");
    if (reply.kind == Reply::Kind::kError) {
      return report(Code::kMalformed, fmt::format("the server refused a command: {}", reply.text));
    }
    if (reply.kind != Reply::Kind::kNone) return reply;
    const std::span<iovec> room = reader_.room();
    msghdr message = {};
    message.msg_iov = room.data();
    message.msg_iovlen = room.size();
    const ssize_t got = ::recvmsg(socket_.get(), &message, 0);
    if (got <= 0) return hung_up(got == 0 ? 0 : errno);
    reader_.received(static_cast<size_t>(got));
  }
}

Reported<Reply> RedisConnection::next(Reply::Kind kind) {
  Reported<Reply> reply = next();
  if (!reply || reply->kind == kind) return reply;
  return report(Code::kMalformed, "a reply is of another kind than its command has");
}

Reported<> RedisConnection::run(uint64_t count, const std::function<void(uint64_t)>& append,
                                const std::function<Reported<>(uint64_t, const Reply&)>& take) {
  for (uint64_t first = 0; first < count; first += kCommandsTogether) {
    const uint64_t end = std::min(count, first + kCommandsTogether);
    for (uint64_t i = first; i < end; ++i) append(i);
    if (const Reported<> sent = flush(); !sent) return sent;
    for (uint64_t i = first; i < end; ++i) {
      const Reported<Reply> reply = next();
      if (!reply) return report(reply.error());
      if (const Reported<> taken = take(i, *reply); !taken) return taken;
    }
  }
  return {};
}

std::string numbered_key(uint64_t number) {
  return fmt::format("key:{:012}", number);
}

std::string numbered_value(uint64_t number, size_t bytes) {
  return fmt::format("{:0{}}", number, bytes);
}

Reported<> fill_numbered(uint16_t port, uint64_t keys, size_t value_bytes, uint64_t ttl_seconds) {
  Reported<RedisConnection> connection = RedisConnection::connect(port, 0);
  if (!connection) return report(connection.error());
  const std::string value = numbered_value(0, value_bytes);
  const std::string ttl = fmt::format("{}", ttl_seconds);
  return connection->run(
      keys,
      [&](uint64_t i) {
        if (ttl_seconds == 0) {
          connection->append({"SET", numbered_key(i), value});
        } else {
          connection->append({"SET", numbered_key(i), value, "EX", ttl});
        }
      },
      [](uint64_t, const Reply& reply) -> Reported<> {
        if (reply.kind == Reply::Kind::kStatus) return {};
        return report(Code::kMalformed, "a SET was not replied to with OK");
      });
}

}  // namespace refract::bench
