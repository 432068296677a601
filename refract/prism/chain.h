// SPDX-License-Identifier: Apache-2.0
// Builds a chain of operations into a buffer of the caller's, as the paper writes them down:
//
//   Chain chain(buffer);
//   chain.read(pointer_at, key, 512).indirect().bounded();
//
//   chain.allocate(free_list, key, value).redirect(0).owned();
//   chain.compare_swap({.address = slot, .key = key, .bytes = 8, .compare = Operand::of(old),
//                       .swap = Operand::at(scratch(0))}).conditional().retire();
//   const Result<std::span<const std::byte>> message = chain.finish();
//
// What can never be right does not compile: a bound without an indirection, a place beyond the scratch, an
// allocation that is owned but goes nowhere. finish() refuses the rest, by the check that the executor makes.
// Nothing allocates. A step is used up in the statement that made it: it is the chain's last operation.
//
// The form is the plain one, which every executor reads and takes apart with fewer instructions. Where the
// network is the bound and not the executor, the dense one pays, if the attachment says that the peer reads
// it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "refract/base/result.h"
#include "refract/prism/dense.h"
#include "refract/prism/limits.h"
#include "refract/prism/operation.h"

namespace refract::prism {

// An 8-byte place in a connection's scratch, settled when the program is compiled.
class ScratchPlace {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a number is what one writes.
  consteval ScratchPlace(uint8_t offset) : offset_(offset) {
    if (offset % 8 != 0 || size_t{offset} + 8 > kScratchBytes) a_scratch_place_is_a_multiple_of_8_below_64();
  }
  [[nodiscard]] constexpr uint8_t offset() const noexcept { return offset_; }

 private:
  static void a_scratch_place_is_a_multiple_of_8_below_64() {}

  uint8_t offset_;
};

[[nodiscard]] constexpr RemotePointer scratch(ScratchPlace place) noexcept {
  return RemotePointer::at(kScratchRegion, place.offset());
}

// One side of a compare-and-swap: bytes that travel with it, or where they stand.
struct Operand {
  std::array<std::byte, kOperandBytesMax> bytes = {};
  RemotePointer pointer;
  bool is_indirect = false;

  // The first bytes; what is missing is 0.
  [[nodiscard]] static Operand of(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] static Operand of(uint64_t word) noexcept { return of(std::as_bytes(std::span(&word, 1))); }
  [[nodiscard]] static Operand at(RemotePointer pointer) noexcept {
    Operand operand;
    operand.pointer = pointer;
    operand.is_indirect = true;
    return operand;
  }
};

// Which bits count, each as long as the operands.
struct Masks {
  Operand compare;
  Operand swap;
};

struct CompareSwap {
  RemotePointer address;
  RemoteKey key;
  uint32_t bytes = 8;  // 1 to 32.
  Comparison comparison = Comparison::kEqual;
  Operand compare = {};
  Operand swap = {};
  const Masks* masks = nullptr;  // Null: all bits.
};

class Chain;

// The operation that was added last, with the flags that it has by now.
template <Opcode kOpcode, uint16_t kSet = 0>
class Step {
  [[nodiscard]] static constexpr bool has(uint16_t flag) noexcept { return (kSet & flag) != 0; }
  [[nodiscard]] static constexpr bool may_have(uint16_t flag) noexcept {
    return (known_flags(kOpcode) & flag) != 0 && !has(flag);
  }

 public:
  // The address holds a pointer to the target.
  auto indirect() const noexcept
    requires(may_have(Flag::kIndirect))
  {
    return with<Flag::kIndirect>();
  }
  // The pointer has a bound behind it.
  auto bounded() const noexcept
    requires(may_have(Flag::kBounded) && has(Flag::kIndirect) && !has(Flag::kSlotWord))
  {
    return with<Flag::kBounded>();
  }
  // Pointers in memory are slot words: the one that is followed, and the one whose buffer is retired.
  auto by_slot_word() const noexcept
    requires(kOpcode != Opcode::kAllocate && may_have(Flag::kSlotWord) && !has(Flag::kBounded) &&
             (has(Flag::kIndirect) || has(Flag::kRetire)))
  {
    return with<Flag::kSlotWord>();
  }
  // The output is a slot word with these bits added, which are none of granule and stamp.
  auto as_slot_word(uint64_t bits = 0) const noexcept
    requires(kOpcode == Opcode::kAllocate && may_have(Flag::kSlotWord))
  {
    set_operand(bits);
    return with<Flag::kSlotWord>();
  }
  // Only if the operation before succeeded.
  auto conditional() const noexcept
    requires(may_have(Flag::kConditional))
  {
    return with<Flag::kConditional>();
  }
  // The output goes to the scratch. Of a READ it must end there, too: finish() looks.
  auto redirect(ScratchPlace place) const noexcept
    requires(may_have(Flag::kRedirect))
  {
    set_mode(place.offset());
    return with<Flag::kRedirect>();
  }
  // The buffer goes back at the chain's end unless its word was stored from the scratch.
  auto owned() const noexcept
    requires(may_have(Flag::kOwned) && has(Flag::kRedirect))
  {
    return with<Flag::kOwned>();
  }
  // What the last 8 bytes led to is retired when they are replaced.
  auto retire() const noexcept
    requires(may_have(Flag::kRetire))
  {
    return with<Flag::kRetire>();
  }

 private:
  friend class Chain;
  template <Opcode, uint16_t>
  friend class Step;

  explicit Step(Chain* chain) noexcept : chain_(chain) {}

  template <uint16_t kFlag>
  auto with() const noexcept;
  void set_mode(uint8_t mode) const noexcept;
  void set_operand(uint64_t operand) const noexcept;

  Chain* chain_;
};

class Chain {
 public:
  // The chain is as long as the buffer at most; what does not fit, finish() says. In the dense form the
  // buffer needs kHeadersBytesMax beside the inline bytes, however few the operations are.
  explicit Chain(std::span<std::byte> buffer, ChainForm form = ChainForm::kPlain) noexcept;

  Step<Opcode::kRead> read(RemotePointer address, RemoteKey key, uint32_t bytes) noexcept;
  Step<Opcode::kWrite> write(RemotePointer address, RemoteKey key, std::span<const std::byte> data) noexcept;
  // The data stand at `source`, in the same region or in the scratch.
  Step<Opcode::kWrite> write_from(RemotePointer address, RemoteKey key, RemotePointer source,
                                  uint32_t bytes) noexcept;
  // `list` is RemotePointer::at(region, number of the free list).
  Step<Opcode::kAllocate> allocate(RemotePointer list, RemoteKey key,
                                   std::span<const std::byte> data) noexcept;
  Step<Opcode::kCompareSwap> compare_swap(const CompareSwap& swap) noexcept;
  Step<Opcode::kFetchAdd> fetch_add(RemotePointer address, RemoteKey key, uint64_t addend) noexcept;

  // The chain as it travels, in the buffer; more can be added to it later. kTooLarge: it did not fit.
  // kInvalidArgument: the executor would refuse it.
  [[nodiscard]] Result<std::span<const std::byte>> finish() const noexcept;
  [[nodiscard]] size_t operations() const noexcept { return count_; }
  // Begins again in the same buffer.
  void clear() noexcept;

  // Room enough for all but the inline bytes, in either form.
  static constexpr size_t kHeadersBytesMax =
      std::max(sizeof(ChainHeader) + kOperationsMax * sizeof(OperationHeader), kDenseHeadBytesMax);

 private:
  template <Opcode, uint16_t>
  friend class Step;

  void begin(const OperationHeader& header) noexcept;
  void append(std::span<const std::byte> part) noexcept;
  void append_operand(const Operand& operand, uint32_t bytes) noexcept;
  [[nodiscard]] OperationHeader& last() noexcept { return headers_[std::min(count_, kOperationsMax) - 1]; }
  [[nodiscard]] std::span<const std::byte> finish_plain() const noexcept;
  [[nodiscard]] std::span<const std::byte> finish_dense() const noexcept;

  std::span<std::byte> buffer_;
  std::array<OperationHeader, kOperationsMax> headers_;
  size_t bytes_ = 0;  // Of the buffer: inline bytes where they will travel, and room for headers.
  size_t count_ = 0;
  ChainForm form_;
  bool fits_ = true;
};

template <Opcode kOpcode, uint16_t kSet>
template <uint16_t kFlag>
auto Step<kOpcode, kSet>::with() const noexcept {
  chain_->last().flags |= kFlag;
  return Step<kOpcode, static_cast<uint16_t>(kSet | kFlag)>(chain_);
}

template <Opcode kOpcode, uint16_t kSet>
void Step<kOpcode, kSet>::set_mode(uint8_t mode) const noexcept {
  chain_->last().mode = mode;
}

template <Opcode kOpcode, uint16_t kSet>
void Step<kOpcode, kSet>::set_operand(uint64_t operand) const noexcept {
  chain_->last().operand = operand;
}

}  // namespace refract::prism
