// SPDX-License-Identifier: Apache-2.0
// What the executor of chains must know of a table's buffers: how long each is, which only the lengths in its
// header tell.
//
// Threads: used only by the shard that owns the space.
#pragma once

#include <cstdint>

#include "refract/memory/heap.h"
#include "refract/memory/writer.h"
#include "refract/prism/snic/heap_buffers.h"

namespace refract::kv {

class ChainBufferSizes final : public prism::snic::BufferSizes {
 public:
  // Both outlive it.
  ChainBufferSizes(const Writer& writer, const Heap& heap) noexcept : writer_(writer), heap_(heap) {}

  [[nodiscard]] uint64_t buffer_bytes(Offset at) const noexcept override;

 private:
  const Writer& writer_;
  const Heap& heap_;
};

}  // namespace refract::kv
