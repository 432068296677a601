// SPDX-License-Identifier: Apache-2.0
// The memory in which a domain's connections hold bytes that are on their way: blocks that are taken while
// there is something to hold and given back at once, the last one first, so that the next taker finds it in
// the cache. Idle connections hold none.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "refract/fabric/tcp/tuning.h"

namespace refract::fabric::tcp {

struct alignas(64) Block {
  std::byte bytes[kBlockBytes];
};

class BlockPool {
 public:
  BlockPool() { free_.reserve(kKept); }

  // Allocates when none is free.
  [[nodiscard]] Block* take() {
    ++taken_;
    if (free_.empty()) [[unlikely]]
      make_one();
    Block* const block = free_.back().release();
    free_.pop_back();
    return block;
  }
  // What take() gives next, for bytes that may not come. Allocates likewise.
  [[nodiscard]] Block& next() {
    if (free_.empty()) [[unlikely]]
      make_one();
    return *free_.back();
  }
  void give_back(Block* block) noexcept {
    std::unique_ptr<Block> owned(block);
    --taken_;
    if (free_.size() < kKept) free_.push_back(std::move(owned));
  }
  [[nodiscard]] size_t taken() const noexcept { return taken_; }

 private:
  static constexpr size_t kKept = 256;

  // Not inlined: its registers would cost every look at a socket.
  [[gnu::noinline]] void make_one() { free_.push_back(std::make_unique_for_overwrite<Block>()); }

  std::vector<std::unique_ptr<Block>> free_;
  size_t taken_ = 0;
};

}  // namespace refract::fabric::tcp
