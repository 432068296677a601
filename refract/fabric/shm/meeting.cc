// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/meeting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "refract/base/object_bytes.h"
#include "refract/base/prng.h"
#include "refract/fabric/shm/connection_memory.h"
#include "refract/fabric/shm/descriptors.h"
#include "refract/fabric/shm/listen.h"
#include "refract/fabric/shm/wire.h"

namespace refract::fabric::shm {
namespace {

constexpr uint64_t kListenerEvent = 0;
constexpr uint64_t kTimerEvent = 1;
constexpr uint64_t kFirstId = 16;
constexpr int kAcceptsATurn = 16;
constexpr int kMeetingEventsATurn = 64;
constexpr size_t kMessageBytesAtMost = 256;  // No client's message is longer.
// What an attached client may leave unread before it asks for more. Bounds the descriptors that are on their
// way: the kernel counts those against the sender's limit.
constexpr int kUnreadBytesMax = 4096;

void refuse(int socket, const Report& why) {
  Refused refused{};
  refused.head = head_of(MessageKind::kRefused);
  refused.code = static_cast<uint32_t>(why.code);
  const std::string text = why.next.empty() ? why.what : why.what + "\n" + why.next;
  std::memcpy(refused.text, text.data(), std::min(text.size(), sizeof(refused.text) - 1));
  (void)send_message(socket, object_bytes(refused));
}

Reported<Descriptor> make_epoll() {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (epoll) return epoll;
  return report(Code::kSystem, fmt::format("cannot make an epoll descriptor: {}", errno_text(errno)));
}

}  // namespace

struct Meeting::State {
  struct Client {
    Descriptor control;
    Descriptor memory;  // From here on only where attached.
    Descriptor doorbell;
    bool attached = false;
    uint64_t deadline_ns = 0;
    ucred who{};

    [[nodiscard]] Attachment attachment(uint64_t id) const noexcept {
      return {.id = id,
              .memory_fd = memory.get(),
              .doorbell_fd = doorbell.get(),
              .process = static_cast<uint32_t>(who.pid),
              .user = static_cast<uint32_t>(who.uid)};
    }
  };
  struct OfferedRow {
    RegionEntry entry;
    Descriptor read;
  };

  bool had_server = false;

  MeetingOptions options;
  Descriptor listener;
  Descriptor epoll;
  Descriptor timer;
  Descriptor spare;  // Given up for a moment to tell a client that there are no descriptors left.
  Descriptor page_read;
  Mapping page_mapping;
  NodePage* page = nullptr;
  dev_t socket_device = 0;
  ino_t socket_inode = 0;
  pid_t maker = 0;
  uint64_t next_id = kFirstId;
  std::map<uint64_t, Client> clients;  // By id, so that attachments() has an order.
  std::deque<uint64_t> pending;        // Without a Hello so far, and some that are gone; oldest first.
  size_t pending_count = 0;
  size_t attached_count = 0;
  std::vector<OfferedRow> regions;
  Counters counters;

  Reported<> make_page();
  bool watch(int fd, uint64_t event) noexcept;
  void accept_some() noexcept;
  bool accept_one() noexcept;
  void refuse_without_descriptors() noexcept;
  void arm_timer() noexcept;
  void expire(uint64_t now_ns) noexcept;
  void hear(uint64_t id) noexcept;
  void drop(uint64_t id, uint64_t* counter) noexcept;
  bool say_hello(uint64_t id, Client& client, const Hello& hello) noexcept;
  bool attach(uint64_t id, Client& client, uint16_t version) noexcept;
  bool send_regions(const Client& client, size_t first) noexcept;
  void drop_oldest_pending() noexcept;
};

Reported<> Meeting::State::make_page() {
  auto memory = make_memory("refract-node", kNodePageBytes);
  if (!memory) return report(memory.error());
  auto mapping = map_shared(memory->get(), kNodePageBytes, /*writable=*/true);
  if (!mapping) return report(mapping.error());
  // The mapping above stays writable, here and in forked servers; there will be no other.
  if (auto sealed = finish_seals(memory->get(), /*forbid_new_writers=*/true); !sealed) return sealed;
  auto read = read_only_descriptor(memory->get());
  if (!read) return report(read.error());
  page_mapping = std::move(*mapping);
  page_read = std::move(*read);
  page = reinterpret_cast<NodePage*>(page_mapping.data());
  publish_u64(&page->layout_version, kNodePageVersion);
  const bool is_given = options.identity != std::array<uint64_t, 2>{};
  for (size_t i = 0; i < options.identity.size(); ++i) {
    publish_u64(&page->identity[i], is_given ? options.identity[i] : secure_random_u64());
  }
  publish_u64(&page->shard_index, options.shard_index);
  publish_u64(&page->shard_count, options.shard_count);
  publish_u64(&page->tcp_port, options.tcp_port);
  publish_u64(&page->incarnation, 1);
  publish_u64(&page->space_bytes_max, options.space_bytes_max);
  publish_server_state(*page, ServerState::kStarting);
  publish_u64(&page->magic, kNodePageMagic);
  return {};
}

Reported<std::unique_ptr<Meeting>> Meeting::open(MeetingOptions options) {
  if (options.pin_tables == 0 || options.pin_tables > kPinTablesMax) {
    return report(Code::kInvalidArgument,
                  fmt::format("a connection cannot have {} tables of pins", options.pin_tables),
                  fmt::format("ask for 1 to {}", kPinTablesMax));
  }
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  if (auto made = state->make_page(); !made) return report(made.error());
  auto epoll = make_epoll();
  if (!epoll) return report(epoll.error());
  state->epoll = std::move(*epoll);
  state->timer = Descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  state->spare = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto listener = listen_at(state->options.path, state->options.socket_mode);
  if (!listener) return report(listener.error());
  state->listener = std::move(*listener);
  struct stat status{};
  if (::lstat(state->options.path.c_str(), &status) == 0) {
    state->socket_device = status.st_dev;
    state->socket_inode = status.st_ino;
  }
  state->maker = ::getpid();
  if (!state->timer || !state->watch(state->listener.get(), kListenerEvent) ||
      !state->watch(state->timer.get(), kTimerEvent)) {
    return report(Code::kSystem, fmt::format("cannot watch the meeting socket: {}", errno_text(errno)));
  }
  return std::unique_ptr<Meeting>(new Meeting(std::move(state)));
}

Meeting::Meeting(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Meeting::~Meeting() {
  const State& state = *state_;
  struct stat status{};
  const char* path = state.options.path.c_str();
  // A child does not remove its parent's socket, and no process removes what another one put there since.
  if (state.maker == ::getpid() && ::lstat(path, &status) == 0 && status.st_dev == state.socket_device &&
      status.st_ino == state.socket_inode) {
    ::unlink(path);
  }
}

int Meeting::epoll_descriptor() const noexcept {
  return state_->epoll.get();
}
NodePage& Meeting::node_page() noexcept {
  return *state_->page;
}
const std::string& Meeting::path() const noexcept {
  return state_->options.path;
}
const Meeting::Counters& Meeting::counters() const noexcept {
  return state_->counters;
}

bool Meeting::State::watch(int fd, uint64_t event) noexcept {
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLRDHUP;
  wanted.data.u64 = event;
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &wanted) == 0;
}

void Meeting::poll() noexcept {
  std::array<epoll_event, kMeetingEventsATurn> events;
  const int count = ::epoll_wait(state_->epoll.get(), events.data(), kMeetingEventsATurn, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t event = events[static_cast<size_t>(i)].data.u64;
    if (event == kListenerEvent) {
      state_->accept_some();
    } else if (event == kTimerEvent) {
      uint64_t expirations = 0;
      (void)!::read(state_->timer.get(), &expirations, sizeof(expirations));
    } else {
      state_->hear(event);
    }
  }
  if (!state_->pending.empty()) state_->expire(state_->options.clock->now_ns());
}

void Meeting::State::accept_some() noexcept {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    if (!accept_one()) return;
  }
}

bool Meeting::State::accept_one() noexcept {
  Descriptor control(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!control) {
    if (errno == EMFILE || errno == ENFILE) refuse_without_descriptors();
    return errno == ECONNABORTED || errno == EINTR;
  }
  ++counters.accepted;
  const uint64_t id = next_id++;
  if (!watch(control.get(), id)) {
    ++counters.out_of_resources;
    return true;
  }
  // What a client leaves unread is memory of ours.
  const int send_bytes = 32 * 1024;
  (void)::setsockopt(control.get(), SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes));
  if (pending_count >= options.handshakes_max) drop_oldest_pending();
  Client& client = clients[id];
  client.control = std::move(control);
  socklen_t who_bytes = sizeof(client.who);
  (void)::getsockopt(client.control.get(), SOL_SOCKET, SO_PEERCRED, &client.who, &who_bytes);
  client.deadline_ns = options.clock->now_ns() + options.handshake_deadline_ns;
  pending.push_back(id);
  ++pending_count;
  if (pending.size() == 1) arm_timer();
  return true;
}

// With the spare descriptor given up there is one for the client, which so learns why and does not wait for
// ever; and the listener does not stay readable, which would keep the keeper busy.
void Meeting::State::refuse_without_descriptors() noexcept {
  ++counters.out_of_resources;
  spare = Descriptor();
  {
    const Descriptor control(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (control) {
      refuse(control.get(), {Code::kOverloaded, "the node has no file descriptors left for another client",
                             "raise its limit of open files (ulimit -n)"});
    }
  }
  spare = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  errno = EMFILE;
}

void Meeting::State::drop_oldest_pending() noexcept {
  while (!pending.empty()) {
    const uint64_t id = pending.front();
    pending.pop_front();
    const auto found = clients.find(id);
    if (found == clients.end() || found->second.attached) continue;
    refuse(found->second.control.get(),
           {Code::kOverloaded, "too many clients are connecting at once", "try again"});
    return drop(id, &counters.handshake_timeouts);
  }
}

void Meeting::State::arm_timer() noexcept {
  itimerspec when{};
  // Relative to the system's clock, whatever clock the deadlines are read from: a wake-up too many does no
  // harm.
  when.it_value.tv_sec = static_cast<time_t>(options.handshake_deadline_ns / kSecond_ns);
  when.it_value.tv_nsec = static_cast<long>(options.handshake_deadline_ns % kSecond_ns + 1000);
  (void)::timerfd_settime(timer.get(), 0, &when, nullptr);
}

void Meeting::State::expire(uint64_t now_ns) noexcept {
  const bool had_pending = !pending.empty();
  while (!pending.empty()) {
    const auto found = clients.find(pending.front());
    const bool silent = found != clients.end() && !found->second.attached;
    if (silent && found->second.deadline_ns > now_ns) break;
    if (silent) {
      refuse(found->second.control.get(), {Code::kDeadlineExceeded, "the client said no Hello in time", ""});
      drop(found->first, &counters.handshake_timeouts);
    }
    pending.pop_front();
  }
  itimerspec left{};
  if (had_pending && !pending.empty() && ::timerfd_gettime(timer.get(), &left) == 0 &&
      left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0) {
    arm_timer();
  }
}

void Meeting::State::drop(uint64_t id, uint64_t* counter) noexcept {
  const auto found = clients.find(id);
  if (found == clients.end()) return;
  if (counter != nullptr) ++*counter;
  if (found->second.attached) {
    --attached_count;
    ++counters.detached;
    if (options.on_detach) options.on_detach(id);
  } else {
    --pending_count;
  }
  // A fork may hold the same socket, so closing alone would not take it out of the set.
  (void)::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, found->second.control.get(), nullptr);
  (void)::shutdown(found->second.control.get(), SHUT_RDWR);
  clients.erase(found);
}

void Meeting::State::hear(uint64_t id) noexcept {
  const auto found = clients.find(id);
  if (found == clients.end()) return;
  Client& client = found->second;
  std::array<std::byte, kMessageBytesAtMost> message;
  // One message a turn and client; descriptors that come with it are closed by the kernel.
  const ReceivedMessage received = receive_message(client.control.get(), message, {});
  if (received.outcome == ReceivedMessage::Outcome::kNothing) return;
  if (received.outcome == ReceivedMessage::Outcome::kEnded) return drop(id, nullptr);
  MessageHead head{};
  if (received.truncated || received.bytes < sizeof(head)) return drop(id, &counters.malformed);
  std::memcpy(&head, message.data(), sizeof(head));
  const auto kind = static_cast<MessageKind>(head.kind);
  if (head.magic != kWireMagic || head.reserved != 0) return drop(id, &counters.malformed);
  if (kind == MessageKind::kHello && received.bytes == sizeof(Hello) && !client.attached) {
    Hello hello{};
    std::memcpy(&hello, message.data(), sizeof(hello));
    if (!say_hello(id, client, hello)) drop(id, nullptr);
  } else if (kind == MessageKind::kGetRegions && received.bytes == sizeof(GetRegions) && client.attached) {
    GetRegions request{};
    std::memcpy(&request, message.data(), sizeof(request));
    int unread = 0;
    if (::ioctl(client.control.get(), SIOCOUTQ, &unread) != 0 || unread > kUnreadBytesMax) {
      return drop(id, &counters.flooded);
    }
    if (!send_regions(client, request.have)) drop(id, &counters.flooded);
  } else {
    drop(id, &counters.malformed);
  }
}

// False: the client was refused.
bool Meeting::State::say_hello(uint64_t id, Client& client, const Hello& hello) noexcept {
  const uint16_t version = std::min(hello.version_highest, kWireVersionHighest);
  if (version < std::max(hello.version_lowest, kWireVersionLowest)) {
    ++counters.refused_version;
    refuse(
        client.control.get(),
        {Code::kUnsupported,
         fmt::format("the node speaks versions {} to {} of the shared-memory protocol, the client {} to {}",
                     kWireVersionLowest, kWireVersionHighest, hello.version_lowest, hello.version_highest),
         "use a client and a node of neighbouring releases"});
    return false;
  }
  if (const Reported<> admitted = options.admits ? options.admits() : Reported<>(); !admitted) {
    ++counters.refused_early;
    refuse(client.control.get(), admitted.error());
    return false;
  }
  if (attached_count >= options.connections_max) {
    ++counters.refused_full;
    refuse(client.control.get(),
           {Code::kOverloaded,
            fmt::format("the node's limit of {} connections is reached", options.connections_max),
            "close some, or raise the limit"});
    return false;
  }
  if (attach(id, client, version)) return true;
  ++counters.out_of_resources;
  refuse(client.control.get(),
         {Code::kNoSpace, "the node has no memory or descriptors for another connection",
          "close some connections, or raise its limits"});
  return false;
}

bool Meeting::State::attach(uint64_t id, Client& client, uint16_t version) noexcept {
  const size_t memory_bytes = connection_bytes(options.pin_tables);
  auto memory = make_memory("refract-connection", memory_bytes, kConnectionBytes);
  if (!memory || !finish_seals(memory->get(), /*forbid_new_writers=*/false)) return false;
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return false;
  Descriptor server_end(ends[0]);
  const Descriptor client_end(ends[1]);
  Welcome welcome{};
  welcome.head = head_of(MessageKind::kWelcome);
  welcome.version = version;
  welcome.region_count = static_cast<uint32_t>(regions.size());
  welcome.connection = id;
  welcome.space_bytes_max = options.space_bytes_max;
  welcome.connection_bytes = memory_bytes;
  client.memory = std::move(*memory);
  client.doorbell = std::move(server_end);
  client.attached = true;
  --pending_count;
  ++attached_count;
  ++counters.attached;
  // Before the client knows of its memory: what it pins there is announced to an owner that can know of it.
  if (options.on_attach) options.on_attach(client.attachment(id));
  const std::array<int, 3> descriptors = {page_read.get(), client.memory.get(), client_end.get()};
  return send_message(client.control.get(), object_bytes(welcome), descriptors) && send_regions(client, 0);
}

bool Meeting::State::send_regions(const Client& client, size_t first) noexcept {
  while (first < regions.size()) {
    Regions message{};
    std::array<int, kRegionsAMessage> descriptors{};
    const size_t count = std::min(kRegionsAMessage, regions.size() - first);
    message.head = head_of(MessageKind::kRegions);
    message.first = static_cast<uint32_t>(first);
    message.count = static_cast<uint32_t>(count);
    for (size_t i = 0; i < count; ++i) {
      message.entry[i] = regions[first + i].entry;
      descriptors[i] = regions[first + i].read.get();
    }
    const size_t bytes = offsetof(Regions, entry) + count * sizeof(RegionEntry);
    if (!send_message(client.control.get(), object_bytes(message).first(bytes),
                      std::span(descriptors).first(count))) {
      return false;
    }
    first += count;
  }
  return true;
}

void Meeting::server_changed() noexcept {
  const ServerChanged message{head_of(MessageKind::kServerChanged)};
  for (const auto& [id, client] : state_->clients) {
    // A full socket holds messages that the client has not read: they will make it look just as well.
    if (client.attached) (void)send_message(client.control.get(), object_bytes(message));
  }
}

void Meeting::begin_incarnation() noexcept {
  publish_u64(&state_->page->asleep, 0);
  publish_server_state(*state_->page, ServerState::kStarting);
  // The page is made with incarnation 1, which is the first server's.
  if (std::exchange(state_->had_server, true))
    publish_u64(&state_->page->incarnation, incarnation(*state_->page) + 1);
  server_changed();
}

void Meeting::set_server_state(ServerState state) noexcept {
  publish_server_state(*state_->page, state);
  server_changed();
}

Reported<> Meeting::offer_region(const RegionOffer& offer) {
  State& state = *state_;
  const size_t count = state.regions.size();
  const uint64_t end = count == 0 ? 0 : state.regions.back().entry.base + state.regions.back().entry.bytes;
  if (count == kRegionsMax) {
    return report(Code::kNoSpace, fmt::format("the node has {} regions already", kRegionsMax),
                  "restart it with larger regions");
  }
  if (offer.bytes == 0 || offer.base < end || offer.base > state.options.space_bytes_max ||
      offer.bytes > state.options.space_bytes_max - offer.base || offer.key.bits == 0) {
    return report(Code::kInvalidArgument,
                  fmt::format("region {} does not fit into the node's space", offer.region));
  }
  struct stat status{};
  if (::fstat(offer.read_fd, &status) != 0 || static_cast<uint64_t>(status.st_size) < offer.bytes) {
    return report(Code::kInvalidArgument, fmt::format("region {} is longer than its file", offer.region));
  }
  Descriptor read(::fcntl(offer.read_fd, F_DUPFD_CLOEXEC, 0));
  if (!read)
    return report(Code::kSystem, fmt::format("cannot duplicate a descriptor: {}", errno_text(errno)));
  state.regions.push_back({{offer.base, offer.bytes, offer.key.bits, offer.region, 0}, std::move(read)});
  publish_u64(&state.page->regions[count].base, offer.base);
  publish_u64(&state.page->regions[count].bytes, offer.bytes);
  publish_u64(&state.page->region_count, count + 1);
  return {};
}

std::vector<Attachment> Meeting::attachments() const {
  std::vector<Attachment> all;
  all.reserve(state_->attached_count);
  for (const auto& [id, client] : state_->clients) {
    if (client.attached) all.push_back(client.attachment(id));
  }
  return all;
}

void Meeting::abandon_in_child() noexcept {
  state_->clients.clear();
  state_->pending.clear();
  state_->pending_count = state_->attached_count = 0;
  state_->regions.clear();
  state_->listener = Descriptor();
  state_->epoll = Descriptor();
  state_->timer = Descriptor();
  state_->spare = Descriptor();
  state_->page_read = Descriptor();
}

}  // namespace refract::fabric::shm
