// SPDX-License-Identifier: Apache-2.0
// The threads of the doors, and what one of them wants all to do: to tell of their connections, to end some.
//
// A thread looks for errands once a turn, at one word of its own; the lock behind it is taken only where
// there is one.
//
// Threads: any, unless something else is said.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "refract/runtime/op_table.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

class Session;

// The connections of one thread.
class Lines {
 public:
  using Visit = std::function<void(Session&)>;
  // Those that are there. Each may be ended by its visit.
  virtual void visit(const Visit& visit) = 0;
  // Those that have ended, and whose commands are not over.
  virtual void visit_ended(const Visit& visit) = 0;

 protected:
  ~Lines() = default;
};

class Errand {
 public:
  // In the thread of this place, at the beginning of a turn; again in later turns until it returns true.
  virtual bool run(size_t place, Lines& lines) = 0;

 protected:
  ~Errand() = default;

 private:
  friend class Crew;
  std::atomic<size_t> left_ = 0;  // Threads in which it is not over.
  size_t asker_ = 0;
  runtime::Token token_ = 0;
};

class Crew {
 public:
  explicit Crew(size_t threads);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() = default;

  [[nodiscard]] size_t threads() const noexcept { return seats_.size(); }

  // By the thread of this place: from now on it runs errands, and then no longer. Those that come later are
  // over at once there. Both outlive that.
  void sit(size_t place, runtime::Shard& shard, Lines& lines);
  void leave(size_t place);
  // By that thread, in each of its turns; how much was done. Coroutines that wait run inside of it.
  size_t poll(size_t place) {
    const Seat& seat = *seats_[place];
    return seat.has_work.load(std::memory_order_acquire) || !seat.open.empty() ? work(place) : 0;
  }
  [[nodiscard]] bool has_work(size_t place) const noexcept {
    return seats_[place]->has_work.load(std::memory_order_acquire);
  }

  // For the thread of this place: has all threads run it, and ends when it is over in all. The errand
  // outlives that. False: too much is under way in this thread, and nothing was done.
  [[nodiscard]] runtime::Task<bool> run(size_t place, runtime::Shard& shard, Errand& errand);

 private:
  struct alignas(64) Seat {
    std::atomic<bool> has_work = false;
    std::vector<Errand*> open;  // Of its thread: they are not over there.
    Lines* lines = nullptr;
    std::mutex mutex;
    // Below, guarded by it:
    runtime::Shard* shard = nullptr;
    bool has_left = false;
    std::vector<Errand*> came;
    std::vector<runtime::Token> over;  // Errands of this thread's own.
  };

  size_t work(size_t place);
  void give(size_t place, Errand& errand);
  void is_over(Errand& errand);

  std::vector<std::unique_ptr<Seat>> seats_;
};

}  // namespace refract::doors::redis
