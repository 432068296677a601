// SPDX-License-Identifier: Apache-2.0
// What a connection has yet to send, in order: copied bytes in blocks of the pool, and spans of memory that
// are gathered from where they lie when the kernel takes them.
//
// An Output exists only while something waits, so that an idle connection costs nothing; the domain keeps a
// few of them at hand. Copied bytes come in multiples of 8, so a header never lies in two blocks.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refract/fabric/tcp/block_pool.h"
#include "refract/fabric/tcp/frame.h"

namespace refract::fabric::tcp {

class Output {
 public:
  static constexpr size_t kSegmentsMax = 256;
  // More than one frame ever adds, so that frames are added whole.
  static constexpr size_t kSegmentsAFrame = 6;
  // Copied bytes behind each other are one segment a block.
  static constexpr size_t kSegmentsForMessages = kOutputBytesMax / kBlockBytes + 2 + kSegmentsAFrame;
  static constexpr uint32_t kNoRegion = UINT32_MAX;

  explicit Output(BlockPool& pool) noexcept : pool_(&pool) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { clear(); }

  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  // Copied bytes that wait: what this connection costs.
  [[nodiscard]] uint64_t copied_bytes() const noexcept { return copied_bytes_; }
  [[nodiscard]] bool takes_a_frame() const noexcept { return free_segments() >= kSegmentsAFrame; }
  // As many messages as fit by their bytes.
  [[nodiscard]] bool takes_messages() const noexcept { return free_segments() >= kSegmentsForMessages; }
  // A frame with a span that is not copied, and behind it still those messages.
  [[nodiscard]] bool takes_a_transfer() const noexcept {
    return free_segments() >= kSegmentsForMessages + kSegmentsAFrame;
  }
  // Bytes of regions still wait to be gathered.
  [[nodiscard]] bool is_gathering() const noexcept { return gathers_ > 0; }
  // Of the longest span that waits.
  [[nodiscard]] bool has_large_transfer() const noexcept {
    return !empty() && segments_[head_ % kSegmentsMax].bytes >= kLargeTransferBytes / 2;
  }

  // `bytes` of contiguous room for a multiple of 8, or null: then copy() in parts.
  [[nodiscard]] std::byte* reserve(uint64_t bytes) noexcept {
    if (blocks_head_ == blocks_tail_ || kBlockBytes - block_used_ < bytes) return nullptr;
    std::byte* const place = newest_block() + block_used_;
    extend(place, bytes);
    return place;
  }
  void copy(const void* source, uint64_t bytes) noexcept;
  void zeros(uint64_t bytes) noexcept;
  std::byte* word(uint64_t word) noexcept;

  // Bytes that stay put until they are sent or clear() is called.
  void refer(const std::byte* data, uint64_t bytes) noexcept;
  // Bytes of a region that may be revoked first; `trailer` is the kDone frame behind them.
  void gather(const std::byte* data, uint64_t bytes, uint16_t region) noexcept;
  void set_trailer(std::byte* trailer) noexcept { segments_[(gather_ - 1) % kSegmentsMax].trailer = trailer; }
  // What has not been sent of it is replaced by zeros, and the trailers say so.
  void revoke(uint16_t region) noexcept;

  // Of all in front of the first span that is not copied and no large transfer.
  [[nodiscard]] size_t large_bytes() const noexcept;
  // Fills a prefix of `spans` with what comes next, at most `bytes_max` bytes.
  [[nodiscard]] size_t next(std::span<iovec> spans, size_t bytes_max) const noexcept;
  void sent(size_t bytes) noexcept;
  void clear() noexcept;

 private:
  [[nodiscard]] size_t free_segments() const noexcept { return kSegmentsMax - (tail_ - head_); }

  static constexpr size_t kBlocksMax = 64;
  static_assert((kOutputBytesMax + kAnswerBytesMax) / kBlockBytes + 3 < kBlocksMax);

  struct Segment {
    const std::byte* data;  // Null: zeros.
    uint64_t bytes;
    std::byte* trailer;
    uint32_t region;
    bool copied;
  };

  [[nodiscard]] std::byte* newest_block() noexcept { return blocks_[(blocks_tail_ - 1) % kBlocksMax]->bytes; }
  void extend(const std::byte* place, uint64_t bytes) noexcept {
    // Two blocks may lie behind each other in memory; a segment never spans them.
    const bool begins_block = block_used_ == 0;
    block_used_ += bytes;
    copied_bytes_ += bytes;
    if (head_ != tail_ && !begins_block) {
      Segment& last = segments_[(tail_ - 1) % kSegmentsMax];
      if (last.copied && last.data + last.bytes == place) {
        last.bytes += bytes;
        return;
      }
    }
    segments_[tail_++ % kSegmentsMax] = {place, bytes, nullptr, kNoRegion, true};
  }
  [[nodiscard]] std::byte* part(uint64_t wanted, uint64_t& bytes) noexcept;
  void release_block() noexcept;

  BlockPool* pool_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t gather_ = 0;   // Just behind the last segment of a region.
  uint64_t gathers_ = 0;  // Segments of regions that wait.
  uint64_t copied_bytes_ = 0;
  uint64_t block_used_ = 0;              // Of the newest block.
  uint64_t block_unsent_ = kBlockBytes;  // Of the oldest block, its free end included.
  uint64_t blocks_head_ = 0;
  uint64_t blocks_tail_ = 0;
  std::array<Block*, kBlocksMax> blocks_;
  std::array<Segment, kSegmentsMax> segments_;
};

class OutputPool {
 public:
  explicit OutputPool(BlockPool& blocks) : blocks_(&blocks) { free_.reserve(kKept); }
  // Allocates when none is free.
  [[nodiscard]] std::unique_ptr<Output> take() {
    if (free_.empty()) [[unlikely]]
      return std::make_unique<Output>(*blocks_);
    std::unique_ptr<Output> output = std::move(free_.back());
    free_.pop_back();
    return output;
  }
  void give_back(std::unique_ptr<Output> output) noexcept {
    output->clear();
    if (free_.size() < kKept) free_.push_back(std::move(output));
  }

 private:
  static constexpr size_t kKept = 256;

  BlockPool* blocks_;
  std::vector<std::unique_ptr<Output>> free_;
};

}  // namespace refract::fabric::tcp
