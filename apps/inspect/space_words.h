// SPDX-License-Identifier: Apache-2.0
// The words of a node's space as a reader that trusts none of them reads them: header, chunk table,
// directory, buckets, slots and buffers, each checked before it leads anywhere.
//
// Any bytes are a space that may be damaged. A server may change it meanwhile: a fault that one look finds
// means damage only if it stays (check_space.h looks again).
//
// Threads: one. The bytes must stay mapped; `grown` is asked for them again when something lies behind their
// end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/table/ring_finder.h"
#include "refract/memory/remote_visible.h"
#include "refract/memory/space.h"

namespace refract::inspect {

using kv::RingFinder;

struct Damage {
  uint64_t offset = 0;  // Of the slot, line, buffer or word that is wrong.
  std::string what;
  bool operator==(const Damage&) const = default;
};

class SpaceWords {
 public:
  // The space as it is mapped now; null: it cannot grow.
  using Grown = std::function<std::span<const std::byte>()>;

  explicit SpaceWords(std::span<const std::byte> space, Grown grown = nullptr)
      : space_(space), grown_(std::move(grown)) {}

  // Header and the table's root. Until it has answered with nothing, only bytes() and lies_in() may be asked.
  [[nodiscard]] std::optional<Damage> read_header();

  [[nodiscard]] uint64_t bytes() const noexcept { return space_.size(); }
  // REQUIRES, for these: aligned to 8, and inside.
  [[nodiscard]] uint64_t observe(Offset at) const noexcept { return observe_u64(space_.data() + at.value); }
  [[nodiscard]] const std::byte* at(Offset place) const noexcept { return space_.data() + place.value; }

  // REQUIRES: they lie inside. No bytes need no place.
  [[nodiscard]] std::vector<std::byte> copy(Offset place, uint64_t bytes) const {
    std::vector<std::byte> out(bytes);
    if (!out.empty()) copy_possibly_torn(out.data(), at(place), out.size());
    return out;
  }

  [[nodiscard]] bool lies_in(Offset place, uint64_t bytes) const noexcept {
    return place.value != 0 && bytes <= space_.size() && place.value <= space_.size() - bytes;
  }
  // The same, after a look at whether the space has grown.
  [[nodiscard]] bool is_inside(Offset place, uint64_t bytes) {
    if (lies_in(place, bytes)) return true;
    if (grown_) space_ = grown_();
    return lies_in(place, bytes);
  }

  [[nodiscard]] uint64_t chunks_max() const noexcept { return chunks_max_; }
  // How many chunks are mapped.
  [[nodiscard]] uint64_t chunks() const noexcept;
  [[nodiscard]] Offset chunk_word_at(uint64_t index) const noexcept { return chunk_table_.plus(index * 8); }
  // All ones, which no chunk's word is, for what lies in no chunk.
  [[nodiscard]] ChunkWord chunk_of(Offset place) const noexcept;

  [[nodiscard]] uint64_t bucket_count() const noexcept { return observe(kv::kBucketCountAt); }
  [[nodiscard]] Offset directory_word_at(uint64_t bucket) const noexcept {
    return directory_.plus(bucket / kv::kBucketsPerChunk * 8);
  }
  // Nowhere where the directory's word names no chunk of buckets. REQUIRES: index < bucket_count() as seen.
  [[nodiscard]] Offset bucket_at(uint64_t index);
  // Where the chain continues behind `line`, nowhere at its end; `is_sound` says whether what the word names
  // is a line.
  [[nodiscard]] Offset line_after(Offset line, bool& is_sound);

  struct Entry {
    uint64_t stamp = 0;
    kv::Lengths lengths{};
    std::string key;
    uint64_t hash = 0;
    const char* fault = nullptr;  // Null: nothing is wrong. Else only what was read before it is set.
  };
  // One look at what a slot names. REQUIRES: the buffer's header is inside.
  [[nodiscard]] Entry entry_of(kv::Slot slot);
  // How an entry and the bucket in which it was found go together. A split publishes the bucket count before
  // it clears the old places, and a server may have ended in between: what then stands in both is moving.
  enum class Standing : uint8_t { kRight, kMoving, kWrong };
  [[nodiscard]] Standing standing_of(uint64_t hash, uint64_t bucket) const noexcept;
  // Likewise, whether an entry of the bucket may stand in two of its lines.
  [[nodiscard]] bool comes_forward(uint64_t bucket) const noexcept;

  [[nodiscard]] uint64_t hash_seed() const noexcept { return hash_seed_; }

 private:
  [[nodiscard]] std::optional<Damage> read_root();
  [[nodiscard]] const char* fault_of_buffer(kv::Slot slot, uint64_t stamp, kv::Lengths lengths);

  std::span<const std::byte> space_;
  Grown grown_;
  Offset chunk_table_;
  Offset directory_;
  uint64_t chunks_max_ = 0;
  uint64_t hash_seed_ = 0;
};

}  // namespace refract::inspect
