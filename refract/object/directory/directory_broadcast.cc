// SPDX-License-Identifier: Apache-2.0
#include "refract/object/directory/directory_broadcast.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "refract/kv/layout/wire.h"
#include "refract/memory/remote_visible.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/directory/directory_use.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;

namespace {

// So long one whose session has ended behind the order may take to come back.
constexpr uint64_t kComeBack_ns = 5 * kSecond_ns;
constexpr uint64_t kComeBackLook_ns = 100 * kMillisecond_ns;

[[nodiscard]] Code told_of_node(Code code) noexcept {
  switch (code) {
    case Code::kOk:
    case Code::kNoSpace:
    case Code::kExists:
    case Code::kCancelled:
    case Code::kNotFound:
    case Code::kUnavailable:
    case Code::kOverloaded:
    case Code::kUnsupported:
      return code;
    case Code::kVersionMismatch:
      return Code::kUnavailable;  // Its list is another one now.
    default:
      return Code::kMalformed;
  }
}

}  // namespace

Directory::State::Broadcaster::Broadcaster(State& of) : state(of), prng_(of.parts.seed) {}

// --- For a client of this node ---

void Directory::State::Broadcaster::broadcast(std::string_view id, std::vector<std::string> nodes,
                                              uint64_t until_ns, TakeBroadcasted take_done) {
  const auto refuse = [&](Code code) { take_done({.code = code, .birth = 0, .nodes = {}}); };
  if (state.list_version == 0) return refuse(Code::kUnavailable);
  if (sendings_.size() >= kSendingsMax) return refuse(Code::kOverloaded);
  auto sending = std::make_unique<Sending>(state.parts.shard);
  sending->list_version = state.list_version;
  sending->until_ns = until_ns;
  sending->id = id;
  const Code code = take_names(nodes, *sending);
  if (code != Code::kOk) return take_done({.code = code, .birth = 0, .nodes = std::move(sending->nodes)});
  sendings_.emplace(++last_, std::move(sending));
  state.start(run(last_, std::move(take_done)));
}

// Each once. kInvalidArgument: `sending.nodes` are those that are of no member.
Code Directory::State::Broadcaster::take_names(std::span<const std::string> names, Sending& sending) const {
  const auto add = [&](const Peer& peer) {
    if (std::ranges::find(sending.members, *peer.index) != sending.members.end()) return;
    sending.members.push_back(*peer.index);
    sending.nodes.push_back({.name = peer.name});
  };
  std::vector<BroadcastNode> unknown;
  for (const std::string& name : names) {
    const auto peer = state.peers.find(name);
    if (peer != state.peers.end() && peer->second->index) {
      add(*peer->second);
    } else {
      unknown.push_back({.name = name, .code = Code::kInvalidArgument});
    }
  }
  if (!unknown.empty()) {
    sending.nodes = std::move(unknown);
    return Code::kInvalidArgument;
  }
  if (!names.empty()) return Code::kOk;
  for (const Peer* peer : state.by_index) add(*peer);
  return Code::kOk;
}

Directory::State::Broadcaster::Sending* Directory::State::Broadcaster::at(uint64_t number) noexcept {
  const auto found = sendings_.find(number);
  const bool is_on = found != sendings_.end() && found->second->list_version == state.list_version;
  return is_on ? found->second.get() : nullptr;
}

Task<> Directory::State::Broadcaster::run(uint64_t number, TakeBroadcasted take_done) {
  Sending& sending = *sendings_.at(number);
  Search search{.id = sending.id, .pulls = false};
  co_await state.look(search);
  search.located.code = search.code;
  Code code = Code::kUnavailable;
  if (sending.list_version == state.list_version) code = make_plan(sending, search.located);
  if (code == Code::kOk) {
    sending.running = sending.members.size();
    if (std::ranges::find(sending.members, sending.root) != sending.members.end()) {
      send(number, sending.root, {});
    }
    for (size_t i = 0; i < sending.receivers.size(); ++i) {
      send(number, sending.receivers[i], forebears(sending, i));
    }
    runtime::Shard& shard = state.parts.shard;
    while (sending.running > 0 && sending.list_version == state.list_version &&
           shard.refresh_now() < sending.until_ns) {
      co_await sending.news.wait_until(sending.until_ns);
    }
    if (sending.list_version != state.list_version) code = Code::kUnavailable;
  }
  const std::unique_ptr<Sending> done = std::move(sendings_.at(number));
  sendings_.erase(number);
  Broadcasted broadcasted;
  broadcasted.code = code;
  broadcasted.birth = done->birth;
  if (code == Code::kOk) broadcasted.nodes = std::move(done->nodes);
  take_done(broadcasted);
}

// Those that the home has named are first: they have it, or soon will.
Code Directory::State::Broadcaster::make_plan(Sending& sending, const Located& located) {
  if (located.code != Code::kOk) return located.code;
  if (located.holders.empty()) return Code::kNotFound;
  std::vector<MemberIndex> holders;
  for (const std::string& name : located.holders) {
    const auto peer = state.peers.find(name);
    if (peer != state.peers.end() && peer->second->index) holders.push_back(*peer->second->index);
  }
  const Result<Object> own = state.parts.store.find(text_bytes(sending.id));
  const bool is_here = own && own->birth == located.birth;
  if (!is_here && holders.empty()) return Code::kUnavailable;
  sending.root = is_here ? state.self : holders.front();
  sending.birth = located.birth;
  sending.plan = prng_.next() | 1;
  std::vector<MemberIndex> others;
  for (const MemberIndex member : sending.members) {
    if (member == sending.root) continue;
    const bool is_holder = std::ranges::find(holders, member) != holders.end();
    (is_holder ? sending.receivers : others).push_back(member);
  }
  sending.receivers.insert(sending.receivers.end(), others.begin(), others.end());
  sending.shape = broadcast_shape(sending.receivers.size(), located.parts.filled_bytes(), paths_of(sending));
  if (state.parts.broadcast_degree != 0) sending.shape.degree = state.parts.broadcast_degree;
  return Code::kOk;
}

// The best that this node has measured: what is slower for others is not known here.
BroadcastPaths Directory::State::Broadcaster::paths_of(const Sending& sending) const {
  BroadcastPaths paths;
  for (const MemberIndex member : sending.members) {
    const Peer& peer = *state.by_index[member];
    const uint64_t round_trip_ns = peer.path.round_trip_ns() != 0 ? peer.path.round_trip_ns() : peer.hello_ns;
    if (round_trip_ns != 0 && (paths.round_trip_ns == 0 || round_trip_ns < paths.round_trip_ns)) {
      paths.round_trip_ns = round_trip_ns;
    }
    paths.bytes_per_s = std::max(paths.bytes_per_s, peer.path.bytes_per_s());
  }
  return paths;
}

// The holder of the whole is the last of them.
std::vector<MemberIndex> Directory::State::Broadcaster::forebears(const Sending& sending,
                                                                  size_t receiver) const {
  std::vector<MemberIndex> members;
  const size_t most = wire::BringRequest::kForebearsMax - 1;
  for (const size_t before : forebears_of(receiver, sending.shape.degree, most)) {
    members.push_back(sending.receivers[before]);
  }
  members.push_back(sending.root);
  return members;
}

wire::BringRequest Directory::State::Broadcaster::request_of(const Sending& sending, size_t forebears,
                                                             uint64_t now_ns) {
  const uint64_t left_ns = sending.until_ns > now_ns ? sending.until_ns - now_ns : 0;
  const uint64_t left_ms = std::min<uint64_t>(left_ns / kMillisecond_ns, UINT32_MAX);
  return {.list_version = sending.list_version,
          .birth = sending.birth,
          .plan = sending.plan,
          .timeout_ms = static_cast<uint32_t>(left_ms),
          .piece_bytes = static_cast<uint32_t>(sending.shape.piece_bytes),
          .id_bytes = static_cast<uint16_t>(sending.id.size()),
          .forebears = static_cast<uint8_t>(forebears),
          .reserved = {}};
}

// The root has none before it: it may have evicted the object since the look.
void Directory::State::Broadcaster::send(uint64_t number, MemberIndex member,
                                         std::vector<MemberIndex> before) {
  const Sending& sending = *sendings_.at(number);
  if (!state.is_self(member)) return state.start(send_to(number, member, std::move(before)));
  Course course{.list_version = sending.list_version,
                .plan = sending.plan,
                .birth = sending.birth,
                .piece_bytes = sending.shape.piece_bytes,
                .until_ns = sending.until_ns,
                .forebears = {},
                .root = {}};
  if (add_forebears(before, course) != Code::kOk) return settle(number, member, Code::kUnavailable);
  take_order(sending.id, std::move(course),
             [this, number, member](Code code) { settle(number, member, code); });
}

Task<> Directory::State::Broadcaster::send_to(uint64_t number, MemberIndex member,
                                              std::vector<MemberIndex> before) {
  uint64_t come_back_ns = 0;  // 0: it has not got the order yet.
  uint64_t next_ns = 0;
  for (;;) {
    const Sending* const sending = at(number);
    if (sending == nullptr) co_return;
    const uint64_t now_ns = state.parts.shard.now_ns();
    const Peer& peer = *state.by_index[member];
    // One that has just ended may stand there still.
    const bool is_there = peer.session != nullptr && peer.is_agreed && now_ns >= next_ns;
    if (!is_there) {
      if (now_ns >= come_back_ns) co_return settle(number, member, Code::kUnavailable);
      co_await state.parts.shard.sleep_for(kComeBackLook_ns);
      continue;
    }
    rpc::Session& session = *peer.session;
    const Use use(state, session);
    const wire::BringRequest request = request_of(*sending, before.size(), now_ns);
    const CallFront front({struct_bytes(request), text_bytes(sending->id), std::as_bytes(std::span(before))});
    const runtime::OpResult reply = co_await session.call(
        {.method = static_cast<uint16_t>(Method::kBring), .head = front.bytes()}, sending->until_ns);
    if (reply.value != 0) co_return settle(number, member, told_of_node(reply.code));
    if (session.state() == rpc::Session::State::kOpen) {
      co_return settle(number, member, Code::kDeadlineExceeded);
    }
    // It may have the object, and can be asked again when it is back.
    const uint64_t ended_ns = state.parts.shard.now_ns();
    come_back_ns = moment_after(ended_ns, kComeBack_ns);
    next_ns = moment_after(ended_ns, kComeBackLook_ns);
  }
}

void Directory::State::Broadcaster::settle(uint64_t number, MemberIndex member, Code code) {
  Sending* const sending = at(number);
  if (sending == nullptr) return;
  const auto found = std::ranges::find(sending->members, member);
  sending->nodes[static_cast<size_t>(found - sending->members.begin())].code = code;
  if (--sending->running == 0) sending->news.raise();
}

void Directory::State::Broadcaster::list_changed() noexcept {
  for (const auto& [number, sending] : sendings_) sending->news.raise();
}

// --- At a member that is to get it ---

void Directory::State::Broadcaster::bring(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::BringRequest>(body);
  const bool is_sound =
      request && std::ranges::all_of(request->reserved, [](uint8_t byte) { return byte == 0; });
  if (!is_sound) return state.answer(from, Code::kMalformed);
  TakenId id;
  Code code = id.take(body, request->id_bytes);
  Course course;
  if (code == Code::kOk) code = take_course(*request, body, course);
  if (code != Code::kOk) return state.answer(from, code);
  take_order(std::string(id.text()), std::move(course),
             [this, from](Code outcome) { state.answer(from, outcome); });
}

Code Directory::State::Broadcaster::take_course(const wire::BringRequest& request,
                                                std::span<const std::byte> members, Course& course) const {
  if (members.size() != request.forebears) return Code::kMalformed;
  const bool is_sound =
      request.birth != 0 && request.plan != 0 && request.forebears <= wire::BringRequest::kForebearsMax &&
      request.piece_bytes >= kBroadcastPieceMin && request.piece_bytes <= kBroadcastPieceMax;
  if (!is_sound) return Code::kInvalidArgument;
  course.list_version = request.list_version;
  course.plan = request.plan;
  course.birth = request.birth;
  course.piece_bytes = request.piece_bytes;
  course.until_ns = moment_after(state.parts.shard.now_ns(), request.timeout_ms * kMillisecond_ns);
  std::array<MemberIndex, wire::BringRequest::kForebearsMax> taken{};
  copy_possibly_torn(taken.data(), members.data(), members.size());
  return add_forebears(std::span(taken).first(members.size()), course);
}

Code Directory::State::Broadcaster::add_forebears(std::span<const MemberIndex> members,
                                                  Course& course) const {
  for (size_t i = 0; i < members.size(); ++i) {
    const bool is_again = std::ranges::find(members.first(i), members[i]) != members.first(i).end();
    if (members[i] >= state.by_index.size() || state.is_self(members[i]) || is_again) {
      return Code::kInvalidArgument;
    }
    course.forebears.push_back(state.by_index[members[i]]->name);
  }
  if (members.empty()) return Code::kOk;
  course.root = course.forebears.back();
  course.forebears.pop_back();
  return Code::kOk;
}

void Directory::State::Broadcaster::take_order(const std::string& id, Course course,
                                               std::function<void(Code)> done) {
  const uint64_t plan = course.plan;
  Order order{.id = id, .course = std::move(course), .done = std::move(done)};
  const Code code = outcome_of(order, Code::kNotFound);
  if (code != Code::kNotFound) return order.done(code);
  if (state.asker == nullptr) return order.done(Code::kUnavailable);
  if (orders_.size() >= kOrdersMax) return order.done(Code::kOverloaded);
  orders_.push_back(std::move(order));
  state.want(id, 0, {.is_in_advance = true, .plan = plan});
}

const Directory::State::Course* Directory::State::Broadcaster::course_of(std::string_view id,
                                                                         uint64_t plan) const {
  const auto order = std::ranges::find_if(
      orders_, [&](const Order& one) { return one.course.plan == plan && one.id == id; });
  return plan == 0 || order == orders_.end() ? nullptr : &order->course;
}

// What is here counts, whatever a look has said.
Code Directory::State::Broadcaster::outcome_of(const Order& order, Code code) const {
  if (state.parts.store.has_tombstone(text_bytes(order.id), order.course.birth)) return Code::kCancelled;
  const Result<Object> object = state.parts.store.find(text_bytes(order.id));
  if (object) return object->birth == order.course.birth ? Code::kOk : Code::kExists;
  return code == Code::kOk ? Code::kNotFound : code;
}

// Another attempt follows no plan: what others get by that does not wait for this member. False: it is too
// late for another one.
bool Directory::State::Broadcaster::may_look_again(Search& search) const {
  const Course* const course = course_of(search.id, std::exchange(search.wish.plan, 0));
  return course == nullptr || state.parts.shard.now_ns() < course->until_ns;
}

// Those of the plan are first, and behind them the one that has it.
void Directory::State::Broadcaster::add_forebears(Pull& pull, std::vector<Peer*>& givers) const {
  const Course* const course = course_of(pull.id, pull.wish.plan);
  if (course == nullptr || course->list_version != state.list_version) {
    pull.wish.plan = 0;
    return;
  }
  pull.piece_bytes = course->piece_bytes;
  std::vector<Peer*> first;
  const auto add = [&](const std::string& name) {
    const auto peer = state.peers.find(name);
    if (peer == state.peers.end() || !peer->second->index || state.is_self(*peer->second->index)) return;
    if (peer->second->session != nullptr && peer->second->is_agreed) first.push_back(peer->second.get());
  };
  for (const std::string& name : course->forebears) add(name);
  pull.forebears = first.size();
  add(course->root);
  // A forebear is not asked for the whole: it may wait for one that waits for this member.
  for (Peer* const giver : givers) {
    if (std::ranges::find(first, giver) == first.end()) first.push_back(giver);
  }
  givers = std::move(first);
}

void Directory::State::Broadcaster::look_begins(std::string_view id) {
  for (Order& order : orders_) order.is_looked_for = order.is_looked_for || order.id == id;
}

void Directory::State::Broadcaster::look_ended(const Search& search) {
  std::vector<Order> over;
  std::erase_if(orders_, [&](Order& order) {
    if (!order.is_looked_for || order.id != search.id) return false;
    over.push_back(std::move(order));
    return true;
  });
  for (const Order& order : over) order.done(outcome_of(order, search.code));
}

bool Directory::State::Broadcaster::is_awaited(std::string_view id) const {
  return std::ranges::find(orders_, id, &Order::id) != orders_.end();
}

}  // namespace refract::object
