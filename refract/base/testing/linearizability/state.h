// SPDX-License-Identifier: Apache-2.0
// One entry as its operations find it and leave it: the sequential meaning of the store, for the search.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/testing/linearizability/search.h"

namespace refract::linearizability {

struct State {
  enum class Presence : uint8_t { kAbsent, kPresent, kAnything };

  Presence presence = Presence::kAbsent;
  uint64_t value = 0;    // 0: not known; its reader tells.
  uint64_t version = 0;  // Likewise.
  uint64_t highest = 0;  // Of all versions so far: the next ones are greater.
  // What an unknown version, or value, is not, because a write was told so: all of them, sorted.
  std::vector<uint64_t> excluded = {};
  std::vector<uint64_t> excluded_values = {};
  uint64_t expires_from_ns = kNever;
  uint64_t expires_until_ns = kNever;
  // Of keys with a time to live: no later operation takes effect before this moment.
  uint64_t floor_ns = 0;

  // But for the floor.
  [[nodiscard]] bool looks_like(const State& other) const noexcept;
  bool operator==(const State&) const = default;
};

// How operations act on a State.
class Rules {
 public:
  // `has_expiry`: some entry of the key has a time to live, so that moments matter, not only their order.
  Rules(const Start& start, bool has_expiry) noexcept : start_(start), has_expiry_(has_expiry) {}

  // False: the item cannot have had its answer in this state. Else `state` is what it leaves.
  [[nodiscard]] bool apply(const Item& item, State& state) const noexcept;

  // Whether the item, which applied to `before` gave `after`, changes nothing for others, so that its effect
  // at once permits all that a later one would. `now_ns`: a moment before anything under way ends.
  [[nodiscard]] bool is_free(const Item& item, const State& before, const State& after,
                             uint64_t now_ns) const noexcept;

 private:
  struct Seen {
    uint64_t value = 0;
    uint64_t version = 0;
  };
  [[nodiscard]] bool see_present(const Item& item, const Seen& seen, State& state) const noexcept;
  [[nodiscard]] bool see_absent(const Item& item, State& state) const noexcept;
  [[nodiscard]] bool see_other(const Item& item, State& state) const noexcept;
  [[nodiscard]] bool see_unmet(const Item& item, State& state) const noexcept;
  [[nodiscard]] bool begin_with(const Seen& seen, State& state) const noexcept;
  [[nodiscard]] bool put(const Item& item, State& state) const noexcept;
  [[nodiscard]] bool erase(const Item& item, State& state) const noexcept;
  [[nodiscard]] bool pass_time(const Item& item, uint64_t at_least_ns, State& state) const noexcept;

  Start start_;
  bool has_expiry_;
};

}  // namespace refract::linearizability
