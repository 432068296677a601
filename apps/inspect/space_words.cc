// SPDX-License-Identifier: Apache-2.0
#include "apps/inspect/space_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "refract/base/hash.h"
#include "refract/memory/heap.h"

namespace refract::inspect {

using kv::Lengths;
using kv::Slot;

std::optional<Damage> SpaceWords::read_header() {
  if (space_.size() < kChunkBytes) return Damage{0, "the space is shorter than its first chunk"};
  if (const Result<> header = Heap::check_header(space_); !header) {
    return Damage{0, fmt::format("the space's header is wrong: {}", info(header.code()).sentence)};
  }
  const uint64_t chunks_max = observe({offsetof(SpaceHeader, chunks_max)});
  chunk_table_ = {observe({offsetof(SpaceHeader, chunk_table)})};
  hash_seed_ = observe({offsetof(SpaceHeader, hash_seed)});
  if (chunks_max == 0 || chunks_max > space_.size() * kChunkBytes || chunk_table_.value % 8 != 0 ||
      !lies_in(chunk_table_, chunks_max * 8)) {
    return Damage{offsetof(SpaceHeader, chunks_max), "the chunk table does not lie in the space"};
  }
  chunks_max_ = chunks_max;
  return read_root();
}

std::optional<Damage> SpaceWords::read_root() {
  directory_ = {observe({kv::kRootAt.value + offsetof(kv::TableRoot, directory)})};
  const uint64_t words = observe({kv::kRootAt.value + offsetof(kv::TableRoot, directory_words)});
  if (directory_.value != observe({offsetof(SpaceHeader, store_area)}) || words != chunks_max_ ||
      directory_.value % 8 != 0 || !lies_in(directory_, words * 8)) {
    return Damage{kv::kRootAt.value, "the table's directory is not where the header says"};
  }
  const uint64_t count = bucket_count();
  if (count > 0 && count <= chunks_max_ * kv::kBucketsPerChunk) return std::nullopt;
  return Damage{kv::kBucketCountAt.value, fmt::format("the table cannot have {} buckets", count)};
}

uint64_t SpaceWords::chunks() const noexcept {
  return std::min<uint64_t>(space_.size() / kChunkBytes, chunks_max_);
}

ChunkWord SpaceWords::chunk_of(Offset place) const noexcept {
  const uint64_t index = place.value / kChunkBytes;
  return {index < chunks_max_ ? observe(chunk_word_at(index)) : ~uint64_t{0}};
}

Offset SpaceWords::bucket_at(uint64_t index) {
  if (index / kv::kBucketsPerChunk >= chunks_max_) return {};
  const Offset chunk{observe(directory_word_at(index))};
  if (chunk.value % kChunkBytes != 0 || !is_inside(chunk, kChunkBytes) ||
      chunk_of(chunk).kind() != ChunkKind::kBuckets) {
    return {};
  }
  return chunk.plus(index % kv::kBucketsPerChunk * kLineBytes);
}

Offset SpaceWords::line_after(Offset line, bool& is_sound) {
  const Offset next{observe(line.plus(kv::kOverflowWord * sizeof(Slot)))};
  is_sound = !next || (next.value % kLineBytes == 0 && is_inside(next, kLineBytes) &&
                       chunk_of(next).kind() == ChunkKind::kLines);
  return next;
}

SpaceWords::Entry SpaceWords::entry_of(Slot slot) {
  const Offset buffer = slot.buffer();
  Entry entry;
  entry.stamp = observe(buffer);
  entry.lengths = Lengths::from_word(observe(buffer.plus(offsetof(kv::BufferHeader, lengths))));
  entry.fault = fault_of_buffer(slot, entry.stamp, entry.lengths);
  if (entry.fault != nullptr) return entry;
  entry.key.resize(entry.lengths.key_bytes);
  copy_possibly_torn(entry.key.data(), at(buffer.plus(entry.lengths.key_at())), entry.key.size());
  entry.hash = hash_key(std::as_bytes(std::span(entry.key)), hash_seed_);
  if (Slot::fingerprint_of(entry.hash) != slot.fingerprint())
    entry.fault = "the key's hash is not the slot's";
  return entry;
}

const char* SpaceWords::fault_of_buffer(Slot slot, uint64_t stamp, Lengths lengths) {
  const Offset buffer = slot.buffer();
  if (!slot.names(stamp)) return "the buffer's stamp is not its slot's";
  if (stamp >= observe({offsetof(SpaceHeader, stamp_limit)})) return "the buffer's stamp was never given out";
  if (lengths.is_pending() && (lengths.flags & Lengths::kBatch) == 0)
    return "it is pending, and has no trailer";
  if (!lengths.is_sound() || !is_inside(buffer, lengths.total_bytes())) return "the lengths are impossible";
  if (((lengths.flags & Lengths::kExpires) != 0) != slot.expires()) {
    return "slot and buffer disagree on the time to live";
  }
  const uint64_t bytes = lengths.total_bytes();
  if (slot.size_hint() != Slot::size_hint_of(bytes)) return "the slot's size is not the buffer's";
  const ChunkWord chunk = chunk_of(buffer);
  if (bytes > kSlabBytesMax) {
    return chunk.kind() == ChunkKind::kExtent && buffer.value % kExtentGranuleBytes == 0
               ? nullptr
               : "a large entry lies in no extent";
  }
  const uint8_t size_class = size_class_of(bytes);
  return chunk.bits == ChunkWord::of(ChunkKind::kSlab, size_class).bits &&
                 buffer.value % kChunkBytes % kClassBytes[size_class] == 0
             ? nullptr
             : "the entry lies in no buffer of its size";
}

SpaceWords::Standing SpaceWords::standing_of(uint64_t hash, uint64_t bucket) const noexcept {
  const uint64_t count = bucket_count();
  if (count == 0) return Standing::kWrong;
  const uint64_t right = kv::bucket_index(hash, count);
  if (right == bucket) return Standing::kRight;
  const bool is_moving = count > 1 && right == count - 1 && bucket == kv::split_source(count);
  return is_moving ? Standing::kMoving : Standing::kWrong;
}

bool SpaceWords::comes_forward(uint64_t bucket) const noexcept {
  const uint64_t count = bucket_count();
  return (count > 1 && bucket == kv::forwarded_bucket(count + 1)) ||
         (count > 2 && bucket == kv::forwarded_bucket(count));
}

}  // namespace refract::inspect
