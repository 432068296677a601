// SPDX-License-Identifier: Apache-2.0
// How many bytes may wait for a subscriber that does not read: Redis's client-output-buffer-limit of pubsub.
// Those of other classes are what they are here: none.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace refract::doors::redis {

class OutputLimits {
 public:
  // As CONFIG GET tells it, of all classes.
  [[nodiscard]] std::string text() const;
  // As CONFIG SET takes it: class, hard limit, soft limit, seconds; several of them, or none. Returns what is
  // wrong, and then nothing was done; `is_trial`: it is only looked at.
  [[nodiscard]] std::string set(std::string_view value, bool is_trial);

  // Whether a subscriber with so many bytes unsent is to be ended: at the hard limit, or where it has been at
  // the soft one since more than the seconds. `since_ns` is its own, and 0 where it is below.
  [[nodiscard]] bool are_passed(size_t bytes, uint64_t& since_ns, uint64_t now_ns) const noexcept;

 private:
  // 0: there is no limit.
  std::atomic<uint64_t> hard_bytes_ = uint64_t{32} << 20;
  std::atomic<uint64_t> soft_bytes_ = uint64_t{8} << 20;
  std::atomic<uint64_t> soft_seconds_ = 60;
};

}  // namespace refract::doors::redis
