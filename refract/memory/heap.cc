// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/heap.h"

#include <algorithm>
#include <bit>

#include "refract/base/check.h"
#include "refract/base/units.h"
#include "refract/memory/pins.h"
#include "refract/runtime/fault.h"

namespace refract {
namespace {

// So many retirements share one look at all pins.
constexpr size_t kReclaimBatch = 64;

// How many allocations before its own a buffer's first lines are fetched, and how much of it.
constexpr uint32_t kFetchedAhead = 4;
constexpr uint64_t kFetchedBytes = 4 * kLineBytes;

// Stamps are reserved in the space by so many at a time; a crash loses at most these.
constexpr uint64_t kStampStep = 1 << 16;

constexpr Offset kStampLimitAt{offsetof(SpaceHeader, stamp_limit)};

Offset chunk_start(uint64_t index) noexcept {
  return {index * kChunkBytes};
}
uint32_t chunk_of(Offset at) noexcept {
  return static_cast<uint32_t>(at.value / kChunkBytes);
}

}  // namespace

uint64_t Heap::format_bytes(const Geometry& geometry) noexcept {
  return round_up(sizeof(SpaceHeader) + geometry.chunks_max * sizeof(ChunkWord) + geometry.store_area_bytes,
                  kChunkBytes);
}

void Heap::format(Writer& writer, const Geometry& geometry) noexcept {
  SpaceHeader header{};
  header.layout_version = kSpaceLayoutVersion;
  header.chunk_bytes = kChunkBytes;
  header.chunks_max = geometry.chunks_max;
  header.chunk_table = sizeof(SpaceHeader);
  header.store_area = sizeof(SpaceHeader) + geometry.chunks_max * sizeof(ChunkWord);
  header.store_area_bytes = geometry.store_area_bytes;
  header.hash_seed = geometry.hash_seed;
  header.shard_index = geometry.shard_index;
  // A space of a node that has no other is the same as it ever was.
  header.shard_count = geometry.shard_count == 1 ? 0 : geometry.shard_count;
  header.copies = geometry.copies;
  header.placement = geometry.placement;
  header.stamp_limit = 1;
  header.time = geometry.time;
  writer.copy({0}, std::as_bytes(std::span(&header, 1)));
  for (uint64_t index = 0; index < format_bytes(geometry) / kChunkBytes; ++index) {
    writer.publish({header.chunk_table + index * sizeof(ChunkWord)}, ChunkWord::of(ChunkKind::kHeader).bits);
  }
  // Last: a space without its magic was never finished.
  writer.publish({0}, kSpaceMagic);
}

Result<> Heap::check_header(std::span<const std::byte> space) noexcept {
  if (space.size() < sizeof(SpaceHeader)) return fail(Code::kMalformed);
  SpaceHeader header;
  copy_possibly_torn(&header, space.data(), sizeof(header));
  if (header.magic != kSpaceMagic) return fail(Code::kMalformed);
  if (!is_known_layout(header.layout_version)) return fail(Code::kUnsupported);
  const bool sound = header.chunk_bytes == kChunkBytes && header.chunk_table == sizeof(SpaceHeader) &&
                     header.chunks_max > 0 && header.chunks_max < (uint64_t{1} << 24) &&
                     header.store_area == header.chunk_table + header.chunks_max * sizeof(ChunkWord) &&
                     header.store_area_bytes < (uint64_t{1} << 40) && header.stamp_limit > 0;
  if (!sound) return fail(Code::kCorrupt);
  const Geometry geometry{.chunks_max = header.chunks_max, .store_area_bytes = header.store_area_bytes};
  if (format_bytes(geometry) > space.size()) return fail(Code::kCorrupt);
  return {};
}

Heap::Heap(Writer& writer, PinSource& pins, Borders borders)
    : writer_(writer),
      pins_(pins),
      chunk_table_{writer.view<SpaceHeader>({0}).chunk_table},
      chunks_max_(writer.view<SpaceHeader>({0}).chunks_max),
      borders_(borders) {
  chunks_.reserve(chunks_max_);
  retired_.reserve(4 * kReclaimBatch);
  stamp_limit_ = writer_.load(kStampLimitAt);
  next_stamp_ = stamp_limit_;
}

void Heap::add(Offset start, uint64_t bytes) {
  REFRACT_CHECK(start.value == end() && bytes % kChunkBytes == 0);
  const uint64_t first = chunks_.size();
  const uint64_t count = std::min(bytes / kChunkBytes, chunks_max_ - first);
  for (uint64_t index = first; index < first + count; ++index) {
    ChunkWord word{writer_.load(chunk_table_.plus(index * sizeof(ChunkWord)))};
    if (!word.is_sound()) {
      is_sound_ = false;
      word = ChunkWord::of(ChunkKind::kHeader);
    }
    Chunk chunk;
    chunk.kind = word.kind();
    chunk.size_class = word.size_class();
    chunk.starts_region = index == first && borders_ == Borders::kKept;
    chunks_.push_back(std::move(chunk));
    if (word.kind() == ChunkKind::kFree) {
      ++free_chunks_;
      stats_.bytes_free += kChunkBytes;
    }
  }
  first_free_ = std::min(first_free_, first);
  if (borders_ == Borders::kKept) extents_.add_border(start);
  stats_.bytes_total += count * kChunkBytes;
}

void Heap::set_kind(uint32_t index, ChunkWord word) {
  chunks_[index].kind = word.kind();
  chunks_[index].size_class = word.size_class();
  writer_.publish(chunk_table_.plus(index * sizeof(ChunkWord)), word.bits);
}

std::optional<uint32_t> Heap::take_chunks(uint64_t count, bool from_reserve) {
  // The table may need lines and buckets when values have taken all they may: it keeps one chunk in 64.
  if (REFRACT_FAULT_FAILS("heap.no_chunk")) return std::nullopt;
  const uint64_t reserve = from_reserve ? 0 : reserved_chunks();
  if (free_chunks_ < count + reserve) return std::nullopt;
  uint64_t run = 0;
  bool found_free = false;
  for (uint64_t index = first_free_; index < chunks_.size(); ++index) {
    const bool free = chunks_[index].kind == ChunkKind::kFree && !chunks_[index].withheld;
    if (free && !found_free) {
      found_free = true;
      first_free_ = index;
    }
    run = !free ? 0 : chunks_[index].starts_region ? 1 : run + 1;
    if (run == count) {
      free_chunks_ -= count;
      stats_.bytes_free -= count * kChunkBytes;
      return static_cast<uint32_t>(index + 1 - count);
    }
  }
  return std::nullopt;
}

void Heap::give_back_chunk(uint32_t index) {
  chunks_[index].free_bits.reset();
  chunks_[index].starts.reset();
  chunks_[index].listed = false;
  set_kind(index, ChunkWord::of(ChunkKind::kFree));
  ++free_chunks_;
  stats_.bytes_free += kChunkBytes;
  first_free_ = std::min<uint64_t>(first_free_, index);
}

uint64_t Heap::footprint(uint64_t bytes) noexcept {
  return bytes <= kSlabBytesMax ? kClassBytes[size_class_of(bytes)] : round_up(bytes, kExtentGranuleBytes);
}

bool Heap::add_slab_chunk(SizeClass& size_class, ChunkWord word, bool from_reserve) {
  const auto index = take_chunks(1, from_reserve);
  if (!index) return false;
  set_kind(*index, word);
  const uint64_t buffer_bytes =
      word.kind() == ChunkKind::kLines ? kLineBytes : uint64_t{kClassBytes[word.size_class()]};
  const uint64_t buffers = kChunkBytes / buffer_bytes;
  Chunk& chunk = chunks_[*index];
  chunk.free_bits = std::make_unique<uint64_t[]>((buffers + 63) / 64);
  for (uint64_t bit = 0; bit < buffers; ++bit) chunk.free_bits[bit / 64] |= uint64_t{1} << (bit % 64);
  chunk.used = 0;
  chunk.first_word = 0;
  chunk.listed = true;
  size_class.chunks.push_back(*index);
  return true;
}

// A buffer is written to right after it was taken, and what is published behind those stores waits until its
// lines have come.
void Heap::fetch_for_writing(Offset at, uint64_t bytes) const noexcept {
  const std::byte* place = writer_.at(at);
  const uint64_t end = std::min(bytes, kFetchedBytes);
  for (uint64_t byte = 0; byte < end; byte += kLineBytes) asm volatile("prefetchw %0" : : "m"(place[byte]));
}

inline Offset Heap::take_recent(SizeClass& size_class, uint64_t buffer_bytes) const noexcept {
  const uint32_t last = --size_class.recent_count;
  if (last >= kFetchedAhead) fetch_for_writing(size_class.recent[last - kFetchedAhead], buffer_bytes);
  return size_class.recent[last];
}

Offset Heap::allocate_at_once(uint64_t bytes) noexcept {
  if (bytes > kSlabBytesMax) return {};
  const uint8_t index = size_class_of(bytes);
  SizeClass& size_class = classes_[index];
  if (size_class.recent_count == 0) return {};
  stats_.bytes_live += kClassBytes[index];
  ++stats_.buffers_live;
  return take_recent(size_class, kClassBytes[index]);
}

std::optional<Offset> Heap::take_from(SizeClass& size_class, uint64_t buffer_bytes) {
  if (size_class.recent_count > 0) return take_recent(size_class, buffer_bytes);
  while (!size_class.chunks.empty()) {
    const uint32_t index = size_class.chunks.back();
    Chunk& chunk = chunks_[index];
    const uint64_t words = (kChunkBytes / buffer_bytes + 63) / 64;
    for (uint64_t word = chunk.first_word; word < words; ++word) {
      uint64_t& bits = chunk.free_bits[word];
      if (bits == 0) continue;
      chunk.first_word = static_cast<uint32_t>(word);
      const auto bit = static_cast<uint64_t>(std::countr_zero(bits));
      bits &= bits - 1;
      ++chunk.used;
      return chunk_start(index).plus((word * 64 + bit) * buffer_bytes);
    }
    chunk.listed = false;
    size_class.chunks.pop_back();
  }
  return std::nullopt;
}

std::optional<Offset> Heap::take_from_more(SizeClass& size_class, ChunkWord word) {
  const uint64_t buffer_bytes = kClassBytes[word.size_class()];
  if (!add_slab_chunk(size_class, word, false)) {
    collect_free_chunks();
    if (const auto at = take_from(size_class, buffer_bytes)) return at;
    (void)add_slab_chunk(size_class, word, false);
  }
  return take_from(size_class, buffer_bytes);
}

std::optional<Offset> Heap::allocate(uint64_t bytes) {
  std::optional<Offset> at;
  if (bytes > kSlabBytesMax) {
    at = allocate_extent(bytes);
  } else {
    const uint8_t index = size_class_of(bytes);
    SizeClass& size_class = classes_[index];
    const ChunkWord word = ChunkWord::of(ChunkKind::kSlab, index);
    at = take_from(size_class, kClassBytes[index]);
    if (!at) [[unlikely]]
      at = take_from_more(size_class, word);
  }
  if (at) {
    stats_.bytes_live += footprint(bytes);
    ++stats_.buffers_live;
  }
  return at;
}

std::optional<Offset> Heap::allocate_from_reserve(uint64_t bytes) {
  if (const auto at = allocate(bytes)) return at;
  const uint8_t index = size_class_of(bytes);
  SizeClass& size_class = classes_[index];
  if (!add_slab_chunk(size_class, ChunkWord::of(ChunkKind::kSlab, index), true)) return std::nullopt;
  return allocate(bytes);
}

std::optional<Offset> Heap::allocate_extent(uint64_t bytes) {
  const std::optional<Offset> at = take_extent(bytes);
  if (at) mark_start(*at, true);
  return at;
}

std::optional<Offset> Heap::take_extent(uint64_t bytes) {
  if (bytes > end()) return std::nullopt;  // Rounded up it could be small.
  const uint64_t run_bytes = round_up(bytes, kExtentGranuleBytes);
  if (const auto at = extents_.take(run_bytes)) return at;
  const uint64_t count = round_up(run_bytes, kChunkBytes) / kChunkBytes;
  auto first = take_chunks(count, false);
  if (!first) {
    collect_free_chunks();
    if (const auto at = extents_.take(run_bytes)) return at;
    first = take_chunks(count, false);
  }
  if (!first) return std::nullopt;
  for (uint64_t i = 0; i < count; ++i) {
    set_kind(static_cast<uint32_t>(*first + i), ChunkWord::of(ChunkKind::kExtent));
  }
  if (count * kChunkBytes > run_bytes) {
    release_extent(chunk_start(*first).plus(run_bytes), count * kChunkBytes - run_bytes);
  }
  return chunk_start(*first);
}

std::optional<Offset> Heap::allocate_line() {
  auto at = take_from(lines_, kLineBytes);
  if (!at && add_slab_chunk(lines_, ChunkWord::of(ChunkKind::kLines), true))
    at = take_from(lines_, kLineBytes);
  if (at) {
    writer_.zero(*at, kLineBytes);
    stats_.bytes_live += kLineBytes;
  }
  return at;
}

std::optional<Offset> Heap::allocate_bucket_chunk() {
  const auto index = take_chunks(1, true);
  if (!index) return std::nullopt;
  set_kind(*index, ChunkWord::of(ChunkKind::kBuckets));
  writer_.zero(chunk_start(*index), kChunkBytes);
  stats_.bytes_live += kChunkBytes;
  return chunk_start(*index);
}

void Heap::put_bit(uint32_t index, uint64_t bit) {
  Chunk& chunk = chunks_[index];
  chunk.free_bits[bit / 64] |= uint64_t{1} << (bit % 64);
  chunk.first_word = std::min(chunk.first_word, static_cast<uint32_t>(bit / 64));
  --chunk.used;
}

void Heap::collect_free_chunks() {
  reclaim();
  // What waits to be taken first keeps its chunk from being free as a whole.
  for (size_t index = 0; index < kSizeClasses; ++index) {
    SizeClass& size_class = classes_[index];
    while (size_class.recent_count > 0) {
      return_to_chunk(size_class.recent[--size_class.recent_count], size_class, kClassBytes[index]);
    }
  }
}

void Heap::release_slab(Offset at, SizeClass& size_class, uint64_t buffer_bytes) {
  if (size_class.recent_count < size_class.recent.size() && !chunks_[chunk_of(at)].withheld) {
    size_class.recent[size_class.recent_count++] = at;
  } else {
    return_to_chunk(at, size_class, buffer_bytes);
  }
}

void Heap::return_to_chunk(Offset at, SizeClass& size_class, uint64_t buffer_bytes) {
  const uint32_t index = chunk_of(at);
  Chunk& chunk = chunks_[index];
  put_bit(index, (at.value - chunk_start(index).value) / buffer_bytes);
  if (chunk.used == 0 && chunk.kind == ChunkKind::kSlab) {
    if (chunk.listed) std::erase(size_class.chunks, index);
    give_back_chunk(index);
  } else if (!chunk.listed && !chunk.withheld) {
    chunk.listed = true;
    size_class.chunks.push_back(index);
  }
}

void Heap::release_extent(Offset at, uint64_t bytes) {
  ExtentAllocator::Run run{.start = at, .bytes = bytes};
  run = extents_.release(run);
  // Whole chunks go back, so that other classes can have them.
  const uint64_t first = round_up(run.start.value, kChunkBytes) / kChunkBytes;
  const uint64_t last = (run.start.value + run.bytes) / kChunkBytes;
  for (uint64_t index = first; index < last; ++index) {
    REFRACT_CHECK(extents_.take_at({.start = chunk_start(index), .bytes = kChunkBytes}));
    give_back_chunk(static_cast<uint32_t>(index));
  }
}

void Heap::release(Offset at, uint64_t bytes) {
  stats_.bytes_live -= footprint(bytes);
  --stats_.buffers_live;
  if (bytes > kSlabBytesMax) {
    mark_start(at, false);
    release_extent(at, round_up(bytes, kExtentGranuleBytes));
  } else {
    const uint8_t index = size_class_of(bytes);
    release_slab(at, classes_[index], kClassBytes[index]);
  }
}

void Heap::release_line(Offset at) {
  stats_.bytes_live -= kLineBytes;
  release_slab(at, lines_, kLineBytes);
}

void Heap::retire(Offset at, uint64_t bytes) {
  retired_.push_back({at, bytes});
  stats_.bytes_retired += footprint(bytes);
  // What pins hold back stays queued; the batch is counted on top of it, or each retirement would look again.
  if (retired_.size() % kReclaimBatch == 0) reclaim();
}

void Heap::gather_pins() {
  // The slots that named these buffers were stored before; a reader that pins now must see that (pins.h, P2).
  writer_.fence();
  pinned_.clear();
  pins_.collect(pinned_);
}

void Heap::reclaim() {
  collect_pins();
  const auto reuse = [&](const Retired& buffer) {
    stats_.bytes_retired -= footprint(buffer.bytes);
    release(buffer.at, buffer.bytes);
  };
  if (pinned_.empty()) [[likely]] {
    std::ranges::for_each(retired_, reuse);
    retired_.clear();
    return;
  }
  std::erase_if(retired_, [&](const Retired& buffer) {
    const bool is_free = !pinned_.contains(buffer.at);
    if (is_free) reuse(buffer);
    return is_free;
  });
}

uint64_t Heap::next_stamp() {
  if (next_stamp_ == stamp_limit_) {
    stamp_limit_ += kStampStep;
    writer_.publish(kStampLimitAt, stamp_limit_);
  }
  ++stats_.stamps_given;
  return next_stamp_++;
}

void Heap::skip_stamps_below(uint64_t stamp) {
  if (stamp <= next_stamp_) return;
  next_stamp_ = stamp_limit_ = stamp;
  writer_.publish(kStampLimitAt, stamp_limit_);
}

uint64_t Heap::largest_free_run() const noexcept {
  uint64_t longest = 0;
  uint64_t run = 0;
  for (const Chunk& chunk : chunks_) {
    run = chunk.kind != ChunkKind::kFree ? 0 : chunk.starts_region ? 1 : run + 1;
    longest = std::max(longest, run);
  }
  return longest * kChunkBytes;
}

bool Heap::wants_growth() const noexcept {
  return chunks_.size() < chunks_max_ && free_chunks_ * 16 < chunks_.size() + 8 * 16;
}

}  // namespace refract
