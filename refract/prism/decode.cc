// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/decode.h"

#include <cstring>

#include "refract/memory/slot_word.h"

namespace refract::prism {
namespace {

constexpr uint64_t kSlotWordBits =
    SlotWord::kGranuleMask | (SlotWord::kStampMask << SlotWord::kStampShift);  // Filled in by the executor.

[[nodiscard]] bool flags_belong_together(const OperationHeader& header, bool is_first) noexcept {
  const auto has = [&header](uint16_t flag) { return (header.flags & flag) != 0; };
  const auto opcode = static_cast<Opcode>(header.opcode);
  if ((header.flags & ~known_flags(opcode)) != 0) return false;
  if (has(Flag::kConditional) && is_first) return false;
  if (has(Flag::kBounded) && (!has(Flag::kIndirect) || has(Flag::kSlotWord))) return false;
  if (has(Flag::kOwned) && !has(Flag::kRedirect)) return false;
  // A slot word is followed, made by an allocation, or retired.
  if (has(Flag::kSlotWord) && !has(Flag::kIndirect) && opcode != Opcode::kAllocate && !has(Flag::kRetire)) {
    return false;
  }
  const bool meets_scratch =
      !has(Flag::kIndirect) && RemotePointer{header.address}.region() == kScratchRegion;
  return !has(Flag::kRetire) || (header.bytes % 8 == 0 && !meets_scratch);
}

[[nodiscard]] bool bytes_are_sound(const OperationHeader& header) noexcept {
  switch (static_cast<Opcode>(header.opcode)) {
    case Opcode::kCompareSwap:
      return header.bytes >= 1 && header.bytes <= kOperandBytesMax;
    case Opcode::kFetchAdd:
      return header.bytes == 8;
    default:
      return header.bytes <= kTransferBytesMax;
  }
}

[[nodiscard]] bool mode_is_sound(const OperationHeader& header) noexcept {
  if (static_cast<Opcode>(header.opcode) == Opcode::kCompareSwap) {
    return header.mode <= static_cast<uint8_t>(Comparison::kLess);
  }
  if ((header.flags & Flag::kRedirect) == 0) return header.mode == 0;
  const uint64_t output =
      static_cast<Opcode>(header.opcode) == Opcode::kRead ? header.bytes : sizeof(uint64_t);
  return header.mode % 8 == 0 && header.mode + output <= kScratchBytes;
}

[[nodiscard]] bool operand_is_sound(const OperationHeader& header) noexcept {
  switch (static_cast<Opcode>(header.opcode)) {
    case Opcode::kFetchAdd:
      return true;
    case Opcode::kWrite:
      return header.operand == 0 || (header.flags & Flag::kDataIndirect) != 0;
    case Opcode::kAllocate:
      return header.operand == 0 ||
             ((header.flags & Flag::kSlotWord) != 0 && (header.operand & kSlotWordBits) == 0);
    default:
      return header.operand == 0;
  }
}

[[nodiscard]] bool is_sound(const OperationHeader& header, bool is_first) noexcept {
  return header.opcode > 0 && header.opcode < kOpcodes && bytes_are_sound(header) &&
         flags_belong_together(header, is_first) && mode_is_sound(header) && operand_is_sound(header);
}

}  // namespace

std::string_view name(Opcode opcode) noexcept {
  static constexpr std::array<std::string_view, kOpcodes> kNames = {"",         "read",         "write",
                                                                    "allocate", "compare_swap", "fetch_add"};
  const auto number = static_cast<size_t>(opcode);
  return number < kNames.size() ? kNames[number] : std::string_view();
}

uint64_t inline_bytes_of(const OperationHeader& header) noexcept {
  const uint64_t bytes = padded(header.bytes);
  const bool is_data_indirect = (header.flags & Flag::kDataIndirect) != 0;
  switch (static_cast<Opcode>(header.opcode)) {
    case Opcode::kWrite:
      return is_data_indirect ? 0 : bytes;
    case Opcode::kAllocate:
      return bytes;
    case Opcode::kCompareSwap: {
      const uint64_t compare = (header.flags & Flag::kCompareIndirect) != 0 ? sizeof(RemotePointer) : bytes;
      const uint64_t swap = is_data_indirect ? sizeof(RemotePointer) : bytes;
      return compare + swap + ((header.flags & Flag::kMasked) != 0 ? 2 * bytes : 0);
    }
    default:
      return 0;
  }
}

Code decode(std::span<const std::byte> chain, DecodedChain& decoded) noexcept {
  decoded.count = 0;
  ChainHeader header;
  if (chain.size() < sizeof(header)) return Code::kMalformed;
  std::memcpy(&header, chain.data(), sizeof(header));
  chain = chain.subspan(sizeof(header));
  if (header.version != kChainVersion || header.reserved != 0 || header.reserved_end != 0) {
    return Code::kMalformed;
  }
  if (header.operations == 0 || header.operations > kOperationsMax) return Code::kMalformed;
  for (size_t i = 0; i < header.operations; ++i) {
    Operation& operation = decoded.operations[i];
    if (chain.size() < sizeof(OperationHeader)) return Code::kMalformed;
    std::memcpy(&operation.header, chain.data(), sizeof(OperationHeader));
    chain = chain.subspan(sizeof(OperationHeader));
    if (!is_sound(operation.header, i == 0)) return Code::kMalformed;
    const uint64_t inline_bytes = inline_bytes_of(operation.header);
    if (chain.size() < inline_bytes) return Code::kMalformed;
    operation.inline_bytes = chain.data();
    chain = chain.subspan(inline_bytes);
    ++decoded.count;
  }
  return chain.empty() ? Code::kOk : Code::kMalformed;
}

}  // namespace refract::prism
