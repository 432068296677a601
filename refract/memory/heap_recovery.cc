// SPDX-License-Identifier: Apache-2.0
// How the heap's private state is rebuilt: everything counts as free but what the store names.
#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/memory/heap.h"

namespace refract {

void Heap::begin_recovery() {
  extents_.clear();
  for (SizeClass& size_class : classes_) size_class = {};
  lines_ = {};
  retired_.clear();
  stats_.bytes_live = stats_.bytes_retired = stats_.buffers_live = 0;
  for (uint32_t index = 0; index < chunks_.size(); ++index) {
    Chunk& chunk = chunks_[index];
    chunk.used = 0;
    chunk.first_word = 0;
    chunk.listed = false;
    chunk.withheld = false;
    chunk.starts.reset();
    if (chunk.kind == ChunkKind::kExtent) {
      extents_.release({.start = {index * kChunkBytes}, .bytes = kChunkBytes});
    } else if (chunk.kind == ChunkKind::kBuckets) {
      stats_.bytes_live += kChunkBytes;
    } else if (chunk.kind == ChunkKind::kSlab || chunk.kind == ChunkKind::kLines) {
      const uint64_t buffer_bytes =
          chunk.kind == ChunkKind::kLines ? kLineBytes : uint64_t{kClassBytes[chunk.size_class]};
      const uint64_t buffers = kChunkBytes / buffer_bytes;
      chunk.free_bits = std::make_unique<uint64_t[]>((buffers + 63) / 64);
      for (uint64_t bit = 0; bit < buffers; ++bit) chunk.free_bits[bit / 64] |= uint64_t{1} << (bit % 64);
    }
  }
}

bool Heap::mark_bit(Offset at, ChunkWord expected, uint64_t buffer_bytes) {
  const uint64_t index = at.value / kChunkBytes;
  if (index >= chunks_.size()) return false;
  Chunk& chunk = chunks_[index];
  if (ChunkWord::of(chunk.kind, chunk.size_class).bits != expected.bits) return false;
  const uint64_t inside = at.value % kChunkBytes;
  const uint64_t bit = inside / buffer_bytes;
  if (inside % buffer_bytes != 0 || bit >= kChunkBytes / buffer_bytes) return false;
  const uint64_t mask = uint64_t{1} << (bit % 64);
  if ((chunk.free_bits[bit / 64] & mask) == 0) return false;
  chunk.free_bits[bit / 64] &= ~mask;
  ++chunk.used;
  return true;
}

bool Heap::mark_live(Offset at, uint64_t bytes) {
  if (bytes > kSlabBytesMax) {
    // Neither is checked yet: rounded up, or added, they could be small.
    if (at.value % kExtentGranuleBytes != 0 || !is_inside(at, bytes)) return false;
    if (!extents_.take_at({.start = at, .bytes = round_up(bytes, kExtentGranuleBytes)})) return false;
    mark_start(at, true);
  } else {
    const uint8_t index = size_class_of(bytes);
    if (!mark_bit(at, ChunkWord::of(ChunkKind::kSlab, index), kClassBytes[index])) return false;
  }
  stats_.bytes_live += footprint(bytes);
  ++stats_.buffers_live;
  return true;
}

bool Heap::mark_live_line(Offset at) {
  if (!mark_bit(at, ChunkWord::of(ChunkKind::kLines), kLineBytes)) return false;
  stats_.bytes_live += kLineBytes;
  return true;
}

std::vector<Offset> Heap::announced_pins() {
  collect_pins();
  std::vector<Offset> pins;
  for (const uint64_t offset : pinned_.offsets()) pins.push_back({offset});
  return pins;
}

void Heap::end_recovery() {
  for (uint32_t index = 0; index < chunks_.size(); ++index) {
    Chunk& chunk = chunks_[index];
    const bool is_unused = (chunk.kind == ChunkKind::kSlab && chunk.used == 0) ||
                           (chunk.kind == ChunkKind::kExtent &&
                            extents_.take_at({.start = {index * kChunkBytes}, .bytes = kChunkBytes}));
    if (is_unused) {
      give_back_chunk(index);
    } else if (chunk.kind == ChunkKind::kSlab || chunk.kind == ChunkKind::kLines) {
      SizeClass& size_class = chunk.kind == ChunkKind::kLines ? lines_ : classes_[chunk.size_class];
      chunk.listed = true;
      size_class.chunks.push_back(index);
    }
  }
}

}  // namespace refract
