// SPDX-License-Identifier: Apache-2.0
#include "bench/sides/redis_commands.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bench/load/entry.h"
#include "bench/measure/tcp_socket.h"

namespace refract::bench {
namespace {

constexpr std::string_view kExecuted = "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n";

std::unexpected<Report> gone() {
  return report(Code::kUnavailable, "Redis is gone");
}

}  // namespace

void append_command(std::string& to, std::initializer_list<std::string_view> arguments) {
  to += fmt::format("*{}\r\n", arguments.size());
  for (const std::string_view argument : arguments)
    to += fmt::format("${}\r\n{}\r\n", argument.size(), argument);
}

Reported<RedisPipeline> RedisPipeline::connect(uint16_t port) {
  Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
  if (!socket) return report(socket.error());
  return RedisPipeline(std::move(*socket));
}

Reported<> RedisPipeline::send() {
  for (std::string_view rest = out_; !rest.empty();) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent <= 0) return gone();
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  out_.clear();
  return {};
}

Reported<> RedisPipeline::receive() {
  std::array<char, 65'536> piece;
  for (;;) {
    const ssize_t bytes = recv(socket_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (bytes == 0) return gone();
    if (bytes < 0) continue;
    in_.append(piece.data(), static_cast<size_t>(bytes));
    return {};
  }
}

Reported<> RedisPipeline::run(const Requests& requests) {
  uint64_t asked = 0;
  uint64_t answered = 0;
  in_.clear();
  while (answered < requests.count) {
    while (asked < requests.count && asked - answered < requests.depth) requests.append(out_, asked++);
    if (const Reported<> sent = send(); !sent) return sent;
    if (const Reported<> received = receive(); !received) return received;
    while (in_.size() >= requests.answer_like.size()) {
      if (in_.front() != requests.answer_like.front()) {
        return report(Code::kMalformed, "Redis refused: " + in_.substr(0, 200));
      }
      in_.erase(0, requests.answer_like.size());
      ++answered;
    }
    if (in_.starts_with('-')) return report(Code::kMalformed, "Redis refused: " + in_.substr(0, 200));
  }
  return {};
}

Reported<std::string> RedisPipeline::load_script(std::string_view script) {
  constexpr size_t kNameBytes = 40;
  in_.clear();
  append_command(out_, {"SCRIPT", "LOAD", script});
  if (const Reported<> sent = send(); !sent) return report(sent.error());
  while (in_.size() < kNameBytes + 7) {
    if (const Reported<> received = receive(); !received) return report(received.error());
    if (in_.starts_with('-')) return report(Code::kMalformed, "Redis refused a script: " + in_);
  }
  return in_.substr(5, kNameBytes);
}

Reported<RedisWatchers> RedisWatchers::connect(uint16_t port, size_t connections) {
  RedisWatchers watchers;
  watchers.poll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  watchers.connections_.resize(connections);
  for (size_t i = 0; i < connections; ++i) {
    Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
    if (!socket) return report(socket.error());
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    if (epoll_ctl(watchers.poll_.get(), EPOLL_CTL_ADD, socket->get(), &event) != 0) return gone();
    watchers.connections_[i].socket = std::move(*socket);
  }
  return watchers;
}

Reported<> RedisWatchers::send(Connection& connection, const std::string& commands, size_t answer_bytes) {
  connection.awaited_bytes = answer_bytes;
  connection.answer.clear();
  const ssize_t sent = ::send(connection.socket.get(), commands.data(), commands.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(commands.size())) return gone();
  return {};
}

Reported<> RedisWatchers::begin(Connection& connection, uint64_t first_key) {
  const Key one = Key::of(first_key);
  const Key other = Key::of(first_key + 1);
  std::string commands;
  append_command(commands, {"WATCH", one.text(), other.text()});
  append_command(commands, {"MGET", one.text(), other.text()});
  constexpr size_t kValue = std::string_view("$64\r\n\r\n").size() + sizeof(Value);
  connection.first_key = first_key;
  connection.is_writing = false;
  return send(connection, commands, std::string_view("+OK\r\n*2\r\n").size() + 2 * kValue);
}

Reported<> RedisWatchers::write(Connection& connection) {
  const Key keys[] = {Key::of(connection.first_key), Key::of(connection.first_key + 1)};
  const Value values[] = {Value::of(connection.first_key), Value::of(connection.first_key + 1)};
  std::string commands;
  append_command(commands, {"MULTI"});
  append_command(commands, {"MSET", keys[0].text(), values[0].text(), keys[1].text(), values[1].text()});
  append_command(commands, {"EXEC"});
  connection.is_writing = true;
  return send(connection, commands, kExecuted.size());
}

Reported<bool> RedisWatchers::go_on(Connection& connection) {
  std::array<char, 512> piece;
  const ssize_t bytes = recv(connection.socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (bytes == 0) return gone();
  if (bytes > 0) connection.answer.append(piece.data(), static_cast<size_t>(bytes));
  if (connection.answer.starts_with('-'))
    return report(Code::kMalformed, "Redis refused: " + connection.answer);
  if (connection.answer.size() < connection.awaited_bytes) return false;
  if (!connection.is_writing) {
    if (const Reported<> written = write(connection); !written) return report(written.error());
    return false;
  }
  if (connection.answer == kExecuted) return true;
  return report(Code::kMalformed, "Redis refused a transaction: " + connection.answer);
}

Reported<> RedisWatchers::run(uint64_t count, const std::function<uint64_t(size_t)>& next_pair) {
  uint64_t begun = 0;
  uint64_t ended = 0;
  for (size_t i = 0; i < connections_.size() && begun < count; ++i, ++begun) {
    if (const Reported<> asked = begin(connections_[i], next_pair(i)); !asked) return asked;
  }
  std::array<epoll_event, 64> events;
  while (ended < count) {
    const int ready = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (const epoll_event& event : std::span(events).first(static_cast<size_t>(std::max(ready, 0)))) {
      const size_t i = event.data.u64;
      const Reported<bool> is_done = go_on(connections_[i]);
      if (!is_done) return report(is_done.error());
      if (!*is_done) continue;
      ++ended;
      if (begun == count) continue;
      ++begun;
      if (const Reported<> asked = begin(connections_[i], next_pair(i)); !asked) return asked;
    }
  }
  return {};
}

}  // namespace refract::bench
