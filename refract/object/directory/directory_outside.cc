// SPDX-License-Identifier: Apache-2.0
// A directory whose ids have a home outside of the list of members: what goes to it and comes from it.
#include "refract/object/directory/directory_outside.h"

#include <algorithm>

namespace refract::object {

using runtime::Task;
using wire::ChangeKind;
using wire::DirectoryMethod;

namespace {

// As long as a home that is a member gives its members.
constexpr uint64_t kBuryTimeout_ns = kSecond_ns;
constexpr uint64_t kDropPause_ns = 100 * kMillisecond_ns;

}  // namespace

void Directory::State::Outside::reach() {
  peer.index = kOutside;
  peer.was_reported_to = false;
  peer.is_open_outside = false;
  current.reset();
  heard.reset();
  words.clear();
  unsettled.clear();
  start_care();
  state.start_peer(peer);
  home.reach({.list_version = state.list_version,
              .list_digest = state.list_digest,
              .members = state.by_index.size(),
              .self = state.self,
              .identity = state.parts.identity},
             *this);
}

void Directory::State::Outside::home_opened() noexcept {
  peer.is_open_outside = true;
  state.start_peer(peer);
}

void Directory::State::Outside::home_closed() noexcept {
  peer.is_open_outside = false;
  undone_drops_.clear();
  current.reset();
  heard.reset();
  words.clear();
  state.start_peer(peer);
}

// --- Changes ---

Task<Code> Directory::State::Outside::send_page(uint32_t run, const Page& page) {
  std::vector<OutsideHome::Change> changes;
  changes.reserve(page.changes.size());
  for (const Change& change : page.changes) {
    changes.push_back({.kind = change.kind,
                       .id = change.id,
                       .birth = change.birth,
                       .parts = change.parts,
                       .copies = change.copies});
  }
  peer.sending = page.changes;
  std::vector<Code> codes;
  const Code code = co_await home.changes(
      {.changes = changes, .is_report = page.is_report, .is_last = page.is_last}, codes);
  if (state.is_running(peer, run)) peer.sending.clear();
  if (code != Code::kOk) co_return code;
  // Said under another list, or in an earlier stream: it counts no more.
  if (!state.is_running(peer, run) || codes.size() != page.changes.size()) co_return Code::kUnavailable;
  for (size_t i = 0; i < codes.size(); ++i) state.take_code(page.changes[i], codes[i]);
  co_return Code::kOk;
}

Task<Directory::State::Said> Directory::State::Outside::ask(Search& search) {
  // As with a home that is a member: the look-up must not overtake the stream.
  const bool is_said = co_await state.all_is_said(search.id);
  if (!is_said || !peer.is_reached() || !peer.is_agreed) co_return std::nullopt;
  const uint64_t version = state.list_version;
  Said said = co_await home.look_up(search.id, {.pulls = search.pulls, .tells_later = search.tells_later});
  if (version != state.list_version) co_return std::nullopt;
  co_return said;
}

// --- Deletes ---

// Nothing is changed here before the home has buried it: what fails until then was not done.
Task<Removed> Directory::State::Outside::remove(std::string id, uint64_t birth) {
  if (!peer.is_reached() || !peer.is_agreed) co_return Removed{};
  const uint64_t version = state.list_version;
  const Said found = co_await home.look_up(id, {});
  if (!found || version != state.list_version) co_return Removed{};
  if (birth == 0) birth = found->birth;
  if (birth == 0) {
    const bool knows = found->doubtful.none();
    co_return Removed{.code = knows ? Code::kNotFound : Code::kUnavailable, .missed = {}};
  }
  if (found->birth != 0 && found->birth != birth) {
    co_return Removed{.code = Code::kVersionMismatch, .birth = found->birth, .missed = {}};
  }
  if (const Code room = room_for_tombstone(id, birth); room != Code::kOk) {
    co_return Removed{.code = room, .missed = {}};
  }
  Removal removal{.id = id, .birth = birth};
  removal.awaited.set();
  state.removals.push_back(&removal);
  const OutsideHome::Buried buried = co_await home.bury(id, birth);
  const Code code = buried.code != Code::kOk ? buried.code : await_removal_from(buried, removal, version);
  if (code == Code::kOk && removal.awaited.any()) {
    // Awaiting changes it, which the check does not see.
    runtime::Pending all =  // NOLINT(misc-const-correctness)
        state.parts.shard.ops().begin(state.parts.shard.now_ns() + kBuryTimeout_ns);
    removal.waiter = all.token();
    (void)co_await all;
  }
  std::erase(state.removals, &removal);
  Removed removed{.code = code, .birth = birth, .holders = removal.holders, .missed = {}};
  const MemberSet missed = removal.awaited | (buried.missing & buried.unknown);
  for (size_t i = 0; code == Code::kOk && i < state.by_index.size(); ++i) {
    if (missed[i]) removed.missed.push_back(state.by_index[i]->name);
  }
  // Under another list it is not known who has not.
  if (version != state.list_version) removed = {.code = Code::kIndeterminate, .missed = {}};
  co_return removed;
}

Code Directory::State::Outside::room_for_tombstone(std::string_view id, uint64_t birth) {
  const auto bytes = text_bytes(id);
  if (state.parts.store.has_tombstone(bytes, birth)) return Code::kOk;
  if (state.parts.store.tombstones().size() >= kTombstonesMax) return Code::kUnavailable;
  const Code code = state.parts.store.add_tombstone(bytes, birth);
  if (code == Code::kOk) state.parts.store.remove_tombstone(bytes, birth);
  return code;
}

// It is buried: this node sees to it, whatever becomes of the home.
Code Directory::State::Outside::await_removal_from(const OutsideHome::Buried& buried, Removal& removal,
                                                   uint64_t version) {
  // Heard of meanwhile are those that are not awaited any more.
  removal.awaited &= buried.missing & ~buried.unknown;
  // All have acknowledged it already, and forgotten.
  if (removal.awaited.none() && buried.unknown.none()) return Code::kOk;
  const Code code = state.parts.store.add_tombstone(text_bytes(removal.id), removal.birth);
  state.start_ticks();
  return code == Code::kOk && version == state.list_version ? Code::kOk : Code::kIndeterminate;
}

void Directory::State::Outside::home_heard(MemberIndex member, const std::string& id, uint64_t birth,
                                           uint64_t holders) noexcept {
  for (Removal* removal : state.removals) {
    if (removal->birth != birth || removal->id != id || !removal->awaited[member]) continue;
    removal->holders += holders;
    removal->awaited.reset(member);
    if (removal->waiter == 0 || removal->awaited.any()) continue;
    (void)state.parts.shard.ops().complete(std::exchange(removal->waiter, 0), {.code = Code::kOk});
    break;
  }
}

// --- Orders ---

void Directory::State::Outside::home_ordered(DirectoryMethod method, const std::string& id,
                                             uint64_t birth) noexcept {
  // Else the next report ends with it.
  if (!peer.collects) return;
  const Code code = state.follow_order(method, id, birth);
  if (method != DirectoryMethod::kDrop || code == Code::kOk) return;
  undone_drops_.emplace(id, birth);
  if (!std::exchange(is_dropping_, true)) state.start(drop_until_done());
}

Task<> Directory::State::Outside::drop_until_done() {
  while (!undone_drops_.empty()) {
    co_await state.parts.shard.sleep_for(kDropPause_ns);
    std::erase_if(undone_drops_, [this](const Named& named) {
      return state.follow_order(DirectoryMethod::kDrop, named.first, named.second) == Code::kOk;
    });
  }
  is_dropping_ = false;
}

void Directory::State::Outside::add_away(std::vector<std::string>& names) const {
  if (!peer.has_reported) {
    names.push_back(peer.name);
    return;
  }
  const MemberSet unknown = home.counts().unknown;
  for (const Peer* member : state.by_index) {
    if (!unknown[*member->index] || state.is_self(*member->index)) continue;
    if (std::ranges::find(names, member->name) == names.end()) names.push_back(member->name);
  }
}

}  // namespace refract::object
