// SPDX-License-Identifier: Apache-2.0
// Connections whose command waits until its time is over, as WAIT does, and that another one may have end
// before: CLIENT UNBLOCK.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace refract::doors::redis {

class Blocked {
 public:
  enum class Word : uint8_t { kNone, kTimeout, kError };

  // One of them, while it is there.
  class Waiting {
   public:
    // `id`: of its connection. The registry outlives this.
    Waiting(Blocked& all, uint64_t id);
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting();
    // kNone: it waits on.
    [[nodiscard]] Word word() const noexcept { return word_.load(std::memory_order_acquire); }

   private:
    friend class Blocked;
    Blocked& all_;
    const uint64_t id_;
    std::atomic<Word> word_ = Word::kNone;
  };

  // False: that connection does not wait.
  [[nodiscard]] bool unblock(uint64_t id, Word word);

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, Waiting*> waiting_;  // Guarded by it.
};

}  // namespace refract::doors::redis
