// SPDX-License-Identifier: Apache-2.0
// A table's buffers as the executor of chains takes them and gives them back: how long each is, which only
// the lengths in its header tell, and who is told when chains have replaced some.
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

// Whoever looks after memory and time. Chains replace entries without a call that would remind it.
class ChainUpkeep {
 public:
  virtual ~ChainUpkeep() = default;
  // A chain has replaced a buffer, which is retired by now.
  virtual void on_chain_retired() noexcept = 0;
};

class ChainBuffers final : public prism::snic::HeapBuffers {
 public:
  // All outlive the buffers. `upkeep` may be null.
  ChainBuffers(Writer& writer, Heap& heap, const ChainBufferSizes& sizes, ChainUpkeep* upkeep) noexcept
      : HeapBuffers(writer, heap, sizes), upkeep_(upkeep) {}

 protected:
  void recycle(Offset at, uint64_t bytes) noexcept override {
    HeapBuffers::recycle(at, bytes);
    if (upkeep_ != nullptr) upkeep_->on_chain_retired();
  }

 private:
  ChainUpkeep* upkeep_;
};

}  // namespace refract::kv
