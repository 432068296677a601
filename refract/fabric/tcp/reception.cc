// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/reception.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <utility>

#include "refract/base/clock.h"
#include "refract/base/log.h"
#include "refract/base/prng.h"
#include "refract/fabric/tcp/alarm.h"
#include "refract/fabric/tcp/handshake.h"
#include "refract/fabric/tcp/socket.h"

namespace refract::fabric::tcp {
namespace {

// Newcomers and handshakes can wait for some microseconds; a busy shard asks for them now and then.
constexpr uint32_t kPollsBetweenLooks = 64;
constexpr uint32_t kPollsBetweenLooksInHandshakes = 8;
constexpr int kAcceptsATurn = 64;
constexpr uint64_t kWarningsApart_ns = kSecond_ns;

enum class Stage : uint8_t { kHello, kProof };

struct Handshake {
  Descriptor socket;
  std::string peer;
  HandshakeReader reader;
  Transcript transcript;
  Stage stage = Stage::kHello;
  uint64_t deadline_ns = 0;
};

// Nothing of such a proof is told but that it is wrong.
Report secret_refusal(Role role) {
  if (role == Role::kNode) {
    return {Code::kAccessDenied, "the other node's cluster secret is not this node's",
            "give all nodes of the list the same secret (cluster.secret_file)"};
  }
  return {Code::kAccessDenied, "the client's secret is not this node's",
          "name the file that the node's auth.secret_file names, or a copy of it"};
}

// In an epoll event's word, where no handshake's address stands.
constexpr uint64_t kListenWord = 1;
constexpr uint64_t kAlarmWord = 2;

}  // namespace

struct Reception::State {
  runtime::Shard* shard = nullptr;
  Options options;
  Counters counters;
  Descriptor epoll;
  Alarm alarm;
  std::list<Handshake> handshakes;  // The oldest first, so that deadlines are in order.
  bool listening = false;
  uint64_t accept_again_ns = kForever_ns;
  uint32_t polls_until_look = 0;
  uint64_t warned_ns = 0;

  [[nodiscard]] bool watch(int fd, uint64_t word) noexcept;
  void unwatch(int fd) noexcept;
  [[nodiscard]] bool begin_listening() noexcept;
  void stop_listening() noexcept;
  size_t look() noexcept;
  void accept_some();
  void admit_newcomer(Descriptor socket);
  void set_alarm() noexcept;
  void alarm_rang();
  void step(Handshake& handshake);
  [[nodiscard]] const Secret* secret_of(Role role) const noexcept;
  [[nodiscard]] Reported<Role> role_in(const Hello& hello, uint16_t version) const;
  [[nodiscard]] bool knows_routing(const Hello& hello, uint16_t version) const;
  [[nodiscard]] bool take_hello(Handshake& handshake);
  [[nodiscard]] bool take_proof(Handshake& handshake);
  bool refuse(Handshake& handshake, const Report& why);
  void welcome(Handshake& handshake);
  void end(Handshake& handshake) noexcept;
  // At most one a second, whatever clients do.
  [[nodiscard]] bool may_warn() noexcept;
};

bool Reception::State::watch(int fd, uint64_t word) noexcept {
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLRDHUP;
  wanted.data.u64 = word;
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &wanted) == 0;
}

void Reception::State::unwatch(int fd) noexcept {
  (void)::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
}

bool Reception::State::begin_listening() noexcept {
  accept_again_ns = kForever_ns;
  return listening = watch(options.listen_fd, kListenWord);
}

void Reception::State::stop_listening() noexcept {
  if (std::exchange(listening, false)) unwatch(options.listen_fd);
}

Reported<std::unique_ptr<Reception>> Reception::create(runtime::Shard& shard, const Options& options) {
  if (options.shards.empty() || !options.facts || options.handshakes_max == 0) {
    return report(Code::kInvalidArgument, "a reception needs shards, facts and room for a handshake");
  }
  // The library sets itself up at its first use, which takes milliseconds: better now than in a client's way.
  for (const Secret* secret : {options.secret, options.cluster_secret}) {
    if (secret != nullptr) (void)client_mac(*secret, {});
  }
  auto state = std::make_unique<State>();
  state->shard = &shard;
  state->options = options;
  state->epoll = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  const bool ready = state->epoll && state->alarm.open() && state->watch(state->alarm.fd(), kAlarmWord) &&
                     state->begin_listening() && shard.watch(state->epoll.get());
  if (!ready) {
    return report(Code::kSystem, fmt::format("cannot watch a listening socket: {}", errno_text(errno)),
                  "raise the limit on open files (ulimit -n)");
  }
  auto reception = std::unique_ptr<Reception>(new Reception(std::move(state)));
  shard.add(*reception);
  return reception;
}

Reception::Reception(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Reception::~Reception() {
  stop();
  state_->shard->remove(*this);
  state_->shard->unwatch(state_->epoll.get());
}

void Reception::stop() noexcept {
  State& state = *state_;
  state.stop_listening();
  state.accept_again_ns = kForever_ns;
  while (!state.handshakes.empty()) state.end(state.handshakes.front());
  state.set_alarm();
}

const Reception::Counters& Reception::counters() const noexcept {
  return state_->counters;
}
size_t Reception::handshakes() const noexcept {
  return state_->handshakes.size();
}

size_t Reception::poll() noexcept {
  State& state = *state_;
  if (state.polls_until_look > 0) {
    --state.polls_until_look;
    return 0;
  }
  return state.look();
}

bool Reception::prepare_sleep() noexcept {
  return state_->look() == 0;
}

void Reception::woke() noexcept {
  state_->polls_until_look = 0;
}

size_t Reception::State::look() noexcept {
  std::array<epoll_event, kEventsATurn> events;
  const int count = ::epoll_wait(epoll.get(), events.data(), kEventsATurn, 0);
  // Newcomers last: making room for them ends handshakes, whose events may be in this batch.
  bool newcomers = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t word = events[static_cast<size_t>(i)].data.u64;  // A copy: the struct is packed.
    if (word == kListenWord) {
      newcomers = true;
    } else if (word != kAlarmWord) {
      step(*std::bit_cast<Handshake*>(word));
    }
  }
  if (alarm.moment_ns() <= system_clock().now_ns()) alarm_rang();
  if (newcomers && listening) accept_some();
  if (count > 0) set_alarm();
  polls_until_look = handshakes.empty() ? kPollsBetweenLooks : kPollsBetweenLooksInHandshakes;
  return count > 0 ? static_cast<size_t>(count) : 0;
}

void Reception::State::accept_some() {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    Descriptor socket(::accept4(options.listen_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      admit_newcomer(std::move(socket));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The newcomer stays in the backlog; asking at once again would only spin.
      ++counters.accept_failed;
      const int error_number = errno;
      if (may_warn()) log_warn("cannot accept TCP clients: {}; trying again", errno_text(error_number));
      stop_listening();
      accept_again_ns = system_clock().now_ns() + kAcceptPause_ns;
      return;
    }
    // What else there is concerns one newcomer that is gone already.
  }
}

void Reception::State::admit_newcomer(Descriptor socket) {
  ++counters.accepted;
  if (handshakes.size() >= options.handshakes_max) {
    ++counters.dropped_oldest;
    end(handshakes.front());
  }
  tune(socket.get());
  Handshake& handshake = handshakes.emplace_back();
  handshake.socket = std::move(socket);
  handshake.peer = peer_address(handshake.socket.get()).text();
  handshake.deadline_ns = system_clock().now_ns() + options.handshake_timeout_ns;
  if (!watch(handshake.socket.get(), std::bit_cast<uint64_t>(&handshake))) {
    ++counters.accept_failed;
    end(handshake);
  }
}

void Reception::State::set_alarm() noexcept {
  const uint64_t deadline_ns = handshakes.empty() ? kForever_ns : handshakes.front().deadline_ns;
  alarm.set(std::min(deadline_ns, accept_again_ns));
}

void Reception::State::alarm_rang() {
  alarm.clear();
  const uint64_t now_ns = system_clock().now_ns();
  while (!handshakes.empty() && handshakes.front().deadline_ns <= now_ns) {
    ++counters.timed_out;
    end(handshakes.front());
  }
  if (accept_again_ns <= now_ns && !begin_listening()) accept_again_ns = now_ns + kAcceptPause_ns;
  set_alarm();
}

void Reception::State::step(Handshake& handshake) {
  for (;;) {
    switch (handshake.reader.read(handshake.socket.get())) {
      case HandshakeReader::Progress::kMore:
        return;
      case HandshakeReader::Progress::kEnded:
        ++counters.hung_up;
        return end(handshake);
      case HandshakeReader::Progress::kNonsense:
        ++counters.malformed;
        return end(handshake);
      case HandshakeReader::Progress::kFrame:
        break;
    }
    const bool is_hello = handshake.stage == Stage::kHello;
    if (handshake.reader.kind() != (is_hello ? FrameKind::kHello : FrameKind::kProof)) {
      ++counters.malformed;
      return end(handshake);
    }
    const bool goes_on = is_hello ? take_hello(handshake) : take_proof(handshake);
    if (!goes_on) return end(handshake);
    handshake.reader.reset();
  }
}

const Secret* Reception::State::secret_of(Role role) const noexcept {
  return role == Role::kNode ? options.cluster_secret : options.secret;
}

Reported<Role> Reception::State::role_in(const Hello& hello, uint16_t version) const {
  const auto role = static_cast<Role>(hello.role);
  if (role == Role::kClient) return role;
  if (version < kWireVersionOfRoles) {
    return report(Code::kUnsupported,
                  fmt::format("{} of the TCP wire has no roles, and the client asks for role {}",
                              versions_text(version, version), hello.role),
                  "update the client");
  }
  if (role != Role::kNode) {
    return report(
        Code::kUnsupported,
        fmt::format("the client asks for role {}, and this node knows 0 (client) and 1 (node)", hello.role),
        "update the node first");
  }
  if (secret_of(role) == nullptr) {
    return report(Code::kAccessDenied, "this node has no cluster secret, so no other node can prove itself",
                  "give all nodes of the list the same secret (cluster.secret_file)");
  }
  return role;
}

// An older client would look for keys in the wrong shards or nodes, and find none.
bool Reception::State::knows_routing(const Hello& hello, uint16_t version) const {
  if (version >= kWireVersionOfCopies) return true;
  const NodeFacts facts = options.facts(hello.shard);
  return facts.copies == 0 || (facts.shard_count == 1 && !facts.is_spread);
}

bool Reception::State::take_hello(Handshake& handshake) {
  const auto hello = handshake.reader.frame<Hello>();
  if (!hello || hello->magic != kWireMagic) {
    ++counters.malformed;
    return false;
  }
  const uint16_t version = std::min(hello->version, kWireVersion);
  if (version < kWireVersionOldest || version < hello->version_oldest) {
    return refuse(handshake, {Code::kUnsupported,
                              fmt::format("the client speaks {} of the TCP wire, this node {}",
                                          versions_text(hello->version_oldest, hello->version),
                                          versions_text(kWireVersionOldest, kWireVersion)),
                              hello->version > kWireVersion ? "update the node first" : "update the client"});
  }
  if (hello->shard >= options.shards.size()) {
    const Report& known = options.no_further_shard;
    if (hello->shard == options.shards.size() && !known.what.empty()) return refuse(handshake, known);
    return refuse(handshake,
                  {Code::kInvalidArgument,
                   fmt::format("there is no shard {}: this node has {}", hello->shard, options.shards.size()),
                   "ask shard 0 how many there are"});
  }
  const auto role = role_in(*hello, version);
  if (!role) return refuse(handshake, role.error());
  if (*role == Role::kClient && !knows_routing(*hello, version)) {
    return refuse(handshake,
                  {Code::kUnsupported,
                   fmt::format("this node routes keys by slot (kv.copies), which clients know from "
                               "version {} of the TCP wire on, and the client speaks {}",
                               kWireVersionOfCopies, version),
                   "update the client"});
  }
  Challenge challenge{.version = version,
                      .secret_wanted = static_cast<uint16_t>(secret_of(*role) != nullptr ? 1 : 0),
                      .reserved = 0,
                      .nonce = {}};
  secure_random(challenge.nonce);
  handshake.transcript = {.client_nonce = hello->nonce,
                          .node_nonce = challenge.nonce,
                          .version = version,
                          .client_version = hello->version,
                          .client_version_oldest = hello->version_oldest,
                          .shard = hello->shard,
                          .role = *role};
  handshake.stage = Stage::kProof;
  if (send_handshake(handshake.socket.get(), FrameKind::kChallenge, challenge)) return true;
  ++counters.hung_up;
  return false;
}

// False always: a handshake ends here, one way or the other.
bool Reception::State::take_proof(Handshake& handshake) {
  const auto proof = handshake.reader.frame<Proof>();
  if (!proof) {
    ++counters.malformed;
    return false;
  }
  const Role role = handshake.transcript.role;
  const Secret* const secret = secret_of(role);
  if (secret != nullptr && !is_same(proof->mac, client_mac(*secret, handshake.transcript))) {
    ++counters.secret_wrong;
    return refuse(handshake, secret_refusal(role));
  }
  const uint32_t shard_index = handshake.transcript.shard;
  const uint64_t most =
      uint64_t{options.connections_max} + (role == Role::kNode ? options.connections_of_nodes : 0);
  if (options.shards[shard_index]->connections() >= most) {
    return refuse(handshake,
                  {Code::kOverloaded,
                   fmt::format("shard {} of the node has {} TCP connections, its maximum", shard_index, most),
                   "close some, or try again later"});
  }
  welcome(handshake);
  return false;
}

void Reception::State::welcome(Handshake& handshake) {
  const uint32_t shard_index = handshake.transcript.shard;
  Welcome welcome{.mac = {}, .facts = facts_to_wire(options.facts(shard_index))};
  if (const Secret* secret = secret_of(handshake.transcript.role); secret != nullptr) {
    welcome.mac = node_mac(*secret, handshake.transcript, welcome.facts);
  }
  if (!send_handshake(handshake.socket.get(), FrameKind::kWelcome, welcome)) {
    ++counters.hung_up;
    return;
  }
  ++counters.admitted;
  unwatch(handshake.socket.get());
  options.shards[shard_index]->hand_over(
      {std::move(handshake.socket), std::move(handshake.peer), handshake.transcript.role});
}

// Always false, for callers that end the handshake with it.
bool Reception::State::refuse(Handshake& handshake, const Report& why) {
  ++counters.refused;
  if (may_warn()) log_warn("TCP client {} refused: {}", handshake.peer, why.what);
  (void)send_handshake(handshake.socket.get(), FrameKind::kRefused, refused_to_wire(why));
  return false;
}

bool Reception::State::may_warn() noexcept {
  const uint64_t now_ns = system_clock().now_ns();
  if (warned_ns != 0 && now_ns - warned_ns < kWarningsApart_ns) return false;
  warned_ns = now_ns;
  return true;
}

void Reception::State::end(Handshake& handshake) noexcept {
  if (handshake.socket) unwatch(handshake.socket.get());
  handshakes.remove_if([&handshake](const Handshake& each) { return &each == &handshake; });
}

}  // namespace refract::fabric::tcp
