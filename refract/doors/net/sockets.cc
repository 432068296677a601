// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/net/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "refract/base/log.h"
#include "refract/base/units.h"
#include "refract/fabric/tcp/socket.h"

namespace refract::doors {
namespace {

constexpr size_t kReceivedBytes = 64 * 1024;
constexpr int kEventsATurn = 64;
// Where several threads listen, each takes some.
constexpr int kAcceptsATurn = 8;
// Of all connections of a thread: half requests, requests under way, replies that are not sent.
constexpr size_t kHeldBytesMaxOfAll = size_t{1} << 30;
// How long values of a client that does not read stay in the node's memory, and how often that is looked at.
constexpr uint64_t kPinned_ns = kSecond_ns;
constexpr uint64_t kPinsLook_ns = 250 * kMillisecond_ns;
// How often it is looked at how long messages have waited for those that read slowly.
constexpr uint64_t kBacklogsLook_ns = kSecond_ns / 2;
constexpr size_t kPiecesASend = 64;
// Of one connection: so much stays in the caches until the peer on this host has it.
constexpr size_t kSentBytesATurn = size_t{512} * 1024;
// Of a long word.
constexpr size_t kLongBytesATurn = size_t{1} << 20;
// One that reads so much keeps its values in the node's memory for so long again.
constexpr size_t kReadBytes = size_t{1} << 20;
// Of all connections: so much is copied out of it in one go.
constexpr size_t kCopiedBytesALook = size_t{64} << 20;
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

// As Redis has it: of a Unix socket its path stands for both ends.
struct Ends {
  std::string peer;
  std::string local;
};
Ends ends_of(int fd) {
  Ends ends{.peer = fabric::tcp::peer_address(fd).text(), .local = fabric::tcp::local_address(fd).text()};
  if (!ends.local.empty()) return ends;
  sockaddr_un address{};
  socklen_t bytes = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return ends;
  const size_t path_bytes =
      bytes > offsetof(sockaddr_un, sun_path) ? bytes - offsetof(sockaddr_un, sun_path) : 0;
  ends.local.assign(address.sun_path, ::strnlen(address.sun_path, path_bytes));
  ends.local += ":0";
  ends.peer = ends.local;
  return ends;
}

// An epoll event's word: a line's address; or with the lowest bit a listener's number.
uint64_t word_of_listener(int fd) noexcept {
  return static_cast<uint64_t>(fd) << 1 | 1;
}

}  // namespace

class Sockets::Line final : private redis::Session::Listener {
 public:
  Line(Sockets& sockets, Descriptor taken, Ends ends)
      : socket(std::move(taken)),
        session(sockets.store_, *this, std::move(ends.peer), std::move(ends.local)),
        sockets_(sockets) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() = default;

  Descriptor socket;
  redis::Session session;
  uint64_t held_since_ns = 0;    // Of replies that wait for those behind them; 0: none do.
  uint64_t pinned_since_ns = 0;  // 0: it is not among those that are watched.
  size_t read_bytes = 0;         // By the client, since then.
  size_t counted_bytes = 0;      // Of its session's, in those of all,
  size_t counted_shared = 0;     // and of those that others have, too.
  bool is_readable = true;
  bool has_hung_up = false;  // Behind what is still to be received.
  bool is_writable = true;
  bool is_ready = false;  // In the list.
  bool has_ended = false;
  bool is_watched = false;                           // For how long messages wait for it.
  std::list<std::unique_ptr<Line>>::iterator place;  // Among all.

 private:
  void has_replies() noexcept override { sockets_.call_up(*this); }
  void end_now() noexcept override { sockets_.end(*this); }
  [[nodiscard]] int descriptor() const noexcept override { return socket.get(); }

  Sockets& sockets_;
};

Sockets::Sockets(runtime::Shard& shard, redis::Store& store) noexcept : shard_(shard), store_(store) {
  shard_.add(*this);
  store_.common.crew.sit(store_.place, shard_, *this);
  store_.common.board.sit(store_.place, shard_);
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
  store_.common.crew.leave(store_.place);
  store_.common.board.stand_up(store_.place);
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

void Sockets::node_has_come() {
  for (const auto& line : lines_) {
    line->session.node_has_come();
    call_up(*line);
  }
}

void Sockets::close() noexcept {
  for (const auto& line : lines_) end(*line);
}

void Sockets::visit(const Visit& visit) {
  for (const auto& line : lines_) {
    if (!line->has_ended) visit(line->session);
  }
}

void Sockets::visit_ended(const Visit& visit) {
  for (Line* const line : ended_) visit(line->session);
}

void Sockets::note_rates() noexcept {
  const redis::CountSums sums = store_.common.counts.sums();
  store_.common.rates.note(
      shard_.now_ns(), {.commands = sums.commands, .bytes_in = sums.bytes_in, .bytes_out = sums.bytes_out});
}

size_t Sockets::poll() noexcept {
  redis::Session::look_at_told(store_);
  if (!ended_.empty()) bury();
  size_t done = is_leaving_ ? 1 : 0;
  done += store_.common.crew.poll(store_.place) + store_.common.board.poll(store_.place);
  done += look();
  serving_.swap(ready_);
  // Of what was before a sleep, times would be wrong by that.
  if (!serving_.empty()) shard_.refresh_now();
  done += serving_.size();
  for (Line* const line : serving_) {
    line->is_ready = false;
    serve(*line);
  }
  serving_.clear();
  if (done > 0 && store_.common.rates.is_due(shard_.now_ns())) note_rates();
  return done;
}

bool Sockets::prepare_sleep() noexcept {
  return store_.told.empty() && look() == 0 && ready_.empty() && !is_leaving_ &&
         !store_.common.crew.has_work(store_.place) && !store_.common.board.has_mail(store_.place);
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
    if (store_.common.connections.load(std::memory_order_relaxed) >= lines_max_) {
      store_.counts.rejected.fetch_add(1);
      (void)::send(socket.get(), kNoRoom.data(), kNoRoom.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      continue;
    }
    tune(socket.get());
    Ends ends = ends_of(socket.get());
    lines_.push_back(std::make_unique<Line>(*this, std::move(socket), std::move(ends)));
    Line& line = *lines_.back();
    line.place = std::prev(lines_.end());
    epoll_event wanted{};
    wanted.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | static_cast<uint32_t>(EPOLLET);
    wanted.data.u64 = std::bit_cast<uint64_t>(&line);
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, line.socket.get(), &wanted) != 0) {
      lines_.pop_back();
      continue;
    }
    store_.counts.received.fetch_add(1);
    store_.common.connections.fetch_add(1, std::memory_order_relaxed);
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
  if (line.session.is_too_slow()) return end_slow(line);
  // What had no turn before goes first.
  if (!line.session.is_full()) line.session.take_kept();
  if (line.is_readable && line.session.takes_requests() && !line.session.is_full()) receive(line);
  if (line.has_ended) return;
  if (is_worth_waiting(line)) return call_up(line);
  send(line);
  if (line.has_ended) return;
  count_memory(line);
  if (line.has_ended) return;
  if (line.session.has_backlog()) watch_backlog(line);
  const size_t unsent = line.session.output().bytes();
  if (line.session.is_stranger() && unsent > redis::Session::kUnsentMaxUnproven) return end(line);
  if (line.session.is_stranger() && line.counted_bytes > redis::Session::kHeldMaxUnproven) return end(line);
  const bool is_all_sent = unsent == 0;
  if (line.session.is_ending() && is_all_sent) return end(line);
  // More has come, or was left: another turn, behind the others'.
  const bool may_go_on = line.session.takes_requests() && !line.session.is_full();
  if (may_go_on && line.is_readable) call_up(line);
}

// Replies of one pipeline come one by one, within microseconds. A send for each would cost more than all
// else.
bool Sockets::is_worth_waiting(Line& line) noexcept {
  const size_t bytes = line.session.output().bytes();
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
  const std::span<char> long_room = line.session.long_room();
  const std::span<char> room =
      long_room.empty() ? std::span(received_) : long_room.first(std::min(long_room.size(), kLongBytesATurn));
  const ssize_t count = ::recv(line.socket.get(), room.data(), room.size(), MSG_DONTWAIT);
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
  line.is_readable = bytes == room.size() || line.has_hung_up;
  store_.counts.bytes_in.fetch_add(bytes);
  // What was published before these bytes were sent is heard before they are replied to.
  store_.common.board.take_mail_if_any(store_.place);
  if (long_room.empty()) {
    line.session.take({received_.data(), bytes});
  } else {
    line.session.long_room_filled(bytes);
  }
}

void Sockets::send(Line& line) {
  redis::Replies& output = line.session.output();
  if (output.is_empty()) return;
  const bool was_full = line.session.is_full();
  std::array<iovec, kPiecesASend> pieces;
  size_t budget = kSentBytesATurn;
  while (line.is_writable && !output.is_empty() && budget > 0) {
    const msghdr message{.msg_name = nullptr,
                         .msg_namelen = 0,
                         .msg_iov = pieces.data(),
                         .msg_iovlen = output.gather(pieces, budget),
                         .msg_control = nullptr,
                         .msg_controllen = 0,
                         .msg_flags = 0};
    const ssize_t count = ::sendmsg(line.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      output.sent(static_cast<size_t>(count));
      budget -= static_cast<size_t>(count);
      line.read_bytes += static_cast<size_t>(count);
      if (line.pinned_since_ns != 0 && line.read_bytes >= kReadBytes) {
        line.pinned_since_ns = shard_.now_ns();
        line.read_bytes = 0;
      }
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      line.is_writable = false;
    } else if (errno != EINTR) {
      return end(line);
    }
  }
  if (budget < kSentBytesATurn) {
    store_.counts.bytes_out.fetch_add(kSentBytesATurn - budget);
  }
  if (!output.is_empty()) {
    if (output.pinned() > 0) watch_pins(line);
    if (output.bytes() < redis::Session::kUnsentMax) line.session.output_was_sent();
    if (budget == 0 || (was_full && !line.session.is_full())) call_up(line);
    return;
  }
  // What waited for room continues.
  line.session.output_was_sent();
  if (was_full || !output.is_empty()) call_up(line);
}

void Sockets::count_memory(Line& line) {
  const size_t bytes = line.session.held_bytes();
  held_bytes_ += bytes - std::exchange(line.counted_bytes, bytes);
  const size_t shared = line.session.output().shared_bytes();
  held_shared_ += shared - std::exchange(line.counted_shared, shared);
  while (all_held_bytes() > kHeldBytesMaxOfAll && end_largest()) {
  }
}

// What several hold is there once.
size_t Sockets::all_held_bytes() const noexcept {
  return held_bytes_ + std::min(held_shared_, store_.common.board.shared_bytes());
}

// False: what is held is under way, of connections that have ended.
bool Sockets::end_largest() noexcept {
  // One that has not proven itself goes before all that have, and one that is to be kept behind all.
  const auto largest = std::ranges::max_element(lines_, {}, [](const auto& line) {
    const size_t bytes = line->has_ended ? 0 : line->counted_bytes + line->counted_shared;
    return std::tuple(bytes > 0 && line->session.is_stranger(), bytes > 0 && !line->session.is_kept_longest(),
                      bytes);
  });
  if (largest == lines_.end() || (*largest)->has_ended) return false;
  const size_t bytes = (*largest)->counted_bytes + (*largest)->counted_shared;
  if (bytes == 0) return false;
  log_warn("the doors end the connection of {}: those of this thread hold {} bytes, and it holds {}",
           (*largest)->session.peer(), all_held_bytes(), bytes);
  store_.counts.evicted.fetch_add(1);
  end(**largest);
  return true;
}

void Sockets::watch_pins(Line& line) {
  if (line.pinned_since_ns != 0) return;
  line.pinned_since_ns = shard_.now_ns();
  line.read_bytes = 0;
  pinning_.push_back(&line);
  if (!std::exchange(is_watching_, true)) shard_.spawn(watch(*this));
}

runtime::Task<> Sockets::watch(Sockets& sockets) {
  while (!sockets.pinning_.empty()) {
    co_await sockets.shard_.sleep_for(kPinsLook_ns);
    size_t copied = 0;
    std::erase_if(sockets.pinning_, [&](Line* line) {
      const bool is_over = line->session.output().pinned() == 0;
      const bool is_late = sockets.shard_.now_ns() - line->pinned_since_ns >= kPinned_ns;
      if (!is_over && (!is_late || copied >= kCopiedBytesALook)) return false;
      line->pinned_since_ns = 0;
      copied += is_over ? 0 : line->session.output().bytes();
      line->session.copy_pinned();
      sockets.call_up(*line);
      return true;
    });
  }
  sockets.is_watching_ = false;
}

// Also where no further message comes.
void Sockets::watch_backlog(Line& line) {
  if (std::exchange(line.is_watched, true)) return;
  backlogs_.push_back(&line);
  if (!std::exchange(is_watching_backlogs_, true)) shard_.spawn(watch_backlogs(*this));
}

runtime::Task<> Sockets::watch_backlogs(Sockets& sockets) {
  while (!sockets.backlogs_.empty()) {
    co_await sockets.shard_.sleep_for(kBacklogsLook_ns);
    std::erase_if(sockets.backlogs_, [&](Line* line) {
      line->is_watched = line->session.has_backlog() && !line->session.is_too_slow();
      if (line->session.is_too_slow()) sockets.call_up(*line);
      return !line->is_watched;
    });
  }
  sockets.is_watching_backlogs_ = false;
}

void Sockets::end_slow(Line& line) noexcept {
  log_warn("the doors end the connection of {}: it does not read, and {} bytes of messages wait for it",
           line.session.peer(), line.session.output().bytes());
  end(line);
}

void Sockets::end(Line& line) noexcept {
  if (std::exchange(line.has_ended, true)) return;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, line.socket.get(), nullptr);
  line.socket = Descriptor();
  line.session.forget();
  ended_.push_back(&line);
  is_leaving_ = is_leaving_ || line.session.is_subscribed();
  if (std::exchange(line.pinned_since_ns, 0) != 0) std::erase(pinning_, &line);
  if (std::exchange(line.is_watched, false)) std::erase(backlogs_, &line);
  // What is under way is still held.
  const size_t bytes = line.session.held_bytes();
  held_bytes_ += bytes - std::exchange(line.counted_bytes, bytes);
  held_shared_ -= std::exchange(line.counted_shared, 0);
  store_.common.connections.fetch_sub(1, std::memory_order_relaxed);
  std::erase(ready_, &line);
}

// Not in the turn in which a command of theirs has ended.
void Sockets::bury() {
  is_leaving_ = false;
  std::erase_if(ended_, [this](Line* line) {
    const bool has_left_all = store_.common.board.leave_some(store_.place, line->session);
    is_leaving_ = is_leaving_ || !has_left_all;
    if (!has_left_all || !line->session.is_idle()) return false;
    held_bytes_ -= line->counted_bytes;
    lines_.erase(line->place);
    return true;
  });
}

}  // namespace refract::doors
