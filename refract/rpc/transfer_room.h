// SPDX-License-Identifier: Apache-2.0
// How many bytes of large values a client has under way in one direction; a transfer that finds no room waits
// in line.
//
// Without a bound, the first message of the next operation stands in a channel's queue behind all values of
// the operations before it. On a path with delay many operations then wait for their beginnings at the same
// time, a whole round trip in which nothing travels.
//
// Threads: used only by its shard.
#pragma once

#include <cstdint>
#include <deque>

#include "refract/base/result.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::rpc {

class TransferRoom {
 public:
  // `shard` outlives it. More than `bytes_max` are let through only alone.
  TransferRoom(runtime::Shard& shard, uint64_t bytes_max) noexcept : shard_(shard), bytes_max_(bytes_max) {}
  TransferRoom(const TransferRoom&) = delete;
  TransferRoom& operator=(const TransferRoom&) = delete;
  ~TransferRoom() = default;

  // Ends when they fit, in the order of the askers: kOk, and give_back() must follow. Or kDeadlineExceeded,
  // or kOverloaded where the shard has no operation slot left.
  [[nodiscard]] runtime::Task<Code> take(uint64_t bytes, uint64_t deadline_ns);
  // At once or not at all.
  [[nodiscard]] bool try_take(uint64_t bytes) noexcept;
  // Resumes waiting transfers, inside the call.
  void give_back(uint64_t bytes) noexcept;

  [[nodiscard]] uint64_t taken() const noexcept { return taken_; }

 private:
  [[nodiscard]] bool fits(uint64_t bytes) const noexcept {
    return taken_ == 0 || (bytes <= bytes_max_ && taken_ <= bytes_max_ - bytes);
  }
  void wake() noexcept;

  struct Waiter {
    runtime::Token token = 0;
    uint64_t bytes = 0;
  };

  runtime::Shard& shard_;
  const uint64_t bytes_max_;
  uint64_t taken_ = 0;
  std::deque<Waiter> waiting_;  // Those that gave up are left in it until it is their turn.
};

}  // namespace refract::rpc
