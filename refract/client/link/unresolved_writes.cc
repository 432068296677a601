// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/unresolved_writes.h"

namespace refract::client {

uint64_t UnresolvedWrites::first_sent_ns(const RequestId& request) const {
  if (!has_any_.load(std::memory_order_acquire)) return 0;
  const std::scoped_lock lock(mutex_);
  const auto found = first_sent_ns_.find(key_of(request));
  return found == first_sent_ns_.end() ? 0 : found->second;
}

void UnresolvedWrites::remember(const RequestId& request, uint64_t first_sent_ns) {
  const std::scoped_lock lock(mutex_);
  const auto [place, is_new] = first_sent_ns_.try_emplace(key_of(request), first_sent_ns);
  if (!is_new) return;
  by_age_.emplace(next_age_++, place->first);
  if (first_sent_ns_.size() > kMax) {
    first_sent_ns_.erase(by_age_.begin()->second);
    by_age_.erase(by_age_.begin());
  }
  has_any_.store(true, std::memory_order_release);
}

void UnresolvedWrites::settle(const RequestId& request) {
  if (!has_any_.load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(mutex_);
  if (first_sent_ns_.erase(key_of(request)) == 0) return;
  std::erase_if(by_age_, [key = key_of(request)](const auto& row) { return row.second == key; });
  has_any_.store(!first_sent_ns_.empty(), std::memory_order_release);
}

}  // namespace refract::client
