// SPDX-License-Identifier: Apache-2.0
#include "refract/base/testing/linearizability/state.h"

#include <algorithm>

namespace refract::linearizability {

using Presence = State::Presence;

bool State::looks_like(const State& other) const noexcept {
  State same_floor = *this;
  same_floor.floor_ns = other.floor_ns;
  return same_floor == other;
}

// The moment at which the item takes effect is within its call and not before those of earlier ones; the
// earliest that is possible permits most.
bool Rules::pass_time(const Item& item, uint64_t at_least_ns, State& state) const noexcept {
  if (!has_expiry_) return true;
  state.floor_ns = std::max({state.floor_ns, item.operation->began_ns, at_least_ns});
  return item.ended == kNever || state.floor_ns <= item.operation->ended_ns;
}

// The first look at an entry that was made before the search began.
bool Rules::begin_with(const Seen& seen, State& state) const noexcept {
  const auto may_be = [&](const Item& put) {
    const bool is_value = seen.value == 0 || put.operation->value == seen.value;
    return is_value && (seen.version == 0 || put.version == 0 || put.version == seen.version);
  };
  const auto found = std::ranges::find_if(start_.earlier, may_be);
  if (found == start_.earlier.end()) return false;
  state.presence = Presence::kPresent;
  state.value = seen.value;
  state.version = seen.version;
  state.highest = std::max(state.highest, seen.version);
  // Several may fit what was seen: then nothing is known of the expiry.
  const bool is_only = std::ranges::count_if(start_.earlier, may_be) == 1;
  state.expires_from_ns = is_only ? found->operation->expires_from_ns : 0;
  state.expires_until_ns =
      is_only && found->operation->outcome == Outcome::kDone ? found->operation->expires_until_ns : kNever;
  return true;
}

bool Rules::see_present(const Item& item, const Seen& seen, State& state) const noexcept {
  if (state.presence == Presence::kAbsent || !pass_time(item, 0, state)) return false;
  if (state.presence == Presence::kAnything && !begin_with(seen, state)) return false;
  if (has_expiry_ && state.floor_ns >= state.expires_until_ns) return false;
  if (seen.value != 0) {
    if (state.value != 0 && state.value != seen.value) return false;
    if (std::ranges::binary_search(state.excluded_values, seen.value)) return false;
    state.value = seen.value;
    state.excluded_values.clear();
  }
  if (seen.version == 0 || seen.version == state.version) return true;
  if (state.version != 0 || seen.version <= state.highest) return false;
  if (std::ranges::binary_search(state.excluded, seen.version)) return false;
  state.version = state.highest = seen.version;
  state.excluded.clear();
  return true;
}

bool Rules::see_absent(const Item& item, State& state) const noexcept {
  if (state.presence == Presence::kAnything) state.presence = Presence::kAbsent;
  if (state.presence == Presence::kAbsent) return pass_time(item, 0, state);
  if (state.expires_from_ns == kNever) return false;
  // It stays what it was: before the second moment another clock may still say that it is there.
  return pass_time(item, state.expires_from_ns, state);
}

// Nothing of what was told is forgotten: an entry that turns out to be one that it was not is a
// contradiction.
bool Rules::see_other(const Item& item, State& state) const noexcept {
  if (!see_present(item, {}, state)) return false;
  const Operation& operation = *item.operation;
  const bool by_value = operation.if_value != 0;
  const uint64_t wanted = by_value ? operation.if_value : operation.if_version;
  const uint64_t known = by_value ? state.value : state.version;
  if (known != 0) return known != wanted;
  std::vector<uint64_t>& excluded = by_value ? state.excluded_values : state.excluded;
  const auto place = std::ranges::lower_bound(excluded, wanted);
  if (place == excluded.end() || *place != wanted) excluded.insert(place, wanted);
  return true;
}

bool Rules::see_unmet(const Item& item, State& state) const noexcept {
  switch (state.presence) {
    case Presence::kAbsent:
      return see_absent(item, state);
    case Presence::kPresent:
      return see_other(item, state);
    case Presence::kAnything:
      // One or the other: in the middle of a history this tells nothing.
      return pass_time(item, 0, state);
  }
  return false;
}

bool Rules::put(const Item& item, State& state) const noexcept {
  const Operation& operation = *item.operation;
  if (operation.if_absent && !see_absent(item, state)) return false;
  const bool wants_one = operation.if_version != 0 || operation.if_value != 0;
  const Seen wanted{.value = operation.if_value, .version = operation.if_version};
  if (wants_one && !see_present(item, wanted, state)) return false;
  if (!pass_time(item, 0, state)) return false;
  if (item.version != 0 && item.version <= state.highest) return false;
  state.presence = Presence::kPresent;
  state.value = operation.value;
  state.version = item.version;
  state.highest = std::max(state.highest, item.version);
  state.excluded.clear();
  state.excluded_values.clear();
  state.expires_from_ns = operation.expires_from_ns;
  state.expires_until_ns = item.ended == kNever ? kNever : operation.expires_until_ns;
  return true;
}

bool Rules::erase(const Item& item, State& state) const noexcept {
  const uint64_t version = std::max(item.version, item.operation->if_version);
  if (!see_present(item, {.value = item.operation->if_value, .version = version}, state)) return false;
  state = {.presence = Presence::kAbsent, .highest = state.highest, .floor_ns = state.floor_ns};
  return true;
}

bool Rules::apply(const Item& item, State& state) const noexcept {
  const Operation& operation = *item.operation;
  switch (operation.outcome) {
    case Outcome::kDone:
    case Outcome::kUnknown:
      if (operation.kind == Kind::kPut) return put(item, state);
      if (operation.kind == Kind::kErase) return erase(item, state);
      return see_present(item, {.value = operation.value, .version = item.version}, state);
    case Outcome::kAbsent:
      return see_absent(item, state);
    case Outcome::kExists:
      return see_present(item, {}, state);
    case Outcome::kMismatch:
      return see_other(item, state);
    case Outcome::kUnmet:
      return see_unmet(item, state);
    case Outcome::kRefused:
      return true;
  }
  return false;
}

bool Rules::is_free(const Item& item, const State& before, const State& after,
                    uint64_t now_ns) const noexcept {
  if (item.operation->changes() || !before.looks_like(after)) return false;
  if (before.floor_ns == after.floor_ns) return true;
  // Time that has passed anyway makes no operation late: all that is under way ends later, and what it puts
  // expires later. But an operation that finds this entry must come before its end.
  return after.floor_ns <= now_ns &&
         (after.presence != Presence::kPresent || after.floor_ns < after.expires_until_ns);
}

}  // namespace refract::linearizability
