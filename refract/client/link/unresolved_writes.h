// SPDX-License-Identifier: Apache-2.0
// Writes with a program's own identity whose outcome a client could not tell, and when each was first sent:
// so that their repetition by the program is known to be one, and can be answered truthfully.
//
// Bounded: of many thousands in doubt at once the oldest are forgotten, and look like new ones.
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "refract/client/types.h"

namespace refract::client {

class UnresolvedWrites {
 public:
  static constexpr size_t kMax = 16'384;

  // 0: the write is not in doubt.
  [[nodiscard]] uint64_t first_sent_ns(const RequestId& request) const;
  void remember(const RequestId& request, uint64_t first_sent_ns);
  void settle(const RequestId& request);

 private:
  using Key = std::pair<uint64_t, uint64_t>;
  [[nodiscard]] static Key key_of(const RequestId& request) noexcept {
    return {request.client, request.sequence};
  }

  std::atomic<bool> has_any_ = false;  // Mostly there are none, and the lock is not needed.
  mutable std::mutex mutex_;           // Of what follows.
  std::map<Key, uint64_t> first_sent_ns_;
  std::map<uint64_t, Key> by_age_;  // In the order remembered.
  uint64_t next_age_ = 0;
};

}  // namespace refract::client
