// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/shm/attach.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/shm/doorbell.h"
#include "refract/fabric/shm/link.h"
#include "refract/fabric/shm/loan.h"

namespace refract::fabric::shm {
namespace {

// The sockets tell of a keeper that died, and of bells, which are of interest only when sleeping.
constexpr uint32_t kPollsBetweenSockets = 1024;
// What was completed without the peer is given out alone, so that a READ does not pay for a look at every
// ring; but a caller that READs all the time gets messages, too.
constexpr uint32_t kPollsBetweenLinks = 16;
constexpr int kEventsATurn = 64;
constexpr int kRefreshWait_ms = 100;
constexpr uint64_t kControlBit = uint64_t{1} << 63;  // In an epoll event's word, beside the link's number.

bool is_up(ServerState state) noexcept {
  return state != ServerState::kRestarting && state != ServerState::kGivenUp;
}

// A region that servers may map.
struct Lent {
  uint64_t number;  // Raised for each.
  LendFrame frame;
  Descriptor file;  // Ours: the region's owner may close its own first.
};

class ClientLink final : public Link {
 public:
  ClientLink(Hub& hub, uint64_t number, std::string path, const ClientOptions& options)
      : Link(hub), number_(number), attachment_(std::move(path), options) {}

  [[nodiscard]] uint64_t number() const noexcept { return number_; }
  [[nodiscard]] ClientAttachment& attachment() noexcept { return attachment_; }
  [[nodiscard]] const ClientAttachment& attachment() const noexcept { return attachment_; }
  [[nodiscard]] PinWriter& pins() noexcept { return pins_; }
  [[nodiscard]] WidePins& wide_pins() noexcept { return wide_pins_; }
  [[nodiscard]] UseWriter& uses() noexcept { return uses_; }

  // Resets both rings for the server that runs now.
  void open_rings() noexcept {
    ConnectionMemory& at = attachment_.memory();
    served_ = incarnation(attachment_.node_page());
    // The server begins only after the last line, so until then everything here is ours, also what it writes.
    publish_u64(at.requests, 0);
    publish_u64(at.replies, 0);
    publish_u64(&at.client.reply_consumed, 0);
    publish_u64(&at.client.wants_room, 0);
    publish_u64(&at.server.request_consumed, 0);
    publish_u64(&at.server.parked, 0);
    publish_u64(&at.server.wants_room, 0);
    start({.out_ring = at.requests,
           .in_ring = at.replies,
           .own_consumed = &at.client.reply_consumed,
           .own_wants_room = &at.client.wants_room,
           .peer_consumed = &at.server.request_consumed,
           .peer_wants_room = &at.server.wants_room});
    announce_u64(&at.client.ring_incarnation, served_);
    ring(attachment_.doorbell());
    lent_ = described_ = 0;
  }

  [[nodiscard]] bool has_lent(uint64_t number) const noexcept { return lent_ >= number; }
  // What the server does not have yet, as far as there is room.
  void lend(std::span<const Lent> all) noexcept {
    if (!knows_lending()) return;
    for (const Lent& one : all) {
      if (one.number <= lent_) continue;
      const std::byte bell{1};
      if (one.number > described_ &&
          !send_message(attachment_.doorbell(), std::span(&bell, 1), std::array{one.file.get()})) {
        return;
      }
      described_ = one.number;
      if (!post_frame(FrameKind::kLend, std::as_bytes(std::span(&one.frame, 1)))) return;
      lent_ = one.number;
    }
  }
  // Where there is no room for saying so, the server keeps it until the number is used again.
  void take_back(const Lent& one) noexcept {
    const TakeBackFrame frame{one.frame.region};
    if (lent_ >= one.number) (void)post_frame(FrameKind::kTakeBack, std::as_bytes(std::span(&frame, 1)));
  }
  void take_pages() noexcept {
    pins_ = PinWriter(&attachment_.memory().pins);
    wide_pins_ = WidePins(
        pins_, {.tables = attachment_.further_pin_tables(),
                .in_use = &attachment_.memory().client.pin_tables,
                .take = [](PinTable& table) noexcept { return shm::take_pages(&table, sizeof(table)); }});
    uses_ = UseWriter(&attachment_.memory().uses);
  }

  // Is the server the one that the rings were reset for, and alive?
  void look_at_server() noexcept {
    const NodePage& page = attachment_.node_page();
    const bool same = incarnation(page) == served_ && is_up(server_state(page));
    if (phase() == Phase::kWaiting) {
      if (incarnation(page) != served_ && server_state(page) == ServerState::kServing) open_rings();
    } else if (!same && (phase() == Phase::kOpen || phase() == Phase::kOpening)) {
      server_lost_ = true;
      lose_peer();
    }
  }
  // The keeper, and so the node, is gone.
  void node_ended() noexcept {
    node_gone_ = true;
    if (phase() == Phase::kUnborn) return refuse();
    if (phase() == Phase::kOpen || phase() == Phase::kOpening) return lose_peer();
    begin_closing(false);
  }
  // The server hung up on us alone.
  void server_hung_up() noexcept {
    if (phase() == Phase::kOpen || phase() == Phase::kOpening) {
      lose_peer();
    } else {
      begin_closing(false);
    }
  }

  void close() noexcept override {
    say_goodbye();
    if (phase() == Phase::kUnborn) {
      refused_ = true;
      return;
    }
    begin_closing(false);
  }
  // kOpened with a failure is due.
  void refuse() noexcept { refused_ = true; }
  void begin_dying() noexcept { begin_closing(false); }
  [[nodiscard]] bool is_refused() const noexcept { return refused_ && phase() == Phase::kUnborn; }
  // In a handshake: the keeper has not said all yet, and will be heard when it does.
  [[nodiscard]] bool is_waiting_for_keeper() const noexcept {
    return control_watched && !refused_ && !attachment_.complete();
  }

  bool control_watched = false;

  [[nodiscard]] LocalView local_view() const noexcept override {
    return {attachment_.space(), attachment_.mapped_bytes()};
  }
  [[nodiscard]] bool refresh_local_view() noexcept override {
    const uint64_t before = attachment_.mapped_bytes();
    if (!attachment_.ask_for_regions()) return false;
    pollfd control{.fd = attachment_.control(), .events = POLLIN, .revents = 0};
    for (int turn = 0; turn < 2 && attachment_.has_unmapped_regions(); ++turn) {
      (void)::poll(&control, 1, kRefreshWait_ms);
      if (attachment_.step() != ClientAttachment::Progress::kEnded) continue;
      node_ended();
      break;
    }
    return attachment_.mapped_bytes() > before;
  }

  void ring_if_asleep() noexcept override {
    if (observe_u64(&attachment_.node_page().asleep) == 0 &&
        observe_u64(&attachment_.memory().server.parked) == 0) {
      return;
    }
    ++hub().counters.doorbells_rung;
    ring(attachment_.doorbell());
  }

 private:
  [[nodiscard]] const std::byte* locally_mapped(const RemoteSpan& remote,
                                                uint64_t bytes) const noexcept override {
    return attachment_.find(remote.address, remote.key, bytes);
  }
  [[nodiscard]] bool knows_lending() const noexcept override {
    return attachment_.version() >= kWireVersionOfLoans;
  }
  void peer_ended() noexcept override {
    begin_closing(server_lost_ && !node_gone_);
    server_lost_ = false;
  }

  uint64_t number_;
  ClientAttachment attachment_;
  PinWriter pins_;
  WidePins wide_pins_;
  UseWriter uses_;
  uint64_t served_ = 0;
  uint64_t lent_ = 0;       // The last one of which the server was told,
  uint64_t described_ = 0;  // and whose descriptor was sent.
  bool server_lost_ = false;
  bool node_gone_ = false;
  bool refused_ = false;
};

const ClientLink& as_link(const Channel& channel) noexcept {
  return static_cast<const ClientLink&>(channel);
}

}  // namespace

struct ClientDomain::State {
  ClientOptions options;
  Hub hub{/*is_server=*/false};
  Descriptor epoll;
  std::array<int, 1> wake_descriptors{-1};
  std::vector<std::unique_ptr<ClientLink>> links;
  std::vector<Lent> lent;
  uint64_t last_lent = 0;
  std::vector<ClientLink*> dead;  // Their last completion was given out in the poll before.
  Report last_refusal{Code::kOk, "", ""};
  uint64_t next_number = 1;
  size_t first = 0;
  uint32_t polls_until_sockets = 0;
  uint32_t polls_until_links = 0;

  bool watch(int fd, uint64_t word) noexcept;
  void destroy_closed() noexcept;
  void hear_sockets() noexcept;
  void hear(ClientLink& link, bool control) noexcept;
  void shake_hands(ClientLink& link);
  void watch_control(ClientLink& link) noexcept;
  void end(ClientLink& link) noexcept;
  [[nodiscard]] Reported<> lend(const Domain::RegionSpec& spec, RemoteKey key);
  [[nodiscard]] size_t poll_link(ClientLink& link, std::span<Completion> completions) noexcept;
};

Reported<std::unique_ptr<ClientDomain>> ClientDomain::create(const ClientOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->epoll = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!state->epoll) {
    return report(Code::kSystem, fmt::format("cannot make an epoll descriptor: {}", errno_text(errno)));
  }
  state->wake_descriptors[0] = state->epoll.get();
  return std::unique_ptr<ClientDomain>(new ClientDomain(std::move(state)));
}

ClientDomain::ClientDomain(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
ClientDomain::~ClientDomain() {
  for (const auto& link : state_->links) link->attachment().end();
}

bool ClientDomain::State::watch(int fd, uint64_t word) noexcept {
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLRDHUP;
  wanted.data.u64 = word;
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &wanted) == 0;
}

Reported<Channel*> ClientDomain::connect(std::string_view address) {
  State& state = *state_;
  auto link = std::make_unique<ClientLink>(state.hub, state.next_number, std::string(address), state.options);
  if (auto begun = link->attachment().begin(); !begun) {
    state.last_refusal = begun.error();
    return report(begun.error());
  }
  ++state.next_number;
  state.links.push_back(std::move(link));
  state.hub.to_ring.reserve(state.links.size());
  state.dead.reserve(state.links.size());
  state.watch_control(*state.links.back());
  return state.links.back().get();
}

const Report& ClientDomain::last_refusal() const noexcept {
  return state_->last_refusal;
}
const NodePage* ClientDomain::node_page(const Channel& channel) const noexcept {
  return &as_link(channel).attachment().node_page();
}
std::span<const OfferedRegion> ClientDomain::regions(const Channel& channel) const noexcept {
  return as_link(channel).attachment().regions();
}
PinWriter& ClientDomain::pins(Channel& channel) noexcept {
  return static_cast<ClientLink&>(channel).pins();
}
WidePins& ClientDomain::wide_pins(Channel& channel) noexcept {
  return static_cast<ClientLink&>(channel).wide_pins();
}
UseWriter& ClientDomain::uses(Channel& channel) noexcept {
  return static_cast<ClientLink&>(channel).uses();
}
uint64_t ClientDomain::connection_id(const Channel& channel) const noexcept {
  return as_link(channel).attachment().id();
}
const DomainCounters& ClientDomain::counters() const noexcept {
  return state_->hub.counters;
}

Reported<RemoteKey> ClientDomain::register_region(const RegionSpec& spec) {
  const RemoteKey key{std::max<uint64_t>(secure_random_u64(), 1)};
  if (auto added = state_->hub.regions.add(spec, key); !added) return report(added.error());
  if (spec.lent_file >= 0) {
    if (auto lent = state_->lend(spec, key); !lent) {
      (void)state_->hub.regions.remove(spec.region);
      return report(lent.error());
    }
  }
  return key;
}

Reported<> ClientDomain::State::lend(const Domain::RegionSpec& spec, RemoteKey key) {
  struct stat status{};
  if (spec.region < kLentRegionFirst || !is_lendable(spec.lent_file, spec.bytes) ||
      ::fstat(spec.lent_file, &status) != 0) {
    return report(Code::kInvalidArgument, fmt::format("region {} cannot be lent as a file", spec.region));
  }
  Descriptor file(::fcntl(spec.lent_file, F_DUPFD_CLOEXEC, 0));
  if (!file)
    return report(Code::kSystem, fmt::format("cannot duplicate a descriptor: {}", errno_text(errno)));
  lent.push_back(
      {.number = ++last_lent,
       .frame = {.region = spec.region, .key = key.bits, .bytes = spec.bytes, .inode = status.st_ino},
       .file = std::move(file)});
  for (const auto& link : links) link->lend(lent);
  return {};
}

uint64_t ClientDomain::revoke_region(uint16_t region) noexcept {
  std::erase_if(state_->lent, [&](const Lent& one) {
    if (one.frame.region != region) return false;
    for (const auto& link : state_->links) link->take_back(one);
    return true;
  });
  return state_->hub.regions.remove(region);
}

size_t ClientDomain::poll(std::span<Completion> completions) noexcept {
  State& state = *state_;
  if (!state.dead.empty()) [[unlikely]]
    state.destroy_closed();
  if (state.polls_until_sockets == 0) [[unlikely]] {
    state.hear_sockets();
  } else {
    --state.polls_until_sockets;
  }
  size_t count = state.hub.drain(completions);
  // What is done must come out before the kClosed of its channel.
  if (!state.hub.drained()) return count;
  if (count > 0 && state.polls_until_links > 0) {
    --state.polls_until_links;
    return count;
  }
  state.polls_until_links = kPollsBetweenLinks;
  const size_t links = state.links.size();
  if (state.first >= links) state.first = 0;
  size_t at = state.first++;
  for (size_t looked = 0; looked < links && count < completions.size(); ++looked, ++at) {
    if (at >= links) at = 0;
    count += state.poll_link(*state.links[at], completions.subspan(count));
  }
  return count;
}

size_t ClientDomain::State::poll_link(ClientLink& link, std::span<Completion> completions) noexcept {
  if (link.phase() == Link::Phase::kUnborn) [[unlikely]] {
    if (!link.is_refused()) shake_hands(link);
    if (link.is_refused()) {
      completions[0] = {.channel = &link, .bytes = {}, .op = Op::kOpened, .code = Code::kUnavailable};
      link.begin_dying();
      end(link);
      return 1;
    }
    if (link.phase() == Link::Phase::kUnborn) return 0;
  }
  if (link.phase() == Link::Phase::kDead) return 0;
  link.look_at_server();
  if (!link.has_lent(last_lent)) [[unlikely]]
    link.lend(lent);
  const size_t count = link.poll(completions);
  if (link.phase() == Link::Phase::kDead) end(link);
  return count;
}

void ClientDomain::State::watch_control(ClientLink& link) noexcept {
  const int control = link.attachment().control();
  if (link.control_watched || control < 0) return;
  link.control_watched = watch(control, link.number() | kControlBit);
}

void ClientDomain::State::shake_hands(ClientLink& link) {
  ClientAttachment& attachment = link.attachment();
  const bool ended = attachment.step() == ClientAttachment::Progress::kEnded;
  watch_control(link);
  if (!ended && !attachment.complete()) return;
  if (ended || !link.control_watched || !watch(attachment.doorbell(), link.number())) {
    last_refusal = attachment.failure();
    return link.refuse();
  }
  link.take_pages();
  link.open_rings();
}

// Copies of the sockets in a fork of this process would otherwise continue to be reported.
void ClientDomain::State::end(ClientLink& link) noexcept {
  for (const int fd : {link.attachment().control(), link.attachment().doorbell()}) {
    if (fd >= 0) (void)::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
  link.attachment().end();
  dead.push_back(&link);
}

void ClientDomain::State::destroy_closed() noexcept {
  for (ClientLink* link : dead) {
    std::erase(hub.to_ring, link);
    std::erase_if(links, [link](const auto& each) { return each.get() == link; });
  }
  dead.clear();
}

void ClientDomain::State::hear_sockets() noexcept {
  polls_until_sockets = kPollsBetweenSockets;
  std::array<epoll_event, kEventsATurn> events;
  const int count = ::epoll_wait(epoll.get(), events.data(), kEventsATurn, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t word = events[static_cast<size_t>(i)].data.u64;
    const auto found = std::ranges::find_if(
        links, [word](const auto& link) { return link->number() == (word & ~kControlBit); });
    if (found != links.end()) hear(**found, (word & kControlBit) != 0);
  }
}

void ClientDomain::State::hear(ClientLink& link, bool control) noexcept {
  ClientAttachment& attachment = link.attachment();
  if (control && attachment.control() >= 0) {
    if (attachment.step() != ClientAttachment::Progress::kEnded) return;
    (void)::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, attachment.control(), nullptr);
    last_refusal = attachment.failure();
    link.node_ended();
  } else if (!control && attachment.doorbell() >= 0) {
    ++hub.counters.doorbells_heard;
    if (drain_doorbell(attachment.doorbell())) return;
    (void)::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, attachment.doorbell(), nullptr);
    last_refusal = {Code::kUnavailable, "the node closed the connection", "connect again"};
    link.server_hung_up();
  }
}

void ClientDomain::flush() noexcept {
  flush_links(state_->hub);
}

bool ClientDomain::prepare_sleep() noexcept {
  State& state = *state_;
  flush_links(state.hub);
  for (const auto& link : state.links) {
    const Link::Phase phase = link->phase();
    if (phase != Link::Phase::kUnborn && phase != Link::Phase::kDead)
      announce_u64(&link->attachment().memory().client.asleep, 1);
  }
  state.hear_sockets();
  if (!state.hub.drained() || !state.dead.empty()) return false;
  for (const auto& link : state.links) {
    if (link->phase() == Link::Phase::kUnborn) {
      if (!link->is_waiting_for_keeper()) return false;
      continue;
    }
    link->look_at_server();
    if (link->has_work()) return false;
  }
  return true;
}

void ClientDomain::woke() noexcept {
  State& state = *state_;
  for (const auto& link : state.links) {
    if (link->phase() != Link::Phase::kUnborn && link->phase() != Link::Phase::kDead) {
      publish_u64(&link->attachment().memory().client.asleep, 0);
    }
  }
  state.polls_until_sockets = 0;
}

std::span<const int> ClientDomain::wake_descriptors() const noexcept {
  return state_->wake_descriptors;
}

}  // namespace refract::fabric::shm
