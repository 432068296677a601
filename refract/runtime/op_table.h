// SPDX-License-Identifier: Apache-2.0
// The operations in flight of one shard: a fixed table that turns 64-bit tokens back into waiting coroutines.
//
//   Pending op = shard.ops().begin(shard.now_ns() + timeout_ns);
//   if (op.token() != 0) post(request with op.token());
//   const OpResult result = co_await op;
//
// Tokens travel to NICs, peers and back instead of pointers. A token carries its slot's generation, so a
// completion that comes after its operation has ended (expired, dropped, answered twice) is recognised,
// counted and ignored. Nothing allocates, except where an operation completes before it is awaited (see
// complete()). Used only by its shard's thread.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "refract/base/api.h"
#include "refract/base/result.h"
#include "refract/base/units.h"

namespace refract::runtime {

// {generation : 32 | index : 32}; 0 is no token.
using Token = uint64_t;

struct OpResult {
  Code code = Code::kOk;
  uint64_t value = 0;
  std::span<const std::byte> bytes =
      {};  // Valid until the awaiting coroutine suspends again or drops the op.
};

class OpTable;

// One operation: begun, not yet dropped. Move it, await it once. Destroying it (also: destroying the
// coroutine that holds it) releases the slot; a completion that comes later is stale.
class [[nodiscard]] REFRACT_API Pending {
 public:
  Pending(Pending&& other) noexcept : table_(std::exchange(other.table_, nullptr)), token_(other.token_) {}
  Pending& operator=(Pending&& other) noexcept;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending();

  // 0: the table was full, and awaiting gives kOverloaded at once.
  [[nodiscard]] Token token() const noexcept { return token_; }

  [[nodiscard]] bool await_ready() const noexcept;
  void await_suspend(std::coroutine_handle<> waiter) noexcept;
  [[nodiscard]] OpResult await_resume() noexcept;

 private:
  friend class OpTable;
  Pending(OpTable* table, Token token) noexcept : table_(table), token_(token) {}

  OpTable* table_;  // Null: nothing to release.
  Token token_;
};

class REFRACT_API OpTable {
 public:
  // REQUIRES: 0 < capacity < 2^32.
  explicit OpTable(size_t capacity) noexcept;
  OpTable(const OpTable&) = delete;
  OpTable& operator=(const OpTable&) = delete;
  // REQUIRES: no operation is left.
  ~OpTable();

  // `deadline_ns`: absolute, on the shard's clock; kForever_ns for none.
  [[nodiscard]] Pending begin(uint64_t deadline_ns) noexcept;

  // Gives the operation its result and resumes its coroutine before returning, so `result.bytes` need to stay
  // valid only during the call. The coroutine may begin, complete and drop operations, post and spawn
  // meanwhile: call from pollers only where that is safe. An operation that is not awaited yet keeps a copy
  // of the bytes (on the heap). False, and stale_count() grows: the token names no operation in flight.
  bool complete(Token token, const OpResult& result) noexcept;

  // Completes what is overdue with kDeadlineExceeded; returns how many. Cheap when nothing can be overdue.
  size_t expire(uint64_t now_ns) noexcept;
  // Completes everything in flight with `code`, but not what the resumed coroutines begin; returns how many.
  size_t fail_all(Code code) noexcept;

  // Never later than the earliest deadline in flight; may be earlier, until expire() has been called at that
  // moment. kForever_ns when nothing is in flight.
  [[nodiscard]] uint64_t next_deadline_ns() const noexcept {
    return count_ == 0 ? kForever_ns : earliest_ns_;
  }

  [[nodiscard]] bool in_flight(Token token) const noexcept {
    const size_t index = token & UINT32_MAX;
    if (index >= slots_.size() || slots_[index].generation != token >> 32) return false;
    return slots_[index].state == State::kBegun || slots_[index].state == State::kAwaited;
  }
  [[nodiscard]] size_t count() const noexcept { return count_; }
  [[nodiscard]] size_t capacity() const noexcept { return slots_.size(); }
  // Completions that came for no operation.
  [[nodiscard]] uint64_t stale_count() const noexcept { return stale_count_; }

 private:
  friend class Pending;

  enum class State : uint8_t { kFree, kBegun, kAwaited, kCompleted };

  struct alignas(64) Slot {
    uint32_t generation = 1;
    uint32_t next_free = 0;
    uint64_t deadline_ns = kForever_ns;
    std::coroutine_handle<> waiter;
    uint64_t value = 0;
    std::span<const std::byte> bytes;
    std::unique_ptr<std::byte[]> early_bytes;  // Where `bytes` lie if the completion came before the await.
    Code code = Code::kOk;
    State state = State::kFree;
    bool doomed = false;  // fail_all() has seen it.
  };
  static_assert(sizeof(Slot) == 64, "an operation fills one cache line");

  // REQUIRES: the token's slot has not been released, as is so while a Pending holds it.
  [[nodiscard]] Slot& slot_of(Token token) noexcept { return slots_[token & UINT32_MAX]; }
  [[nodiscard]] Token token_of(size_t index) const noexcept {
    return Token{slots_[index].generation} << 32 | index;
  }
  void release(Token token) noexcept;

  std::vector<Slot> slots_;
  uint32_t free_head_ = 0;   // An index; slots_.size() when none is free.
  uint32_t used_below_ = 0;  // Slots at or above this index have never been used.
  size_t count_ = 0;
  // A lower bound of all deadlines in flight. It is made exact only by expire(), whose scan therefore runs
  // about once in a timeout; begin and complete pay one compare and nothing.
  uint64_t earliest_ns_ = kForever_ns;
  uint64_t stale_count_ = 0;
};

}  // namespace refract::runtime
