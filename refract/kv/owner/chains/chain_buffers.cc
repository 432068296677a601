// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/chains/chain_buffers.h"

#include "refract/kv/layout/layout.h"

namespace refract::kv {

uint64_t ChainBufferSizes::buffer_bytes(Offset at) const noexcept {
  if (at.value % kGranuleBytes != 0 || !heap_.is_inside(at, sizeof(BufferHeader))) return 0;
  const Offset chunk{at.value / kChunkBytes * kChunkBytes};
  if (!heap_.is_chunk_of(chunk, ChunkKind::kSlab) && !heap_.is_chunk_of(chunk, ChunkKind::kExtent)) return 0;
  const Lengths lengths = Lengths::from_word(writer_.load(at.plus(offsetof(BufferHeader, lengths))));
  const uint64_t bytes = lengths.total_bytes();
  return lengths.is_sound() && heap_.is_inside(at, bytes) ? bytes : 0;
}

}  // namespace refract::kv
