// SPDX-License-Identifier: Apache-2.0
#include "refract/runtime/op_table.h"

#include <algorithm>

#include "refract/base/check.h"

namespace refract::runtime {

Pending& Pending::operator=(Pending&& other) noexcept {
  if (this != &other) {
    if (table_ != nullptr) table_->release(token_);
    table_ = std::exchange(other.table_, nullptr);
    token_ = other.token_;
  }
  return *this;
}

Pending::~Pending() {
  if (table_ != nullptr) table_->release(token_);
}

bool Pending::await_ready() const noexcept {
  if (token_ == 0) return true;
  // A second await, or one of a moved-from operation, would wait for ever.
  REFRACT_CHECK(table_ != nullptr);
  return table_->slot_of(token_).state == OpTable::State::kCompleted;
}

void Pending::await_suspend(std::coroutine_handle<> waiter) noexcept {
  OpTable::Slot& slot = table_->slot_of(token_);
  REFRACT_CHECK(slot.state == OpTable::State::kBegun);
  slot.waiter = waiter;
  slot.state = OpTable::State::kAwaited;
}

OpResult Pending::await_resume() noexcept {
  if (token_ == 0) return {.code = Code::kOverloaded};
  const OpTable::Slot& slot = table_->slot_of(token_);
  const OpResult result = {slot.code, slot.value, slot.bytes};
  // The slot is free for others at once, unless it keeps the bytes.
  if (slot.early_bytes == nullptr) std::exchange(table_, nullptr)->release(token_);
  return result;
}

OpTable::OpTable(size_t capacity) noexcept : slots_(capacity) {
  REFRACT_CHECK(capacity > 0 && capacity < UINT32_MAX);
  for (size_t index = 0; index < capacity; ++index) {
    slots_[index].next_free = static_cast<uint32_t>(index + 1);
  }
}

OpTable::~OpTable() {
  REFRACT_CHECK(count_ == 0);
}

Pending OpTable::begin(uint64_t deadline_ns) noexcept {
  if (free_head_ == slots_.size()) return {nullptr, 0};
  const uint32_t index = free_head_;
  Slot& slot = slots_[index];
  free_head_ = slot.next_free;
  used_below_ = std::max(used_below_, index + 1);
  slot.state = State::kBegun;
  slot.deadline_ns = deadline_ns;
  slot.doomed = false;
  earliest_ns_ = count_ == 0 ? deadline_ns : std::min(earliest_ns_, deadline_ns);
  ++count_;
  return {this, token_of(index)};
}

void OpTable::release(Token token) noexcept {
  Slot& slot = slot_of(token);
  REFRACT_DCHECK(slot.state != State::kFree && slot.generation == token >> 32);
  slot.state = State::kFree;
  slot.waiter = nullptr;
  slot.early_bytes.reset();
  // Generation 0 is left out, so that no token is 0.
  if (++slot.generation == 0) slot.generation = 1;
  slot.next_free = free_head_;
  free_head_ = static_cast<uint32_t>(token & UINT32_MAX);
  --count_;
}

bool OpTable::complete(Token token, const OpResult& result) noexcept {
  if (!in_flight(token)) {
    ++stale_count_;
    return false;
  }
  Slot& slot = slot_of(token);
  slot.code = result.code;
  slot.value = result.value;
  slot.bytes = result.bytes;
  const bool awaited = slot.state == State::kAwaited;
  slot.state = State::kCompleted;
  if (awaited) {
    // The slot may belong to another operation when this returns.
    std::exchange(slot.waiter, nullptr).resume();
  } else if (!result.bytes.empty()) {
    slot.early_bytes = std::make_unique_for_overwrite<std::byte[]>(result.bytes.size());
    std::copy(result.bytes.begin(), result.bytes.end(), slot.early_bytes.get());
    slot.bytes = {slot.early_bytes.get(), result.bytes.size()};
  }
  return true;
}

size_t OpTable::expire(uint64_t now_ns) noexcept {
  if (now_ns < next_deadline_ns()) return 0;
  size_t expired = 0;
  // Operations that begin during the scan lower it by themselves.
  earliest_ns_ = kForever_ns;
  for (uint32_t index = 0; index < used_below_; ++index) {
    const Token token = token_of(index);
    if (!in_flight(token)) continue;
    if (slots_[index].deadline_ns <= now_ns) {
      complete(token, {.code = Code::kDeadlineExceeded});
      ++expired;
    }
    // The slot may already serve another operation.
    if (in_flight(token_of(index))) earliest_ns_ = std::min(earliest_ns_, slots_[index].deadline_ns);
  }
  return expired;
}

size_t OpTable::fail_all(Code code) noexcept {
  // Marked first: what resumed coroutines begin in a slot not yet visited must live.
  for (uint32_t index = 0; index < used_below_; ++index) slots_[index].doomed = in_flight(token_of(index));
  size_t failed = 0;
  for (uint32_t index = 0; index < used_below_; ++index) {
    if (!slots_[index].doomed || !in_flight(token_of(index))) continue;
    slots_[index].doomed = false;
    complete(token_of(index), {.code = code});
    ++failed;
  }
  return failed;
}

}  // namespace refract::runtime
