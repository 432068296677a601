// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/check_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "refract/base/hash.h"
#include "refract/kv/layout.h"
#include "refract/memory/heap.h"
#include "refract/memory/remote_visible.h"
#include "refract/memory/space.h"

namespace refract::cli {
namespace {

using kv::Lengths;
using kv::Slot;

constexpr int kLooks = 8;
constexpr int kChainMax = 1'000;
constexpr uint64_t kBucketsBetweenWords = 4096;

// What one look at a bucket found.
struct Look {
  uint64_t lines = 0;
  uint64_t entries = 0;
  uint64_t expiring = 0;
  uint64_t content_bytes = 0;
  std::vector<Offset> buffers;
  std::vector<Damage> damages;
};

class Checker {
 public:
  explicit Checker(const SpaceView& view) : view_(view), space_(view.space) {}

  SpaceReport run() {
    if (check_header() && check_root()) {
      check_chunks();
      if (!view_.is_live) taken_.resize(space_.size() / kGranuleBytes);
      for (uint64_t index = 0; index < observe({kv::kBucketCountAt}); ++index) {
        if (!check_directory(index)) break;
        check_bucket(index);
        ++report_.buckets;
        if (view_.tell && index % kBucketsBetweenWords == 0) view_.tell(index, observe({kv::kBucketCountAt}));
      }
    }
    report_.bytes = space_.size();
    return std::move(report_);
  }

 private:
  [[nodiscard]] uint64_t observe(Offset at) const noexcept { return observe_u64(space_.data() + at.value); }

  [[nodiscard]] bool lies_in(Offset at, uint64_t bytes) const noexcept {
    return at.value != 0 && bytes <= space_.size() && at.value <= space_.size() - bytes;
  }
  [[nodiscard]] bool is_inside(Offset at, uint64_t bytes) {
    if (lies_in(at, bytes)) return true;
    if (view_.grown) space_ = view_.grown();
    return lies_in(at, bytes);
  }

  void damage(Offset at, std::string what) { keep({at.value, std::move(what)}); }
  void keep(Damage damage) {
    ++report_.damage_count;
    if (report_.damages.size() < SpaceReport::kDamagesMax) report_.damages.push_back(std::move(damage));
  }

  bool check_header() {
    if (space_.size() < kChunkBytes) {
      damage({0}, "the space is shorter than its first chunk");
      return false;
    }
    if (const Result<> header = Heap::check_header(space_); !header) {
      damage({0}, fmt::format("the space's header is wrong: {}", info(header.code()).sentence));
      return false;
    }
    const uint64_t chunks_max = observe({offsetof(SpaceHeader, chunks_max)});
    chunk_table_ = {observe({offsetof(SpaceHeader, chunk_table)})};
    hash_seed_ = observe({offsetof(SpaceHeader, hash_seed)});
    if (chunks_max == 0 || chunks_max > space_.size() * kChunkBytes || chunk_table_.value % 8 != 0 ||
        !lies_in(chunk_table_, chunks_max * 8)) {
      damage({offsetof(SpaceHeader, chunks_max)}, "the chunk table does not lie in the space");
      return false;
    }
    chunks_max_ = chunks_max;
    return true;
  }

  bool check_root() {
    directory_ = {observe({kv::kRootAt.value + offsetof(kv::TableRoot, directory)})};
    const uint64_t words = observe({kv::kRootAt.value + offsetof(kv::TableRoot, directory_words)});
    if (directory_.value != observe({offsetof(SpaceHeader, store_area)}) || words != chunks_max_ ||
        directory_.value % 8 != 0 || !lies_in(directory_, words * 8)) {
      damage(kv::kRootAt, "the table's directory is not where the header says");
      return false;
    }
    const uint64_t count = observe(kv::kBucketCountAt);
    if (count > 0 && count <= chunks_max_ * kv::kBucketsPerChunk) return true;
    damage(kv::kBucketCountAt, fmt::format("the table cannot have {} buckets", count));
    return false;
  }

  [[nodiscard]] ChunkWord chunk_of(Offset at) const noexcept {
    const uint64_t index = at.value / kChunkBytes;
    return {index < chunks_max_ ? observe(chunk_table_.plus(index * 8)) : ~uint64_t{0}};
  }

  void check_chunks() {
    const uint64_t populated = std::min<uint64_t>(space_.size() / kChunkBytes, chunks_max_);
    for (uint64_t index = 0; index < chunks_max_; ++index) {
      const Offset at = chunk_table_.plus(index * 8);
      const ChunkWord word{observe(at)};
      if (!word.is_sound()) damage(at, fmt::format("the word of chunk {} is none that a heap wrote", index));
      if (index >= populated && !view_.is_live && word.kind() != ChunkKind::kFree) {
        damage(at, fmt::format("chunk {} is in use and lies behind the end of the space", index));
      }
    }
    report_.chunks = populated;
  }

  // Asked for every bucket, looks once a chunk.
  bool check_directory(uint64_t index) {
    if (index % kv::kBucketsPerChunk != 0) return true;
    const Offset at = directory_.plus(index / kv::kBucketsPerChunk * 8);
    bucket_chunk_ = {observe(at)};
    if (bucket_chunk_.value % kChunkBytes == 0 && is_inside(bucket_chunk_, kChunkBytes) &&
        chunk_of(bucket_chunk_).kind() == ChunkKind::kBuckets) {
      return true;
    }
    damage(at,
           fmt::format("the directory's word for the buckets from {} on names no chunk of buckets", index));
    return false;
  }

  void check_bucket(uint64_t index) {
    Look look = look_at(index);
    std::vector<Damage> lasting = look.damages;
    for (int again = 1; again < kLooks && !lasting.empty(); ++again) {
      if (view_.pause) view_.pause();
      look = look_at(index);
      std::erase_if(lasting, [&look](const Damage& seen) {
        return std::ranges::find(look.damages, seen) == look.damages.end();
      });
      if (lasting.empty()) ++report_.looked_again;
    }
    for (Damage& seen : lasting) keep(std::move(seen));
    report_.overflow_lines += look.lines - 1;
    report_.entries += look.entries;
    report_.expiring_entries += look.expiring;
    report_.content_bytes += look.content_bytes;
    if (!view_.is_live) take(look.buffers);
  }

  void take(const std::vector<Offset>& buffers) {
    for (const Offset buffer : buffers) {
      std::vector<bool>::reference taken = taken_[buffer.value / kGranuleBytes];
      if (taken) damage(buffer, "two slots name this buffer");
      taken = true;
    }
  }

  Look look_at(uint64_t index) {
    Look look;
    Offset line = bucket_chunk_.plus(index % kv::kBucketsPerChunk * kLineBytes);
    while (true) {
      ++look.lines;
      for (uint64_t i = 0; i < kv::kSlotsPerBucket; ++i) {
        look_at_slot(line.plus(i * sizeof(Slot)), index, look);
      }
      const Offset word = line.plus(kv::kOverflowWord * sizeof(Slot));
      line = {observe(word)};
      if (!line) return look;
      if (line.value % kLineBytes != 0 || !is_inside(line, kLineBytes) ||
          chunk_of(line).kind() != ChunkKind::kLines) {
        look.damages.push_back({word.value, fmt::format("bucket {}: its chain goes on at no line", index)});
        return look;
      }
      if (look.lines == kChainMax) {
        look.damages.push_back({word.value, fmt::format("bucket {}: its chain does not end", index)});
        return look;
      }
    }
  }

  void look_at_slot(Offset at, uint64_t bucket, Look& look) {
    const Slot slot{observe(at)};
    if (!slot) return;
    const Offset buffer = slot.buffer();
    if (!is_inside(buffer, sizeof(kv::BufferHeader))) {
      look.damages.push_back({at.value, fmt::format("bucket {}: a slot points outside the space", bucket)});
      return;
    }
    const uint64_t stamp = observe(buffer);
    const Lengths lengths = Lengths::from_word(observe(buffer.plus(offsetof(kv::BufferHeader, lengths))));
    const char* fault = fault_of_buffer(slot, stamp, lengths);
    if (fault == nullptr) fault = fault_of_place(slot, lengths, bucket, look);
    if (fault != nullptr) {
      look.damages.push_back({buffer.value, fmt::format("bucket {}: {}", bucket, fault)});
    }
  }

  // Null: nothing is wrong.
  const char* fault_of_buffer(Slot slot, uint64_t stamp, Lengths lengths) {
    const Offset buffer = slot.buffer();
    if (!slot.names(stamp)) return "the buffer's stamp is not its slot's";
    if (stamp >= observe({offsetof(SpaceHeader, stamp_limit)}))
      return "the buffer's stamp was never given out";
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

  const char* fault_of_place(Slot slot, Lengths lengths, uint64_t bucket, Look& look) {
    key_.resize(lengths.key_bytes);
    copy_possibly_torn(key_.data(), space_.data() + slot.buffer().plus(lengths.key_at()).value, key_.size());
    const uint64_t hash = hash_key(key_, hash_seed_);
    if (Slot::fingerprint_of(hash) != slot.fingerprint()) return "the key's hash is not the slot's";
    const uint64_t count = observe(kv::kBucketCountAt);
    const uint64_t place = kv::bucket_index(hash, count);
    if (place != bucket) {
      // A split publishes the count before it clears the old places: a server may have ended in between.
      const bool is_moving = count > 1 && place == count - 1 && bucket == kv::split_source(count);
      return is_moving ? nullptr : "the entry stands in a bucket that is not its key's";
    }
    ++look.entries;
    look.expiring += slot.expires() ? 1 : 0;
    look.content_bytes += uint64_t{lengths.key_bytes} + lengths.value_bytes;
    look.buffers.push_back(slot.buffer());
    return nullptr;
  }

  const SpaceView& view_;
  std::span<const std::byte> space_;
  SpaceReport report_;
  Offset chunk_table_;
  Offset directory_;
  Offset bucket_chunk_;  // Of the bucket that is looked at.
  uint64_t chunks_max_ = 0;
  uint64_t hash_seed_ = 0;
  std::vector<std::byte> key_;
  std::vector<bool> taken_;  // A bit for each granule: a slot names the buffer that begins there.
};

}  // namespace

SpaceReport check_space(const SpaceView& view) {
  return Checker(view).run();
}

}  // namespace refract::cli
