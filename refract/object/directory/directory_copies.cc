// SPDX-License-Identifier: Apache-2.0
// Bound copies: what a client wants is set at the id's home, which tells members to have one
// (docs/design/054-copies.md).
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

constexpr uint64_t kCopiesTimeout_ns = kSecond_ns;
constexpr uint64_t kAskPauseMin_ns = 200 * kMicrosecond_ns;
constexpr uint64_t kAskPauseMax_ns = 50 * kMillisecond_ns;
// An order without a copy on its way is believed for so long, and a member that would not is not asked again.
constexpr uint64_t kOrdered_ns = 10 * kSecond_ns;
constexpr uint64_t kShortPause_ns = kSecond_ns;
constexpr size_t kOrderedMax = 8;  // Of a member.
constexpr size_t kLookedAtOnce = 256;

}  // namespace

// --- At the member whose client asks ---

Task<> Directory::State::set_copies_for_asker(CopiesWish wish, TakeCopies take_kept) {
  KeptCopies kept;
  const uint8_t wanted = wish.wanted;
  uint64_t pause_ns = kAskPauseMin_ns;
  bool is_over = list_version == 0;
  while (!is_over) {
    // What is here may not be known at its home yet.
    const Result<Object> object = parts.store.find(text_bytes(wish.id));
    if (wish.birth == 0 && object) wish.birth = object->birth;
    const bool is_here = object && object->birth == wish.birth;
    Peer& home = *peer_at(home_of(wish.id));
    if (home.is_outside() && home.is_reached() && home.is_agreed) {
      kept = co_await outside->keep_copies(wish);
    } else if (is_self(*home.index)) {
      kept = copies_here(wish.id, wish.birth, wish.wanted);
    } else if (home.session != nullptr && home.is_agreed) {
      kept = co_await ask_copies_of(home, wish);
    } else {
      kept = {.code = Code::kOverloaded};
      is_over = is_away(home);
    }
    if (kept.code == Code::kOk) {
      // It is set once, so that it does not take back what another client has set since.
      wish.wanted = wire::CopiesRequest::kAsItIs;
      is_over = kept.wanted != wanted || kept.counted >= std::min<size_t>(wanted, by_index.size());
    } else if (kept.code != Code::kOverloaded && (kept.code != Code::kNotFound || !is_here)) {
      is_over = true;
    }
    if (is_over || parts.shard.now_ns() >= wish.until_ns) break;
    co_await parts.shard.sleep_for(pause_ns);
    pause_ns = std::min(2 * pause_ns, kAskPauseMax_ns);
  }
  if (kept.code == Code::kOverloaded) kept.code = Code::kUnavailable;
  take_kept(kept);
}

// kOverloaded: nothing was changed, and it is worth another try.
Task<Elsewhere::KeptCopies> Directory::State::ask_copies_of(Peer& home, const CopiesWish& wish) {
  rpc::Session& session = *home.session;
  const Use use(*this, session);
  const wire::CopiesRequest request{.list_version = list_version,
                                    .birth = wish.birth,
                                    .id_bytes = static_cast<uint16_t>(wish.id.size()),
                                    .wanted = wish.wanted,
                                    .reserved = {}};
  const CallFront front({struct_bytes(request), text_bytes(wish.id)});
  const runtime::OpResult reply = co_await session.call(
      {.method = static_cast<uint16_t>(DirectoryMethod::kCopies), .head = front.bytes()},
      parts.shard.now_ns() + kCopiesTimeout_ns);
  const bool changes_nothing = wish.wanted == wire::CopiesRequest::kAsItIs;
  if (reply.value == 0) {
    co_return KeptCopies{.code = changes_nothing ? Code::kOverloaded : Code::kUnavailable};
  }
  // About the lists; of another birth it has a body.
  if (reply.code == Code::kUnavailable || (reply.code == Code::kVersionMismatch && reply.bytes.empty())) {
    co_return KeptCopies{.code = Code::kOverloaded};
  }
  if (reply.code != Code::kOk) co_return KeptCopies{.code = reply.code};
  std::span<const std::byte> bytes = reply.bytes;
  const auto said = take<wire::CopiesReply>(bytes);
  if (!said || !bytes.empty()) co_return KeptCopies{.code = Code::kMalformed};
  co_return KeptCopies{
      .code = Code::kOk, .birth = said->birth, .wanted = said->wanted, .counted = said->counted};
}

// --- At the home ---

void Directory::State::copies(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::CopiesRequest>(body);
  if (!request || std::ranges::any_of(request->reserved, [](uint8_t byte) { return byte != 0; })) {
    return answer(from, Code::kMalformed);
  }
  TakenId id;
  const Code code = id.take_last(body, request->id_bytes);
  if (code != Code::kOk) return answer(from, code);
  const bool is_number = request->wanted <= kCopiesMax || request->wanted == wire::CopiesRequest::kAsItIs;
  if (!is_number || !is_self(home_of(id.text()))) return answer(from, Code::kInvalidArgument);
  const KeptCopies kept = copies_here(std::string(id.text()), request->birth, request->wanted);
  if (kept.code != Code::kOk && kept.code != Code::kVersionMismatch) return answer(from, kept.code);
  const wire::CopiesReply reply{
      .birth = kept.birth, .wanted = kept.wanted, .counted = kept.counted, .reserved = {}};
  answer(from, kept.code, struct_bytes(reply));
}

Elsewhere::KeptCopies Directory::State::copies_here(const std::string& id, uint64_t birth, uint8_t wanted) {
  HomeTable::Found found = table.look_up(id);
  if (found.birth == 0) {
    return {.code = found.doubtful.none() ? Code::kNotFound : Code::kUnavailable};
  }
  if (birth != 0 && found.birth != birth) return {.code = Code::kVersionMismatch, .birth = found.birth};
  if (wanted != wire::CopiesRequest::kAsItIs) (void)table.wish(id, found.birth, wanted);
  place(id, found.birth, true);
  found = table.look_up(id);
  return {.code = Code::kOk, .birth = found.birth, .wanted = found.wish.wanted(), .counted = found.counted};
}

// Where copies are made: the slot's nodes, the home last: what it has is not replaced while it is away.
std::vector<MemberIndex> Directory::State::by_place(std::string_view id) const {
  std::vector<MemberIndex> members(by_index.size());
  members.resize(routing->nodes_of(cluster::slot_of(id), members));
  const auto home = std::ranges::find(members, self);
  if (outside == nullptr && home != members.end()) std::rotate(home, home + 1, members.end());
  return members;
}

HomeTable::MemberSet Directory::State::present() const {
  MemberSet present;
  const uint64_t now_ns = parts.shard.now_ns();
  for (size_t i = 0; i < by_index.size(); ++i) {
    const bool has_stream = outside == nullptr ? by_index[i]->caller.bits != 0 : outside->current[i];
    const bool is_here = i == self || has_stream;
    present.set(i, is_here || now_ns < by_index[i]->grace_until_ns);
  }
  return present;
}

// A home that has just begun does not know yet what others have.
bool Directory::State::are_all_heard() const {
  const MemberSet heard = outside == nullptr ? table.heard() : outside->heard;
  const uint64_t now_ns = parts.shard.now_ns();
  for (size_t i = 0; i < by_index.size(); ++i) {
    if (!heard[i] && now_ns < by_index[i]->grace_until_ns) return false;
  }
  return true;
}

// May be called in the middle of a change of the store.
void Directory::State::place(const std::string& id, uint64_t birth, bool is_awaited) {
  const Named named(id, birth);
  const HomeTable::Bound bound = table.bound(id, birth);
  // Most objects never have a wish; of one that was deleted nothing is expected.
  if (bound.wish == CopiesWord()) return end_placing(named);
  for (size_t i = 0; i < by_index.size(); ++i) {
    if (bound.behind[i]) order_bind(static_cast<MemberIndex>(i), named, false);
  }
  const bool is_short = order_copies(bound, named, 0, is_awaited);
  if (is_short) {
    short_ones.insert(named);
  } else {
    short_ones.erase(named);
  }
  if (bound.wish.is_bound()) start_care();
}

// Orders what is missing of `beyond` more than the wish. True: there are fewer than the wish.
bool Directory::State::order_copies(const HomeTable::Bound& bound, const Named& named, size_t beyond,
                                    bool is_awaited) {
  const size_t wanted = bound.wish.wanted() + (bound.wish.is_bound() ? beyond : 0);
  const uint64_t now_ns = parts.shard.now_ns();
  size_t have = (bound.bound & present()).count();
  const bool is_short = have < bound.wish.wanted();
  Placing& placing = placings[named];
  std::erase_if(placing.aside, [now_ns](const auto& one) { return one.second <= now_ns; });
  std::vector<MemberIndex> over;
  for (const auto& [member, until_ns] : placing.ordered) {
    if (until_ns <= now_ns && !bound.coming[member]) over.push_back(member);
  }
  for (const MemberIndex member : over) set_aside(placing, member);
  for (const auto& [member, until_ns] : placing.ordered) have += bound.bound[member] ? 0 : 1;
  if (have < wanted && bound.is_alone && (is_awaited || are_all_heard())) {
    const std::vector<MemberIndex> members = by_place(named.first);
    for (const bool is_loose : {true, false}) {
      for (const MemberIndex member : members) {
        if (have >= wanted) break;
        const bool is_other = bound.bound[member] || placing.ordered.contains(member) ||
                              placing.aside.contains(member) || bound.loose[member] != is_loose;
        if (is_other || !can_be_ordered(member)) continue;
        placing.ordered.emplace(member, moment_after(now_ns, kOrdered_ns));
        ++by_index[member]->copies_ordered;
        ++counts.copies_ordered;
        ++have;
        order_bind(member, named, true);
      }
    }
  }
  if (placing.ordered.empty() && placing.aside.empty()) placings.erase(named);
  return is_short;
}

bool Directory::State::can_be_ordered(MemberIndex member) const {
  const Peer& peer = *by_index[member];
  const bool is_current = outside == nullptr ? table.is_current(member) : outside->current[member];
  return is_current && (is_self(member) || peer.is_agreed) && peer.copies_ordered < kOrderedMax;
}

void Directory::State::order_bind(MemberIndex member, const Named& named, bool may_pull) {
  if (is_self(member)) {
    start(outside == nullptr ? bind_here(named, may_pull) : outside->bind_here(named, may_pull));
  } else {
    order(*by_index[member], Method::kBind, named.first, named.second, may_pull);
  }
}

void Directory::State::end_order(Placing& placing, MemberIndex member) {
  if (placing.ordered.erase(member) > 0) --by_index[member]->copies_ordered;
}

void Directory::State::set_aside(Placing& placing, MemberIndex member) {
  if (!placing.ordered.contains(member)) return;
  end_order(placing, member);
  placing.aside[member] = moment_after(parts.shard.now_ns(), kOrdered_ns);
}

void Directory::State::end_placing(const Named& named) {
  if (!short_ones.empty()) short_ones.erase(named);
  const auto at = placings.empty() ? placings.end() : placings.find(named);
  if (at == placings.end()) return;
  for (const auto& [member, until_ns] : at->second.ordered) --by_index[member]->copies_ordered;
  placings.erase(at);
}

void Directory::State::end_placings_of(MemberIndex member) {
  for (auto& [named, placing] : placings) end_order(placing, member);
  std::erase_if(placings,
                [](const auto& one) { return one.second.ordered.empty() && one.second.aside.empty(); });
}

// What an ordered member says of the birth.
void Directory::State::placed(MemberIndex member, const Named& named, bool is_there) {
  const auto at = placings.find(named);
  if (at == placings.end()) return;
  if (!is_there) return set_aside(at->second, member);
  end_order(at->second, member);
  if (at->second.ordered.empty() && at->second.aside.empty()) placings.erase(at);
}

Code Directory::State::release_at_home(MemberIndex member, const Change& change) {
  const Code code = table.release(member, change.id, change.birth);
  if (code == Code::kOk) return code;
  // One more elsewhere, and it may go the next time.
  const Named named(change.id, change.birth);
  (void)order_copies(table.bound(change.id, change.birth), named, 1, false);
  return code;
}

Task<Code> Directory::State::send_bind(rpc::Session& session, MemberIndex member, const Order& order) {
  const Named named(order.id, order.birth);
  const HomeTable::Bound bound = table.bound(order.id, order.birth);
  const auto placing = placings.find(named);
  const bool is_ordered = placing != placings.end() && placing->second.ordered.contains(member);
  bool is_behind = bound.behind[member];
  CopiesWord word = bound.wish;
  if (outside != nullptr) {
    const auto at = outside->words.find(named);
    is_behind = at != outside->words.end();
    word = is_behind ? at->second : CopiesWord();
  }
  // It has changed since.
  if (order.may_pull ? !is_ordered || !word.is_bound() : !is_behind) co_return Code::kOk;
  const wire::BindRequest request{.list_version = list_version,
                                  .birth = order.birth,
                                  .word = word.bits,
                                  .id_bytes = static_cast<uint16_t>(order.id.size()),
                                  .may_pull = static_cast<uint8_t>(order.may_pull ? 1 : 0),
                                  .reserved = 0};
  const CallFront front({struct_bytes(request), text_bytes(order.id)});
  const runtime::OpResult reply =
      co_await session.call({.method = static_cast<uint16_t>(DirectoryMethod::kBind), .head = front.bytes()},
                            parts.shard.now_ns() + kCopiesTimeout_ns);
  co_return reply.value == 0 ? Code::kUnavailable : reply.code;
}

// --- What changes without a word ---

void Directory::State::start_care() {
  if (is_caring) return;
  is_caring = true;
  start(care_for_copies());
}

void Directory::State::care_again() {
  if (table.wished_behind({}, 1).empty()) return;
  looks_at_all = true;
  start_care();
  care.raise();
}

// Streams have begun or ended, a member is away for long, or there are too few copies still.
Task<> Directory::State::care_for_copies() {
  Named last_short;
  while (!table.wished_behind({}, 1).empty()) {
    const uint64_t grace_ns = next_grace_end_ns();
    const uint64_t short_ns =
        short_ones.empty() ? kForever_ns : moment_after(parts.shard.now_ns(), kShortPause_ns);
    co_await care.wait_until(std::min(grace_ns, short_ns));
    looks_at_all = looks_at_all || parts.shard.now_ns() >= grace_ns;
    if (std::exchange(looks_at_all, false)) {
      co_await look_at_wishes();
      continue;
    }
    // Some of them, then others the next time.
    std::vector<Named> some;
    auto at = short_ones.upper_bound(last_short);
    for (; at != short_ones.end() && some.size() < kLookedAtOnce; ++at) some.push_back(*at);
    last_short = at == short_ones.end() ? Named() : some.back();
    for (const auto& [id, birth] : some) place(id, birth);
  }
  is_caring = false;
}

Task<> Directory::State::look_at_wishes() {
  Named last;
  while (true) {
    const std::vector<Named> some = table.wished_behind(last, kLookedAtOnce);
    if (some.empty()) co_return;
    last = some.back();
    for (const auto& [id, birth] : some) place(id, birth);
    co_await parts.shard.sleep_for(0);
  }
}

uint64_t Directory::State::next_grace_end_ns() const {
  const uint64_t now_ns = parts.shard.now_ns();
  uint64_t next_ns = kForever_ns;
  for (const Peer* peer : by_index) {
    const bool is_away = !is_self(*peer->index) && peer->caller.bits == 0;
    if (is_away && peer->grace_until_ns > now_ns) next_ns = std::min(next_ns, peer->grace_until_ns);
  }
  return next_ns;
}

}  // namespace refract::object
