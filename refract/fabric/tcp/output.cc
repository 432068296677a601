// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/output.h"

#include <algorithm>
#include <cstring>

#include "refract/base/check.h"

namespace refract::fabric::tcp {
namespace {

constexpr std::array<std::byte, kBlockBytes> kZeros{};

}  // namespace

// As much of `wanted` as the newest block has room for, else of a fresh one.
std::byte* Output::part(uint64_t wanted, uint64_t& bytes) noexcept {
  if (blocks_head_ == blocks_tail_ || block_used_ == kBlockBytes) {
    REFRACT_CHECK(blocks_tail_ - blocks_head_ < kBlocksMax);
    blocks_[blocks_tail_++ % kBlocksMax] = pool_->take();
    block_used_ = 0;
  }
  bytes = std::min(wanted, kBlockBytes - block_used_);
  std::byte* const place = newest_block() + block_used_;
  extend(place, bytes);
  return place;
}

void Output::copy(const void* source, uint64_t bytes) noexcept {
  const auto* from = static_cast<const std::byte*>(source);
  while (bytes > 0) {
    uint64_t piece = 0;
    std::byte* const place = part(bytes, piece);
    std::memcpy(place, from, piece);
    from += piece;
    bytes -= piece;
  }
}

void Output::zeros(uint64_t bytes) noexcept {
  copy(kZeros.data(), bytes);
}

std::byte* Output::word(uint64_t word) noexcept {
  uint64_t bytes = 0;
  std::byte* const place = part(sizeof(word), bytes);
  std::memcpy(place, &word, sizeof(word));
  return place;
}

void Output::refer(const std::byte* data, uint64_t bytes) noexcept {
  segments_[tail_++ % kSegmentsMax] = {data, bytes, nullptr, kNoRegion, false};
  // Between the copied bytes, or the next header would not lie at a multiple of 8.
  if (const uint64_t padding = padding_of(bytes); padding > 0) {
    segments_[tail_++ % kSegmentsMax] = {kZeros.data(), padding, nullptr, kNoRegion, false};
  }
}

void Output::gather(const std::byte* data, uint64_t bytes, uint16_t region) noexcept {
  const uint64_t at = tail_;
  refer(data, bytes);
  segments_[at % kSegmentsMax].region = region;
  gather_ = at + 1;
  ++gathers_;
}

void Output::revoke(uint16_t region) noexcept {
  constexpr uint64_t kDenied =
      FrameHeader{kDoneBytes, FrameKind::kDone, static_cast<uint8_t>(Code::kAccessDenied)}.word();
  if (gathers_ == 0) return;
  for (uint64_t at = head_; at != tail_; ++at) {
    Segment& segment = segments_[at % kSegmentsMax];
    if (segment.region != region) continue;
    segment.data = nullptr;
    if (segment.trailer != nullptr) std::memcpy(segment.trailer, &kDenied, sizeof(kDenied));
  }
}

size_t Output::large_bytes() const noexcept {
  size_t bytes = 0;
  for (uint64_t at = head_; at != tail_; ++at) {
    const Segment& segment = segments_[at % kSegmentsMax];
    // What is left of the first one may be short.
    if (!segment.copied && segment.bytes < kLargeTransferBytes && at != head_) break;
    bytes += segment.bytes;
  }
  return bytes;
}

size_t Output::next(std::span<iovec> spans, size_t bytes_max) const noexcept {
  size_t count = 0;
  for (uint64_t at = head_; at != tail_ && count < spans.size() && bytes_max > 0; ++at) {
    const Segment& segment = segments_[at % kSegmentsMax];
    uint64_t left = std::min<uint64_t>(segment.bytes, bytes_max);
    bytes_max -= left;
    const bool zeros = segment.data == nullptr;
    for (uint64_t done = 0; left > 0 && count < spans.size();) {
      const uint64_t piece = zeros ? std::min<uint64_t>(left, kZeros.size()) : left;
      const std::byte* const data = zeros ? kZeros.data() : segment.data + done;
      // The kernel only reads; its struct cannot say so.
      spans[count++] = {const_cast<std::byte*>(data),
                        piece};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      done += piece;
      left -= piece;
    }
    if (left > 0) break;
  }
  return count;
}

void Output::sent(size_t bytes) noexcept {
  while (bytes > 0) {
    Segment& segment = segments_[head_ % kSegmentsMax];
    const uint64_t piece = std::min<uint64_t>(segment.bytes, bytes);
    segment.bytes -= piece;
    if (segment.data != nullptr) segment.data += piece;
    bytes -= piece;
    if (segment.copied) {
      copied_bytes_ -= piece;
      block_unsent_ -= piece;
      if (block_unsent_ == 0) release_block();
    }
    if (segment.bytes > 0) continue;
    if (segment.region != kNoRegion) --gathers_;
    ++head_;
  }
  if (head_ == tail_) clear();
}

void Output::release_block() noexcept {
  pool_->give_back(blocks_[blocks_head_++ % kBlocksMax]);
  block_unsent_ = kBlockBytes;
}

void Output::clear() noexcept {
  while (blocks_head_ != blocks_tail_) release_block();
  block_unsent_ = kBlockBytes;
  head_ = tail_ = 0;
  gather_ = gathers_ = 0;
  copied_bytes_ = 0;
  block_used_ = 0;
}

}  // namespace refract::fabric::tcp
