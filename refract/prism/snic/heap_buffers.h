// SPDX-License-Identifier: Apache-2.0
// Buffers from a space's heap, for chains that work on a store whose owner takes its buffers there too: list
// 0, any length. A buffer is its stamp (8 bytes), then the data; the stamp is zeroed before a byte changes
// and stored after the last one, as all writers of a space do it (docs/design/007-reuse.md).
//
// Threads: used only by the shard that owns the space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/memory/heap.h"
#include "refract/memory/writer.h"
#include "refract/prism/snic/buffers.h"

namespace refract::prism::snic {

// The store's word on its own buffers, which alone knows their layout.
class BufferSizes {
 public:
  virtual ~BufferSizes() = default;
  // Of the whole buffer that a slot of the store led to, as the heap gave it out; 0: there is none at this
  // place. Every offset is allowed.
  [[nodiscard]] virtual uint64_t buffer_bytes(Offset at) const noexcept = 0;
};

class HeapBuffers : public Buffers {
 public:
  static constexpr uint64_t kHeaderBytes = 8;

  // All outlive the buffers.
  HeapBuffers(Writer& writer, Heap& heap, const BufferSizes& sizes) noexcept
      : writer_(writer), heap_(heap), sizes_(sizes) {}

  [[nodiscard]] Result<Fresh> allocate(uint64_t list, std::span<const std::byte> data) noexcept override;

 protected:
  [[nodiscard]] uint64_t bytes_out(Offset at) const noexcept override { return sizes_.buffer_bytes(at); }
  void take_back(const Fresh& buffer) noexcept override { heap_.release(buffer.at, buffer.bytes); }
  void recycle(Offset at, uint64_t bytes) noexcept override { heap_.retire(at, bytes); }

 private:
  Writer& writer_;
  Heap& heap_;
  const BufferSizes& sizes_;
};

}  // namespace refract::prism::snic
