// SPDX-License-Identifier: Apache-2.0
#include "refract/node/peers/node_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "refract/fabric/tcp/name_lookup.h"
#include "refract/fabric/tcp/socket.h"

namespace refract::node {
namespace {

using fabric::tcp::NameLookup;
using fabric::tcp::SocketAddress;

// A session that lasted so long shows that the member is well.
constexpr uint64_t kWellAfter_ns = kSecond_ns;

// The timer ends a sleep of the shard; poll() does the rest.
runtime::Task<> doze(runtime::Shard& shard, uint64_t until_ns) {
  co_await shard.sleep_until(until_ns);
}

}  // namespace

struct NodePeers::Peer {
  cluster::Member member;
  bool is_wanted = true;
  Stage stage = Stage::kPause;
  uint64_t due_ns = 0;
  uint64_t pause_ns = 0;
  uint64_t opened_ns = 0;
  std::optional<NameLookup> lookup;
  std::vector<std::string> places;  // "10.0.0.7:7400", each tried before the next pause.
  size_t place = 0;
  fabric::Channel* channel = nullptr;  // The session's.
  std::unique_ptr<rpc::Session> session;
  fabric::tcp::NodeFacts facts;  // As the first shard told them.
  Report trouble{Code::kOk, "", ""};
};

NodePeers::NodePeers(runtime::Shard& shard, const fabric::tcp::Secret& cluster_secret, const Options& options)
    : shard_(shard), secret_(cluster_secret), options_(options), prng_(secure_random_u64()) {}

NodePeers::~NodePeers() {
  for (const auto& peer : peers_) drop_attempt(*peer);
  if (watcher_ != nullptr) shard_.remove(*this);
}

NodePeers::Peer* NodePeers::find(std::string_view name) const noexcept {
  const auto at =
      std::ranges::find(peers_, name, [](const auto& peer) -> std::string_view { return peer->member.name; });
  return at == peers_.end() ? nullptr : at->get();
}

void NodePeers::reach(const cluster::MemberList& list, const std::string& self, Watcher& watcher) {
  if (std::exchange(watcher_, &watcher) == nullptr) shard_.add(*this);
  const auto is_reached = [&](const std::string& name) { return name != self && list.index_of(name); };
  for (const auto& peer : peers_) {
    peer->is_wanted = is_reached(peer->member.name);
    if (!peer->is_wanted) leave(*peer);
  }
  for (const cluster::Member& member : list.members) {
    if (member.name == self) continue;
    Peer* peer = find(member.name);
    if (peer == nullptr) {
      peers_.push_back(std::make_unique<Peer>());
      peer = peers_.back().get();
    } else if (peer->member == member) {
      continue;
    } else {
      leave(*peer);
    }
    peer->member = member;
    peer->pause_ns = options_.pause_first_ns;
    peer->trouble = {Code::kUnavailable, fmt::format("node {} was not reached yet", member.name), ""};
    if (peer->stage != Stage::kLeave) begin_at(*peer, shard_.now_ns());
  }
  next_due_ns_ = shard_.now_ns();
}

Report NodePeers::trouble(std::string_view name) const {
  const Peer* const peer = find(name);
  if (peer == nullptr || !peer->is_wanted) {
    return {Code::kNotFound, fmt::format("no other node '{}' is in the list", name), ""};
  }
  return peer->stage == Stage::kUp ? Report{Code::kOk, "", ""} : peer->trouble;
}

void NodePeers::let_go(rpc::Session& session) noexcept {
  const auto at = std::ranges::find(closed_sessions_, &session, &std::unique_ptr<rpc::Session>::get);
  if (at == closed_sessions_.end()) return;
  ended_sessions_[0].push_back(std::move(*at));
  closed_sessions_.erase(at);
}

std::optional<uint32_t> NodePeers::shards_of(std::string_view name) const {
  const Peer* const peer = find(name);
  if (peer == nullptr || peer->stage != Stage::kUp) return std::nullopt;
  return peer->facts.shard_count;
}

bool NodePeers::has_news() const noexcept {
  if (attempts_ > 0 || shard_.now_ns() >= next_due_ns_) return true;
  if (!ended_sessions_[0].empty() || !ended_sessions_[1].empty()) return true;
  return domain_ && domain_->counters().opened + domain_->counters().closed != changes_seen_;
}

size_t NodePeers::poll() noexcept {
  if (!has_news()) [[likely]]
    return 0;
  size_t count = ended_sessions_[0].size() + ended_sessions_[1].size();
  ended_sessions_[1] = std::exchange(ended_sessions_[0], {});
  if (domain_) changes_seen_ = domain_->counters().opened + domain_->counters().closed;
  // By index: the watcher may have further members reached meanwhile.
  for (size_t i = 0; i < peers_.size(); ++i) count += step(*peers_[i]);
  std::erase_if(peers_, [](const auto& peer) { return !peer->is_wanted && peer->stage == Stage::kPause; });
  set_alarm();
  return count;
}

bool NodePeers::prepare_sleep() noexcept {
  const bool holds_ended = !ended_sessions_[0].empty() || !ended_sessions_[1].empty();
  return !holds_ended && shard_.now_ns() < next_due_ns_;
}

void NodePeers::set_alarm() {
  next_due_ns_ = kForever_ns;
  attempts_ = 0;
  for (const auto& peer : peers_) {
    if (peer->stage == Stage::kPause) next_due_ns_ = std::min(next_due_ns_, peer->due_ns);
    const bool is_attempt =
        peer->stage == Stage::kLookup || peer->stage == Stage::kAsk || peer->stage == Stage::kJoin;
    attempts_ += is_attempt ? 1 : 0;
  }
  if (std::exchange(alarm_ns_, next_due_ns_) == next_due_ns_) return;
  alarm_ = next_due_ns_ == kForever_ns ? runtime::Task<>() : doze(shard_, next_due_ns_);
  if (next_due_ns_ != kForever_ns) alarm_.start();
}

size_t NodePeers::step(Peer& peer) {
  switch (peer.stage) {
    case Stage::kPause:
      if (!peer.is_wanted || shard_.now_ns() < peer.due_ns) return 0;
      begin(peer);
      return 1;
    case Stage::kLookup:
      return look_up(peer);
    default:
      return look_at_session(peer);
  }
}

Reported<> NodePeers::open_domain() {
  if (domain_) return {};
  // What is lost is begun again from here, by way of the first shard.
  auto made = fabric::tcp::ClientDomain::create({.secret = &secret_,
                                                 .role = fabric::tcp::Role::kNode,
                                                 .connect_timeout_ns = options_.connect_timeout_ns,
                                                 .reconnect_for_ns = 0});
  if (!made) return report(std::move(made).error());
  domain_ = std::move(*made);
  dispatcher_.emplace(*domain_, shard_);
  return {};
}

void NodePeers::begin(Peer& peer) {
  if (auto opened = open_domain(); !opened) return pause(peer, opened.error());
  const auto place = fabric::tcp::split_address(peer.member.address());
  if (!place) return pause(peer, place.error());
  peer.place = 0;
  peer.places.clear();
  if (fabric::tcp::resolve(*place, /*numbers_only=*/true)) {
    peer.places.push_back(peer.member.address());
    return try_place(peer);
  }
  auto lookup = NameLookup::begin(*place);
  if (!lookup) return pause(peer, lookup.error());
  peer.stage = Stage::kLookup;
  peer.lookup.emplace(std::move(*lookup));
  // Where the kernel refuses, some other event has the shard look.
  (void)shard_.watch(peer.lookup->descriptor());
}

size_t NodePeers::look_up(Peer& peer) {
  auto found = peer.lookup->take();
  if (!found) return 0;
  drop_attempt(peer);
  if (!*found) {
    pause(peer, found->error());
    return 1;
  }
  for (const SocketAddress& address : **found) peer.places.push_back(address.text());
  try_place(peer);
  return 1;
}

// From the place's first shard on.
void NodePeers::try_place(Peer& peer) {
  auto channel = domain_->connect(peer.places[peer.place]);
  if (!channel) return fail(peer, channel.error());
  peer.stage = Stage::kAsk;
  peer.channel = *channel;
  peer.session = std::make_unique<rpc::Session>(*peer.channel, shard_);
}

size_t NodePeers::look_at_session(Peer& peer) {
  switch (peer.session->state()) {
    case rpc::Session::State::kOpening:
      return 0;
    case rpc::Session::State::kOpen:
      if (peer.stage == Stage::kAsk) {
        asked(peer);
      } else if (peer.stage == Stage::kJoin) {
        joined(peer);
      } else {
        return 0;
      }
      return 1;
    case rpc::Session::State::kClosed:
      if (peer.stage == Stage::kAsk || peer.stage == Stage::kJoin) {
        fail(peer, refusal_of(peer));
      } else {
        ended(peer);
      }
      return 1;
  }
  return 0;
}

void NodePeers::asked(Peer& peer) {
  peer.facts = domain_->facts(*peer.channel);
  drop_attempt(peer);
  const uint32_t shard = options_.shard.value_or(peer.facts.shard_count);
  auto channel = domain_->connect(fmt::format("{}/{}", peer.places[peer.place], shard));
  if (!channel) return fail(peer, channel.error());
  peer.stage = Stage::kJoin;
  peer.channel = *channel;
  peer.session = std::make_unique<rpc::Session>(*peer.channel, shard_);
}

void NodePeers::joined(Peer& peer) {
  const fabric::tcp::NodeFacts& facts = domain_->facts(*peer.channel);
  const uint32_t shard = options_.shard.value_or(facts.shard_count);
  if (facts.identity != peer.facts.identity || facts.shard_index != shard) {
    return fail(peer,
                {Code::kUnavailable,
                 fmt::format("another node answers at {} than just before", peer.places[peer.place]), ""});
  }
  peer.stage = Stage::kUp;
  peer.opened_ns = shard_.now_ns();
  watcher_->peer_opened(peer.member.name, *peer.session);
}

// Of a session that the watcher has.
void NodePeers::ended(Peer& peer) {
  const bool has_left = peer.stage == Stage::kLeave;
  const Report why = refusal_of(peer);
  peer.channel = nullptr;
  closed_sessions_.push_back(std::move(peer.session));
  rpc::Session& session = *closed_sessions_.back();
  if (has_left) {
    begin_at(peer, shard_.now_ns());
  } else {
    if (shard_.now_ns() - peer.opened_ns >= kWellAfter_ns) peer.pause_ns = options_.pause_first_ns;
    pause(peer, why);
  }
  // The name's own copy: the watcher may have the list changed.
  const std::string name = peer.member.name;
  watcher_->peer_closed(name, session);
}

void NodePeers::fail(Peer& peer, const Report& why) {
  drop_attempt(peer);
  if (++peer.place < peer.places.size()) return try_place(peer);
  pause(peer, why);
}

void NodePeers::pause(Peer& peer, const Report& why) {
  peer.trouble = {why.code, fmt::format("node {}: {}", peer.member.name, why.what), why.next};
  // Half of it by chance, so that nodes do not come back to one all at once.
  begin_at(peer, shard_.now_ns() + peer.pause_ns / 2 + prng_.below(peer.pause_ns / 2 + 1));
  peer.pause_ns = std::min(2 * peer.pause_ns, options_.pause_longest_ns);
}

void NodePeers::begin_at(Peer& peer, uint64_t moment_ns) noexcept {
  peer.stage = Stage::kPause;
  peer.due_ns = moment_ns;
  next_due_ns_ = std::min(next_due_ns_, moment_ns);
}

// The watcher knows of none.
void NodePeers::drop_attempt(Peer& peer) noexcept {
  if (peer.lookup) shard_.unwatch(peer.lookup->descriptor());
  peer.lookup.reset();
  peer.session.reset();
  peer.channel = nullptr;
}

// Ends what there is; in Stage::kLeave the watcher is still to be told.
void NodePeers::leave(Peer& peer) {
  if (peer.stage == Stage::kUp) {
    peer.stage = Stage::kLeave;
    peer.session->close();
  } else if (peer.stage != Stage::kLeave) {
    drop_attempt(peer);
    begin_at(peer, shard_.now_ns());
  }
}

// The domain keeps a channel that has ended until its next poll, before which this is asked.
Report NodePeers::refusal_of(const Peer& peer) const {
  Report why = domain_->refusal_of(*peer.channel);
  if (why.code == Code::kOk) why = {Code::kUnavailable, "the session was ended by this node", ""};
  return why;
}

}  // namespace refract::node
