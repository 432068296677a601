// SPDX-License-Identifier: Apache-2.0
// How a chain of operations and its reply travel. docs/formats/prism.md says what each operation does, in
// which order it is checked, and has a worked example, which is also the golden test.
//
//   plain   ChainHeader | { OperationHeader | inline bytes, each part padded to 8 } ...
//   dense   the same operations in fewer bytes, see dense.h
//   reply   Outcome for each operation | the outputs in order, each padded to 8
//
// Little endian. Both sides treat what they get as hostile, and as still changing while they look at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "refract/memory/remote_pointer.h"

namespace refract::prism {

// Numbers travel and never change; those from kMethodsBegin to below kMethodsEnd are prism's.
inline constexpr uint16_t kMethodsBegin = 0x200;
inline constexpr uint16_t kMethodsEnd = 0x300;
inline constexpr uint16_t kChainMethod = 0x200;
inline constexpr uint16_t kAttachMethod = 0x201;

// The first byte of a chain, and how the rest lies. An executor reads its own version and all before it; the
// newest that it reads stands in its answer to an attach.
enum class ChainForm : uint8_t { kPlain = 1, kDense = 2 };
inline constexpr uint8_t kChainVersion = static_cast<uint8_t>(ChainForm::kDense);
inline constexpr uint8_t kChainVersionOldest = static_cast<uint8_t>(ChainForm::kPlain);

// The region of a connection's own kScratchBytes. Only a pointer that stands in an operation may name it,
// never one that was found in memory; it needs no key.
inline constexpr uint16_t kScratchRegion = 0xffff;

enum class Opcode : uint8_t { kRead = 1, kWrite = 2, kAllocate = 3, kCompareSwap = 4, kFetchAdd = 5 };
inline constexpr size_t kOpcodes = 6;  // Numbers are below; 0 is none.

// "read", "compare_swap": for people and counters. Empty for a number that is no opcode.
[[nodiscard]] std::string_view name(Opcode opcode) noexcept;

// What the supplied bytes must be, beside the stored ones, for a swap.
enum class Comparison : uint8_t { kEqual = 0, kGreater = 1, kLess = 2 };

struct Flag {
  static constexpr uint16_t kIndirect = 1 << 0;         // The address holds a pointer to the target.
  static constexpr uint16_t kBounded = 1 << 1;          // It holds a pointer and a bound.
  static constexpr uint16_t kDataIndirect = 1 << 2;     // What is written or swapped in stands elsewhere.
  static constexpr uint16_t kCompareIndirect = 1 << 3;  // What is compared stands elsewhere.
  static constexpr uint16_t kConditional = 1 << 4;      // Run only if the operation before succeeded.
  static constexpr uint16_t kRedirect = 1 << 5;         // The output goes to the scratch, at `mode`.
  static constexpr uint16_t kSlotWord = 1 << 6;         // Pointers in memory are slot words (slot_word.h).
  static constexpr uint16_t kRetire = 1 << 7;           // The buffer that a swap replaced is retired.
  static constexpr uint16_t kOwned = 1 << 8;  // Given back at the chain's end unless stored from the scratch.
  static constexpr uint16_t kMasked = 1 << 9;  // Two masks follow the operands.
};
inline constexpr unsigned kFlagBits = 10;

// The flags that mean something to an opcode; others are refused.
[[nodiscard]] constexpr uint16_t known_flags(Opcode opcode) noexcept {
  constexpr uint16_t kOfTarget = Flag::kIndirect | Flag::kSlotWord;
  switch (opcode) {
    case Opcode::kRead:
      return Flag::kConditional | kOfTarget | Flag::kBounded | Flag::kRedirect;
    case Opcode::kWrite:
      return Flag::kConditional | kOfTarget | Flag::kBounded | Flag::kDataIndirect;
    case Opcode::kAllocate:
      return Flag::kConditional | Flag::kSlotWord | Flag::kRedirect | Flag::kOwned;
    case Opcode::kCompareSwap:
      return Flag::kConditional | kOfTarget | Flag::kDataIndirect | Flag::kCompareIndirect | Flag::kRetire |
             Flag::kMasked;
    case Opcode::kFetchAdd:
      return Flag::kConditional | kOfTarget;
  }
  return 0;
}

struct ChainHeader {
  uint8_t version;  // ChainForm::kPlain
  uint8_t operations;
  uint16_t reserved;
  uint32_t reserved_end;
};
static_assert(sizeof(ChainHeader) == 8 && offsetof(ChainHeader, reserved_end) == 4);

struct OperationHeader {
  uint8_t opcode;
  uint8_t mode;  // kCompareSwap: a Comparison. With kRedirect: where in the scratch, a multiple of 8.
  uint16_t flags;
  uint32_t bytes;    // To transfer; of a compare-and-swap, of each operand.
  uint64_t address;  // RemotePointer::bits. kAllocate: region, and the free list's number as the offset.
  uint64_t key;      // Of the one region that the operation touches beside the scratch.
  // kFetchAdd: the addend. kWrite with kDataIndirect: where the data stand. kAllocate with kSlotWord: the
  // bits of the slot word that are the client's. Else 0.
  uint64_t operand;
};
static_assert(sizeof(OperationHeader) == 32 && offsetof(OperationHeader, flags) == 2 &&
              offsetof(OperationHeader, bytes) == 4 && offsetof(OperationHeader, address) == 8 &&
              offsetof(OperationHeader, key) == 16 && offsetof(OperationHeader, operand) == 24);
static_assert(std::is_trivially_copyable_v<OperationHeader>);
static_assert(std::has_unique_object_representations_v<OperationHeader>, "no padding may travel");

struct Outcome {
  uint16_t code;  // A number of codes.def.
  uint16_t reserved;
  uint32_t bytes;  // Of its output.
};
static_assert(sizeof(Outcome) == 8 && offsetof(Outcome, bytes) == 4);

// What a connection may do in a region by chains.
struct ChainRights {
  uint8_t bits = 0;

  static constexpr uint8_t kRead = 1;
  static constexpr uint8_t kWrite = 2;
  static constexpr uint8_t kAtomic = 4;
  static constexpr uint8_t kAllocate = 8;  // And retire.
  static constexpr uint8_t kAll = 15;

  [[nodiscard]] constexpr bool cover(uint8_t wanted) const noexcept { return (bits & wanted) == wanted; }
};

// kAttachMethod: AttachRequest | the store's name. The reply is an AttachReply, whose key and rights last as
// long as the session.
struct AttachRequest {
  uint8_t rights;  // ChainRights that the caller needs.
  uint8_t reserved[7];
};
static_assert(sizeof(AttachRequest) == 8);

struct AttachReply {
  uint64_t key;
  uint64_t bytes;  // Of the region now; it may grow.
  uint64_t root;   // Offset in the region where the store begins, as the store defines it.
  uint16_t region;
  uint8_t rights;         // Those granted.
  uint8_t chain_version;  // The newest that the executor reads; 0 of one that reads the oldest alone.
  uint8_t reserved[4];
};
static_assert(sizeof(AttachReply) == 32 && offsetof(AttachReply, region) == 24 &&
              offsetof(AttachReply, rights) == 26 && offsetof(AttachReply, chain_version) == 27);

[[nodiscard]] constexpr uint64_t padded(uint64_t bytes) noexcept {
  return (bytes + 7) / 8 * 8;
}

}  // namespace refract::prism
