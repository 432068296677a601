// SPDX-License-Identifier: Apache-2.0
// What a home knows of bound copies (docs/design/054-copies.md).
#include <algorithm>

#include "refract/object/directory/home_table.h"

namespace refract::object {

// It has said the very wish that is the home's, so it outlives the home.
bool HomeTable::is_counted(const Birth& birth, const Word& word) const noexcept {
  return !word.is_coming && birth.wish.is_bound() && word.copies == birth.wish && current_[word.member] &&
         word.stream == streams_[word.member];
}

bool HomeTable::wish(std::string_view id, uint64_t birth, uint8_t wanted) {
  Birth* const entry = find(id, birth);
  if (entry == nullptr || entry->is_silent() || entry->wish.wanted() == wanted) return false;
  if (entry->wish.version() >= CopiesWord::kVersionMax) return false;
  entry->wish = CopiesWord::of(entry->wish.version() + 1, wanted);
  wished_.emplace(id, birth);
  return true;
}

Code HomeTable::release(MemberIndex member, std::string_view id, uint64_t birth) {
  Birth* const entry = find(id, birth);
  if (entry == nullptr) return Code::kOk;
  const auto word = std::ranges::find(entry->holders, member, &Word::member);
  if (word == entry->holders.end()) return Code::kOk;
  const auto others = std::ranges::count_if(
      entry->holders, [&](const Word& other) { return other.member != member && is_counted(*entry, other); });
  if (static_cast<size_t>(others) < entry->wish.wanted()) return Code::kUnavailable;
  // In this step: another one that asks now finds one fewer.
  word->copies = {};
  return Code::kOk;
}

HomeTable::Bound HomeTable::bound(std::string_view id, uint64_t birth) const {
  Bound bound;
  const Birth* const entry = find(id, birth);
  if (entry == nullptr) return bound;
  bound.wish = entry->wish;
  for (const Word& word : entry->holders) {
    if (word.is_coming) {
      bound.coming.set(word.member);
      continue;
    }
    bound.bound.set(word.member, word.copies.is_bound());
    bound.loose.set(word.member, !word.copies.is_bound());
    bound.counted.set(word.member, is_counted(*entry, word));
    bound.behind.set(word.member,
                     word.copies.is_bound() && word.copies < entry->wish && current_[word.member]);
  }
  bound.is_alone = !has_other(id, birth);
  return bound;
}

std::vector<HomeTable::Named> HomeTable::wished_behind(const Named& last, size_t most) {
  std::vector<Named> named;
  for (auto at = wished_.upper_bound(last); at != wished_.end() && named.size() < most;) {
    const Birth* const entry = find(at->first, at->second);
    if (entry == nullptr || entry->wish == CopiesWord()) {
      at = wished_.erase(at);
    } else {
      named.push_back(*at++);
    }
  }
  return named;
}

}  // namespace refract::object
