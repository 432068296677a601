// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/parts/home_words.h"

#include <algorithm>

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
  if (words_[word].session != 0) return false;
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

std::vector<HomeWords::Given> HomeWords::give(uint64_t session, size_t wanted, uint64_t now_ns) {
  std::vector<Given> given;
  if (!decisions_.are_recovered()) return given;
  std::vector<uint32_t>& own = sessions_[session];
  wanted = std::min(wanted, kPerSession - std::min(own.size(), kPerSession));
  given.reserve(wanted);
  for (size_t looked = 0; looked < words_.size() && given.size() < wanted; ++looked) {
    const size_t word = next_;
    next_ = (next_ + 1) % words_.size();
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
  for (const DecisionPlace place : places) {
    if (!decisions_.is_sound(place) || place.shard() != shard_) continue;
    const size_t word = word_of(place);
    if (words_[word].session != session) continue;
    words_[word] = {};
    std::erase(found->second, static_cast<uint32_t>(word));
  }
}

Code HomeWords::may_decide(uint64_t session, const TransactionName& name) const noexcept {
  if (!decisions_.is_sound(name.place) || name.place.shard() != shard_) return Code::kInvalidArgument;
  const Decision now = decisions_.look(name.place);
  const bool is_its_own = words_[word_of(name.place)].session == session;
  if (!is_its_own || name.number >> kNumbersShift != now.number() >> kNumbersShift) return Code::kInvalidated;
  if (now.is_committed() || now.is_claimed()) return Code::kInvalidated;
  return name.number > now.number() ? Code::kOk : Code::kConflict;
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
