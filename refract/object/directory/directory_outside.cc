// SPDX-License-Identifier: Apache-2.0
// A directory whose ids have a home outside of the list of members: what goes to it and comes from it.
#include <algorithm>

#include "refract/object/directory/directory_state.h"

namespace refract::object {

using runtime::Task;
using wire::ChangeKind;
using wire::DirectoryMethod;

namespace {

// As long as a home that is a member gives its members.
constexpr uint64_t kBuryTimeout_ns = kSecond_ns;
constexpr uint64_t kDropPause_ns = 100 * kMillisecond_ns;

}  // namespace

void Directory::State::reach_outside() {
  if (outside == nullptr) return;
  outside->index = kOutside;
  outside->was_reported_to = false;
  outside->is_open_outside = false;
  start_peer(*outside);
  parts.outside->reach({.list_version = list_version,
                        .list_digest = list_digest,
                        .members = by_index.size(),
                        .self = self,
                        .identity = parts.identity},
                       *this);
}

void Directory::State::home_opened() noexcept {
  outside->is_open_outside = true;
  start_peer(*outside);
}

void Directory::State::home_closed() noexcept {
  outside->is_open_outside = false;
  undone_drops.clear();
  start_peer(*outside);
}

// --- Changes ---

Task<Code> Directory::State::send_outside(Peer& peer, uint32_t run, const Page& page) {
  std::vector<OutsideHome::Change> changes;
  changes.reserve(page.changes.size());
  for (const Change& change : page.changes) {
    changes.push_back({.kind = change.kind, .id = change.id, .birth = change.birth, .parts = change.parts});
  }
  peer.sending = page.changes;
  std::vector<Code> codes;
  const Code code = co_await parts.outside->changes(
      {.changes = changes, .is_report = page.is_report, .is_last = page.is_last}, codes);
  if (is_running(peer, run)) peer.sending.clear();
  if (code != Code::kOk) co_return code;
  // Said under another list, or in an earlier stream: it counts no more.
  if (!is_running(peer, run) || codes.size() != page.changes.size()) co_return Code::kUnavailable;
  for (size_t i = 0; i < codes.size(); ++i) take_code(page.changes[i], codes[i]);
  co_return Code::kOk;
}

Task<Directory::State::Said> Directory::State::ask_outside(Search& search) {
  if (!is_reached(*outside) || !outside->is_agreed) co_return std::nullopt;
  const uint64_t version = list_version;
  Said said =
      co_await parts.outside->look_up(search.id, {.pulls = search.pulls, .tells_later = search.tells_later});
  if (version != list_version) co_return std::nullopt;
  co_return said;
}

// --- Deletes ---

// Nothing is changed here before the home has buried it: what fails until then was not done.
Task<Removed> Directory::State::remove_outside(std::string id, uint64_t birth) {
  if (!is_reached(*outside) || !outside->is_agreed) co_return Removed{};
  const uint64_t version = list_version;
  const Said found = co_await parts.outside->look_up(id, {});
  if (!found || version != list_version) co_return Removed{};
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
  removals.push_back(&removal);
  const OutsideHome::Buried buried = co_await parts.outside->bury(id, birth);
  const Code code = buried.code != Code::kOk ? buried.code : await_removal_from(buried, removal, version);
  if (code == Code::kOk && removal.awaited.any()) {
    // Awaiting changes it, which the check does not see.
    runtime::Pending all =  // NOLINT(misc-const-correctness)
        parts.shard.ops().begin(parts.shard.now_ns() + kBuryTimeout_ns);
    removal.waiter = all.token();
    (void)co_await all;
  }
  std::erase(removals, &removal);
  Removed removed{.code = code, .birth = birth, .holders = removal.holders, .missed = {}};
  const MemberSet missed = removal.awaited | (buried.missing & buried.unknown);
  for (size_t i = 0; code == Code::kOk && i < by_index.size(); ++i) {
    if (missed[i]) removed.missed.push_back(by_index[i]->name);
  }
  // Under another list it is not known who has not.
  if (version != list_version) removed = {.code = Code::kIndeterminate, .missed = {}};
  co_return removed;
}

Code Directory::State::room_for_tombstone(std::string_view id, uint64_t birth) {
  const auto bytes = text_bytes(id);
  if (parts.store.has_tombstone(bytes, birth)) return Code::kOk;
  if (parts.store.tombstones().size() >= kTombstonesMax) return Code::kUnavailable;
  const Code code = parts.store.add_tombstone(bytes, birth);
  if (code == Code::kOk) parts.store.remove_tombstone(bytes, birth);
  return code;
}

// It is buried: this node sees to it, whatever becomes of the home.
Code Directory::State::await_removal_from(const OutsideHome::Buried& buried, Removal& removal,
                                          uint64_t version) {
  // Heard of meanwhile are those that are not awaited any more.
  removal.awaited &= buried.missing & ~buried.unknown;
  // All have acknowledged it already, and forgotten.
  if (removal.awaited.none() && buried.unknown.none()) return Code::kOk;
  const Code code = parts.store.add_tombstone(text_bytes(removal.id), removal.birth);
  start_ticks();
  return code == Code::kOk && version == list_version ? Code::kOk : Code::kIndeterminate;
}

void Directory::State::home_heard(MemberIndex member, const std::string& id, uint64_t birth,
                                  uint64_t holders) noexcept {
  for (Removal* removal : removals) {
    if (removal->birth != birth || removal->id != id || !removal->awaited[member]) continue;
    removal->holders += holders;
    removal->awaited.reset(member);
    if (removal->waiter == 0 || removal->awaited.any()) continue;
    (void)parts.shard.ops().complete(std::exchange(removal->waiter, 0), {.code = Code::kOk});
    break;
  }
}

// --- Orders ---

void Directory::State::home_ordered(DirectoryMethod method, const std::string& id, uint64_t birth) noexcept {
  // Else the next report ends with it.
  if (!outside->collects) return;
  const Code code = follow_order(method, id, birth);
  if (method != DirectoryMethod::kDrop || code == Code::kOk) return;
  undone_drops.emplace(id, birth);
  if (!std::exchange(is_dropping, true)) start(drop_until_done());
}

Task<> Directory::State::drop_until_done() {
  while (!undone_drops.empty()) {
    co_await parts.shard.sleep_for(kDropPause_ns);
    std::erase_if(undone_drops, [this](const Named& named) {
      return follow_order(DirectoryMethod::kDrop, named.first, named.second) == Code::kOk;
    });
  }
  is_dropping = false;
}

void Directory::State::add_outside_away(std::vector<std::string>& names) const {
  if (outside == nullptr) return;
  if (!outside->has_reported) {
    names.push_back(outside->name);
    return;
  }
  const MemberSet unknown = parts.outside->counts().unknown;
  for (const Peer* peer : by_index) {
    if (!unknown[*peer->index] || is_self(*peer->index)) continue;
    if (std::ranges::find(names, peer->name) == names.end()) names.push_back(peer->name);
  }
}

}  // namespace refract::object
