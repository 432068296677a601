// SPDX-License-Identifier: Apache-2.0
// Plain free lists, as PRISM has them: each a queue of equal buffers, cut from one piece of the region, taken
// and returned first in, first out, so that a buffer rests as long as the list allows. Buffers have no
// header.
//
// Threads: used only by the shard that owns the region. Only add_list allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/memory/writer.h"
#include "refract/prism/snic/buffers.h"

namespace refract::prism::snic {

class FreeLists final : public Buffers {
 public:
  // The writer outlives the lists.
  explicit FreeLists(Writer& writer) noexcept : writer_(writer) {}

  struct List {
    Offset start;
    uint64_t buffer_bytes = 0;  // A multiple of 8.
    uint64_t count = 0;
  };
  // The next list, with all its buffers free: lists are numbered from 0. REQUIRES: `start` is a multiple of 8
  // and the buffers lie in the region, apart from all other lists'.
  uint64_t add_list(const List& list);

  [[nodiscard]] Result<Fresh> allocate(uint64_t list, std::span<const std::byte> data) noexcept override;
  [[nodiscard]] bool is_granular(uint64_t list) const noexcept override;

  [[nodiscard]] size_t list_count() const noexcept { return lists_.size(); }
  // REQUIRES: list < list_count(), likewise below.
  [[nodiscard]] const List& list(uint64_t number) const noexcept { return lists_[number].geometry; }
  [[nodiscard]] uint64_t free_count(uint64_t number) const noexcept { return lists_[number].free_count; }
  // Takes a buffer that is free out of its list, for stores that find it in use when they start again; it is
  // out then. False: it was out already, or is no buffer. Looks at the whole list.
  [[nodiscard]] bool claim(Offset at);
  // Bytes that a recycled buffer is filled with, so that a reader that still reads it is found: for tests.
  void poison_with(std::byte poison) noexcept {
    poison_ = poison;
    poisons_ = true;
  }

 protected:
  [[nodiscard]] uint64_t bytes_out(Offset at) const noexcept override;
  void take_back(const Fresh& buffer) noexcept override { recycle(buffer.at, buffer.bytes); }
  void recycle(Offset at, uint64_t bytes) noexcept override;

 private:
  struct Queue {
    List geometry;
    std::vector<uint32_t> free;  // A ring of buffer numbers.
    uint64_t first = 0;
    uint64_t free_count = 0;
    std::vector<uint8_t> is_out;  // Of each buffer, 0 or 1.
  };
  struct BufferNumber {
    size_t list = 0;
    uint32_t buffer = 0;
  };
  // Of lists_.size() where there is none.
  [[nodiscard]] BufferNumber find(Offset at) const noexcept;
  void put(Queue& queue, uint32_t buffer) noexcept;

  Writer& writer_;
  std::vector<Queue> lists_;
  // What find() was asked last: a retired buffer is looked for three times in a row.
  mutable Offset found_at_;
  mutable BufferNumber found_;
  std::byte poison_{};
  bool poisons_ = false;
};

}  // namespace refract::prism::snic
