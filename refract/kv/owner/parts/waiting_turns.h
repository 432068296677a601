// SPDX-License-Identifier: Apache-2.0
// Calls of transactions that wait, unanswered, for keys which other ones hold (docs/design/066): bounded in
// number, in bytes and in time. The transaction that has tried longest goes first.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "refract/base/units.h"

namespace refract::kv {

// A Turn has: session, begun_ns (of its transaction), give_up_ns (0 before it waits), bytes.
template <typename Turn>
class WaitingTurns {
 public:
  static constexpr uint64_t kLongest_ns = 5 * kMillisecond_ns;
  static constexpr size_t kMax = 64;
  static constexpr size_t kPerSession = 16;  // One must not take the places of all.
  static constexpr uint64_t kBytesMax = 8 * kMiB;

  // False: it has waited for too long, or there are too many. Then it is as it was.
  [[nodiscard]] bool add(Turn& turn, uint64_t now_ns) {
    if (turn.give_up_ns != 0 && turn.give_up_ns <= now_ns) return false;
    const auto its_own = std::ranges::count(turns_, turn.session, &Turn::session);
    if (turns_.size() == kMax || static_cast<size_t>(its_own) == kPerSession) return false;
    if (bytes_ + turn.bytes > kBytesMax) return false;
    if (turn.give_up_ns == 0) turn.give_up_ns = now_ns + kLongest_ns;
    bytes_ += turn.bytes;
    const auto behind = std::ranges::upper_bound(turns_, turn.begun_ns, {}, &Turn::begun_ns);
    turns_.insert(behind, std::move(turn));
    return true;
  }
  // One that does not wait any more; nothing: there is none like that.
  template <typename IsIt>
  [[nodiscard]] std::optional<Turn> remove(IsIt is_it) {
    const auto found = std::ranges::find_if(turns_, is_it);
    if (found == turns_.end()) return std::nullopt;
    std::optional<Turn> turn(std::move(*found));
    turns_.erase(found);
    bytes_ -= turn->bytes;
    return turn;
  }
  // All of them, which do not wait any more.
  [[nodiscard]] std::vector<Turn> take() noexcept {
    bytes_ = 0;
    return std::exchange(turns_, {});
  }
  [[nodiscard]] bool empty() const noexcept { return turns_.empty(); }
  // REQUIRES: not empty.
  [[nodiscard]] uint64_t first_end_ns() const noexcept {
    return std::ranges::min_element(turns_, {}, &Turn::give_up_ns)->give_up_ns;
  }

 private:
  std::vector<Turn> turns_;  // The oldest transaction first.
  uint64_t bytes_ = 0;
};

}  // namespace refract::kv
