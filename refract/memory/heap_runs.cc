// SPDX-License-Identifier: Apache-2.0
// How chunks are emptied for others: what lies in them, and how they are kept from other uses meanwhile.
#include <algorithm>
#include <bit>

#include "refract/base/check.h"
#include "refract/memory/heap.h"

namespace refract {
namespace {

constexpr uint64_t kGranulesPerChunk = kChunkBytes / kExtentGranuleBytes;
constexpr uint64_t kStartWords = kGranulesPerChunk / 64;

}  // namespace

void Heap::mark_start(Offset at, bool begins) {
  Chunk& chunk = chunks_[at.value / kChunkBytes];
  if (chunk.starts == nullptr) chunk.starts = std::make_unique<uint64_t[]>(kStartWords);
  const uint64_t granule = at.value % kChunkBytes / kExtentGranuleBytes;
  const uint64_t bit = uint64_t{1} << (granule % 64);
  uint64_t& word = chunk.starts[granule / 64];
  word = begins ? word | bit : word & ~bit;
}

std::optional<Heap::ChunkRun> Heap::emptiest_run(uint64_t count, uint64_t from,
                                                 const std::vector<bool>* barred) const noexcept {
  std::optional<ChunkRun> best;
  uint64_t best_bytes = 0;
  bool best_is_behind = false;
  uint64_t run = 0;
  uint64_t run_bytes = 0;
  const auto bytes_in = [](const Chunk& chunk) -> uint64_t {
    if (chunk.kind == ChunkKind::kFree) return 0;
    if (chunk.kind == ChunkKind::kSlab) return uint64_t{chunk.used} * kClassBytes[chunk.size_class];
    return kChunkBytes;
  };
  for (uint64_t index = 0; index < chunks_.size(); ++index) {
    const Chunk& chunk = chunks_[index];
    if (chunk.starts_region) run = run_bytes = 0;
    // One alone that is free already is no help.
    const bool can_be_empty = chunk.kind == ChunkKind::kSlab || chunk.kind == ChunkKind::kExtent ||
                              (chunk.kind == ChunkKind::kFree && count > 1);
    if (!can_be_empty || chunk.withheld || (barred != nullptr && (*barred)[index])) {
      run = run_bytes = 0;
      continue;
    }
    ++run;
    run_bytes += bytes_in(chunk);
    if (run < count) continue;
    const uint64_t first = index + 1 - count;
    const bool is_behind = first >= from;
    const bool is_better =
        !best || run_bytes < best_bytes || (run_bytes == best_bytes && is_behind && !best_is_behind);
    if (is_better) {
      best = {.first = first, .chunks = count};
      best_bytes = run_bytes;
      best_is_behind = is_behind;
    }
    run_bytes -= bytes_in(chunks_[first]);
    --run;
  }
  return best;
}

void Heap::withhold(const ChunkRun& run) {
  // What waits to be taken first may lie in it.
  collect_free_chunks();
  for (uint64_t index = run.first; index < run.first + run.chunks; ++index) {
    Chunk& chunk = chunks_[index];
    REFRACT_CHECK(chunk.kind != ChunkKind::kLines && !chunk.withheld);
    chunk.withheld = true;
    if (chunk.kind == ChunkKind::kSlab && chunk.listed) {
      std::erase(classes_[chunk.size_class].chunks, static_cast<uint32_t>(index));
      chunk.listed = false;
    }
  }
}

void Heap::hand_back(const ChunkRun& run) {
  for (uint64_t index = run.first; index < run.first + run.chunks; ++index) {
    Chunk& chunk = chunks_[index];
    chunk.withheld = false;
    if (chunk.kind == ChunkKind::kFree) first_free_ = std::min(first_free_, index);
    if (chunk.kind != ChunkKind::kSlab || chunk.listed) continue;
    chunk.listed = true;
    classes_[chunk.size_class].chunks.push_back(static_cast<uint32_t>(index));
  }
}

bool Heap::is_free(const ChunkRun& run) const noexcept {
  for (uint64_t index = run.first; index < run.first + run.chunks; ++index) {
    if (chunks_[index].kind != ChunkKind::kFree) return false;
  }
  return true;
}

void Heap::occupants(uint64_t index, std::vector<Offset>& buffers) const {
  const Chunk& chunk = chunks_[index];
  const Offset start{index * kChunkBytes};
  if (chunk.kind == ChunkKind::kSlab) {
    const uint64_t buffer_bytes = kClassBytes[chunk.size_class];
    for (uint64_t bit = 0; bit < kChunkBytes / buffer_bytes; ++bit) {
      const bool is_in_use = (chunk.free_bits[bit / 64] >> (bit % 64) & 1) == 0;
      if (is_in_use) buffers.push_back(start.plus(bit * buffer_bytes));
    }
    return;
  }
  if (chunk.kind != ChunkKind::kExtent) return;
  // The last that begins before it: the chunks in between hold nothing else.
  for (uint64_t behind = index; behind > 0; --behind) {
    const Chunk& before = chunks_[behind - 1];
    if (before.kind != ChunkKind::kExtent) break;
    if (before.starts == nullptr) continue;
    uint64_t word = kStartWords;
    while (word > 0 && before.starts[word - 1] == 0) --word;
    if (word == 0) continue;
    const auto last = static_cast<uint64_t>(std::bit_width(before.starts[word - 1])) - 1;
    buffers.push_back({(behind - 1) * kChunkBytes + ((word - 1) * 64 + last) * kExtentGranuleBytes});
    break;
  }
  for (uint64_t word = 0; chunk.starts != nullptr && word < kStartWords; ++word) {
    for (uint64_t bits = chunk.starts[word]; bits != 0; bits &= bits - 1) {
      const auto bit = static_cast<uint64_t>(std::countr_zero(bits));
      buffers.push_back(start.plus((word * 64 + bit) * kExtentGranuleBytes));
    }
  }
}

}  // namespace refract
