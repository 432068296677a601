// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/hub.h"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include "refract/base/prng.h"
#include "refract/fabric/tcp/connection.h"

namespace refract::fabric::tcp {
namespace {

// So many turns of events are taken before a sleep is put off.
constexpr int kEventTurnsMax = 64;

}  // namespace

Hub::Hub(bool is_accepted, uint64_t output_bytes_max)
    : accepted(is_accepted), output_bytes_max_(output_bytes_max), completed_(kCompletionsMax) {}

Reported<> Hub::open() {
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  wake_descriptors_[0] = epoll_.get();
  if (epoll_) return {};
  return report(Code::kSystem, fmt::format("cannot make an epoll descriptor: {}", errno_text(errno)),
                "raise the limit on open files (ulimit -n)");
}

bool Hub::watch(int fd, uint64_t word) noexcept {
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | static_cast<uint32_t>(EPOLLET);
  wanted.data.u64 = word;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted) == 0;
}

bool Hub::watch(int fd, Connection& connection) noexcept {
  return watch(fd, std::bit_cast<uint64_t>(&connection));
}

// Closing is not enough: a fork of this process may hold a copy, whose events would continue to be reported.
void Hub::unwatch(int fd) noexcept {
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Hub::make_room_for(size_t connections) {
  connections_ = connections;
  // By doubling, since this is asked for one connection at a time.
  for (auto* list : {&to_flush_, &active_, &delivered_, &moving_}) {
    if (list->capacity() < connections) list->reserve(std::max(connections, 2 * list->capacity()));
  }
}

size_t Hub::drain(std::span<Completion> completions) noexcept {
  size_t count = 0;
  while (count < completions.size() && completed_head_ != completed_tail_) {
    completions[count++] = completed_[completed_head_++ % kCompletionsMax];
  }
  return count;
}

void Hub::release_delivered() noexcept {
  for (Connection* connection : delivered_) connection->turn_began();
  delivered_.clear();
}

size_t Hub::poll(std::span<Completion> completions) noexcept {
  completions = completions.first(std::min(completions.size(), kCompletionsATurn));
  release_delivered();
  if (has_dead()) [[unlikely]]
    destroy_closed();
  const bool ask = active_.empty() || active_.size() > kDirectMax || blocked_ > 0 || is_opening();
  if (polls_until_events_ == 0 || ask) {
    polls_until_events_ = connections_ > active_.size() ? kPollsBetweenOthers : kPollsBetweenEvents;
    (void)hear_events();
    if (!ask && polls_awake_ >= kPollsUntilUnwatched) unwatch_busy();
  } else {
    --polls_until_events_;
  }
  ++polls_awake_;
  size_t count = drain(completions);
  // What is done must come out before the kClosed of its channel.
  if (!is_drained()) return count;
  count += poll_active(completions.subspan(count));
  // Mostly it was an active connection that woke us, and has been read already.
  if (std::exchange(woken_, false) && count == 0 && hear_events() > 0) count = poll_active(completions);
  return count;
}

void Hub::watch_all() noexcept {
  if (unwatched_ == 0) return;
  for (Connection* connection : active_) connection->watch_again();
}

void Hub::unwatch_busy() noexcept {
  for (Connection* connection : active_) connection->unwatch_if_busy();
}

// In the order in which they became active; one that had its turn and stays stands behind all others. So none
// waits for more turns than there are others, however many come in meanwhile.
size_t Hub::poll_active(std::span<Completion> completions) noexcept {
  using Phase = Connection::Phase;
  size_t count = 0;
  const size_t before = active_.size();
  const bool direct = before <= kDirectMax;
  if (!direct) watch_all();
  size_t looked = 0;
  size_t kept = 0;
  for (; looked < before && count < completions.size(); ++looked) {
    Connection& connection = *active_[looked];
    count += connection.poll(completions.subspan(count), direct);
    const bool has_ended = connection.phase() == Phase::kDead || connection.phase() == Phase::kWaiting;
    const uint32_t idle_max = direct ? kIdlePollsMax : 0;
    if (!has_ended && (connection.idle_polls() <= idle_max || connection.has_work())) {
      active_[kept++] = &connection;
      continue;
    }
    if (!has_ended) connection.watch_again();
    connection.set_active(false);
    if (has_ended) ended(connection);
  }
  // All stay, and in their order.
  if (kept == active_.size()) return count;
  const auto begin = active_.begin();
  active_.erase(begin + static_cast<ptrdiff_t>(kept), begin + static_cast<ptrdiff_t>(looked));
  std::rotate(active_.begin(), active_.begin() + static_cast<ptrdiff_t>(kept), active_.end());
  return count;
}

int Hub::hear_events() noexcept {
  std::array<epoll_event, kEventsATurn> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsATurn, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t word = events[static_cast<size_t>(i)].data.u64;  // A copy: the struct is packed.
    const uint32_t what = events[static_cast<size_t>(i)].events;
    if (word == kBell || word == kTimer) {
      heard(word);
    } else {
      std::bit_cast<Connection*>(word)->hear(what);
    }
  }
  if (count == kEventsATurn) polls_until_events_ = 0;
  return count;
}

void Hub::flush() noexcept {
  for (Connection* connection : to_flush_) connection->end_turn();
  to_flush_.clear();
}

bool Hub::prepare_sleep() noexcept {
  flush();
  polls_awake_ = 0;
  // A connection that has something by now has an event at once.
  watch_all();
  // All events, so that the next one is a new edge for the watcher of the epoll descriptor.
  int turns = 0;
  while (hear_events() == kEventsATurn) {
    if (++turns == kEventTurnsMax) return false;
  }
  if (!is_drained() || has_dead() || !to_flush_.empty()) return false;
  return std::ranges::none_of(active_, [](const Connection* each) { return each->has_work(); });
}

void Hub::activate(Connection& connection) noexcept {
  connection.begin_activity();
  if (connection.is_active()) return;
  connection.set_active(true);
  active_.push_back(&connection);
}

void Hub::forget(Connection& connection) noexcept {
  connections_ -= connections_ > 0 ? 1 : 0;
  std::erase(active_, &connection);
  std::erase(to_flush_, &connection);
  std::erase(delivered_, &connection);
  std::erase(moving_, &connection);
  connection.set_active(false);
}

uint64_t Hub::revoke(uint16_t region) noexcept {
  const uint64_t written_bytes = regions.remove(region);
  std::erase_if(moving_, [region](Connection* each) { return !each->revoke(region); });
  return written_bytes;
}

Reported<> TcpDomain::serve_region(const RegionSpec& spec, RemoteKey key) {
  return hub_.regions.add(spec, key);
}
const DomainCounters& TcpDomain::counters() const noexcept {
  return hub_.counters;
}
uint64_t TcpDomain::pending_bytes() const noexcept {
  return hub_.blocks.taken() * kBlockBytes;
}
size_t TcpDomain::poll(std::span<Completion> completions) noexcept {
  return hub_.poll(completions);
}
void TcpDomain::flush() noexcept {
  hub_.flush();
}
Reported<RemoteKey> TcpDomain::register_region(const RegionSpec& spec) {
  const RemoteKey key{std::max<uint64_t>(secure_random_u64(), 1)};
  if (auto added = serve_region(spec, key); !added) return report(added.error());
  return key;
}
uint64_t TcpDomain::revoke_region(uint16_t region) noexcept {
  return hub_.revoke(region);
}
bool TcpDomain::prepare_sleep() noexcept {
  return hub_.prepare_sleep();
}
void TcpDomain::woke() noexcept {
  hub_.woke();
}
std::span<const int> TcpDomain::wake_descriptors() const noexcept {
  return hub_.wake_descriptors();
}

}  // namespace refract::fabric::tcp
