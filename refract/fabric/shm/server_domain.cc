// SPDX-License-Identifier: Apache-2.0
// The server's end. Connections that are used stand in the active list, whose rings every poll looks at;
// those that were idle for long are parked: their clients see a word that asks them to ring the doorbell, and
// an epoll descriptor says whose bell rang. So ten thousand idle connections cost nothing, and a request on a
// parked one is seen when the bells are next heard: at once when the server sleeps, within kPollsBetweenBells
// while it spins.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/shm/connection_memory.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/doorbell.h"
#include "refract/fabric/shm/link.h"
#include "refract/fabric/shm/loan.h"

namespace refract::fabric::shm {
namespace {

// So many connections are looked at in every poll however idle they are; more are parked when idle for so
// long.
constexpr size_t kNeverParked = 16;
constexpr uint32_t kIdlePollsMax = 2048;
// Hearing the bells is a system call. Without parked connections it only finds hang-ups and newcomers.
constexpr uint32_t kPollsBetweenBells = 64;
constexpr uint32_t kPollsBetweenBellsUnparked = 512;
constexpr int kBellsATurn = 64;
constexpr int kBellTurnsMax = 256;

class ServerLink final : public Link {
 public:
  ServerLink(Hub& hub, LoanAccount& loans, uint64_t id, Mapping memory, Descriptor doorbell) noexcept
      : Link(hub), id_(id), loans_(loans), memory_(std::move(memory)), doorbell_(std::move(doorbell)) {}

  [[nodiscard]] uint64_t id() const noexcept { return id_; }
  [[nodiscard]] int doorbell() const noexcept { return doorbell_.get(); }
  void collect_pins(PinSet& pins) const noexcept {
    shm::collect_pins(layout(), pin_tables_in(memory_.bytes()), pins);
  }
  void collect_uses(std::vector<uint64_t>& hashes) { uses_.collect(layout().uses, hashes); }

  // kOpened is due once the client has reset its rings for this incarnation.
  void try_to_open(uint64_t incarnation) noexcept {
    ConnectionMemory& at = layout();
    if (phase() != Phase::kUnborn || observe_u64(&at.client.ring_incarnation) != incarnation) return;
    start({.out_ring = at.replies,
           .in_ring = at.requests,
           .own_consumed = &at.server.request_consumed,
           .own_wants_room = &at.server.wants_room,
           .peer_consumed = &at.client.reply_consumed,
           .peer_wants_room = &at.client.wants_room});
  }

  void close() noexcept override {
    say_goodbye();
    begin_closing(false);
  }
  // The client is gone: an unborn link dies at once.
  void client_left() noexcept {
    if (phase() == Phase::kUnborn) {
      set_phase(Phase::kDead);
    } else {
      lose_peer();
    }
  }

  void ring_if_asleep() noexcept override {
    if (observe_u64(&layout().client.asleep) == 0) return;
    ++hub().counters.doorbells_rung;
    ring(doorbell_.get());
  }

  // Asks the client to ring from now on, then looks again: false, something came meanwhile.
  [[nodiscard]] bool park() noexcept {
    announce_u64(&layout().server.parked, 1);
    if (!has_work()) return true;
    unpark();
    return false;
  }
  void unpark() noexcept { publish_u64(&layout().server.parked, 0); }

  // Takes what was rung, and lent. False: the other end is gone.
  [[nodiscard]] bool hear() noexcept { return loans_.hear(doorbell_.get()); }

  // Tells the client's end that nothing will come; its hang-up is heard as long as the keeper keeps the
  // socket.
  void cut() noexcept {
    if (doorbell_) (void)::shutdown(doorbell_.get(), SHUT_RDWR);
    doorbell_ = Descriptor();
  }

  uint32_t idle_polls = 0;
  bool active = false;

 private:
  [[nodiscard]] const std::byte* locally_mapped(const RemoteSpan& remote,
                                                uint64_t bytes) const noexcept override {
    return loans_.find(remote, bytes);
  }
  [[nodiscard]] bool take_loan(FrameKind kind, std::span<const std::byte> payload) noexcept override {
    return kind == FrameKind::kLend ? loans_.lend(payload, doorbell_.get()) : loans_.take_back(payload);
  }
  [[nodiscard]] ConnectionMemory& layout() const noexcept {
    return *reinterpret_cast<ConnectionMemory*>(memory_.data());
  }

  uint64_t id_;
  UseReader uses_;
  Loans loans_;
  Mapping memory_;
  Descriptor doorbell_;
};

}  // namespace

struct ServerDomain::State final : public PinSource, public UseSource {
  explicit State(const ServerOptions& options)
      : page(options.node_page), served(incarnation(*options.node_page)), loans{.limits = options.loans} {
    hub.copies = options.copies;
  }

  NodePage* page;
  uint64_t served;  // The incarnation of this server.
  LoanAccount loans;
  Hub hub{/*is_server=*/true};
  Descriptor epoll;
  std::array<int, 1> wake_descriptors{-1};
  std::unordered_map<uint64_t, std::unique_ptr<ServerLink>> links;
  std::vector<ServerLink*> active;
  std::vector<ServerLink*> dead;  // Their last completion was given out in the poll before.
  size_t first = 0;               // Where the next poll begins, for fairness.
  uint32_t polls_until_bells = 0;

  void collect(PinSet& pins) noexcept override;
  void collect_uses(std::vector<uint64_t>& hashes) override;
  void activate(ServerLink& link) noexcept;
  void hear_bells() noexcept;
  void hear(ServerLink& link) noexcept;
  void destroy_closed() noexcept;
  void retire(ServerLink& link) noexcept;
  [[nodiscard]] size_t poll_active(std::span<Completion> completions) noexcept;
  [[nodiscard]] bool keep_active(ServerLink& link, bool was_idle) noexcept;
};

Reported<std::unique_ptr<ServerDomain>> ServerDomain::create(const ServerOptions& options) {
  auto state = std::make_unique<State>(options);
  state->epoll = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!state->epoll) {
    return report(Code::kSystem, fmt::format("cannot make an epoll descriptor: {}", errno_text(errno)));
  }
  state->wake_descriptors[0] = state->epoll.get();
  publish_u64(&state->page->asleep, 0);
  publish_u64(&state->page->server_pid, static_cast<uint64_t>(::getpid()));
  return std::unique_ptr<ServerDomain>(new ServerDomain(std::move(state)));
}

ServerDomain::ServerDomain(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
ServerDomain::~ServerDomain() = default;

Reported<Channel*> ServerDomain::adopt(const Attachment& attachment) {
  State& state = *state_;
  if (state.links.contains(attachment.id)) {
    return report(Code::kInvalidArgument, fmt::format("connection {} is adopted already", attachment.id));
  }
  const uint64_t bytes = fixed_length(attachment.memory_fd);
  if (pin_tables_in(bytes) == 0) {
    return report(
        Code::kInvalidArgument,
        fmt::format("the memory of connection {} is not sealed or has a wrong length", attachment.id));
  }
  Descriptor doorbell(::fcntl(attachment.doorbell_fd, F_DUPFD_CLOEXEC, 0));
  if (!doorbell) {
    return report(Code::kSystem, fmt::format("cannot duplicate a doorbell: {}", errno_text(errno)));
  }
  auto memory = map_shared(attachment.memory_fd, bytes, /*writable=*/true, kConnectionBytes);
  if (!memory) return report(memory.error());
  auto made = std::make_unique<ServerLink>(state.hub, state.loans, attachment.id, std::move(*memory),
                                           std::move(doorbell));
  ServerLink& link = *made;
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLRDHUP;
  wanted.data.u64 = attachment.id;
  if (::epoll_ctl(state.epoll.get(), EPOLL_CTL_ADD, link.doorbell(), &wanted) != 0) {
    return report(Code::kSystem, fmt::format("cannot watch a doorbell: {}", errno_text(errno)));
  }
  state.links.emplace(attachment.id, std::move(made));
  // The data path does not allocate: whatever may hold all links has room for them from now on.
  state.hub.to_ring.reserve(state.links.size());
  state.active.reserve(state.links.size());
  state.dead.reserve(state.links.size());
  link.try_to_open(state.served);
  if (link.phase() != Link::Phase::kUnborn) state.activate(link);
  state.polls_until_bells = std::min(state.polls_until_bells, kPollsBetweenBells);
  return &link;
}

void ServerDomain::drop(uint64_t id) noexcept {
  const auto found = state_->links.find(id);
  if (found == state_->links.end()) return;
  found->second->client_left();
  state_->activate(*found->second);
}

void ServerDomain::start_serving() noexcept {
  publish_server_state(*state_->page, ServerState::kServing);
  for (const auto& [id, link] : state_->links) ring(link->doorbell());
}

size_t ServerDomain::connections() const noexcept {
  return state_->links.size();
}
uint64_t ServerDomain::connection_id(const Channel& channel) noexcept {
  return static_cast<const ServerLink&>(channel).id();
}
PinSource& ServerDomain::pins() noexcept {
  return *state_;
}
UseSource& ServerDomain::uses() noexcept {
  return *state_;
}
const DomainCounters& ServerDomain::counters() const noexcept {
  return state_->hub.counters;
}

Reported<> ServerDomain::serve_region(const RegionSpec& spec, RemoteKey key) {
  return state_->hub.regions.add(spec, key);
}

Reported<RemoteKey> ServerDomain::register_region(const RegionSpec& spec) {
  const RemoteKey key{std::max<uint64_t>(secure_random_u64(), 1)};
  if (auto added = state_->hub.regions.add(spec, key); !added) return report(added.error());
  return key;
}

uint64_t ServerDomain::revoke_region(uint16_t region) noexcept {
  return state_->hub.regions.remove(region);
}

Reported<Channel*> ServerDomain::connect(std::string_view address) {
  return report(Code::kUnsupported, fmt::format("the serving end cannot connect to {}", address),
                "connect with a ClientDomain");
}

size_t ServerDomain::poll(std::span<Completion> completions) noexcept {
  State& state = *state_;
  if (!state.dead.empty()) [[unlikely]]
    state.destroy_closed();
  if (state.polls_until_bells == 0) [[unlikely]] {
    state.hear_bells();
  } else {
    --state.polls_until_bells;
  }
  const size_t count = state.hub.drain(completions);
  // What is done must come out before the kClosed of its channel.
  if (!state.hub.drained()) return count;
  return count + state.poll_active(completions.subspan(count));
}

size_t ServerDomain::State::poll_active(std::span<Completion> completions) noexcept {
  size_t count = 0;
  const size_t links_now = active.size();
  if (first >= links_now) first = 0;
  size_t at = first++;
  for (size_t looked = 0; looked < links_now && count < completions.size(); ++looked) {
    if (at >= active.size()) at = 0;
    ServerLink& link = *active[at];
    const size_t got = link.poll(completions.subspan(count));
    count += got;
    if (keep_active(link, got == 0)) {
      ++at;
      continue;
    }
    link.active = false;
    active[at] = active.back();
    active.pop_back();
  }
  return count;
}

bool ServerDomain::State::keep_active(ServerLink& link, bool was_idle) noexcept {
  if (!was_idle) {
    link.idle_polls = 0;
  } else {
    ++link.idle_polls;
  }
  if (link.phase() == Link::Phase::kOpen) [[likely]] {
    if (link.idle_polls <= kIdlePollsMax || active.size() <= kNeverParked) return true;
    link.idle_polls = 0;
    return !link.park();
  }
  if (link.phase() == Link::Phase::kUnborn) return false;
  if (link.phase() != Link::Phase::kDead) return true;
  retire(link);
  return false;
}

void ServerDomain::State::retire(ServerLink& link) noexcept {
  // Other copies of the socket live on with the keeper, so that closing ours would not take it out of the
  // set.
  (void)::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, link.doorbell(), nullptr);
  link.cut();
  dead.push_back(&link);
}

void ServerDomain::State::destroy_closed() noexcept {
  for (ServerLink* link : dead) {
    std::erase(hub.to_ring, link);
    links.erase(link->id());
  }
  dead.clear();
}

void ServerDomain::State::activate(ServerLink& link) noexcept {
  link.idle_polls = 0;
  if (link.active || link.doorbell() < 0) return;
  if (link.phase() == Link::Phase::kOpen) link.unpark();
  link.active = true;
  active.push_back(&link);
}

void ServerDomain::State::hear_bells() noexcept {
  std::array<epoll_event, kBellsATurn> events;
  const int count = ::epoll_wait(epoll.get(), events.data(), kBellsATurn, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t id = events[static_cast<size_t>(i)].data.u64;  // A copy: the struct is packed.
    const auto found = links.find(id);
    if (found != links.end()) hear(*found->second);
  }
  polls_until_bells = active.size() < links.size() ? kPollsBetweenBells : kPollsBetweenBellsUnparked;
  if (count == kBellsATurn) polls_until_bells = 0;
}

void ServerDomain::State::hear(ServerLink& link) noexcept {
  ++hub.counters.doorbells_heard;
  if (!link.hear()) {
    (void)::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, link.doorbell(), nullptr);
    link.client_left();
  } else {
    link.try_to_open(served);
  }
  if (link.phase() != Link::Phase::kUnborn) activate(link);
}

void ServerDomain::flush() noexcept {
  flush_links(state_->hub);
}

bool ServerDomain::prepare_sleep() noexcept {
  State& state = *state_;
  flush_links(state.hub);
  announce_u64(&state.page->asleep, 1);
  // Drained bells, so that the next ring is a new edge for the watcher of the epoll descriptor.
  int turns = 0;
  do {
    state.hear_bells();
  } while (state.polls_until_bells == 0 && ++turns < kBellTurnsMax);
  if (state.polls_until_bells == 0) return false;
  if (!state.hub.drained() || !state.dead.empty()) return false;
  return std::ranges::none_of(state.active, [](ServerLink* link) { return link->has_work(); });
}

void ServerDomain::woke() noexcept {
  publish_u64(&state_->page->asleep, 0);
  state_->polls_until_bells = 0;
}

std::span<const int> ServerDomain::wake_descriptors() const noexcept {
  return state_->wake_descriptors;
}

void ServerDomain::State::collect(PinSet& pins) noexcept {
  store_load_fence();
  for (const auto& [id, link] : links) link->collect_pins(pins);
  pins.seal();
}

void ServerDomain::State::collect_uses(std::vector<uint64_t>& hashes) {
  for (const auto& [id, link] : links) link->collect_uses(hashes);
}

}  // namespace refract::fabric::shm
