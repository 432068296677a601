// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/parts/decisions.h"

#include <algorithm>

#include "refract/base/check.h"

namespace refract::kv {

Decisions::Decisions(std::span<const Home> homes) {
  homes_.reserve(homes.size());
  for (const Home& home : homes) {
    homes_.push_back({.home = home,
                      .words_at = first_word(home.space),
                      .parts = std::make_unique<std::atomic<uint32_t>[]>(kDecisionWords)});
  }
}

Offset Decisions::first_word(const std::byte* space) noexcept {
  const auto& header = *reinterpret_cast<const SpaceHeader*>(space);
  return {header.store_area + header.chunks_max * sizeof(uint64_t)};
}

bool Decisions::is_sound(DecisionPlace place) const noexcept {
  if (!place.is_word() || place.is_far() || place.shard() >= homes_.size()) return false;
  return leads_to_word(place, *reinterpret_cast<const SpaceHeader*>(homes_[place.shard()].home.space));
}

uint64_t& Decisions::word_at(DecisionPlace place) const noexcept {
  return *reinterpret_cast<uint64_t*>(homes_[place.shard()].home.space + place.at().value);
}

std::atomic<uint32_t>& Decisions::parts_at(DecisionPlace place) const noexcept {
  const Words& words = homes_[place.shard()];
  return words.parts[(place.at().value - words.words_at.value) / sizeof(uint64_t)];
}

Decision Decisions::look(DecisionPlace place) const noexcept {
  return {std::atomic_ref<uint64_t>(word_at(place)).load()};
}

Decision Decisions::decide(DecisionPlace place, Decision wanted) noexcept {
  const std::atomic_ref<uint64_t> word(word_at(place));
  Decision now{word.load()};
  while (now.number() < wanted.number() && !now.is_committed() && !now.is_claimed()) {
    if (!word.compare_exchange_weak(now.bits, wanted.bits)) continue;
    tell(place);
    return wanted;
  }
  return now;
}

void Decisions::replace(DecisionPlace place, Decision wanted) noexcept {
  std::atomic_ref<uint64_t>(word_at(place)).store(wanted.bits);
  tell(place);
}

void Decisions::renew(DecisionPlace place, uint64_t number) noexcept {
  replace(place, Decision::aborted(number));
}

uint32_t Decisions::shard_at(const std::byte* space) const noexcept {
  const auto found = std::ranges::find_if(homes_, [&](const Words& one) { return one.home.space == space; });
  REFRACT_CHECK(found != homes_.end());
  return static_cast<uint32_t>(found - homes_.begin());
}

void Decisions::tell(DecisionPlace place) const noexcept {
  const Home& home = homes_[place.shard()].home;
  if (home.log != nullptr) [[unlikely]]
    home.log->stored(place.at(), {home.space + place.at().value, sizeof(uint64_t)});
}

const std::byte* Decisions::space_of(uint32_t shard) const noexcept {
  return shard < homes_.size() ? homes_[shard].home.space : nullptr;
}

void Decisions::begin_part(DecisionPlace place) noexcept {
  parts_at(place).fetch_add(1);
}
void Decisions::end_part(DecisionPlace place) noexcept {
  parts_at(place).fetch_sub(1);
}
uint32_t Decisions::parts(DecisionPlace place) const noexcept {
  return parts_at(place).load();
}

}  // namespace refract::kv
