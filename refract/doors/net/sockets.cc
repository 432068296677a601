// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/net/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <iterator>
#include <utility>

#include "refract/base/units.h"
#include "refract/fabric/tcp/socket.h"

namespace refract::doors {
namespace {

constexpr size_t kReceivedBytes = 64 * 1024;
constexpr int kEventsATurn = 64;
// Where several threads listen, each takes some.
constexpr int kAcceptsATurn = 8;
// What a connection keeps while it has nothing to say.
constexpr size_t kKeptBytes = 16 * 1024;
// So long replies wait for those of the commands behind them, and so many bytes of them.
constexpr uint64_t kHeld_ns = 100 * kMicrosecond_ns;
constexpr size_t kHeldBytes = 16 * 1024;
constexpr std::string_view kNoRoom = "-ERR max number of clients reached\r\n";

// How long no newcomer is taken after descriptors or memory were short.
constexpr uint64_t kRest_ns = 100 * kMillisecond_ns;

// As Redis does. A peer that reads nothing for minutes is none that has gone.
void tune(int fd) noexcept {
  const auto set = [fd](int level, int name, int value) {
    (void)::setsockopt(fd, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 300);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 100);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

// An epoll event's word: a line's address; or with the lowest bit a listener's number.
uint64_t word_of_listener(int fd) noexcept {
  return static_cast<uint64_t>(fd) << 1 | 1;
}

}  // namespace

class Sockets::Line final : private redis::Session::Listener {
 public:
  Line(Sockets& sockets, Descriptor taken)
      : socket(std::move(taken)),
        session(sockets.store_, *this, fabric::tcp::peer_address(socket.get()).text(),
                fabric::tcp::local_address(socket.get()).text()),
        sockets_(sockets) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() = default;

  Descriptor socket;
  redis::Session session;
  std::string input;           // The beginning of a request that is not whole, or has no turn yet.
  uint64_t held_since_ns = 0;  // Of replies that wait for those behind them; 0: none do.
  size_t sent = 0;             // Of the session's output.
  bool is_readable = true;
  bool has_hung_up = false;  // Behind what is still to be received.
  bool is_writable = true;
  bool is_ready = false;  // In the list.
  bool has_ended = false;
  std::list<std::unique_ptr<Line>>::iterator place;  // Among all.

 private:
  void has_replies() noexcept override { sockets_.call_up(*this); }

  Sockets& sockets_;
};

Sockets::Sockets(runtime::Shard& shard, redis::Store& store) noexcept : shard_(shard), store_(store) {
  shard_.add(*this);
}

Reported<std::unique_ptr<Sockets>> Sockets::create(runtime::Shard& shard, redis::Store& store,
                                                   const std::vector<int>& listeners, size_t lines_max) {
  std::unique_ptr<Sockets> sockets(new Sockets(shard, store));
  sockets->lines_max_ = lines_max;
  sockets->epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  sockets->received_.resize(kReceivedBytes);
  sockets->listeners_ = listeners;
  if (sockets->epoll_ && shard.watch(sockets->epoll_.get()) && sockets->listen()) return sockets;
  return report(Code::kSystem, "cannot watch the sockets of the doors: " + errno_text(errno),
                "raise the limit of open files (ulimit -n)");
}

Sockets::~Sockets() {
  shard_.remove(*this);
  if (epoll_) shard_.unwatch(epoll_.get());
}

bool Sockets::listen() noexcept {
  return std::ranges::all_of(listeners_, [this](int listener) {
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    wanted.data.u64 = word_of_listener(listener);
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener, &wanted) == 0;
  });
}

void Sockets::stop_listening() noexcept {
  for (const int listener : listeners_) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener, nullptr);
}

void Sockets::finish() {
  stop_listening();
  listeners_.clear();
  for (const auto& line : lines_) {
    line->session.end();
    call_up(*line);
  }
}

void Sockets::close() noexcept {
  for (const auto& line : lines_) end(*line);
}

size_t Sockets::poll() noexcept {
  if (!ended_.empty()) bury();
  size_t done = look();
  serving_.swap(ready_);
  done += serving_.size();
  for (Line* const line : serving_) {
    line->is_ready = false;
    serve(*line);
  }
  serving_.clear();
  redis::send_gathered(store_);
  return done;
}

bool Sockets::prepare_sleep() noexcept {
  return look() == 0 && ready_.empty() && (store_.gathered.empty() || store_.is_send_due);
}

size_t Sockets::look() noexcept {
  std::array<epoll_event, kEventsATurn> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsATurn, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t word = events[static_cast<size_t>(i)].data.u64;
    const uint32_t happened = events[static_cast<size_t>(i)].events;
    if ((word & 1) != 0) {
      accept_some(static_cast<int>(word >> 1));
      continue;
    }
    Line& line = *std::bit_cast<Line*>(word);
    line.has_hung_up |= (happened & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    line.is_readable |= line.has_hung_up || (happened & EPOLLIN) != 0;
    line.is_writable |= (happened & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
    call_up(line);
  }
  return count > 0 ? static_cast<size_t>(count) : 0;
}

void Sockets::call_up(Line& line) {
  if (line.has_ended || std::exchange(line.is_ready, true)) return;
  ready_.push_back(&line);
}

void Sockets::accept_some(int listener) {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    Descriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      const bool is_short = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (is_short) rest();
      return;
    }
    if (store_.counts.connections.load(std::memory_order_relaxed) >= lines_max_) {
      (void)::send(socket.get(), kNoRoom.data(), kNoRoom.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      continue;
    }
    tune(socket.get());
    lines_.push_back(std::make_unique<Line>(*this, std::move(socket)));
    Line& line = *lines_.back();
    line.place = std::prev(lines_.end());
    epoll_event wanted{};
    wanted.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | static_cast<uint32_t>(EPOLLET);
    wanted.data.u64 = std::bit_cast<uint64_t>(&line);
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, line.socket.get(), &wanted) != 0) {
      lines_.pop_back();
      continue;
    }
    store_.counts.received.fetch_add(1, std::memory_order_relaxed);
    store_.counts.connections.fetch_add(1, std::memory_order_relaxed);
  }
}

// The newcomer stays in the backlog; asking at once again would only spin.
void Sockets::rest() noexcept {
  stop_listening();
  shard_.spawn(listen_later(*this));
}

runtime::Task<> Sockets::listen_later(Sockets& sockets) {
  co_await sockets.shard_.sleep_for(kRest_ns);
  if (!sockets.listen()) sockets.rest();
}

void Sockets::serve(Line& line) {
  if (line.has_ended) return;
  // What had no turn before goes first.
  if (!line.input.empty() && !line.session.is_full()) {
    line.input.erase(0, line.session.take(line.input));
    if (line.input.empty()) line.input.shrink_to_fit();
  }
  if (line.is_readable && line.session.takes_requests() && !line.session.is_full()) receive(line);
  if (line.has_ended) return;
  if (is_worth_waiting(line)) return call_up(line);
  send(line);
  if (line.has_ended) return;
  const size_t unsent = line.session.output().size() - line.sent;
  if (!line.session.has_proven() && unsent > redis::Session::kUnsentMaxUnproven) return end(line);
  const bool is_all_sent = unsent == 0;
  if (line.session.is_ending() && is_all_sent) return end(line);
  // More has come, or was left: another turn, behind the others'.
  const bool may_go_on = line.session.takes_requests() && !line.session.is_full();
  if (may_go_on && line.is_readable) call_up(line);
}

// Replies of one pipeline come one by one, within microseconds. A send for each would cost more than all
// else.
bool Sockets::is_worth_waiting(Line& line) noexcept {
  const size_t bytes = line.session.output().size() - line.sent;
  const bool may_wait = bytes > 0 && bytes < kHeldBytes && !line.session.is_idle();
  if (!may_wait) {
    line.held_since_ns = 0;
    return false;
  }
  if (line.held_since_ns == 0) line.held_since_ns = shard_.now_ns();
  if (shard_.now_ns() - line.held_since_ns < kHeld_ns) return true;
  line.held_since_ns = 0;
  return false;
}

void Sockets::receive(Line& line) {
  const ssize_t count = ::recv(line.socket.get(), received_.data(), received_.size(), MSG_DONTWAIT);
  // It may still read: what it has asked for is answered.
  if (count == 0) return line.session.end();
  if (count < 0) {
    if (errno == EINTR) return;
    line.is_readable = false;
    if (errno != EAGAIN && errno != EWOULDBLOCK) end(line);
    return;
  }
  const auto bytes = static_cast<size_t>(count);
  // Else there was no more, but for the end of the stream.
  line.is_readable = bytes == received_.size() || line.has_hung_up;
  const std::string_view came(received_.data(), bytes);
  if (line.input.empty()) {
    line.input = came.substr(line.session.take(came));
  } else {
    line.input += came;
    line.input.erase(0, line.session.take(line.input));
  }
  if (line.input.empty() && line.input.capacity() > kKeptBytes) line.input.shrink_to_fit();
}

void Sockets::send(Line& line) noexcept {
  std::string& output = line.session.output();
  while (line.is_writable && line.sent < output.size()) {
    const ssize_t count = ::send(line.socket.get(), output.data() + line.sent, output.size() - line.sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      line.sent += static_cast<size_t>(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      line.is_writable = false;
    } else if (errno != EINTR) {
      return end(line);
    }
  }
  if (line.sent < output.size()) {
    // What is moved was sent as often.
    if (line.sent < std::max(redis::Session::kUnsentMax / 2, output.size() / 2)) return;
    output.erase(0, std::exchange(line.sent, 0));
    return call_up(line);
  }
  line.sent = 0;
  if (output.empty()) return;
  const bool was_full = output.size() >= redis::Session::kUnsentMax;
  output.clear();
  if (output.capacity() > kKeptBytes) output.shrink_to_fit();
  // What waited for room continues.
  line.session.output_was_sent();
  if (was_full || !output.empty()) call_up(line);
}

void Sockets::end(Line& line) noexcept {
  if (std::exchange(line.has_ended, true)) return;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, line.socket.get(), nullptr);
  line.socket = Descriptor();
  line.session.leave();
  ended_.push_back(&line);
  store_.counts.connections.fetch_sub(1, std::memory_order_relaxed);
  std::erase(ready_, &line);
}

// Not in the turn in which a command of theirs has ended.
void Sockets::bury() {
  std::erase_if(ended_, [this](Line* line) {
    if (!line->session.is_idle()) return false;
    lines_.erase(line->place);
    return true;
  });
}

}  // namespace refract::doors
