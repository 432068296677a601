// SPDX-License-Identifier: Apache-2.0
// A table's buffers as the executor of chains takes them and gives them back: how long each is, which only
// the lengths in its header tell.
//
// Threads: used only by the shard that owns the space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/memory/writer.h"
#include "refract/prism/snic/heap_buffers.h"
#include "refract/rpc/server.h"

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

class ChainBuffers final : public prism::snic::HeapBuffers {
 public:
  // All outlive the buffers. `upkeep` may be null.
  ChainBuffers(Writer& writer, Heap& heap, const ChainBufferSizes& sizes, Table& table,
               ChainUpkeep* upkeep) noexcept
      : HeapBuffers(writer, heap, sizes), table_(table), upkeep_(upkeep) {}

 protected:
  void recycle(Offset at, uint64_t bytes) noexcept override {
    table_.retire(at, bytes);
    if (upkeep_ != nullptr) upkeep_->on_chain_retired();
  }

 private:
  Table& table_;
  ChainUpkeep* upkeep_;
};

}  // namespace refract::kv
