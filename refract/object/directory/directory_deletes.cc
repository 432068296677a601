// SPDX-License-Identifier: Apache-2.0
// Deletes on all nodes: the home buries a birth, each member drops it and refuses it, and when all do, all
// forget it.
#include <algorithm>

#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/directory/directory_outside.h"
#include "refract/object/directory/directory_use.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;
using wire::DirectoryMethod;

namespace {

constexpr uint64_t kOrderTimeout_ns = 2 * kSecond_ns;
// So long a delete waits for members that have not acknowledged.
constexpr uint64_t kRemoveTimeout_ns = kSecond_ns;
constexpr uint64_t kOrderPause_ns = 100 * kMillisecond_ns;

}  // namespace

Code Directory::State::take_named(std::span<const std::byte> body, wire::NamedRequest& request, TakenId& id) {
  const auto taken = take<wire::NamedRequest>(body);
  if (!taken || std::ranges::any_of(taken->reserved, [](uint8_t byte) { return byte != 0; })) {
    return Code::kMalformed;
  }
  request = *taken;
  return id.take_last(body, request.id_bytes);
}

// --- At the member whose client deletes ---

Task<> Directory::State::remove_for_asker(std::string id, uint64_t birth, uint64_t ticket) {
  Removed removed;
  if (list_version != 0) {
    // What is here may not be known at its home yet.
    if (birth == 0) {
      if (const Result<Object> object = parts.store.find(text_bytes(id))) birth = object->birth;
    }
    Peer& home = *peer_at(home_of(id));
    if (is_self(*home.index)) {
      removed = co_await remove_here(id, birth);
    } else if (home.is_outside()) {
      removed = co_await outside->remove(id, birth);
    } else if (home.session != nullptr && home.is_agreed) {
      removed = co_await remove_at(home, id, birth);
    }
  }
  if (asker != nullptr) asker->removed(ticket, removed);
}

Task<Removed> Directory::State::remove_at(Peer& home, const std::string& id, uint64_t birth) {
  rpc::Session& session = *home.session;
  const Use use(*this, session);
  const wire::NamedRequest request{.list_version = list_version,
                                   .birth = birth,
                                   .id_bytes = static_cast<uint16_t>(id.size()),
                                   .reserved = {}};
  const CallFront front({struct_bytes(request), text_bytes(id)});
  const runtime::OpResult reply = co_await session.call(
      {.method = static_cast<uint16_t>(DirectoryMethod::kRemove), .head = front.bytes()},
      parts.shard.now_ns() + kRemoveTimeout_ns + kOrderTimeout_ns);
  Removed removed{.code = reply.code, .missed = {}};
  // Sent, and not answered: it may be under way. The list may have changed meanwhile.
  if (reply.value == 0) co_return removed;
  if (reply.code == Code::kVersionMismatch && reply.bytes.empty()) removed.code = Code::kUnavailable;
  std::span<const std::byte> bytes = reply.bytes;
  const auto said = take<wire::RemoveReply>(bytes);
  if (reply.code != Code::kOk && reply.code != Code::kVersionMismatch) co_return removed;
  if (!said) co_return removed;
  removed.birth = said->birth;
  removed.holders = said->holders;
  for (const std::byte index : bytes.first(std::min<size_t>(bytes.size(), said->missed))) {
    const auto member = static_cast<size_t>(index);
    if (member < by_index.size()) removed.missed.push_back(by_index[member]->name);
  }
  co_return removed;
}

// --- At the home ---

void Directory::State::remove(const rpc::Responder& from, std::span<const std::byte> body) {
  wire::NamedRequest request{};
  TakenId id;
  const Code code = take_named(body, request, id);
  if (code != Code::kOk) return answer(from, code);
  if (!is_self(home_of(id.text()))) return answer(from, Code::kInvalidArgument);
  start(answer_remove(from, std::string(id.text()), request.birth));
}

Task<> Directory::State::answer_remove(rpc::Responder from, std::string id, uint64_t birth) {
  const Removed removed = co_await remove_here(std::move(id), birth);
  std::vector<uint8_t> missed;
  for (const std::string& name : removed.missed) {
    const auto at = peers.find(name);
    if (at != peers.end() && at->second->index) missed.push_back(*at->second->index);
  }
  const wire::RemoveReply reply{.birth = removed.birth,
                                .holders = removed.holders,
                                .missed = static_cast<uint8_t>(missed.size()),
                                .reserved = {}};
  answer(from, removed.code, struct_bytes(reply), std::as_bytes(std::span(missed)));
}

Task<Removed> Directory::State::remove_here(std::string id, uint64_t birth) {
  const HomeTable::Found found = table.look_up(id);
  if (birth == 0) birth = found.birth;
  if (birth == 0) {
    const bool knows = found.doubtful.none();
    co_return Removed{.code = knows ? Code::kNotFound : Code::kUnavailable, .missed = {}};
  }
  if (found.birth != 0 && found.birth != birth) {
    co_return Removed{.code = Code::kVersionMismatch, .birth = found.birth, .missed = {}};
  }
  if (parts.store.tombstones().size() >= kTombstonesMax) {
    co_return Removed{.code = Code::kUnavailable, .missed = {}};
  }
  // Without room for the tombstone nothing is changed.
  if (const Code room = parts.store.add_tombstone(text_bytes(id), birth); room != Code::kOk) {
    co_return Removed{.code = room, .missed = {}};
  }
  Removal removal{.id = id, .birth = birth};
  removals.push_back(&removal);
  const Code code = bury(id, birth);
  if (code == Code::kOk && awaits_word_on(id, birth)) {
    const uint64_t until_ns = parts.shard.now_ns() + kRemoveTimeout_ns;
    // Awaiting changes it, which the check does not see.
    runtime::Pending all = parts.shard.ops().begin(until_ns);  // NOLINT(misc-const-correctness)
    removal.waiter = all.token();
    (void)co_await all;
  }
  std::erase(removals, &removal);
  Removed removed{.code = code, .birth = birth, .holders = removal.holders, .missed = {}};
  const MemberSet missing = table.missing(id, birth);
  for (size_t i = 0; i < by_index.size(); ++i) {
    if (missing[i]) removed.missed.push_back(by_index[i]->name);
  }
  co_return removed;
}

// Whether a member that can be told, and can answer, has not dropped it yet.
bool Directory::State::awaits_word_on(std::string_view id, uint64_t birth) const {
  const MemberSet missing = table.missing(id, birth);
  const uint64_t now_ns = parts.shard.now_ns();
  return std::ranges::any_of(by_index, [&](const Peer* peer) {
    if (!missing[*peer->index]) return false;
    // Or it may be back at once.
    const uint64_t last_ns = std::max(peer->ended_ns, followed_ns);
    return (peer->is_agreed && peer->caller.bits != 0) || now_ns < moment_after(last_ns, kRemoveTimeout_ns);
  });
}

// The tombstone first: what is dropped behind it does not come back.
Code Directory::State::bury(std::string_view id, uint64_t birth) {
  uint64_t holders = 0;
  const Code code = drop_here(id, birth, holders);
  table.bury(id, birth);
  for (Peer* peer : by_index) {
    if (!is_self(*peer->index) && table.missing(id, birth)[*peer->index]) {
      order(*peer, Method::kDrop, id, birth);
    }
  }
  if (code == Code::kOk) acknowledged(self, std::string(id), birth, holders);
  return code == Code::kOverloaded ? Code::kOk : code;
}

void Directory::State::order(Peer& peer, Method method, std::string_view id, uint64_t birth, bool may_pull) {
  if (!peer.is_agreed) return;
  const bool is_new =
      peer.orders.insert({.method = method, .id = std::string(id), .birth = birth, .may_pull = may_pull})
          .second;
  if (is_new) peer.ordered.raise();
}

void Directory::State::order_drops(Peer& peer) {
  if (peer.is_outside() || !peer.index || !peer.is_agreed) return;
  for (const auto& [id, birth] : table.unacknowledged(*peer.index)) order(peer, Method::kDrop, id, birth);
}

void Directory::State::acknowledged(MemberIndex member, const std::string& id, uint64_t birth,
                                    uint64_t holders) {
  const bool is_last = table.acknowledge(member, id, birth);
  for (Removal* removal : removals) {
    if (removal->birth != birth || removal->id != id) continue;
    removal->holders += holders;
    const bool is_over = is_last || !awaits_word_on(id, birth);
    if (is_over && removal->waiter != 0) {
      (void)parts.shard.ops().complete(std::exchange(removal->waiter, 0), {.code = Code::kOk});
      break;
    }
  }
  if (!is_last) return;
  parts.store.remove_tombstone(text_bytes(id), birth);
  for (Peer* peer : by_index) {
    if (!is_self(*peer->index)) order(*peer, Method::kForget, id, birth);
  }
}

// --- At each member ---

// What the home of an id says.
void Directory::State::named(const rpc::Responder& from, Peer& peer, Method method,
                             std::span<const std::byte> body) {
  wire::NamedRequest request{};
  TakenId id;
  Code code = take_named(body, request, id);
  if (code == Code::kOk && request.birth == 0) code = Code::kInvalidArgument;
  if (code == Code::kOk && home_of(id.text()) != *peer.index) code = Code::kAccessDenied;
  if (code != Code::kOk) return answer(from, code);
  answer(from, follow_order(method, id.text(), request.birth));
}

Code Directory::State::follow_order(Method method, std::string_view id, uint64_t birth) {
  if (method == Method::kAppeared) raise_want(id);
  if (method == Method::kForget) parts.store.remove_tombstone(text_bytes(id), birth);
  if (method != Method::kDrop) return Code::kOk;
  uint64_t holders = 0;
  const Code code = drop_here(id, birth, holders);
  // Behind its withdraw, so that nothing of the birth comes after it.
  if (code == Code::kOk) {
    say({.kind = wire::ChangeKind::kDropped,
         .id = std::string(id),
         .birth = birth,
         .parts = {.body_bytes = holders}});
  }
  return code;
}

// This member refuses the birth from now on, and has it no more. All steps are done each time.
Code Directory::State::drop_here(std::string_view id, uint64_t birth, uint64_t& holders) {
  const Code code = parts.store.add_tombstone(text_bytes(id), birth);
  if (code != Code::kOk) return code;
  releasing.erase(Named(id, birth));
  const auto pull = pulls.find(std::string(id));
  if (pull != pulls.end() && pull->second.birth == birth) {
    pull->second.birth = 0;
    if (pull->second.arrival != nullptr) pull->second.arrival->end();
    if (pull->second.transfer != nullptr) pull->second.transfer->stop();
  }
  if (granted.erase(Named(id, birth)) > 0 && asker != nullptr) asker->lost(id, birth);
  pull_room.end_grace_of(text_bytes(id), birth);
  const Result<uint64_t> erased = parts.store.erase(text_bytes(id), birth);
  if (erased) {
    holders += *erased;
    ++counts.dropped;
  }
  if (asker != nullptr) asker->store_changed();
  start_ticks();
  // A full store cannot say that it is held: again later.
  return erased || erased.error().code != Code::kNoSpace ? Code::kOk : Code::kOverloaded;
}

// --- Orders ---

// One after the other. A drop that was not taken, for want of room or of a hello, is ordered again.
Task<> Directory::State::run_orders(Peer& peer, uint32_t run) {
  rpc::Session& session = *peer.session;
  const Use use(*this, session);
  while (is_running(peer, run)) {
    if (peer.orders.empty() || !peer.is_agreed) {
      co_await peer.ordered.wait_until(kForever_ns);
      continue;
    }
    const Order order = std::move(peer.orders.extract(peer.orders.begin()).value());
    const bool is_bind = order.method == Method::kBind;
    Code code = Code::kOk;
    if (is_bind) {
      code = co_await send_bind(session, *peer.index, order);
    } else {
      code = co_await send_order(session, order);
    }
    if (!is_running(peer, run)) co_return;
    if (is_bind) bind_answered(*peer.index, Named(order.id, order.birth), code);
    if (code == Code::kOk) continue;
    co_await parts.shard.sleep_for(kOrderPause_ns);
    if (!is_running(peer, run)) co_return;
    order_drops(peer);
  }
}

Task<Code> Directory::State::send_order(rpc::Session& session, const Order& order) {
  const wire::NamedRequest request{.list_version = list_version,
                                   .birth = order.birth,
                                   .id_bytes = static_cast<uint16_t>(order.id.size()),
                                   .reserved = {}};
  const CallFront front({struct_bytes(request), text_bytes(order.id)});
  const runtime::OpResult reply =
      co_await session.call({.method = static_cast<uint16_t>(order.method), .head = front.bytes()},
                            parts.shard.now_ns() + kOrderTimeout_ns);
  co_return reply.value == 0 ? Code::kUnavailable : reply.code;
}

}  // namespace refract::object
