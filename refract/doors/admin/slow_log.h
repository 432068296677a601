// SPDX-License-Identifier: Apache-2.0
// The last commands that took long, with their words and their client: Redis's SLOWLOG.
//
// A command takes from when it begins until its reply is there: waiting for the node counts, waiting for
// earlier commands and for the client does not.
//
// Threads: any. Only a command that is written down takes the lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/units.h"

namespace refract::doors::redis {

struct SlowCommand {
  uint64_t number = 0;
  uint64_t at_s = 0;  // Since 1970: when it ended.
  uint64_t took_us = 0;
  std::vector<std::string> words;
  std::string client;
  std::string client_name;
};

class SlowLog {
 public:
  static constexpr int64_t kSlowerThanDefault_us = 10'000;
  static constexpr size_t kLengthDefault = 128;
  // Of what CONFIG SET may ask for: the list lies in this process's memory.
  static constexpr size_t kLengthMax = 65'536;
  // As in Redis: of more words the last one tells how many there are, of a longer one how many bytes.
  static constexpr size_t kWordsMax = 32;
  static constexpr size_t kWordBytesMax = 128;

  // Those that take so long and more are written down. Negative: none are.
  [[nodiscard]] int64_t slower_than_us() const noexcept {
    return slower_than_us_.load(std::memory_order_relaxed);
  }
  void set_slower_than_us(int64_t us) noexcept { slower_than_us_.store(us, std::memory_order_relaxed); }
  [[nodiscard]] bool is_slow(uint64_t took_ns) const noexcept {
    const int64_t least_us = slower_than_us();
    return least_us >= 0 && took_ns / kMicrosecond_ns >= static_cast<uint64_t>(least_us);
  }
  // Whether commands that take no time are wanted, too.
  [[nodiscard]] bool wants_short_ones() const noexcept {
    const int64_t least_us = slower_than_us();
    return least_us >= 0 && least_us < kSlowerThanDefault_us;
  }
  // How many are kept: the last ones.
  [[nodiscard]] size_t length_max() const noexcept { return length_max_.load(std::memory_order_relaxed); }
  void set_length_max(size_t length);

  // Takes the number, and shortens the words.
  void add(std::span<const std::string_view> words, SlowCommand command);
  // The last one first; at most so many.
  [[nodiscard]] std::vector<SlowCommand> last(size_t count_max) const;
  [[nodiscard]] size_t length() const;
  void clear();

 private:
  std::atomic<int64_t> slower_than_us_ = kSlowerThanDefault_us;
  std::atomic<size_t> length_max_ = kLengthDefault;
  mutable std::mutex mutex_;
  // Below, guarded by it:
  uint64_t next_number_ = 0;
  std::deque<SlowCommand> commands_;  // The last one first.
};

}  // namespace refract::doors::redis
