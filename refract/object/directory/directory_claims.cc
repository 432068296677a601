// SPDX-License-Identifier: Apache-2.0
// One id, one birth: what this node is about to make is claimed at the id's home first.
#include <algorithm>

#include "refract/object/directory/directory_outside.h"

namespace refract::object {

using runtime::Task;
using wire::ChangeKind;

namespace {

// A home that has just started hears from all in less.
constexpr uint64_t kClaimTimeout_ns = 3 * kSecond_ns;
constexpr uint64_t kAwayAfter_ns = kSecond_ns;
constexpr uint64_t kClaimPause_ns = 20 * kMillisecond_ns;
constexpr uint64_t kGrantedPause_ns = kSecond_ns;
constexpr uint64_t kTombstonesPause_ns = 10 * kSecond_ns;

}  // namespace

std::optional<Code> Directory::State::claim(std::string_view id, uint64_t birth, uint64_t ticket) {
  if (list_version == 0) return Code::kUnavailable;
  // A delete that has not reached all yet is about this very birth.
  if (parts.store.has_tombstone(text_bytes(id), birth)) return Code::kNotFound;
  if (granted.contains(Named(id, birth))) return Code::kOk;
  ++counts.claims;
  const MemberIndex home = home_of(id);
  if (is_self(home) && !is_leaving(id)) {
    const Code code = table.claims(self, id, birth, false);
    if (code == Code::kOk) granted.emplace(Named(id, birth), 0);
    if (code != Code::kUnavailable) {
      counts.claims_refused += code == Code::kOk ? 0 : 1;
      start_ticks();
      return code;
    }
  }
  if (!is_self(home) && is_away(*peer_at(home))) {
    ++counts.claims_refused;
    return Code::kUnavailable;
  }
  claims.emplace(ticket, Claim{.id = std::string(id),
                               .birth = birth,
                               .until_ns = moment_after(parts.shard.now_ns(), kClaimTimeout_ns)});
  if (!is_self(home)) ask_claims_of(*peer_at(home));
  start_ticks();
  return std::nullopt;
}

// Its place here is taken until the pull of an object that was deleted meanwhile has ended.
bool Directory::State::is_leaving(std::string_view id) const {
  const auto pull = pulls.find(std::string(id));
  return pull != pulls.end() && pull->second.birth == 0;
}

// Not for a moment only: it is not waited for.
bool Directory::State::is_away(const Peer& home) const {
  const uint64_t now_ns = parts.shard.now_ns();
  return !home.is_reached() && now_ns >= moment_after(home.ended_ns, kAwayAfter_ns) &&
         now_ns >= moment_after(followed_ns, kClaimTimeout_ns);
}

// Of this home, those that do not stand in its stream yet.
void Directory::State::ask_claims_of(const Peer& peer) {
  if (!peer.index || !peer.collects || !peer.has_reported) return;
  for (auto& [ticket, claim] : claims) {
    if (claim.is_asked || home_of(claim.id) != *peer.index || is_leaving(claim.id)) continue;
    claim.is_asked = true;
    Peer& to = *peer_at(*peer.index);
    to.changes.push_back(
        {.kind = ChangeKind::kClaims, .id = claim.id, .birth = claim.birth, .parts = {}, .ticket = ticket});
    to.changed.raise();
  }
}

void Directory::State::settle_claim(uint64_t ticket, Code code) {
  const auto at = claims.find(ticket);
  if (at == claims.end()) return;
  if (code == Code::kUnavailable) {
    // The home has not heard from all: it is asked again.
    at->second.is_asked = false;
    return;
  }
  const Claim claim = std::move(at->second);
  claims.erase(at);
  if (code == Code::kOk) granted.emplace(Named(claim.id, claim.birth), 0);
  counts.claims_refused += code == Code::kOk ? 0 : 1;
  start_ticks();
  if (asker != nullptr) asker->claimed(ticket, code == Code::kCancelled ? Code::kNotFound : code);
}

void Directory::State::unclaim(std::string_view id, uint64_t birth) {
  if (granted.erase(Named(id, birth)) == 0) return;
  say({.kind = ChangeKind::kUnclaims, .id = std::string(id), .birth = birth, .parts = {}});
}

bool Directory::State::needs_ticks() const {
  return !claims.empty() || !granted.empty() || !parts.store.tombstones().empty();
}

// The home may have forgotten them, and its word was lost.
void Directory::State::say_tombstones() {
  for (const auto& [id, birth] : parts.store.tombstones()) {
    if (!is_self(home_of(id))) say_tombstone(id, birth);
  }
}

// Of tombstones for which there was no room.
void Directory::State::drop_again() {
  for (const auto& [id, birth] : table.unacknowledged(self)) (void)bury(id, birth);
}

// Runs while there are claims.
void Directory::State::start_ticks() {
  if (is_ticking || !needs_ticks()) return;
  is_ticking = true;
  start(run_ticks());
}

Task<> Directory::State::run_ticks() {
  uint64_t granted_ns = moment_after(parts.shard.now_ns(), kGrantedPause_ns);
  uint64_t tombstones_ns = moment_after(parts.shard.now_ns(), kTombstonesPause_ns);
  while (needs_ticks()) {
    const uint64_t pause_ns = claims.empty() ? kGrantedPause_ns : kClaimPause_ns;
    co_await parts.shard.sleep_for(pause_ns);
    look_after_claims();
    const uint64_t now_ns = parts.shard.now_ns();
    if (now_ns < granted_ns) continue;
    look_after_granted();
    drop_again();
    granted_ns = moment_after(now_ns, kGrantedPause_ns);
    if (now_ns < tombstones_ns) continue;
    say_tombstones();
    tombstones_ns = moment_after(now_ns, kTombstonesPause_ns);
  }
  is_ticking = false;
}

void Directory::State::look_after_claims() {
  const uint64_t now_ns = parts.shard.now_ns();
  std::vector<uint64_t> over;
  for (const auto& [ticket, claim] : claims) {
    if (claim.until_ns <= now_ns) over.push_back(ticket);
  }
  for (const uint64_t ticket : over) {
    // The home may grant it later.
    const Claim claim = std::move(claims.at(ticket));
    claims.erase(ticket);
    ++counts.claims_refused;
    say({.kind = ChangeKind::kUnclaims, .id = claim.id, .birth = claim.birth, .parts = {}});
    if (asker != nullptr) asker->claimed(ticket, Code::kUnavailable);
  }
  std::vector<std::pair<uint64_t, Code>> settled;
  for (auto& [ticket, claim] : claims) {
    if (claim.is_asked || is_leaving(claim.id)) continue;
    const MemberIndex home = home_of(claim.id);
    if (!is_self(home)) continue;
    settled.emplace_back(ticket, table.claims(self, claim.id, claim.birth, false));
  }
  for (const auto& [ticket, code] : settled) settle_claim(ticket, code);
  for (Peer* peer : by_index) ask_claims_of(*peer);
  if (outside != nullptr) ask_claims_of(outside->peer);
}

// What was granted, and came to nothing without a word.
void Directory::State::look_after_granted() {
  std::vector<Named> over;
  for (const auto& [named, unused] : granted) {
    const auto id = text_bytes(named.first);
    const bool is_making = asker != nullptr && asker->is_making(named.first, named.second);
    if (!is_making && !parts.store.creation(id, named.second)) over.push_back(named);
  }
  for (const auto& [id, birth] : over) unclaim(id, birth);
}

}  // namespace refract::object
