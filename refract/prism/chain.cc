// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/chain.h"

#include <algorithm>

#include "refract/prism/decode.h"

namespace refract::prism {

Operand Operand::of(std::span<const std::byte> bytes) noexcept {
  Operand operand;
  const size_t count = std::min(bytes.size(), kOperandBytesMax);
  if (count > 0) std::memcpy(operand.bytes.data(), bytes.data(), count);
  return operand;
}

Chain::Chain(std::span<std::byte> buffer) noexcept : buffer_(buffer) {
  clear();
}

void Chain::clear() noexcept {
  bytes_ = sizeof(ChainHeader);
  last_ = 0;
  count_ = 0;
  fits_ = buffer_.size() >= bytes_;
}

void Chain::begin(const OperationHeader& header) noexcept {
  last_ = bytes_;
  ++count_;
  append(std::as_bytes(std::span(&header, 1)));
}

void Chain::append(std::span<const std::byte> part) noexcept {
  const uint64_t bytes = padded(part.size());
  fits_ = fits_ && count_ <= kOperationsMax && bytes <= buffer_.size() - bytes_;
  if (!fits_ || bytes == 0) return;
  std::memset(buffer_.data() + bytes_ + bytes - 8, 0, 8);
  std::memcpy(buffer_.data() + bytes_, part.data(), part.size());
  bytes_ += bytes;
}

void Chain::append_operand(const Operand& operand, uint32_t bytes) noexcept {
  if (operand.is_indirect) {
    append(std::as_bytes(std::span(&operand.pointer, 1)));
  } else {
    append(std::span(operand.bytes).first(std::min<size_t>(bytes, kOperandBytesMax)));
  }
}

void Chain::add_flag(uint16_t flag) noexcept {
  if (!fits_) return;
  std::byte* place = buffer_.data() + last_ + offsetof(OperationHeader, flags);
  uint16_t flags = 0;
  std::memcpy(&flags, place, sizeof(flags));
  flags |= flag;
  std::memcpy(place, &flags, sizeof(flags));
}

void Chain::set_mode(uint8_t mode) noexcept {
  if (fits_) std::memcpy(buffer_.data() + last_ + offsetof(OperationHeader, mode), &mode, sizeof(mode));
}

void Chain::set_operand(uint64_t operand) noexcept {
  if (fits_)
    std::memcpy(buffer_.data() + last_ + offsetof(OperationHeader, operand), &operand, sizeof(operand));
}

Step<Opcode::kRead> Chain::read(RemotePointer address, RemoteKey key, uint32_t bytes) noexcept {
  begin({.opcode = static_cast<uint8_t>(Opcode::kRead),
         .mode = 0,
         .flags = 0,
         .bytes = bytes,
         .address = address.bits,
         .key = key.bits,
         .operand = 0});
  return Step<Opcode::kRead>(this);
}

Step<Opcode::kWrite> Chain::write(RemotePointer address, RemoteKey key,
                                  std::span<const std::byte> data) noexcept {
  fits_ = fits_ && data.size() <= kTransferBytesMax;
  begin({.opcode = static_cast<uint8_t>(Opcode::kWrite),
         .mode = 0,
         .flags = 0,
         .bytes = static_cast<uint32_t>(data.size()),
         .address = address.bits,
         .key = key.bits,
         .operand = 0});
  append(data);
  return Step<Opcode::kWrite>(this);
}

Step<Opcode::kWrite> Chain::write_from(RemotePointer address, RemoteKey key, RemotePointer source,
                                       uint32_t bytes) noexcept {
  begin({.opcode = static_cast<uint8_t>(Opcode::kWrite),
         .mode = 0,
         .flags = Flag::kDataIndirect,
         .bytes = bytes,
         .address = address.bits,
         .key = key.bits,
         .operand = source.bits});
  return Step<Opcode::kWrite>(this);
}

Step<Opcode::kAllocate> Chain::allocate(RemotePointer list, RemoteKey key,
                                        std::span<const std::byte> data) noexcept {
  fits_ = fits_ && data.size() <= kTransferBytesMax;
  begin({.opcode = static_cast<uint8_t>(Opcode::kAllocate),
         .mode = 0,
         .flags = 0,
         .bytes = static_cast<uint32_t>(data.size()),
         .address = list.bits,
         .key = key.bits,
         .operand = 0});
  append(data);
  return Step<Opcode::kAllocate>(this);
}

Step<Opcode::kCompareSwap> Chain::compare_swap(const CompareSwap& swap) noexcept {
  const uint16_t flags = static_cast<uint16_t>((swap.compare.is_indirect ? Flag::kCompareIndirect : 0) |
                                               (swap.swap.is_indirect ? Flag::kDataIndirect : 0) |
                                               (swap.masks != nullptr ? Flag::kMasked : 0));
  begin({.opcode = static_cast<uint8_t>(Opcode::kCompareSwap),
         .mode = static_cast<uint8_t>(swap.comparison),
         .flags = flags,
         .bytes = swap.bytes,
         .address = swap.address.bits,
         .key = swap.key.bits,
         .operand = 0});
  append_operand(swap.compare, swap.bytes);
  append_operand(swap.swap, swap.bytes);
  if (swap.masks != nullptr) {
    append_operand(swap.masks->compare, swap.bytes);
    append_operand(swap.masks->swap, swap.bytes);
  }
  return Step<Opcode::kCompareSwap>(this);
}

Step<Opcode::kFetchAdd> Chain::fetch_add(RemotePointer address, RemoteKey key, uint64_t addend) noexcept {
  begin({.opcode = static_cast<uint8_t>(Opcode::kFetchAdd),
         .mode = 0,
         .flags = 0,
         .bytes = 8,
         .address = address.bits,
         .key = key.bits,
         .operand = addend});
  return Step<Opcode::kFetchAdd>(this);
}

Result<std::span<const std::byte>> Chain::finish() const noexcept {
  if (!fits_) return fail(Code::kTooLarge);
  const ChainHeader header = {
      .version = kChainVersion, .operations = static_cast<uint8_t>(count_), .reserved = 0, .reserved_end = 0};
  std::memcpy(buffer_.data(), &header, sizeof(header));
  const std::span<const std::byte> chain = buffer_.first(bytes_);
  DecodedChain decoded;  // NOLINT(cppcoreguidelines-pro-type-member-init): decode fills it.
  if (decode(chain, decoded) != Code::kOk) return fail(Code::kInvalidArgument);
  return chain;
}

}  // namespace refract::prism
