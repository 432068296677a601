// SPDX-License-Identifier: Apache-2.0
#include "refract/object/directory/home_table.h"

#include <algorithm>

namespace refract::object {

void HomeTable::begin(size_t members) {
  members_ = members;
  streams_.assign(members, 0);
  identities_.assign(members, {});
  current_.reset();
  is_complete_ = false;
  entries_.clear();
  lingering_ = 0;
  tombstones_.clear();
  wished_.clear();
  heard_.reset();
}

HomeTable::MemberSet HomeTable::all() const noexcept {
  return members_ == 0 ? MemberSet() : ~MemberSet() >> (cluster::kMembersMax - members_);
}

// --- Streams ---

void HomeTable::open_stream(MemberIndex member, const std::array<uint64_t, 2>& identity) {
  ++streams_[member];
  current_.reset(member);
  if (identities_[member] == identity) return;
  identities_[member] = identity;
  is_complete_ = false;
  drop_words([member](const Word& word) { return word.member == member; });
  // What it acknowledged is not in its memory any more.
  for (auto& [named, acknowledged] : tombstones_) acknowledged.reset(member);
}

void HomeTable::end_report(MemberIndex member) {
  const Word now = word_of(member);
  current_.set(member);
  heard_.set(member);
  is_complete_ = is_complete_ || unknown().none();
  drop_words([&](const Word& word) { return word.member == member && word.stream != now.stream; });
}

void HomeTable::close_stream(MemberIndex member) {
  current_.reset(member);
}

bool HomeTable::drop_words(Birth& birth, const std::function<bool(const Word&)>& is_over) {
  std::erase_if(birth.holders, is_over);
  birth.is_claimed = birth.is_claimed && !is_over(birth.claim);
  return birth.is_silent();
}

void HomeTable::drop_words(const std::function<bool(const Word&)>& is_over) {
  const bool all_are_known = unknown().none();
  for (auto at = entries_.begin(); at != entries_.end();) {
    std::erase_if(at->second, [&](Birth& birth) {
      const bool was_silent = birth.is_silent();
      const bool is_silent = drop_words(birth, is_over);
      // One that no member is known to have had does not linger.
      const bool goes = is_silent && (all_are_known || birth.birth == 0);
      if (is_silent && !was_silent && birth.birth != 0) ++lingering_;
      return goes;
    });
    at = at->second.empty() ? entries_.erase(at) : std::next(at);
  }
  if (all_are_known) lingering_ = 0;
}

void HomeTable::settle(std::string_view id, uint64_t birth) {
  const auto at = entries_.find(std::string(id));
  const auto settled = std::ranges::find(at->second, birth, &Birth::birth);
  if (!settled->is_silent()) return;
  if (unknown().any() && birth != 0) {
    ++lingering_;
    return;
  }
  at->second.erase(settled);
  if (at->second.empty()) entries_.erase(at);
}

bool HomeTable::is_better(const Birth& one, const Birth& other) noexcept {
  if ((one.birth == 0) != (other.birth == 0)) return other.birth == 0;
  if (one.holders.size() != other.holders.size()) return one.holders.size() > other.holders.size();
  if (one.is_claimed != other.is_claimed) return one.is_claimed;
  return one.birth < other.birth;
}

std::vector<HomeTable::Named> HomeTable::losers() const {
  std::vector<Named> losers;
  if (!is_complete()) return losers;
  for (const auto& [id, entry] : entries_) {
    if (entry.size() < 2) continue;
    const auto best = std::ranges::min_element(entry, is_better);
    for (const Birth& birth : entry) {
      if (birth.birth != best->birth && birth.birth != 0) losers.emplace_back(id, birth.birth);
    }
  }
  return losers;
}

// --- What a member says ---

const HomeTable::Birth* HomeTable::find(std::string_view id, uint64_t birth) const {
  const auto at = entries_.find(std::string(id));
  if (at == entries_.end()) return nullptr;
  const auto found = std::ranges::find(at->second, birth, &Birth::birth);
  return found == at->second.end() ? nullptr : &*found;
}

HomeTable::Birth& HomeTable::birth_for(std::string_view id, uint64_t birth) {
  Entry& entry = entries_[std::string(id)];
  const auto found = std::ranges::find(entry, birth, &Birth::birth);
  if (found != entry.end()) {
    if (found->is_silent()) --lingering_;
    return *found;
  }
  entry.emplace_back();
  entry.back().birth = birth;
  return entry.back();
}

void HomeTable::set_holder(Birth& birth, const Word& word) {
  birth.was_held = true;
  std::erase_if(birth.holders, [&](const Word& one) { return one.member == word.member; });
  if (word.is_coming) {
    birth.holders.push_back(word);
  } else {
    // Before those to which it comes.
    birth.holders.insert(std::ranges::find_if(birth.holders, &Word::is_coming), word);
  }
}

Code HomeTable::holds(MemberIndex member, std::string_view id, uint64_t birth, const ObjectParts& parts,
                      CopiesWord copies) {
  if (is_buried(id, birth)) return Code::kCancelled;
  const bool is_conflict = is_complete() && has_other(id, birth);
  Birth& entry = birth_for(id, birth);
  entry.parts = parts;
  Word word = word_of(member);
  word.copies = copies;
  set_holder(entry, word);
  entry.wish = std::max(entry.wish, copies);
  if (entry.wish.is_bound()) wished_.emplace(id, birth);
  entry.is_claimed = entry.is_claimed && entry.claim.member != member;
  end_word(id, 0, member);
  return is_conflict ? Code::kExists : Code::kOk;
}

void HomeTable::comes(MemberIndex member, std::string_view id, uint64_t birth, const ObjectParts& parts) {
  if (is_buried(id, birth)) return;
  Birth& entry = birth_for(id, birth);
  const Word comes = word_of(member, true);
  // What it said before this report is forgotten at its end, if it is not said again.
  const bool has_it = std::ranges::any_of(entry.holders, [&](const Word& word) {
    return word.member == member && word.stream == comes.stream && !word.is_coming;
  });
  if (has_it) return;
  if (entry.holders.empty()) entry.parts = parts;
  set_holder(entry, comes);
}

void HomeTable::gone(MemberIndex member, std::string_view id, uint64_t birth) {
  end_word(id, birth, member);
}

void HomeTable::end_word(std::string_view id, uint64_t birth, MemberIndex member) {
  Birth* const entry = find(id, birth);
  if (entry == nullptr) return;
  const bool had_it =
      std::erase_if(entry->holders, [member](const Word& word) { return word.member == member; }) > 0;
  if (had_it) settle(id, birth);
}

Code HomeTable::claims(MemberIndex member, std::string_view id, uint64_t birth, bool is_reported) {
  if (!is_reported && !is_complete()) return Code::kUnavailable;
  if (is_buried(id, birth)) return Code::kCancelled;
  // What was deleted there goes first: so the maker knows of it, whatever this home forgets.
  for (auto tomb = tombstones_.lower_bound(Named(id, 0));
       tomb != tombstones_.end() && tomb->first.first == id; ++tomb) {
    if (!is_reported && !tomb->second[member]) return Code::kUnavailable;
  }
  const auto at = entries_.find(std::string(id));
  if (at == entries_.end()) {
    if (!is_reported && unknown().any() && lingering_ >= kLingeringMax) return Code::kUnavailable;
  } else if (!is_reported || is_complete()) {
    bool may_be_another = false;
    for (const Birth& other : at->second) {
      const bool is_own =
          other.birth == birth && (!other.is_claimed || other.claim.member == member) &&
          std::ranges::all_of(other.holders, [&](const Word& word) { return word.member == member; });
      if (is_own) continue;
      if (!other.is_silent()) {
        if (other.birth != 0) return Code::kExists;
        may_be_another = true;
      }
      may_be_another = may_be_another || other.birth != birth;
    }
    if (may_be_another) return Code::kUnavailable;
  }
  Birth& entry = birth_for(id, birth);
  entry.is_claimed = true;
  entry.claim = word_of(member);
  return Code::kOk;
}

void HomeTable::unclaims(MemberIndex member, std::string_view id, uint64_t birth) {
  Birth* const entry = find(id, birth);
  if (entry == nullptr || !entry->is_claimed || entry->claim.member != member) return;
  entry->is_claimed = false;
  if (entry->was_held) return settle(id, birth);
  // It was never made.
  const auto at = entries_.find(std::string(id));
  std::erase_if(at->second, [birth](const Birth& one) { return one.birth == birth; });
  if (at->second.empty()) entries_.erase(at);
}

// --- Look-ups ---

HomeTable::Found HomeTable::look_up(std::string_view id) const {
  // Of a complete table's ids no other member can have any.
  Found found;
  if (!is_complete()) found.doubtful = unknown();
  const auto at = entries_.find(std::string(id));
  if (at == entries_.end()) return found;
  const Birth& best = *std::ranges::min_element(at->second, is_better);
  for (const Birth& birth : at->second) {
    if (birth.is_claimed) found.doubtful.set(birth.claim.member);
    if (birth.is_silent()) found.doubtful |= unknown();
    if (birth.birth != 0) continue;
    for (const Word& word : birth.holders) found.doubtful.set(word.member);
  }
  if (best.holders.empty() || best.birth == 0) return found;
  found.birth = best.birth;
  found.wish = best.wish;
  found.parts = best.parts;
  for (const Word& word : best.holders) {
    if (is_counted(best, word)) ++found.counted;
    found.holders.push_back(word.member);
    found.doubtful.reset(word.member);
  }
  return found;
}

bool HomeTable::has_other(std::string_view id, uint64_t birth) const {
  const auto at = entries_.find(std::string(id));
  return at != entries_.end() && std::ranges::any_of(at->second, [birth](const Birth& one) {
           return one.birth != birth && one.birth != 0 && !one.is_silent();
         });
}

// --- Deletes ---

void HomeTable::bury(std::string_view id, uint64_t birth) {
  tombstones_.try_emplace(Named(id, birth));
  const auto at = entries_.find(std::string(id));
  if (at == entries_.end()) return;
  std::erase_if(at->second, [&](const Birth& one) {
    if (one.birth == birth && one.is_silent()) --lingering_;
    return one.birth == birth;
  });
  if (at->second.empty()) entries_.erase(at);
}

bool HomeTable::acknowledge(MemberIndex member, std::string_view id, uint64_t birth) {
  const auto at = tombstones_.find(Named(id, birth));
  if (at == tombstones_.end()) return false;
  at->second.set(member);
  if (at->second.count() < members_) return false;
  tombstones_.erase(at);
  return true;
}

bool HomeTable::is_buried(std::string_view id, uint64_t birth) const {
  return !tombstones_.empty() && tombstones_.contains(Named(id, birth));
}

HomeTable::MemberSet HomeTable::missing(std::string_view id, uint64_t birth) const {
  const auto at = tombstones_.find(Named(id, birth));
  return at == tombstones_.end() ? MemberSet() : ~at->second & all();
}

std::vector<HomeTable::Named> HomeTable::unacknowledged(MemberIndex member) const {
  std::vector<Named> named;
  for (const auto& [tombstone, acknowledged] : tombstones_) {
    if (!acknowledged[member]) named.push_back(tombstone);
  }
  return named;
}

HomeTable::Counts HomeTable::counts() const noexcept {
  return {.ids = entries_.size(), .lingering = lingering_, .tombstones = tombstones_.size()};
}

size_t HomeTable::count_claims() const noexcept {
  size_t claims = 0;
  for (const auto& [id, entry] : entries_) {
    for (const Birth& birth : entry) claims += birth.is_claimed ? 1 : 0;
  }
  return claims;
}

}  // namespace refract::object
