// SPDX-License-Identifier: Apache-2.0
// Commands that wait by the will of a client: CLIENT PAUSE, for so long, of writes or of all. Connections of
// all threads hold up what it means (Session), and have it begin when it is over.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace refract::doors::redis {

struct Row;

class Pause {
 public:
  enum class What : uint8_t { kNothing, kWrites, kAll };

  // Until then, by the shards' clock. Beside one that is not over: until the later end, and of all if either
  // is.
  void begin(What what, uint64_t end_ns, uint64_t now_ns);
  void end();
  void end_if_over(uint64_t now_ns);
  [[nodiscard]] bool is_on() const noexcept { return what() != What::kNothing; }
  [[nodiscard]] uint64_t end_ns() const noexcept { return end_ns_.load(std::memory_order_relaxed); }
  // Whether a command of this row waits.
  [[nodiscard]] bool holds(const Row& row, uint64_t now_ns) const noexcept {
    return is_on() && holds_now(row, now_ns);
  }

  // True: the caller is the one that ends it when its time is over, until unwatch() says true: another pause
  // may have begun in front of that.
  [[nodiscard]] bool watch() noexcept { return !is_watched_.exchange(true); }
  [[nodiscard]] bool unwatch() noexcept {
    is_watched_.store(false);
    return what_.load() == What::kNothing || !watch();
  }

 private:
  [[nodiscard]] What what() const noexcept { return what_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool holds_now(const Row& row, uint64_t now_ns) const noexcept;

  std::atomic<What> what_ = What::kNothing;
  std::atomic<uint64_t> end_ns_ = 0;
  std::atomic<bool> is_watched_ = false;
  std::mutex mutex_;  // Of those that change it.
};

}  // namespace refract::doors::redis
