// SPDX-License-Identifier: Apache-2.0
#include "refract/object/directory/directory.h"

#include <algorithm>
#include <cstring>

#include "refract/base/hash.h"
#include "refract/kv/layout/wire.h"
#include "refract/memory/remote_visible.h"
#include "refract/object/directory/directory_broadcast.h"
#include "refract/object/directory/directory_outside.h"
#include "refract/object/directory/directory_ranker.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;
using wire::DirectoryMethod;

namespace {

constexpr size_t kPassedMax = 4096;
// Longer than it takes to ask all members.
constexpr uint64_t kPassed_ns = 30 * kSecond_ns;
constexpr size_t kNewIdBytes = 20;

}  // namespace

Task<> Signal::wait_until(uint64_t moment_ns) {
  if (!is_raised_) {
    // Awaiting changes it, which the check does not see.
    runtime::Pending raised = shard_.ops().begin(moment_ns);  // NOLINT(misc-const-correctness)
    waiter_ = raised.token();
    (void)co_await raised;
    waiter_ = 0;
  }
  is_raised_ = false;
  co_await shard_.sleep_for(0);
}

Directory::State::State(const Parts& given)
    : parts(given),
      ranker(std::make_unique<Ranker>(*this)),
      broadcaster(std::make_unique<Broadcaster>(*this)),
      pull_room({.store = given.store, .shard = given.shard, .growth = given.growth, .pins = given.pins}),
      care(given.shard) {
  if (parts.outside != nullptr) outside = std::make_unique<Outside>(*this, *parts.outside);
  for (const ObjectStore::OpenCreation& found : parts.store.creations()) {
    if (found.is_pulled) {
      (void)parts.store.end_pull(found.id, found.birth);
    } else {
      granted.emplace(Named(text_of(found.id), found.birth), 0);
    }
  }
  // The process before this one may have ended between a tombstone and what it tells.
  for (const auto& [id, birth] : parts.store.tombstones()) {
    granted.erase(Named(id, birth));
    (void)parts.store.end_creation(text_bytes(id), birth);
    (void)parts.store.erase(text_bytes(id), birth);
  }
}

Directory::State::~State() {
  // What ends with a task begins no other.
  is_ending = true;
  tasks.clear();
}

// Tasks that have ended go with the next one that begins.
void Directory::State::start(Task<> task) {
  if (is_ending) return;
  std::erase_if(tasks, [](const Task<>& one) { return one.done(); });
  // It may start others before it is in the list.
  task.start();
  if (!task.done()) tasks.push_back(std::move(task));
}

Directory::State::Peer& Directory::State::peer_named(const std::string& name) {
  std::unique_ptr<Peer>& peer = peers[name];
  if (peer == nullptr) peer = std::make_unique<Peer>(parts.shard, name);
  return *peer;
}

Directory::State::Peer* Directory::State::peer_at(MemberIndex index) const noexcept {
  return index == kOutside ? &outside->peer : by_index[index];
}

bool Directory::State::is_running(const Peer& peer, uint32_t run) noexcept {
  return peer.is_reached() && peer.run == run;
}

MemberIndex Directory::State::home_of(std::string_view id) const noexcept {
  if (outside != nullptr) return kOutside;
  uint8_t home = 0;
  (void)routing->nodes_of(cluster::slot_of(id), std::span(&home, 1));
  return home;
}

// --- The list ---

void Directory::State::follow(const cluster::Members& members) {
  const cluster::MemberList& list = members.list();
  routing.emplace(list);
  list_version = list.version;
  followed_ns = parts.shard.now_ns();
  const std::string text = cluster::to_text(list);
  // Members that have a home outside, and those that are homes themselves, agree upon nothing.
  list_digest = hash_key(text_bytes(text), outside == nullptr ? 0 : 1);
  self = static_cast<MemberIndex>(members.self());
  for (const auto& [name, peer] : peers) peer->index.reset();
  by_index.assign(list.members.size(), nullptr);
  for (size_t i = 0; i < list.members.size(); ++i) {
    Peer& peer = peer_named(list.members[i].name);
    peer.index = static_cast<MemberIndex>(i);
    by_index[i] = &peer;
  }
  broadcaster->list_changed();
  // No caller has said hello under this list.
  for (auto& [session, caller] : callers) caller.is_agreed = false;
  watchers.clear();
  table.begin(list.members.size());
  placings.clear();
  short_ones.clear();
  for (const auto& [name, peer] : peers) {
    peer->caller = {};
    peer->was_reported_to = false;
    peer->grace_until_ns = moment_after(followed_ns, parts.grace_ns);
    peer->copies_ordered = 0;
  }
  for (auto& [ticket, claim] : claims) claim.is_asked = false;
  for (const auto& [name, peer] : peers) start_peer(*peer);
  report_to_self();
  for (const auto& [id, want] : wants) want->news.raise();
  start_ticks();
  if (outside != nullptr) outside->reach();
  parts.peers.reach(list, members.self_name(), *this);
}

// --- Sessions to others ---

void Directory::State::peer_opened(const std::string& name, rpc::Session& session) noexcept {
  Peer& peer = peer_named(name);
  peer.session = &session;
  uses.try_emplace(&session, 0, false);
  start_peer(peer);
}

void Directory::State::peer_closed(const std::string& name, rpc::Session& session) noexcept {
  Peer& peer = peer_named(name);
  if (peer.session == &session) {
    peer.session = nullptr;
    start_peer(peer);
  }
  for (auto& [ticket, claim] : claims) {
    if (peer.index && home_of(claim.id) == *peer.index) claim.is_asked = false;
  }
  ++uses[&session].first;
  uses[&session].second = true;
  end_use(session);
}

void Directory::State::end_use(rpc::Session& session) {
  auto& [tasks_in_it, has_closed] = uses[&session];
  if (--tasks_in_it == 0 && has_closed) start(let_go(session));
}

// In a turn of its own: the session may have resumed what ended just now.
Task<> Directory::State::let_go(rpc::Session& session) {
  co_await parts.shard.sleep_for(0);
  const auto at = uses.find(&session);
  if (at == uses.end() || at->second.first > 0) co_return;
  uses.erase(at);
  parts.peers.let_go(session);
}

// --- Sessions of others ---

void Directory::State::session_closed(rpc::SessionId id) {
  const auto at = callers.find(id.bits);
  if (at == callers.end()) return;
  Peer* const peer = at->second.peer;
  callers.erase(at);
  if (peer != nullptr) end_stream_of(*peer, id);
}

void Directory::State::end_stream_of(Peer& peer, rpc::SessionId session) {
  if (peer.caller != session) return;
  peer.caller = {};
  // One that comes and goes is not counted on again and again.
  const uint64_t now_ns = parts.shard.now_ns();
  if (now_ns >= moment_after(peer.begun_ns, parts.grace_ns)) {
    peer.grace_until_ns = moment_after(now_ns, parts.grace_ns);
  }
  if (!peer.index) return;
  table.close_stream(*peer.index);
  end_placings_of(*peer.index);
  care_again();
}

void Directory::State::answer(const rpc::Responder& to, Code code, std::span<const std::byte> head,
                              std::span<const std::byte> tail) {
  if (server != nullptr) server->reply(to, code, head, tail);
}

void Directory::State::handle(const rpc::IncomingCall& call) {
  const rpc::Responder& from = call.from;
  if (!parts.is_node(from.session)) return answer(from, Code::kAccessDenied);
  if (list_version == 0) return answer(from, Code::kUnavailable);
  const auto method = static_cast<DirectoryMethod>(call.header.method);
  const std::span<const std::byte> body = call.payload;
  if (method == DirectoryMethod::kHello) return hello(from, body);
  const auto caller = callers.find(from.session.bits);
  const bool is_agreed =
      caller != callers.end() && caller->second.is_agreed && caller->second.peer->index.has_value();
  // Each of these begins with the version of the caller's list.
  std::span<const std::byte> rest = body;
  const auto version = take<uint64_t>(rest);
  if (!version) return answer(from, Code::kMalformed);
  if (!is_agreed || *version != list_version) return answer(from, Code::kVersionMismatch);
  Peer& peer = *caller->second.peer;
  switch (method) {
    case DirectoryMethod::kChanges:
      return changes(from, peer, body);
    case DirectoryMethod::kLookUp:
      return look_up(from, peer, body);
    case DirectoryMethod::kRemove:
      return remove(from, body);
    case DirectoryMethod::kAsk:
      return ask(from, body);
    case DirectoryMethod::kCopies:
      return copies(from, body);
    case DirectoryMethod::kBind:
      return bind(from, peer, body);
    case DirectoryMethod::kEstimate:
      return ranker->estimate(from, body);
    case DirectoryMethod::kBring:
      return broadcaster->bring(from, body);
    case DirectoryMethod::kDrop:
    case DirectoryMethod::kForget:
    case DirectoryMethod::kAppeared:
      return named(from, peer, method, body);
    default:
      return answer(from, Code::kUnsupported);
  }
}

void Directory::State::hello(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::HelloRequest>(body);
  const bool is_sound =
      request && std::ranges::all_of(request->reserved, [](uint8_t byte) { return byte == 0; });
  if (!is_sound || body.size() != request->name_bytes || body.empty() ||
      body.size() > cluster::kNameBytesMax) {
    return answer(from, Code::kMalformed);
  }
  std::string name(body.size(), '\0');
  copy_possibly_torn(name.data(), body.data(), body.size());
  const std::string& own = by_index[self]->name;
  const wire::HelloReply reply{.list_version = list_version,
                               .stream = ++last_stream,
                               .name_bytes = static_cast<uint16_t>(own.size()),
                               .reserved = {}};
  const auto head = struct_bytes(reply);
  const auto tail = text_bytes(own);
  Caller& caller = callers[from.session.bits];
  caller.is_agreed = false;
  const auto at = peers.find(name);
  if (at == peers.end() || !at->second->index || is_self(*at->second->index)) {
    return answer(from, Code::kNotFound, head, tail);
  }
  Peer& peer = *at->second;
  // It says now that it is another one: what it began as the first has ended.
  if (caller.peer != nullptr && caller.peer != &peer) end_stream_of(*caller.peer, from.session);
  caller.peer = &peer;
  if (request->list_version != list_version || request->list_digest != list_digest) {
    // It is alive, and will be here soon.
    peer.grace_until_ns = moment_after(parts.shard.now_ns(), parts.grace_ns);
    return answer(from, Code::kVersionMismatch, head, tail);
  }
  caller.is_agreed = true;
  caller.stream = last_stream;
  caller.has_begun = false;
  caller.identity = {request->identity[0], request->identity[1]};
  answer(from, Code::kOk, head, tail);
  // It may have forgotten to say that some of these are known to all.
  for (const auto& [id, birth] : parts.store.tombstones()) {
    if (home_of(id) == *peer.index) say_tombstone(id, birth);
  }
}

std::optional<MemberIndex> Directory::State::maker_of(std::string_view id) const noexcept {
  if (id.size() != kNewIdBytes) return std::nullopt;
  uint64_t first = 0;
  std::memcpy(&first, id.data(), sizeof(first));
  if (first == parts.identity[0]) return self;
  for (const Peer* peer : by_index) {
    if (peer->identity[0] == first && first != 0) return peer->index;
  }
  return std::nullopt;
}

// --- The face ---

Directory::Directory(const Parts& parts) : state_(std::make_unique<State>(parts)) {}
Directory::~Directory() = default;

void Directory::answer_through(rpc::Server* server) noexcept {
  state_->server = server;
}

void Directory::follow(const cluster::Members& members) {
  state_->follow(members);
}

void Directory::handle(std::span<const rpc::IncomingCall> calls) noexcept {
  for (const rpc::IncomingCall& call : calls) state_->handle(call);
}

void Directory::session_opened(rpc::SessionId /*session*/) noexcept {}

void Directory::session_closed(rpc::SessionId session) noexcept {
  state_->session_closed(session);
}

void Directory::answer_to(Asker* asker) noexcept {
  state_->asker = asker;
  state_->pull_room.tell(asker);
}

bool Directory::needs_claim(std::string_view id) const noexcept {
  const State& state = *state_;
  return state.list_version != 0 && state.maker_of(id) != state.self;
}

std::optional<Code> Directory::claim(std::string_view id, uint64_t birth, uint64_t ticket) {
  return state_->claim(id, birth, ticket);
}

void Directory::unclaim(std::string_view id, uint64_t birth) {
  state_->unclaim(id, birth);
}

void Directory::want(std::string_view id, uint64_t arrival, const PullWish& wish) {
  state_->want(id, arrival, wish);
}

void Directory::remove(std::string_view id, uint64_t birth, uint64_t ticket) {
  state_->start(state_->remove_for_asker(std::string(id), birth, ticket));
}

void Directory::locate(std::string_view id, TakeLocated take) {
  state_->start(state_->locate_for(std::string(id), std::move(take)));
}

void Directory::set_copies(std::string_view id, uint64_t birth, uint8_t wanted, uint64_t until_ns,
                           TakeCopies take) {
  state_->start(state_->set_copies_for_asker(
      {.id = std::string(id), .birth = birth, .wanted = wanted, .until_ns = until_ns}, std::move(take)));
}

void Directory::broadcast(std::string_view id, std::vector<std::string> nodes, uint64_t until_ns,
                          TakeBroadcasted take) {
  state_->broadcaster->broadcast(id, std::move(nodes), until_ns, std::move(take));
}

void Directory::rank(std::vector<std::string> ids, uint64_t until_ns, TakeRanked take) {
  state_->ranker->rank(std::move(ids), until_ns, std::move(take));
}

void Directory::release(uint64_t bytes) {
  state_->release_some(bytes);
}

std::vector<std::string> Directory::away() const {
  std::vector<std::string> names;
  for (const State::Peer* peer : state_->by_index) {
    if (!state_->is_self(*peer->index) && !peer->has_reported) names.push_back(peer->name);
  }
  if (state_->outside != nullptr) state_->outside->add_away(names);
  return names;
}

void Directory::sealed(std::string_view id, const Object& object) {
  state_->granted.erase(State::Named(id, object.birth));
  state_->say_held(std::string(id), object);
  state_->raise_want(id);
}

void Directory::deleted(std::string_view id, const Object& object) {
  state_->say({.kind = wire::ChangeKind::kGone, .id = std::string(id), .birth = object.birth, .parts = {}});
}

void Directory::passed_on(rpc::SessionId session, std::string_view id) {
  State& state = *state_;
  const auto caller = state.callers.find(session.bits);
  if (caller == state.callers.end() || caller->second.peer == nullptr) return;
  const uint64_t now_ns = state.parts.shard.now_ns();
  state.passed[std::string(id)] = {.to = caller->second.peer->name, .at_ns = now_ns};
  state.passed_order.emplace_back(now_ns, id);
  if (state.passed_order.size() <= kPassedMax) return;
  const auto [at_ns, oldest] = std::move(state.passed_order.front());
  state.passed_order.pop_front();
  const auto found = state.passed.find(oldest);
  if (found == state.passed.end() || found->second.at_ns != at_ns) return;
  state.passed.erase(found);
  state.passed_lost_until_ns = std::max(state.passed_lost_until_ns, moment_after(at_ns, kPassed_ns));
}

bool Directory::is_node(rpc::SessionId session) const noexcept {
  return state_->parts.is_node(session);
}

bool Directory::may_fetch(rpc::SessionId session) const noexcept {
  if (!state_->parts.is_node(session)) return true;
  const auto caller = state_->callers.find(session.bits);
  return caller != state_->callers.end() && caller->second.is_agreed;
}

Directory::Counts Directory::counts() const noexcept {
  Counts counts = state_->counts;
  counts.home = state_->table.counts();
  counts.is_complete = state_->list_version != 0 && state_->table.is_complete();
  counts.tombstones = state_->parts.store.tombstones().size();
  counts.room = state_->pull_room.counts();
  counts.short_ones = state_->short_ones.size();
  for (const auto& [name, peer] : state_->peers) counts.streams += peer->collects ? 1 : 0;
  if (state_->outside != nullptr) {
    const State::Peer& peer = state_->outside->peer;
    const OutsideHome::Counts outside = state_->parts.outside->counts();
    counts.home = outside.home;
    counts.is_complete = outside.is_complete && peer.has_reported;
    counts.conflicts += outside.conflicts;
    counts.short_ones = state_->outside->unsettled.size();
    counts.streams += peer.collects ? 1 : 0;
  }
  return counts;
}

NamedPaths Directory::paths() const {
  NamedPaths paths;
  for (const State::Peer* peer : state_->by_index) {
    if (!state_->is_self(*peer->index)) paths.emplace_back(peer->name, &peer->path);
  }
  return paths;
}

const HomeTable& Directory::home() const noexcept {
  return state_->table;
}

}  // namespace refract::object
