// SPDX-License-Identifier: Apache-2.0
// The births that were used up last, so that a call that comes late does not bring them back. So many, and
// of this process: what is older is not known any more. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "refract/base/secret_hash.h"

namespace refract::object {

class RecentBirths {
 public:
  enum class End : uint8_t {
    kUnknown,
    kGone,     // Its object was sealed, and has been deleted or evicted.
    kAborted,  // Its creator wants it no more.
  };

  explicit RecentBirths(size_t births_max) : births_max_(births_max) {}

  void add(uint64_t birth, End end) {
    const auto [at, is_new] = ends_.try_emplace(birth, end);
    if (!is_new) {
      // An object that was there is what a caller must hear of.
      if (end == End::kGone) at->second = end;
      return;
    }
    if (order_.size() < births_max_) {
      order_.push_back(birth);
      return;
    }
    ends_.erase(order_[next_]);
    order_[next_] = birth;
    next_ = (next_ + 1) % births_max_;
  }
  [[nodiscard]] End end_of(uint64_t birth) const {
    const auto at = ends_.find(birth);
    return at == ends_.end() ? End::kUnknown : at->second;
  }

 private:
  const size_t births_max_;
  std::unordered_map<uint64_t, End, SecretHasher> ends_;
  std::vector<uint64_t> order_;
  size_t next_ = 0;  // The oldest, once there are so many.
};

}  // namespace refract::object
