// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/numbered/tag_bars.h"

#include <algorithm>

#include "refract/base/check.h"

namespace refract::kv {

bool TagBars::is_first(uint32_t tag, uint64_t number) const noexcept {
  const auto bar = bars_.find(tag);
  return bar == bars_.end() || bar->second.front() == number;
}

bool TagBars::add(uint32_t tag, uint64_t number) {
  REFRACT_CHECK(tag != 0 && number != 0);
  std::vector<uint64_t>& bar = bars_[tag];
  // Mostly behind all others: a door sends new ones in their order.
  const auto at = std::ranges::lower_bound(bar, number);
  if (at != bar.end() && *at == number) return true;
  if (numbers_ == kNumbersMax) {
    if (bar.empty()) bars_.erase(tag);
    return false;
  }
  bar.insert(at, number);
  ++numbers_;
  return true;
}

void TagBars::take_out_of_bar(uint32_t tag, uint64_t number) noexcept {
  const auto bar = bars_.find(tag);
  if (bar == bars_.end()) return;
  const auto at = std::ranges::lower_bound(bar->second, number);
  if (at == bar->second.end() || *at != number) return;
  bar->second.erase(at);
  --numbers_;
  if (bar->second.empty()) bars_.erase(bar);
}

void TagBars::clear() noexcept {
  bars_.clear();
  numbers_ = 0;
}

}  // namespace refract::kv
