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

// The headers are written before they are read.
// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
Chain::Chain(std::span<std::byte> buffer, ChainForm form) noexcept : buffer_(buffer), form_(form) {
  clear();
}

void Chain::clear() noexcept {
  bytes_ = form_ == ChainForm::kDense ? kDenseHeadBytesMax : sizeof(ChainHeader);
  count_ = 0;
  fits_ = buffer_.size() >= bytes_;
}

void Chain::begin(const OperationHeader& header) noexcept {
  ++count_;
  last() = header;
  // In the plain form its place is before its inline bytes.
  const size_t room = form_ == ChainForm::kPlain ? sizeof(OperationHeader) : 0;
  fits_ = fits_ && count_ <= kOperationsMax && room <= buffer_.size() - bytes_;
  if (fits_) bytes_ += room;
}

void Chain::append(std::span<const std::byte> part) noexcept {
  const uint64_t bytes = padded(part.size());
  fits_ = fits_ && bytes <= buffer_.size() - bytes_;
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

std::span<const std::byte> Chain::finish_plain() const noexcept {
  const ChainHeader header = {.version = static_cast<uint8_t>(ChainForm::kPlain),
                              .operations = static_cast<uint8_t>(count_),
                              .reserved = 0,
                              .reserved_end = 0};
  std::memcpy(buffer_.data(), &header, sizeof(header));
  size_t at = sizeof(header);
  for (const OperationHeader& operation : std::span(headers_).first(count_)) {
    std::memcpy(buffer_.data() + at, &operation, sizeof(operation));
    at += sizeof(operation) + inline_bytes_of(operation);
  }
  return buffer_.first(bytes_);
}

// The head ends where the inline bytes begin.
std::span<const std::byte> Chain::finish_dense() const noexcept {
  std::array<std::byte, kDenseHeadBytesMax> head;
  size_t bytes = pack_head(std::span(headers_).first(count_), head);
  if (bytes_ > kDenseHeadBytesMax) {
    std::memset(head.data() + bytes, 0, padded(bytes) - bytes);
    bytes = padded(bytes);
  }
  const size_t begins = kDenseHeadBytesMax - bytes;
  std::memcpy(buffer_.data() + begins, head.data(), bytes);
  return buffer_.subspan(begins, bytes_ - begins);
}

Result<std::span<const std::byte>> Chain::finish() const noexcept {
  if (!fits_) return fail(Code::kTooLarge);
  if (!are_sound(std::span(headers_).first(count_))) return fail(Code::kInvalidArgument);
  return form_ == ChainForm::kDense ? finish_dense() : finish_plain();
}

}  // namespace refract::prism
