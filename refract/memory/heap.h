// SPDX-License-Identifier: Apache-2.0
// The allocator of a space: chunks, and in them buffers of a class, extents and lines.
//
// Its own state (free bits, stacks, the retire queue) is private memory of the owning shard. In the space it
// writes only the chunk table and the stamp limit, each before anything can depend on it, so that after a
// crash the store rebuilds the rest from what its table still names: begin_recovery, mark_live for each
// buffer, end_recovery.
//
// A buffer's first word is its stamp (docs/design/007-reuse.md). The heap hands stamps out; the store writes
// them.
//
// Threads: used only by the shard that owns the space. Nothing here throws; running out is an empty answer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/memory/extent_allocator.h"
#include "refract/memory/pins.h"
#include "refract/memory/space.h"
#include "refract/memory/writer.h"

namespace refract {

class Heap {
 public:
  struct Stats {
    uint64_t bytes_total = 0;    // In populated chunks.
    uint64_t bytes_free = 0;     // In chunks that nothing uses; allocation takes them next.
    uint64_t bytes_live = 0;     // In buffers that are allocated, class sizes counted.
    uint64_t bytes_retired = 0;  // Replaced or erased, not yet reusable: among bytes_live.
    uint64_t buffers_live = 0;
    uint64_t stamps_given = 0;  // By this process.
  };

  // Writes the header and the empty chunk table of a new space. `store_area_bytes` is the store's to use,
  // zeroed. REQUIRES: the first format_bytes() of the space are writable and zero.
  struct Geometry {
    uint64_t chunks_max = 0;
    uint64_t store_area_bytes = 0;
    uint64_t hash_seed = 0;
    uint32_t shard_index = 0;
    uint32_t shard_count = 1;
    uint32_t copies = 0;
    uint64_t placement = 0;
    SpaceTime time{};  // store_time.h. Without one the wall clock's word is taken.
  };
  static void format(Writer& writer, const Geometry& geometry) noexcept;
  [[nodiscard]] static uint64_t format_bytes(const Geometry& geometry) noexcept;

  // Says whether a space begins here that this version can read: kMalformed, kUnsupported or kCorrupt if not.
  [[nodiscard]] static Result<> check_header(std::span<const std::byte> space) noexcept;

  // Whether what needs several chunks may lie in two regions: not where one registration with a device has to
  // cover it.
  enum class Borders : uint8_t { kKept, kCrossed };
  // REQUIRES: check_header passed. `pins` outlives the heap.
  Heap(Writer& writer, PinSource& pins, Borders borders = Borders::kKept);

  // Populated memory behind what the heap has: whole chunks, in one region.
  void add(Offset start, uint64_t bytes);

  // Room for `bytes`, or nowhere where the space is full. The memory is dirty.
  [[nodiscard]] std::optional<Offset> allocate(uint64_t bytes);
  // The same where a buffer of this size was given back lately; else nowhere, and nothing has changed.
  [[nodiscard]] Offset allocate_at_once(uint64_t bytes) noexcept;
  // The same for what a store must have where values have taken all that they may: from the reserve as well.
  // REQUIRES: at most kSlabBytesMax.
  [[nodiscard]] std::optional<Offset> allocate_from_reserve(uint64_t bytes);
  // A zeroed line for the store's table; may use the reserve that values may not.
  [[nodiscard]] std::optional<Offset> allocate_line();
  // A zeroed chunk for the store's table; likewise from the reserve.
  [[nodiscard]] std::optional<Offset> allocate_bucket_chunk();

  // Gives back what no reader was ever led to. `bytes` as at allocate.
  void release(Offset at, uint64_t bytes);
  void release_line(Offset at);

  // Gives back what readers may still hold: it is reused only when no pin names it. Copying readers need no
  // pin; they find out by the stamp.
  void retire(Offset at, uint64_t bytes);

  // Makes retired buffers reusable that no pin holds. Called by itself every few retirements.
  void reclaim();

  // The same, and gives back chunks of which only what waits to be taken first is left.
  void collect_free_chunks();

  // A number that no buffer of this space ever carried. Never 0.
  [[nodiscard]] uint64_t next_stamp();
  // The next one is this or higher: for a space that is filled with contents of another, whose stamps they
  // keep.
  void skip_stamps_below(uint64_t stamp);

  // So many free chunks are kept for the table.
  [[nodiscard]] uint64_t reserved_chunks() const noexcept { return 1 + chunks_.size() / 64; }

  // True when so little is free that the node should ask for another region now.
  [[nodiscard]] bool wants_growth() const noexcept;

  void begin_recovery();
  // False where the chunk table contradicts it: the buffer lies outside, across, or twice.
  [[nodiscard]] bool mark_live(Offset at, uint64_t bytes);
  [[nodiscard]] bool mark_live_line(Offset at);
  // What readers pinned before the crash and may still hold, although no slot names it any more. The store,
  // which knows their lengths, marks these live too, and retires them after end_recovery. Untrusted.
  [[nodiscard]] std::vector<Offset> announced_pins();
  void end_recovery();

  // A run of chunks, in one region unless borders are crossed, that all buffers must leave, so that a class
  // or a large value that has none can have it. What is given back in it is not given out while it is
  // withheld.
  struct ChunkRun {
    uint64_t first = 0;
    uint64_t chunks = 0;
  };
  // The run with the least in it, of those that hold no table and no header; of several, the first behind
  // `from`. None has a chunk that is `barred`: one for each chunk, or null. Nothing: there is none.
  [[nodiscard]] std::optional<ChunkRun> emptiest_run(
      uint64_t chunks, uint64_t from, const std::vector<bool>* barred = nullptr) const noexcept;
  void withhold(const ChunkRun& run);
  void hand_back(const ChunkRun& run);
  [[nodiscard]] bool is_free(const ChunkRun& run) const noexcept;
  // How large the buffers are that this chunk is cut into; more than any are, where it is not.
  [[nodiscard]] uint64_t slab_bytes(uint64_t chunk) const noexcept {
    return chunks_[chunk].kind == ChunkKind::kSlab ? kClassBytes[chunks_[chunk].size_class] : UINT64_MAX;
  }
  // Adds the buffers that begin in this chunk, and the last one before it that may reach into it: in use or
  // retired.
  void occupants(uint64_t chunk, std::vector<Offset>& buffers) const;

  // What readers hold now, and what they held at the last look, also one that the heap itself took.
  [[nodiscard]] const PinSet& look_at_pins() {
    collect_pins();
    return pinned_;
  }
  // The same, how often this one is held: of one alone, nothing is sorted for it.
  [[nodiscard]] uint64_t look_at_pins_of(Offset at) {
    gather_pins();
    return pinned_.count(at);
  }
  [[nodiscard]] const PinSet& pins_seen() const noexcept { return pinned_; }

  // For callers that check what they find in the space before they follow it.
  [[nodiscard]] bool is_inside(Offset at, uint64_t bytes) const noexcept {
    return at.value != 0 && bytes <= end() && at.value <= end() - bytes;
  }
  // False once a chunk's word was read that no heap ever wrote.
  [[nodiscard]] bool is_sound() const noexcept { return is_sound_; }
  [[nodiscard]] bool is_chunk_of(Offset start, ChunkKind kind) const noexcept {
    return start.value % kChunkBytes == 0 && is_inside(start, kChunkBytes) &&
           chunks_[start.value / kChunkBytes].kind == kind;
  }

  // The longest run of free chunks, which bounds the next large value where no hole among the extents is
  // larger. Looks at every chunk: for people.
  [[nodiscard]] uint64_t largest_free_run() const noexcept;

  // How many bytes a buffer of `bytes` really takes.
  [[nodiscard]] static uint64_t footprint(uint64_t bytes) noexcept;
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }
  [[nodiscard]] uint64_t end() const noexcept { return chunks_.size() * kChunkBytes; }

 private:
  struct Chunk {
    ChunkKind kind = ChunkKind::kFree;
    uint8_t size_class = 0;
    bool starts_region = false;  // And no run is joined with what lies before it.
    bool listed = false;         // In its class's list of chunks with free buffers.
    bool withheld = false;
    uint32_t used = 0;
    uint32_t first_word = 0;                // No word of free_bits below it has a free buffer.
    std::unique_ptr<uint64_t[]> free_bits;  // Of kSlab and kLines: one a buffer, set where free.
    std::unique_ptr<uint64_t[]> starts;     // Of kExtent: one a granule, set where a buffer begins.
  };
  struct SizeClass {
    std::array<Offset, 128> recent{};  // Freed last, taken first: their lines are still in the cache.
    uint32_t recent_count = 0;
    std::vector<uint32_t> chunks;  // With free bits.
  };
  struct Retired {
    Offset at;
    uint64_t bytes = 0;
  };

  [[nodiscard]] std::optional<uint32_t> take_chunks(uint64_t count, bool from_reserve);
  void give_back_chunk(uint32_t index);
  void set_kind(uint32_t index, ChunkWord word);
  [[nodiscard]] bool add_slab_chunk(SizeClass& size_class, ChunkWord word, bool from_reserve);
  void fetch_for_writing(Offset at, uint64_t bytes) const noexcept;
  // REQUIRES: there is one.
  [[nodiscard]] Offset take_recent(SizeClass& size_class, uint64_t buffer_bytes) const noexcept;
  [[nodiscard]] std::optional<Offset> take_from(SizeClass& size_class, uint64_t buffer_bytes);
  // For a class that has nothing free, of values.
  [[nodiscard, gnu::noinline]] std::optional<Offset> take_from_more(SizeClass& size_class, ChunkWord word);
  [[nodiscard]] std::optional<Offset> allocate_extent(uint64_t bytes);
  [[nodiscard]] std::optional<Offset> take_extent(uint64_t bytes);
  void mark_start(Offset at, bool begins);
  void release_slab(Offset at, SizeClass& size_class, uint64_t buffer_bytes);
  void return_to_chunk(Offset at, SizeClass& size_class, uint64_t buffer_bytes);
  void release_extent(Offset at, uint64_t bytes);
  void put_bit(uint32_t index, uint64_t bit);
  void gather_pins();
  void collect_pins() {
    gather_pins();
    pinned_.seal();
  }
  [[nodiscard]] bool mark_bit(Offset at, ChunkWord expected, uint64_t buffer_bytes);

  Writer& writer_;
  PinSource& pins_;
  const Offset chunk_table_;
  const uint64_t chunks_max_;
  const Borders borders_;
  std::vector<Chunk> chunks_;
  uint64_t free_chunks_ = 0;
  uint64_t first_free_ = 0;  // No chunk below it is free.
  std::array<SizeClass, kSizeClasses> classes_;
  SizeClass lines_;
  ExtentAllocator extents_;
  std::vector<Retired> retired_;
  PinSet pinned_;
  bool is_sound_ = true;
  uint64_t next_stamp_ = 0;
  uint64_t stamp_limit_ = 0;
  Stats stats_;
};

}  // namespace refract
