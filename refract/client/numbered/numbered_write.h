// SPDX-License-Identifier: Apache-2.0
// One numbered write, as it lies with its caller while NumberedWrites has it, and lists of them.
//
// Threads: those of the NumberedWrites.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/kv/layout/numbered_wire.h"
#include "refract/memory/remote_visible.h"

namespace refract {
class SharedBuffer;
}
namespace refract::client {

struct NumberedEntry;
class WriteList;

// What it is to do: as kv::wire::Operation has it. Key and value live until it is over. A put that no message
// has room for is a commit on the way, of a draft that its caller has brought (NumberedWrites::next_draft()).
struct NumberedOperation {
  kv::wire::OperationKind kind = kv::wire::OperationKind::kPut;  // Not kWithdraw.
  uint8_t flags = 0;
  uint8_t function = 0;
  uint32_t tag = 0;  // Those of one are executed in the order in which they are added; 0: in any.
  uint64_t argument = 0;
  uint64_t if_version = 0;
  std::span<const std::byte> key = {};
  std::span<const std::byte> value = {};
  SharedBuffer* shared = nullptr;  // Where the value lies, if it was built there.
};

// What became of it. kDeadlineExceeded: its time was over, and it has not been executed and will not be.
// kIndeterminate: that is not known. kUnsupported: the owner's functions are others, and it was not sent;
// or one in front of it in its tag could not be.
struct NumberedOutcome {
  Code code = Code::kOk;
  bool is_told_again = false;  // An earlier connection had it executed.
  uint8_t answer_bytes = 0;
  uint64_t version = 0;
  std::array<std::byte, kv::wire::kOperationAnswerBytesMax> bytes = {};

  [[nodiscard]] static NumberedOutcome of(Code code) noexcept {
    NumberedOutcome outcome;
    outcome.code = code;
    return outcome;
  }
  [[nodiscard]] static NumberedOutcome of(const kv::wire::TakenAnswer& taken) noexcept {
    NumberedOutcome outcome;
    outcome.code = taken.code;
    outcome.is_told_again = (taken.answer.flags & kv::wire::OperationAnswer::kToldAgain) != 0;
    outcome.answer_bytes = static_cast<uint8_t>(std::min(taken.bytes.size(), outcome.bytes.size()));
    outcome.version = taken.answer.version;
    if (outcome.answer_bytes > 0) {
      copy_possibly_torn(outcome.bytes.data(), taken.bytes.data(), outcome.answer_bytes);
    }
    return outcome;
  }
  // A function's, or which error; of an erasure the version erased.
  [[nodiscard]] std::span<const std::byte> answer() const noexcept {
    return std::span(bytes).first(answer_bytes);
  }
};

// Is told once what became of it, or leaves before it goes: NumberedWrites::leave().
class NumberedWrite {
 public:
  explicit NumberedWrite(const NumberedOperation& what) noexcept : operation(what) {}
  NumberedWrite(const NumberedWrite&) = delete;
  NumberedWrite& operator=(const NumberedWrite&) = delete;

  // May add and give up writes, and end this one.
  virtual void told(const NumberedOutcome& outcome) noexcept = 0;

  NumberedOperation operation;

  // What the owner of the connection has for it, and did not commit. 0: nothing.
  [[nodiscard]] uint64_t draft() const noexcept { return draft_; }

 protected:
  ~NumberedWrite() = default;

 private:
  friend class NumberedWrites;
  friend class WriteList;

  uint64_t number_ = 0;  // 0: it is not added.
  uint64_t draft_ = 0;
  bool is_drafting_ = false;  // It waits for its draft.
  NumberedEntry* entry_ = nullptr;
  WriteList* list_ = nullptr;  // That it is in, at most one.
  NumberedWrite* previous_ = nullptr;
  NumberedWrite* next_ = nullptr;
  NumberedOutcome outcome_;  // Of one that is about to be told.
};

// Of writes that are in no other one; it owns none.
class WriteList {
 public:
  WriteList() = default;
  WriteList(const WriteList&) = delete;
  WriteList& operator=(const WriteList&) = delete;
  ~WriteList() = default;

  [[nodiscard]] bool is_empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] NumberedWrite* first() const noexcept { return first_; }
  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] static NumberedWrite* behind(const NumberedWrite& one) noexcept { return one.next_; }
  void add(NumberedWrite& one) noexcept { insert(one, nullptr); }
  void add_in_front(NumberedWrite& one) noexcept { insert(one, first_); }
  // By its number among others in their order; it is mostly one of the first.
  void add_in_order(NumberedWrite& one) noexcept {
    NumberedWrite* next = first_;
    while (next != nullptr && next->number_ < one.number_) next = next->next_;
    insert(one, next);
  }
  // All of `other`, in front of what is here.
  void add_all_in_front(WriteList& other) noexcept {
    while (other.last_ != nullptr) {
      NumberedWrite& one = *other.last_;
      remove(one);
      add_in_front(one);
    }
  }
  static void remove(NumberedWrite& one) noexcept {
    WriteList& list = *one.list_;
    (one.previous_ != nullptr ? one.previous_->next_ : list.first_) = one.next_;
    (one.next_ != nullptr ? one.next_->previous_ : list.last_) = one.previous_;
    one.previous_ = one.next_ = nullptr;
    one.list_ = nullptr;
    --list.size_;
  }

 private:
  // In front of `next`; null: at the end.
  void insert(NumberedWrite& one, NumberedWrite* next) noexcept {
    NumberedWrite* const previous = next != nullptr ? next->previous_ : last_;
    one.list_ = this;
    one.previous_ = previous;
    one.next_ = next;
    (previous != nullptr ? previous->next_ : first_) = &one;
    (next != nullptr ? next->previous_ : last_) = &one;
    ++size_;
  }

  NumberedWrite* first_ = nullptr;
  NumberedWrite* last_ = nullptr;
  size_t size_ = 0;
};

}  // namespace refract::client
