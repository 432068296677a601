// SPDX-License-Identifier: Apache-2.0
// A table's buffers as the executor of chains takes them and gives them back: how long each is, which only
// the lengths in its header tell, and who is told when chains have replaced some.
//
// Threads: used only by the shard that owns the space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

// Whoever looks after memory, time and the log. Chains replace entries without a call that would remind it.
class ChainUpkeep {
 public:
  virtual ~ChainUpkeep() = default;
  // A chain has replaced a buffer, which is retired by now.
  virtual void on_chain_retired() noexcept = 0;
  // A chain that has installed something is to be answered. True: the log has not confirmed it yet; the reply
  // has been copied, and is given later.
  [[nodiscard]] virtual bool keeps_reply(const rpc::Responder& /*to*/,
                                         std::span<const std::byte> /*reply*/) noexcept {
    return false;
  }
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
