// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/serialisability/places.h"

#include <algorithm>

namespace refract::serialisability {
namespace {

constexpr Spot kSpots[] = {Spot::kVersion, Spot::kAbsent, Spot::kOther};
// More are not looked at one by one: then the answer is the one that accuses no transaction.
constexpr uint32_t kIntervalsMax = 24;
constexpr size_t kLooseMax = 64;
constexpr size_t kReadersMax = 64;
constexpr size_t kMakersMax = 2;

}  // namespace

std::vector<Item> items_of(const Evidence& evidence) {
  std::vector<Item> items;
  for (uint32_t i = 0; i < evidence.accesses.size(); ++i) {
    const Access& access = evidence.accesses[i];
    if (!evidence.has_happened[access.transaction] || access.found_place != kUnset) continue;
    if (access.claim.says_something()) items.push_back({.access = i, .is_effect = false});
    if (access.is_loose()) items.push_back({.access = i, .is_effect = true});
  }
  return items;
}

Place PlaceFinder::place_at(const Query& query, uint32_t interval, Spot spot) const {
  const std::vector<State>& states = key_of(query).states;
  const State& state = states[interval];
  const uint32_t next = interval + 1 < states.size() ? states[interval + 1].writer : kUnset;
  Place place{.interval = interval, .spot = spot, .before = state.writer, .after = next};
  if (state.overwriter != kUnset) (place.is_first() ? place.after : place.before) = state.overwriter;
  return place;
}

// A later version's writer does not come before, and an earlier one's not after.
PlaceFinder::Bounds PlaceFinder::bounds(const Query& query) const {
  const std::vector<State>& states = key_of(query).states;
  const uint32_t mine = query.access->transaction;
  const auto last = static_cast<uint32_t>(states.size() - 1);
  if (query.access->leaves_entry() && query.access->version != 0 && query.by_graph) {
    return {.low = query.access->place - 1, .high = query.access->place - 1};
  }
  if (!query.by_graph) return {.low = 0, .high = last};
  // The last version whose writer is known to come before.
  uint32_t low = 0;
  for (uint32_t end = last + 1; low + 1 < end;) {
    const uint32_t middle = low + (end - low) / 2;
    (reaches(states[middle].writer, mine) ? low : end) = middle;
  }
  // The first one whose writer is known to come after.
  uint32_t high = last + 1;
  for (uint32_t begin = low; begin + 1 < high;) {
    const uint32_t middle = begin + (high - begin) / 2;
    (reaches(mine, states[middle].writer) ? high : begin) = middle;
  }
  return {.low = low, .high = high - 1};
}

bool PlaceFinder::is_maker(const Query& query, const Place& place, const Access& loose) const {
  const std::vector<State>& states = key_of(query).states;
  const uint32_t other = loose.transaction;
  const State& state = states[place.interval];
  if (other == query.access->transaction) return false;
  // What it replaced stands in this interval.
  const bool has_next = place.interval + 1 < states.size();
  const uint64_t replaced = loose.claim.version;
  if (replaced != 0 && replaced < state.version) return false;
  if (replaced != 0 && has_next && replaced >= states[place.interval + 1].version) return false;
  const bool is_found = !query.is_effect && place.spot == Spot::kOther;
  if (is_found && !query.access->claim.allows(0, loose.value)) return false;
  if (!query.by_graph) return true;
  if (!query.is_effect && reaches(query.access->transaction, other)) return false;
  if (state.writer != kUnset && reaches(other, state.writer)) return false;
  return !has_next || !reaches(states[place.interval + 1].writer, other);
}

PlaceFinder::Window PlaceFinder::window(uint32_t transaction, const std::vector<uint32_t>& loose) const {
  auto end = loose.end();
  if (graph_->order() == Order::kRealTime) {
    const std::vector<Transaction>& all = evidence_->history->transactions;
    const uint64_t end_ns = end_of(all[transaction]);
    const uint64_t until_ns =
        kNever - options_->clocks_differ_ns > end_ns ? end_ns + options_->clocks_differ_ns : kNever;
    end = std::ranges::upper_bound(loose, until_ns, {}, [&](uint32_t access) {
      return all[evidence_->accesses[access].transaction].began_ns;
    });
  }
  const auto count = static_cast<size_t>(end - loose.begin());
  const size_t first = count > kLooseMax ? count - kLooseMax : 0;
  return {.loose = std::span(loose).subspan(first, count - first), .is_whole = first == 0};
}

bool PlaceFinder::can_be_made(const Query& query, const Place& place, const std::vector<uint32_t>& loose,
                              uint32_t behind, uint32_t until) const {
  const Window some = window(until, loose);
  if (!some.is_whole && query.makers != nullptr) query.makers->assign(kMakersMax, kUnset);
  bool is_made = !some.is_whole;
  for (const uint32_t index : some.loose) {
    if (is_made && (query.makers == nullptr || query.makers->size() >= kMakersMax)) return true;
    const Access& access = evidence_->accesses[index];
    if (!is_maker(query, place, access)) continue;
    if (behind != kUnset && (access.transaction == behind || reaches(access.transaction, behind))) continue;
    is_made = true;
    if (query.makers == nullptr) return true;
    if (std::ranges::find(*query.makers, index) == query.makers->end()) query.makers->push_back(index);
  }
  return is_made;
}

// A transaction that has happened and comes between what stands in front of the place and the item itself;
// kUnset: none is known.
uint32_t PlaceFinder::replacer(const Query& query, const Place& place,
                               const std::vector<uint32_t>& loose) const {
  if (!query.by_graph) return kUnset;
  for (const uint32_t index : window(query.access->transaction, loose).loose) {
    const uint32_t other = evidence_->accesses[index].transaction;
    if (other == query.access->transaction || !evidence_->has_happened[other]) continue;
    if (!reaches(other, query.access->transaction)) continue;
    if (place.before == kUnset || reaches(place.before, other)) return other;
  }
  return kUnset;
}

bool PlaceFinder::fits_claim(const Query& query, const Place& place) const {
  const KeyEvidence& key = key_of(query);
  const State& state = key.states[place.interval];
  const Claim& claim = query.access->claim;
  // It is known already what made this place.
  const auto is_made = [&] {
    if (query.makers != nullptr) query.makers->assign(kMakersMax, kUnset);
    return true;
  };
  switch (place.spot) {
    case Spot::kVersion: {
      if (place.interval == 0 || !claim.allows(state.version, state.value)) return false;
      // A transaction that writes the key replaces what it found, and only one can do that.
      if (query.access->effect != Effect::kNone && state.overwriter != kUnset) return false;
      if (state.writer == query.access->transaction) return false;
      if (replacer(query, place, key.loose_writes) != kUnset) return false;
      return replacer(query, place, key.loose_erases) == kUnset && is_made();
    }
    case Spot::kAbsent: {
      if (!claim.allows_absent()) return false;
      const uint32_t refilled = replacer(query, place, key.loose_writes);
      const bool is_replaced = state.overwriter != kUnset;
      if (place.is_first() && query.access->effect != Effect::kNone && is_replaced) return false;
      const bool is_absent = place.is_first() || state.is_erased;
      if (is_absent && refilled == kUnset) return is_made();
      return can_be_made(query, place, key.loose_erases, refilled, query.access->transaction);
    }
    case Spot::kOther:
      if (claim.version != 0 || !claim.allows(0, {})) return false;
      if (state.overwriter != kUnset && !state.is_erased) return is_made();
      return can_be_made(query, place, key.loose_writes, kUnset, query.access->transaction);
  }
  return false;
}

// Between what the next writer found and what it wrote is nothing.
bool PlaceFinder::fits_effect(const Query& query, const Place& place) const {
  const KeyEvidence& key = key_of(query);
  if (place.spot != Spot::kOther) return false;
  if (!query.by_graph || place.interval + 1 == key.states.size()) return true;
  const State& next = key.states[place.interval + 1];
  if (next.access == kUnset) return true;
  const Access& access = evidence_->accesses[next.access];
  if (access.found_place == place.interval) return false;
  if (access.claim.found != Found::kAbsent || !query.access->leaves_entry()) return true;
  return can_be_made(query, place, key.loose_erases, query.access->transaction, access.transaction);
}

bool PlaceFinder::fits_graph(const Query& query, const Place& place) const {
  const uint32_t mine = query.access->transaction;
  if (place.before == mine) return false;
  if (place.before != kUnset && reaches(mine, place.before)) return false;
  if (place.after != kUnset && place.after != mine && reaches(place.after, mine)) return false;
  if (place.is_first()) return true;
  const std::vector<uint32_t>& readers = key_of(query).states[place.interval].readers;
  const size_t count = std::min(readers.size(), kReadersMax);
  return std::none_of(readers.begin(), readers.begin() + static_cast<ptrdiff_t>(count),
                      [&](uint32_t reader) { return reader != mine && reaches(mine, reader); });
}

bool PlaceFinder::fits(const Query& query, const Place& place) const {
  ++*steps_;
  if (query.by_graph && !fits_graph(query, place)) return false;
  return query.is_effect ? fits_effect(query, place) : fits_claim(query, place);
}

Places PlaceFinder::possible(const Item& item) const {
  Places places;
  const Query query{.access = &evidence_->accesses[item.access],
                    .is_effect = item.is_effect,
                    .makers = item.is_effect ? nullptr : &places.makers};
  const Bounds range = bounds(query);
  places.is_complete = range.high - range.low < kIntervalsMax;
  if (places.is_complete) {
    for (uint32_t i = range.low; i <= range.high; ++i) {
      for (const Spot spot : kSpots) {
        const Place place = place_at(query, i, spot);
        if (fits(query, place)) places.all.push_back(place);
      }
    }
    return places;
  }
  places.makers.assign(kMakersMax, kUnset);
  for (uint32_t i = range.low; i <= range.high && places.all.empty(); ++i) {
    for (const Spot spot : kSpots) {
      const Place place = place_at(query, i, spot);
      if (places.all.empty() && fits(query, place)) places.all.push_back(place);
    }
  }
  for (uint32_t i = range.high + 1; i-- > range.low && places.all.size() == 1;) {
    for (const Spot spot : {Spot::kOther, Spot::kAbsent, Spot::kVersion}) {
      const Place place = place_at(query, i, spot);
      if (places.all.size() == 1 && fits(query, place)) places.all.push_back(place);
    }
  }
  return places;
}

uint32_t PlaceFinder::replaced_by(const Item& item, const Place& place) const {
  const Query query{.access = &evidence_->accesses[item.access], .is_effect = item.is_effect};
  const KeyEvidence& key = key_of(query);
  if (item.is_effect || place.spot == Spot::kOther) return kUnset;
  const uint32_t by_write = replacer(query, place, key.loose_writes);
  if (by_write != kUnset || place.spot == Spot::kAbsent) return by_write;
  return replacer(query, place, key.loose_erases);
}

std::vector<Place> PlaceFinder::thinkable(const Item& item) const {
  const Query query{
      .access = &evidence_->accesses[item.access], .is_effect = item.is_effect, .by_graph = false};
  const Query by_graph{.access = query.access, .is_effect = item.is_effect};
  const Bounds near = bounds(by_graph);
  const auto count = static_cast<uint32_t>(key_of(query).states.size());
  std::vector<Place> places;
  const auto look = [&](uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to && places.size() < 3 * size_t{kIntervalsMax}; ++i) {
      for (const Spot spot : kSpots) {
        const Place place = place_at(query, i, spot);
        if (fits(query, place)) places.push_back(place);
      }
    }
  };
  look(near.low > 2 ? near.low - 2 : 0, std::min(near.high + 3, count));
  if (places.empty()) look(0, count);
  return places;
}

}  // namespace refract::serialisability
