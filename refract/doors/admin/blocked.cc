// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/blocked.h"

namespace refract::doors::redis {

Blocked::Waiting::Waiting(Blocked& all, uint64_t id) : all_(all), id_(id) {
  const std::lock_guard lock(all_.mutex_);
  all_.waiting_[id_] = this;
}

Blocked::Waiting::~Waiting() {
  const std::lock_guard lock(all_.mutex_);
  all_.waiting_.erase(id_);
}

bool Blocked::unblock(uint64_t id, Word word) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(id);
  if (found == waiting_.end() || found->second->word() != Word::kNone) return false;
  found->second->word_.store(word, std::memory_order_release);
  return true;
}

}  // namespace refract::doors::redis
