// SPDX-License-Identifier: Apache-2.0
// What a shard polls, and tells before it sleeps.
//
// Threads: that of its shard.
#pragma once

#include <cstddef>
#include <string_view>

namespace refract::runtime {

// Something that must be looked at: a completion queue, a ring, a socket.
class Poller {
 public:
  virtual ~Poller() = default;
  // Does what can be done now, within a budget, and returns how much it did (0: nothing). It may complete
  // operations, whose coroutines then run inside this call; they may add and remove pollers, this one too,
  // but not poll the shard.
  virtual size_t poll() noexcept = 0;
  // Announces "asleep" to the threads that may wake this shard, then looks again. False: there is work, do
  // not sleep. The waker must see the announcement after it published its work, or this must see the work:
  // both sides need a sequentially consistent store before their load. Some watched descriptor must become
  // readable by the wake-up.
  [[nodiscard]] virtual bool prepare_sleep() noexcept { return true; }
  // Takes the announcement back. Called once after each prepare_sleep(), whether or not the shard slept.
  virtual void woke() noexcept {}
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
};

}  // namespace refract::runtime
