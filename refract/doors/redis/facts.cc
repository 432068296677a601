// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/facts.h"

#include <sys/socket.h>

#include <algorithm>

namespace refract::doors::redis {

bool Loading::is_so() const noexcept {
  if (!is_loading_.load()) return false;
  char word = 0;
  const bool is_told = ::recv(link_, &word, sizeof(word), MSG_PEEK | MSG_DONTWAIT) > 0;
  // Else another thread may have taken it meanwhile.
  return !is_told && is_loading_.load();
}

namespace {

// Which tally is which sum.
struct Pair {
  Tally Counts::* tally;
  uint64_t CountSums::* sum;
};
constexpr Pair kPairs[] = {
    {&Counts::received, &CountSums::received}, {&Counts::rejected, &CountSums::rejected},
    {&Counts::evicted, &CountSums::evicted},   {&Counts::commands, &CountSums::commands},
    {&Counts::hits, &CountSums::hits},         {&Counts::misses, &CountSums::misses},
    {&Counts::bytes_in, &CountSums::bytes_in}, {&Counts::bytes_out, &CountSums::bytes_out},
};

}  // namespace

CountSums AllCounts::since_start() const noexcept {
  CountSums sums;
  for (const Counts& counts : by_thread_) {
    for (const Pair& pair : kPairs) sums.*pair.sum += (counts.*pair.tally).load();
  }
  return sums;
}

CountSums AllCounts::sums() const {
  const std::lock_guard lock(mutex_);
  CountSums sums = since_start();
  for (const Pair& pair : kPairs) sums.*pair.sum -= before_.*pair.sum;
  return sums;
}

void AllCounts::reset(const NodeCounts& now) {
  const std::lock_guard lock(mutex_);
  before_ = since_start();
  node_before_ = now;
}

NodeCounts AllCounts::since(const NodeCounts& now) const {
  const std::lock_guard lock(mutex_);
  return {.expired = now.expired - std::min(now.expired, node_before_.expired),
          .evicted = now.evicted - std::min(now.evicted, node_before_.evicted)};
}

}  // namespace refract::doors::redis
