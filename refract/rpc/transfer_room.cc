// SPDX-License-Identifier: Apache-2.0
#include "refract/rpc/transfer_room.h"

#include "refract/base/check.h"

namespace refract::rpc {

using runtime::OpResult;
using runtime::Task;

bool TransferRoom::try_take(uint64_t bytes) noexcept {
  if (!waiting_.empty() || !fits(bytes)) return false;
  taken_ += bytes;
  return true;
}

Task<Code> TransferRoom::take(uint64_t bytes, uint64_t deadline_ns) {
  if (try_take(bytes)) co_return Code::kOk;
  runtime::Pending turn = shard_.ops().begin(deadline_ns);  // NOLINT(misc-const-correctness)
  if (turn.token() == 0) co_return Code::kOverloaded;
  waiting_.push_back({.token = turn.token(), .bytes = bytes});
  // The call that wakes us has taken the bytes for us.
  const OpResult woken = co_await turn;
  co_return woken.code;
}

void TransferRoom::give_back(uint64_t bytes) noexcept {
  REFRACT_CHECK(bytes <= taken_);
  taken_ -= bytes;
  wake();
}

void TransferRoom::wake() noexcept {
  while (!waiting_.empty() && fits(waiting_.front().bytes)) {
    const Waiter first = waiting_.front();
    waiting_.pop_front();
    // It may have given up; then no caller would give the bytes back.
    if (!shard_.ops().in_flight(first.token)) continue;
    taken_ += first.bytes;
    (void)shard_.ops().complete(first.token, {.code = Code::kOk});
  }
}

}  // namespace refract::rpc
