// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "refract/base/clock.h"
#include "refract/fabric/tcp/alarm.h"
#include "refract/fabric/tcp/client_link.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/hub.h"
#include "refract/fabric/tcp/name_lookup.h"

namespace refract::fabric::tcp {
namespace {

// A client waits for its peers' answers one by one, so that a bound like the server's has no use.
constexpr uint64_t kOutputBytesUnbounded = UINT64_MAX;

const ClientLink& as_link(const Channel& channel) noexcept {
  return static_cast<const ClientLink&>(channel);
}

}  // namespace

struct ClientDomain::State final : Hub {
  explicit State(const ClientOptions& wanted)
      : Hub(/*accepted=*/false, kOutputBytesUnbounded), options(wanted) {}

  ClientOptions options;
  std::vector<std::unique_ptr<ClientLink>> links;
  std::vector<ClientLink*> dead;  // Their last completion was given out in the poll before.
  Alarm alarm;
  Report last_refusal{Code::kOk, "", ""};
  size_t unsettled = 0;  // Links that are being opened, or wait to be.

  void settle() noexcept;
  [[nodiscard]] size_t give_verdicts(std::span<Completion> completions) noexcept;
  [[nodiscard]] bool has_verdict() const noexcept;

  void heard(uint64_t word) noexcept override;
  void ended(Connection& connection) noexcept override;
  void destroy_closed() noexcept override;
  [[nodiscard]] bool has_dead() const noexcept override { return !dead.empty(); }
  [[nodiscard]] bool is_opening() const noexcept override { return unsettled > 0; }
};

Reported<std::unique_ptr<ClientDomain>> ClientDomain::create(const ClientOptions& options) {
  auto state = std::make_unique<State>(options);
  if (auto opened = state->open(); !opened) return report(opened.error());
  if (!state->alarm.open() || !state->watch(state->alarm.fd(), Hub::kTimer)) {
    return report(Code::kSystem, fmt::format("cannot make a timer: {}", errno_text(errno)),
                  "raise the limit on open files (ulimit -n)");
  }
  return std::unique_ptr<ClientDomain>(new ClientDomain(std::move(state)));
}

ClientDomain::ClientDomain(std::unique_ptr<State> state) noexcept
    : TcpDomain(*state), state_(std::move(state)) {}
ClientDomain::~ClientDomain() = default;

Reported<Channel*> ClientDomain::connect(std::string_view address) {
  State& state = *state_;
  const auto refused = [&state](const Report& why) {
    state.last_refusal = why;
    return report(why);
  };
  if (state.options.role == Role::kNode && state.options.secret == nullptr) {
    return refused({Code::kInvalidArgument, "the node role is proven by a secret, and there is none",
                    "give all nodes of the list the same secret (cluster.secret_file)"});
  }
  auto node = parse_node_address(address);
  if (!node) return refused(node.error());
  auto candidates = resolve_within(node->place, state.options.connect_timeout_ns);
  if (!candidates) return refused(candidates.error());
  auto link = std::make_unique<ClientLink>(state, state.options, std::move(*node), std::move(*candidates));
  state.make_room_for(state.links.size() + 1);
  state.dead.reserve(state.links.size() + 1);
  state.links.push_back(std::move(link));
  state.links.back()->begin();
  state.settle();
  return state.links.back().get();
}

// What is to be done when, from what the links say.
void ClientDomain::State::settle() noexcept {
  uint64_t next_ns = kForever_ns;
  unsettled = 0;
  for (const auto& link : links) {
    next_ns = std::min(next_ns, link->due_ns());
    const Connection::Phase phase = link->phase();
    if (phase == Connection::Phase::kUnborn || phase == Connection::Phase::kWaiting) ++unsettled;
  }
  alarm.set(next_ns);
}

void ClientDomain::State::heard(uint64_t) noexcept {
  alarm.clear();
  const uint64_t now_ns = system_clock().now_ns();
  for (const auto& link : links) {
    if (link->due_ns() <= now_ns) link->due();
  }
  settle();
}

void ClientDomain::State::ended(Connection& connection) noexcept {
  auto& link = static_cast<ClientLink&>(connection);
  last_refusal = link.refusal();
  if (connection.phase() == Connection::Phase::kWaiting) {
    link.begin_waiting();
  } else {
    dead.push_back(&link);
  }
  settle();
}

void ClientDomain::State::destroy_closed() noexcept {
  for (ClientLink* link : dead) {
    forget(*link);
    std::erase_if(links, [link](const auto& each) { return each.get() == link; });
  }
  dead.clear();
  settle();
}

size_t ClientDomain::State::give_verdicts(std::span<Completion> completions) noexcept {
  size_t count = 0;
  for (const auto& link : links) {
    if (count == completions.size()) break;
    if (!link->has_verdict()) continue;
    last_refusal = link->refusal();
    completions[count++] = link->take_verdict();
    dead.push_back(link.get());
  }
  return count;
}

bool ClientDomain::State::has_verdict() const noexcept {
  return unsettled > 0 && std::ranges::any_of(links, [](const auto& link) { return link->has_verdict(); });
}

size_t ClientDomain::poll(std::span<Completion> completions) noexcept {
  State& state = *state_;
  const size_t count = state.poll(completions);
  if (state.unsettled == 0) [[likely]]
    return count;
  // A link that has just been given its facts, or its verdict, is settled or needs another alarm.
  state.settle();
  if (!state.has_verdict() || !state.is_drained()) return count;
  return count + state.give_verdicts(completions.subspan(count));
}

bool ClientDomain::prepare_sleep() noexcept {
  const bool may_sleep = state_->prepare_sleep();
  state_->settle();
  return may_sleep && !state_->has_verdict();
}

const Report& ClientDomain::last_refusal() const noexcept {
  return state_->last_refusal;
}
const Report& ClientDomain::refusal_of(const Channel& channel) const noexcept {
  return as_link(channel).refusal();
}
const NodeFacts& ClientDomain::facts(const Channel& channel) const noexcept {
  return as_link(channel).facts();
}
uint64_t ClientDomain::round_trip_ns(const Channel& channel) const noexcept {
  const int fd = as_link(channel).fd();
  return fd < 0 ? 0 : round_trip_us(fd) * kMicrosecond_ns;
}
std::string ClientDomain::peer_of(const Channel& channel) const {
  const int fd = as_link(channel).fd();
  return fd < 0 ? std::string() : peer_address(fd).text();
}

}  // namespace refract::fabric::tcp
