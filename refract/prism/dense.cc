// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/dense.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace refract::prism {
namespace {

class Packer {
 public:
  Packer(std::span<const OperationHeader> headers, std::byte* to) noexcept : begin_(to), to_(to) {
    const auto keyed =
        std::ranges::find_if(headers, [](const OperationHeader& header) { return header.key != 0; });
    const auto placed = std::ranges::find_if_not(headers, &Packer::is_in_scratch);
    if (keyed != headers.end()) key_ = keyed->key;
    if (placed != headers.end()) region_ = RemotePointer{placed->address}.region();
    const DenseChainHeader header = {.version = static_cast<uint8_t>(ChainForm::kDense),
                                     .operations = static_cast<uint8_t>(headers.size()),
                                     .region = region_,
                                     .key_low = static_cast<uint32_t>(key_),
                                     .key_high = static_cast<uint32_t>(key_ >> 32)};
    put(&header, sizeof(header));
  }

  void add(const OperationHeader& header) noexcept {
    const std::optional<DenseAddress> form = form_of(header);
    before_ = &header;
    if (!form) {
      put(&DenseOperation::kWhole, sizeof(DenseOperation::kWhole));
      put(&header, sizeof(header));
      return;
    }
    const unsigned control = header.opcode | unsigned{header.flags} << DenseOperation::kOpcodeBits |
                             static_cast<unsigned>(*form) << DenseOperation::kAddressShift |
                             (header.key == 0 ? 1U : 0U) << DenseOperation::kKeylessShift;
    const DenseOperation operation = {.control = static_cast<uint16_t>(control),
                                      .bytes = static_cast<uint16_t>(header.bytes)};
    put(&operation, sizeof(operation));
    if (has_mode(header)) put(&header.mode, sizeof(header.mode));
    // The low bytes of the pointer are the offset's.
    if (*form != DenseAddress::kSame)
      put(&header.address, *form == DenseAddress::kOffset ? kDenseOffsetBytes : 1);
    if (has_operand(header)) put(&header.operand, sizeof(header.operand));
  }

  [[nodiscard]] size_t bytes() const noexcept { return static_cast<size_t>(to_ - begin_); }

 private:
  [[nodiscard]] static bool is_in_scratch(const OperationHeader& header) noexcept {
    return RemotePointer{header.address}.region() == kScratchRegion;
  }

  // None: only its whole header says it.
  [[nodiscard]] std::optional<DenseAddress> form_of(const OperationHeader& header) const noexcept {
    const RemotePointer address{header.address};
    if ((header.key != 0 && header.key != key_) || header.bytes > UINT16_MAX) return std::nullopt;
    if (before_ != nullptr && before_->address == header.address) return DenseAddress::kSame;
    const bool is_short = address.offset() <= UINT8_MAX;
    if (is_in_scratch(header)) return is_short ? std::optional(DenseAddress::kScratch) : std::nullopt;
    if (address.region() != region_) return std::nullopt;
    return is_short ? DenseAddress::kShort : DenseAddress::kOffset;
  }

  void put(const void* bytes, size_t count) noexcept {
    std::memcpy(to_, bytes, count);
    to_ += count;
  }

  std::byte* begin_;
  std::byte* to_;
  const OperationHeader* before_ = nullptr;
  uint64_t key_ = 0;
  uint16_t region_ = 0;
};

}  // namespace

size_t pack_head(std::span<const OperationHeader> headers,
                 std::span<std::byte, kDenseHeadBytesMax> room) noexcept {
  Packer packer(headers, room.data());
  for (const OperationHeader& header : headers) packer.add(header);
  return packer.bytes();
}

}  // namespace refract::prism
