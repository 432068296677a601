// SPDX-License-Identifier: Apache-2.0
// The dense form of a chain: what its operations share is said once, and what an operation does not need is
// not said. docs/formats/prism.md has it in words and bytes.
//
//   chain   DenseChainHeader | DenseOperation and what belongs to it, of each operation | the inline bytes of
//   all
//
// Behind a DenseOperation stand, without padding: the mode (1 byte, of operations that have one), the address
// (0, 1 or 6 bytes), the operand (8 bytes, of operations that have one). Or all 32 bytes of an
// OperationHeader, where that cannot say it. Inline bytes are those of the plain form, each part at a
// multiple of 8 of the chain.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "refract/memory/remote_pointer.h"
#include "refract/memory/remote_visible.h"
#include "refract/prism/limits.h"
#include "refract/prism/operation.h"

namespace refract::prism {

// Region and key are those of all addresses and keys that do not say otherwise.
struct DenseChainHeader {
  uint8_t version;  // ChainForm::kDense
  uint8_t operations;
  uint16_t region;
  uint32_t key_low;
  uint32_t key_high;
};
static_assert(sizeof(DenseChainHeader) == 12 && offsetof(DenseChainHeader, region) == 2 &&
              offsetof(DenseChainHeader, key_low) == 4 && offsetof(DenseChainHeader, key_high) == 8);
static_assert(std::has_unique_object_representations_v<DenseChainHeader>, "no padding may travel");

struct DenseOperation {
  // From the lowest bit: opcode 3, flags kFlagBits, DenseAddress 2, without a key 1. kWhole alone: an
  // OperationHeader follows in place of `bytes` and all else.
  uint16_t control;
  uint16_t bytes;

  static constexpr unsigned kOpcodeBits = 3;
  static constexpr unsigned kAddressShift = kOpcodeBits + kFlagBits;
  static constexpr unsigned kKeylessShift = kAddressShift + 2;
  static constexpr uint16_t kWhole = 7;
};
static_assert(sizeof(DenseOperation) == 4 && offsetof(DenseOperation, bytes) == 2);
static_assert(DenseOperation::kKeylessShift == 15 && kOpcodes <= DenseOperation::kWhole);

inline constexpr uint16_t kFlagMask = (1U << kFlagBits) - 1;

enum class DenseAddress : uint8_t {
  kOffset = 0,   // 6 bytes, in the chain's region.
  kShort = 1,    // 1 byte, in the chain's region.
  kScratch = 2,  // 1 byte, in the scratch.
  kSame = 3,     // That of the operation before; not of the first.
};

inline constexpr size_t kDenseOffsetBytes = 6;
inline constexpr size_t kDenseHeadBytesMax =
    padded(sizeof(DenseChainHeader) + kOperationsMax * (sizeof(uint16_t) + sizeof(OperationHeader)));

// Writes all but the inline bytes, and says how many bytes that are. REQUIRES: are_sound(headers).
[[nodiscard]] size_t pack_head(std::span<const OperationHeader> headers,
                               std::span<std::byte, kDenseHeadBytesMax> room) noexcept;

// The same taken apart: a copy, so that each byte is looked at once. Of the headers nothing is checked but
// that their bytes are there.
class DenseHead {
  static constexpr size_t kBlockBytes = 16;
  // An operation that is cut is read to its end all the same, from zeros, before that is noticed.
  static constexpr size_t kSlackBytes = 3 * kBlockBytes;
  static_assert(sizeof(uint16_t) + sizeof(OperationHeader) <= kSlackBytes);

 public:
  // Not a member, so that the compiler keeps those in registers.
  using Copy = std::array<std::byte, kDenseHeadBytesMax + kSlackBytes>;

  // What is no beginning of a chain has no operations. `copy` outlives this.
  [[gnu::always_inline]] DenseHead(std::span<const std::byte> chain, Copy& copy) noexcept;

  [[nodiscard]] size_t operations() const noexcept { return operations_; }
  // The next one. False: it is not all there, or its address is that of none before.
  [[nodiscard, gnu::always_inline]] bool take(OperationHeader& header) noexcept;
  // Bytes of the chain that have been taken.
  [[nodiscard]] size_t taken() const noexcept { return at_; }

 private:
  template <typename Value>
  [[nodiscard, gnu::always_inline]] Value load(size_t at) const noexcept {
    Value value;
    std::memcpy(&value, copy_ + at, sizeof(value));
    return value;
  }

  const std::byte* copy_;
  size_t bytes_ = 0;
  size_t at_ = 0;
  size_t operations_ = 0;
  uint64_t key_ = 0;
  uint64_t before_ = 0;  // The address of the operation before.
  uint64_t region_bits_ = 0;
};

[[nodiscard]] constexpr bool has_mode(const OperationHeader& header) noexcept {
  return static_cast<Opcode>(header.opcode) == Opcode::kCompareSwap || (header.flags & Flag::kRedirect) != 0;
}

[[nodiscard]] constexpr bool has_operand(const OperationHeader& header) noexcept {
  switch (static_cast<Opcode>(header.opcode)) {
    case Opcode::kFetchAdd:
      return true;
    case Opcode::kWrite:
      return (header.flags & Flag::kDataIndirect) != 0;
    case Opcode::kAllocate:
      return (header.flags & Flag::kSlotWord) != 0;
    default:
      return false;
  }
}

inline DenseHead::DenseHead(std::span<const std::byte> chain, Copy& copy) noexcept : copy_(copy.data()) {
  static_assert(sizeof(DenseChainHeader) + sizeof(DenseOperation) == kBlockBytes);
  if (chain.size() < kBlockBytes) return;
  copy_possibly_torn(copy.data(), chain.data(), kBlockBytes);
  const auto header = load<DenseChainHeader>(0);
  if (header.operations > kOperationsMax) return;
  operations_ = header.operations;
  region_bits_ = RemotePointer::at(header.region, 0).bits;
  key_ = header.key_low | uint64_t{header.key_high} << 32;
  at_ = sizeof(header);
  const size_t bytes =
      std::min(chain.size(), at_ + operations_ * (sizeof(uint16_t) + sizeof(OperationHeader)));
  // The last block overlaps the one before it.
  for (size_t done = kBlockBytes; done < bytes; done += kBlockBytes) {
    const size_t from = std::min(done, bytes - kBlockBytes);
    copy_possibly_torn(copy.data() + from, chain.data() + from, kBlockBytes);
  }
  std::memset(copy.data() + bytes, 0, kSlackBytes);
  bytes_ = bytes;
}

inline bool DenseHead::take(OperationHeader& header) noexcept {
  const bool is_first = at_ == sizeof(DenseChainHeader);
  const auto operation = load<DenseOperation>(at_);
  if (operation.control == DenseOperation::kWhole) [[unlikely]] {
    header = load<OperationHeader>(at_ + sizeof(operation.control));
    at_ += sizeof(operation.control) + sizeof(header);
    before_ = header.address;
    return at_ <= bytes_;
  }
  const auto form = static_cast<DenseAddress>(operation.control >> DenseOperation::kAddressShift & 3U);
  OperationHeader said = {
      .opcode = static_cast<uint8_t>(operation.control & DenseOperation::kWhole),
      .mode = 0,
      .flags = static_cast<uint16_t>(operation.control >> DenseOperation::kOpcodeBits & kFlagMask),
      .bytes = operation.bytes,
      .address = before_,
      .key = operation.control >> DenseOperation::kKeylessShift != 0 ? 0 : key_,
      .operand = 0};
  size_t at = at_ + sizeof(operation);
  if (has_mode(said)) said.mode = load<uint8_t>(at++);
  if (form == DenseAddress::kOffset) {
    said.address = region_bits_ | (load<uint64_t>(at) & RemotePointer::kOffsetMask);
    at += kDenseOffsetBytes;
  } else if (form != DenseAddress::kSame) {
    const uint64_t region =
        form == DenseAddress::kScratch ? RemotePointer::at(kScratchRegion, 0).bits : region_bits_;
    said.address = region | load<uint8_t>(at++);
  }
  if (has_operand(said)) {
    said.operand = load<uint64_t>(at);
    at += sizeof(uint64_t);
  }
  header = said;
  before_ = said.address;
  at_ = at;
  return at <= bytes_ && !(is_first && form == DenseAddress::kSame);
}

}  // namespace refract::prism
