// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/doors/command_crowd.h"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "bench/measure/tcp_socket.h"
#include "bench/sides/redis_commands.h"

namespace refract::bench {
namespace {

constexpr std::string_view kSetDone = "+OK\r\n";
constexpr std::string_view kNothingThere = "$-1\r\n";
constexpr std::string_view kReplyEnd = "\r\n";

}  // namespace

CommandCrowd::CommandCrowd(const Contents& contents)
    : contents_(contents),
      value_(contents.value_bytes()),
      key_(contents.key_bytes(), '\0'),
      value_head_(fmt::format("${}\r\n", contents.value_bytes())) {
  contents_.prepare_value(value_.data());
}

Reported<std::unique_ptr<CommandCrowd>> CommandCrowd::connect(uint16_t port, size_t count,
                                                              const Contents& contents) {
  std::unique_ptr<CommandCrowd> crowd(new CommandCrowd(contents));
  crowd->epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!crowd->epoll_) return report(Code::kSystem, "cannot make an epoll: " + errno_text(errno));
  crowd->lines_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Reported<Descriptor> socket = connect_tcp("127.0.0.1", port);
    if (!socket) return report(socket.error());
    epoll_event event = {.events = EPOLLIN, .data = {.u64 = i}};
    if (::epoll_ctl(crowd->epoll_.get(), EPOLL_CTL_ADD, socket->get(), &event) != 0) {
      return report(Code::kSystem, "cannot watch a socket: " + errno_text(errno));
    }
    crowd->lines_[i].socket = std::move(*socket);
    crowd->free_.push_back(i);
  }
  return crowd;
}

Reported<> CommandCrowd::run(Workload& workload) {
  has_ended_ = has_next_ = false;
  std::array<epoll_event, 64> events;
  for (;;) {
    if (const Reported<> begun = begin_due(workload); !begun) return begun;
    if (has_ended_ && free_.size() == lines_.size()) return {};
    const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (const epoll_event& event : std::span(events).first(static_cast<size_t>(std::max(ready, 0)))) {
      Line& line = lines_[event.data.u64];
      if (const Reported<> heard = hear(line, workload); !heard) return heard;
    }
  }
}

Reported<> CommandCrowd::begin_due(Workload& workload) {
  while (!has_ended_ && !free_.empty()) {
    if (!has_next_ && !workload.next(next_)) {
      has_ended_ = true;
      break;
    }
    has_next_ = true;
    if (workload.has_rate() && workload.ns_until(next_) > 0) break;
    has_next_ = false;
    if (const Reported<> asked = ask(next_); !asked) return asked;
  }
  return {};
}

Reported<> CommandCrowd::ask(const Operation& operation) {
  Line& line = lines_[free_.back()];
  free_.pop_back();
  line.operation = operation;
  line.reply.clear();
  contents_.write_key(operation.index, reinterpret_cast<std::byte*>(key_.data()));
  command_.clear();
  if (operation.is_get()) {
    append_command(command_, {"GET", key_});
  } else {
    contents_.make_value(operation.index, value_.data());
    append_command(command_, {"SET", key_, {reinterpret_cast<const char*>(value_.data()), value_.size()}});
  }
  ++asked_;
  // A socket with nothing under way takes so few bytes whole.
  const ssize_t sent = ::send(line.socket.get(), command_.data(), command_.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(command_.size())) return {};
  return report(Code::kUnavailable, "a connection broke: " + errno_text(errno));
}

Code CommandCrowd::code_of(const Line& line) {
  if (!line.operation.is_get()) return line.reply == kSetDone ? Code::kOk : Code::kMalformed;
  if (line.reply == kNothingThere) return Code::kNotFound;
  if (!line.reply.starts_with(value_head_)) return Code::kMalformed;
  std::memcpy(value_.data(), line.reply.data() + value_head_.size(), value_.size());
  return contents_.take_value(line.operation.index, value_.data()) ? Code::kOk : Code::kCorrupt;
}

Reported<> CommandCrowd::hear(Line& line, Workload& workload) {
  std::array<char, 4096> piece;
  const ssize_t got = ::recv(line.socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got <= 0) return report(Code::kUnavailable, "the server hung up");
  line.reply.append(piece.data(), static_cast<size_t>(got));
  const size_t value_bytes = value_head_.size() + contents_.value_bytes() + kReplyEnd.size();
  const bool is_value = line.operation.is_get() && line.reply[0] == '$' && line.reply != kNothingThere;
  if (is_value ? line.reply.size() < value_bytes : !line.reply.ends_with(kReplyEnd)) return {};
  const Code code = code_of(line);
  if (!Workload::is_counted(code)) {
    return report(code, fmt::format("the server refused a command: {}", line.reply));
  }
  workload.finished(line.operation, code);
  free_.push_back(static_cast<size_t>(&line - lines_.data()));
  return {};
}

}  // namespace refract::bench
