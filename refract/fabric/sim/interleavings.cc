// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/sim/interleavings.h"

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"

namespace refract::sim {
namespace {

constexpr uint64_t word_bit(uint64_t offset) noexcept {
  return uint64_t{1} << (offset / kWordBytes % 64);
}

}  // namespace

void StoreList::stored(Offset at, std::span<const std::byte> bytes) noexcept {
  const uint64_t end = at.value + bytes.size();
  for (uint64_t word = at.value / kWordBytes * kWordBytes; word < end; word += kWordBytes) {
    Store store{.at = {word}};
    std::memcpy(&store.word, owner_ + word, sizeof(store.word));
    stores_.push_back(store);
  }
}

Interleavings::Interleavings(std::span<const std::byte> base, std::span<const Store> stores,
                             const InterleavingOptions& options)
    : image_(base.begin(), base.end()),
      stores_(stores.begin(), stores.end()),
      previous_(stores.size()),
      by_word_(stores.size()),
      options_(options) {
  for (size_t i = 0; i < stores_.size(); ++i) {
    const uint64_t offset = stores_[i].at.value;
    REFRACT_CHECK(offset % kWordBytes == 0 && offset < image_.size());
    std::memcpy(&previous_[i], image_.data() + offset, sizeof(uint64_t));
    std::memcpy(image_.data() + offset, &stores_[i].word, sizeof(uint64_t));
    by_word_[i] = {.at = offset, .store = i};
    words_stored_ |= word_bit(offset);
  }
  std::ranges::sort(by_word_);
  visible_ = stores_.size();
  rewind();
}

void Interleavings::advance_to(uint64_t position) noexcept {
  for (; visible_ < position; ++visible_) {
    const Store& store = stores_[visible_];
    std::memcpy(image_.data() + store.at.value, &store.word, sizeof(store.word));
  }
}

void Interleavings::rewind() noexcept {
  for (; visible_ > 0; --visible_) {
    std::memcpy(image_.data() + stores_[visible_ - 1].at.value, &previous_[visible_ - 1], sizeof(uint64_t));
  }
}

uint32_t Interleavings::choose(uint32_t among) {
  if (depth_ == choices_.size()) choices_.push_back({.taken = 0, .among = among});
  const Choice& choice = choices_[depth_++];
  // A read that depends on something else than its loads cannot be replayed.
  REFRACT_CHECK(choice.among == among);
  return choice.taken;
}

bool Interleavings::next_choices() noexcept {
  while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().among) choices_.pop_back();
  if (choices_.empty()) return false;
  ++choices_.back().taken;
  return true;
}

bool Interleavings::begin_run() {
  if (count_.runs > 0) {
    count_.loads_max = std::max(count_.loads_max, loads_);
    rewind();
    if (!next_choices()) {
      count_.complete = true;
      return false;
    }
  }
  if (count_.runs == options_.runs_max) return false;
  ++count_.runs;
  depth_ = 0;
  loads_ = 0;
  advance_to(choose(static_cast<uint32_t>(stores_.size() + 1)));
  return true;
}

void Interleavings::before_load(Offset at) noexcept {
  REFRACT_CHECK(++loads_ <= options_.loads_max);
  if ((words_stored_ & word_bit(at.value)) == 0) return;
  const auto first = std::ranges::lower_bound(by_word_, WordStore{.at = at.value, .store = visible_});
  auto end = first;
  while (end != by_word_.end() && end->at == at.value) ++end;
  if (first == end) return;
  const uint32_t taken = choose(static_cast<uint32_t>(end - first) + 1);
  if (taken > 0) advance_to(first[taken - 1].store + 1);
}

}  // namespace refract::sim
