// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/parts/home_words.h"

#include <algorithm>
#include <utility>

namespace refract::kv {

HomeWords::HomeWords(Decisions& decisions, uint32_t shard, uint64_t now_ns, uint64_t first_number)
    : decisions_(decisions), shard_(shard), first_number_(first_number), words_(kDecisionWords) {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (!decisions_.look(decisions_.place_of(shard_, i)).is_committed()) continue;
    words_[i].kept_until_ns = moment_after(now_ns, kKept_ns);
  }
}

// What is committed stays for the parts that look at it, and for a client that asks.
bool HomeWords::is_free(size_t word, uint64_t now_ns) const noexcept {
  if (words_[word].session != 0 || far_words_.contains(word)) return false;
  const DecisionPlace place = decisions_.place_of(shard_, word);
  const Decision decision = decisions_.look(place);
  if (decision.is_claimed() || decision.is_unconfirmed()) return false;
  if (!decision.is_committed()) return true;
  return now_ns >= words_[word].kept_until_ns && decisions_.parts(place) == 0;
}

size_t HomeWords::word_of(DecisionPlace place) const noexcept {
  const uint64_t first = decisions_.place_of(shard_, 0).at().value;
  return (place.at().value - first) / sizeof(uint64_t);
}

std::vector<HomeWords::Given> HomeWords::give(uint64_t session, size_t wanted, uint64_t now_ns, bool is_far) {
  std::vector<Given> given;
  if (!decisions_.are_recovered()) return given;
  std::vector<uint32_t>& own = sessions_[session];
  const auto is_of_kind = [&](uint32_t word) { return (word >= kFarBegin) == is_far; };
  const auto has = static_cast<size_t>(std::ranges::count_if(own, is_of_kind));
  wanted = std::min(wanted, kPerSession - std::min(has, kPerSession));
  given.reserve(wanted);
  const size_t begin = is_far ? kFarBegin : 0;
  const size_t end = is_far ? words_.size() : kFarBegin;
  size_t& next = next_[is_far ? 1 : 0];
  for (size_t looked = begin; looked < end && given.size() < wanted; ++looked) {
    const size_t word = next;
    next = next + 1 == end ? begin : next + 1;
    if (!is_free(word, now_ns)) continue;
    const DecisionPlace place = decisions_.place_of(shard_, word);
    const uint64_t last = std::max(decisions_.look(place).number(), first_number_);
    const uint64_t first = ((last >> kNumbersShift) + 1) << kNumbersShift;
    // What an earlier session has not decided by it never is.
    decisions_.renew(place, first);
    words_[word].session = session;
    own.push_back(static_cast<uint32_t>(word));
    given.push_back({.place = place, .first = first + 1, .count = (uint64_t{1} << kNumbersShift) - 1});
  }
  return given;
}

void HomeWords::bring_back(uint64_t session, std::span<const DecisionPlace> places) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  // Some of those that were not over when they were brought back, the oldest first.
  for (size_t left = std::min(to_clear_.size(), kClearedAtOnce); left > 0; --left) {
    const size_t word = to_clear_.front();
    to_clear_.pop_front();
    clear_if_over(word);
  }
  for (const DecisionPlace place : places) {
    if (!decisions_.is_sound(place) || place.shard() != shard_) continue;
    const size_t word = word_of(place);
    if (words_[word].session != session) continue;
    words_[word] = {};
    std::erase(found->second, static_cast<uint32_t>(word));
    clear_if_over(word);
  }
}

void HomeWords::clear_if_over(size_t word) {
  const DecisionPlace place = decisions_.place_of(shard_, word);
  const Decision decision = decisions_.look(place);
  const bool is_given = words_[word].session != 0 || words_[word].kept_until_ns != 0;
  if (is_given || far_words_.contains(word) || !decision.is_committed()) return;
  if (decision.is_unconfirmed() || decisions_.parts(place) != 0) return to_clear_.push_back(word);
  // Of the next range: a late question about this number is told that the word has gone on, and not "never".
  decisions_.renew(place, ((decision.number() >> kNumbersShift) + 1) << kNumbersShift);
}

Code HomeWords::may_decide(uint64_t session, const TransactionName& name) const noexcept {
  if (!decisions_.is_sound(name.place) || name.place.shard() != shard_) return Code::kInvalidArgument;
  const Decision now = decisions_.look(name.place);
  const bool is_its_own = words_[word_of(name.place)].session == session;
  if (!is_its_own || name.number >> kNumbersShift != now.number() >> kNumbersShift) return Code::kInvalidated;
  if (now.is_committed() || now.is_claimed()) return Code::kInvalidated;
  return name.number > now.number() ? Code::kOk : Code::kConflict;
}

void HomeWords::note_far(const TransactionName& name, std::span<const wire::FarPlace> places) {
  far_[{name.place.bits, name.number}] = {places.begin(), places.end()};
  far_words_.insert(word_of(name.place));
  for (const wire::FarPlace place : places) ++far_counts_[place];
}

std::vector<wire::FarPlace> HomeWords::all_others(uint32_t self, uint32_t members) {
  std::vector<wire::FarPlace> all;
  for (uint32_t member = 0; member < members; ++member) {
    if (member != self) all.push_back({.member = static_cast<uint16_t>(member), .shard = kAnyShard});
  }
  return all;
}

void HomeWords::note_far_anywhere(uint32_t self, uint32_t members) {
  const std::vector<wire::FarPlace> all = all_others(self, members);
  for (size_t word = kFarBegin; word < words_.size() && !all.empty(); ++word) {
    const Decision decision = decisions_.look(decisions_.place_of(shard_, word));
    const TransactionName name{.place = decisions_.place_of(shard_, word), .number = decision.number()};
    if (decision.is_committed()) note_far(name, all);
  }
}

void HomeWords::note_before(const TransactionName& name, uint32_t self, uint32_t members) {
  const std::vector<wire::FarPlace> all = all_others(self, members);
  far_[{name.place.bits, name.number}] = all;
  for (const wire::FarPlace place : all) ++far_counts_[place];
}

std::vector<wire::FarPlace> HomeWords::far_places() const {
  std::vector<wire::FarPlace> places;
  places.reserve(far_counts_.size());
  for (const auto& [place, count] : far_counts_) places.push_back(place);
  return places;
}

HomeWords::Counted HomeWords::counted_on(wire::FarPlace place) const {
  Counted counted{.place = place, .names = {}};
  for (const auto& [name, places] : far_) {
    if (std::ranges::find(places, place) == places.end()) continue;
    counted.names.push_back({.place = {name.first}, .number = name.second});
  }
  return counted;
}

void HomeWords::is_gone(const TransactionName& name, wire::FarPlace place) {
  const auto found = far_.find({name.place.bits, name.number});
  if (found == far_.end() || std::erase(found->second, place) == 0) return;
  if (--far_counts_[place] == 0) far_counts_.erase(place);
}

std::vector<TransactionName> HomeWords::uncounted() const {
  std::vector<TransactionName> names;
  for (const auto& [name, places] : far_) {
    if (places.empty()) names.push_back({.place = {name.first}, .number = name.second});
  }
  return names;
}

std::vector<TransactionName> HomeWords::decided_afar() const {
  std::vector<TransactionName> names;
  names.reserve(far_.size());
  for (const auto& [name, places] : far_) names.push_back({.place = {name.first}, .number = name.second});
  return names;
}

void HomeWords::forgotten(const TransactionName& name) {
  if (far_.erase({name.place.bits, name.number}) == 0 || name.place.is_far()) return;
  const size_t word = word_of(name.place);
  far_words_.erase(word);
  clear_if_over(word);
}

void HomeWords::end(uint64_t session, uint64_t now_ns) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  for (const uint32_t word : found->second) {
    words_[word] = {.session = 0, .kept_until_ns = moment_after(now_ns, kKept_ns)};
  }
  sessions_.erase(found);
}

}  // namespace refract::kv
