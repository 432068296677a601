// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/decode.h"

#include <algorithm>
#include <cstring>

#include "refract/memory/slot_word.h"
#include "refract/prism/dense.h"

namespace refract::prism {
namespace {

constexpr uint64_t kSlotWordBits =
    SlotWord::kGranuleMask | (SlotWord::kStampMask << SlotWord::kStampShift);  // Filled in by the executor.

// What an opcode's header may say, as far as that does not depend on its flags.
struct Form {
  uint16_t known_flags;
  uint8_t mode_max;  // Without kRedirect.
  uint32_t bytes_min;
  uint32_t bytes_max;
};

constexpr Form form_of(Opcode opcode) noexcept {
  Form form{
      .known_flags = known_flags(opcode), .mode_max = 0, .bytes_min = 0, .bytes_max = kTransferBytesMax};
  if (opcode == Opcode::kCompareSwap) {
    form.mode_max = static_cast<uint8_t>(Comparison::kLess);
    form.bytes_min = 1;
    form.bytes_max = kOperandBytesMax;
  } else if (opcode == Opcode::kFetchAdd) {
    form.bytes_min = form.bytes_max = sizeof(uint64_t);
  }
  return form;
}

constexpr std::array<Form, kOpcodes> kForms = {
    Form{},
    form_of(Opcode::kRead),
    form_of(Opcode::kWrite),
    form_of(Opcode::kAllocate),
    form_of(Opcode::kCompareSwap),
    form_of(Opcode::kFetchAdd),
};

// The flags that need or exclude others.
constexpr uint16_t kDependentFlags = Flag::kBounded | Flag::kSlotWord | Flag::kOwned | Flag::kRetire;

[[nodiscard]] bool flags_belong_together(const OperationHeader& header) noexcept {
  const auto has = [&header](uint16_t flag) { return (header.flags & flag) != 0; };
  if (has(Flag::kBounded) && (!has(Flag::kIndirect) || has(Flag::kSlotWord))) return false;
  if (has(Flag::kOwned) && !has(Flag::kRedirect)) return false;
  // A slot word is followed, made by an allocation, or retired.
  const bool is_allocation = static_cast<Opcode>(header.opcode) == Opcode::kAllocate;
  if (has(Flag::kSlotWord) && !has(Flag::kIndirect) && !is_allocation && !has(Flag::kRetire)) return false;
  const bool meets_scratch =
      !has(Flag::kIndirect) && RemotePointer{header.address}.region() == kScratchRegion;
  return !has(Flag::kRetire) || (header.bytes % 8 == 0 && !meets_scratch);
}

[[nodiscard]] bool redirect_is_sound(const OperationHeader& header) noexcept {
  const uint64_t output =
      static_cast<Opcode>(header.opcode) == Opcode::kRead ? header.bytes : sizeof(uint64_t);
  return header.mode % 8 == 0 && header.mode + output <= kScratchBytes;
}

[[nodiscard]] bool may_have_operand(const OperationHeader& header) noexcept {
  switch (static_cast<Opcode>(header.opcode)) {
    case Opcode::kFetchAdd:
      return true;
    case Opcode::kWrite:
      return (header.flags & Flag::kDataIndirect) != 0;
    case Opcode::kAllocate:
      return (header.flags & Flag::kSlotWord) != 0 && (header.operand & kSlotWordBits) == 0;
    default:
      return false;
  }
}

[[nodiscard]] bool is_sound(const OperationHeader& header, bool is_first) noexcept {
  if (header.opcode == 0 || header.opcode >= kOpcodes) return false;
  const Form& form = kForms[header.opcode];
  const uint16_t refused = static_cast<uint16_t>(~form.known_flags) | (is_first ? Flag::kConditional : 0);
  if ((header.flags & refused) != 0) return false;
  if (header.bytes < form.bytes_min || header.bytes > form.bytes_max) return false;
  if ((header.flags & kDependentFlags) != 0 && !flags_belong_together(header)) return false;
  const bool is_redirected = (header.flags & Flag::kRedirect) != 0;
  if (is_redirected ? !redirect_is_sound(header) : header.mode > form.mode_max) return false;
  return header.operand == 0 || may_have_operand(header);
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

bool are_sound(std::span<const OperationHeader> headers) noexcept {
  if (headers.empty() || headers.size() > kOperationsMax) return false;
  for (size_t i = 0; i < headers.size(); ++i) {
    if (!is_sound(headers[i], i == 0)) return false;
  }
  return true;
}

namespace {

Code decode_plain(std::span<const std::byte> chain, DecodedChain& decoded) noexcept {
  ChainHeader header;
  if (chain.size() < sizeof(header)) return Code::kMalformed;
  std::memcpy(&header, chain.data(), sizeof(header));
  chain = chain.subspan(sizeof(header));
  if (header.version != static_cast<uint8_t>(ChainForm::kPlain)) return Code::kMalformed;
  if (header.reserved != 0 || header.reserved_end != 0) return Code::kMalformed;
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

Code decode_dense(std::span<const std::byte> chain, DecodedChain& decoded) noexcept {
  DenseHead::Copy copy;  // NOLINT(cppcoreguidelines-pro-type-member-init): the head fills it.
  DenseHead head(chain, copy);
  if (head.operations() == 0 || head.operations() > kOperationsMax) return Code::kMalformed;
  for (size_t i = 0; i < head.operations(); ++i) {
    OperationHeader& header = decoded.operations[i].header;
    if (!head.take(header) || !is_sound(header, i == 0)) return Code::kMalformed;
  }
  uint64_t at = head.taken();
  for (size_t i = 0; i < head.operations(); ++i) {
    Operation& operation = decoded.operations[i];
    const uint64_t inline_bytes = inline_bytes_of(operation.header);
    // Only what has inline bytes behind it is padded.
    if (inline_bytes > 0) at = padded(at);
    operation.inline_bytes = chain.data() + std::min<uint64_t>(at, chain.size());
    at += inline_bytes;
  }
  // No sum of so few parts wraps round.
  if (at != chain.size()) return Code::kMalformed;
  decoded.count = head.operations();
  return Code::kOk;
}

}  // namespace

Code decode(std::span<const std::byte> chain, DecodedChain& decoded) noexcept {
  decoded.count = 0;
  const bool is_dense =
      !chain.empty() && std::to_integer<uint8_t>(chain[0]) == static_cast<uint8_t>(ChainForm::kDense);
  return is_dense ? decode_dense(chain, decoded) : decode_plain(chain, decoded);
}

}  // namespace refract::prism
