// SPDX-License-Identifier: Apache-2.0
// The memory of a campaign's direct readers. It knows when a buffer was reused under a read; and as a
// sabotage it can keep that from the reader: a stamp or slot that a read looks at twice is then what it was
// at first.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "refract/fabric/sim/visible_memory.h"
#include "refract/kv/test_sim_reader_memory.h"
#include "refract/memory/space.h"

namespace refract::campaign {

class WatchedMemory {
 public:
  WatchedMemory(const sim::ReaderMemory& memory, const std::byte* image, PinWriter* pins, bool blind) noexcept
      : memory_(memory, pins), image_(image), blind_(blind) {}

  // Forgets what was looked at so far. Ends with whether a buffer was reused since.
  void begin_read() noexcept {
    first_looks_.clear();
    overtaken_ = false;
  }
  [[nodiscard]] bool overtaken() const noexcept { return overtaken_; }

  [[nodiscard]] uint64_t observe(Offset at) {
    const uint64_t word = memory_.observe(at);
    const auto [first, is_first] = first_looks_.try_emplace(at.value, word);
    if (is_first || first->second == word) return word;
    // The only words of buffers that are looked at twice are stamps.
    overtaken_ = overtaken_ || is_in_buffer(at);
    if (!blind_ || at == kv::kBucketCountAt) first->second = word;
    return first->second;
  }
  void copy(void* target, Offset at, size_t bytes) noexcept { memory_.copy(target, at, bytes); }
  [[nodiscard]] bool equals(Offset at, std::span<const std::byte> bytes) { return memory_.equals(at, bytes); }
  [[nodiscard]] uint32_t match(Offset bucket, uint8_t fingerprint) noexcept {
    return memory_.match(bucket, fingerprint);
  }
  void prefetch(Offset at) const noexcept { memory_.prefetch(at); }
  [[nodiscard]] uint64_t bytes() const noexcept { return memory_.bytes(); }
  [[nodiscard]] PinWriter* pins() const noexcept { return memory_.pins(); }

 private:
  [[nodiscard]] bool is_in_buffer(Offset at) const noexcept {
    const uint64_t chunk = at.value / kChunkBytes;
    const ChunkWord word{observe_u64(image_ + sizeof(SpaceHeader) + chunk * sizeof(ChunkWord))};
    return word.kind() == ChunkKind::kSlab || word.kind() == ChunkKind::kExtent;
  }

  kv::SimReaderMemory memory_;
  const std::byte* image_;
  bool blind_;
  bool overtaken_ = false;
  std::map<uint64_t, uint64_t> first_looks_;
};

}  // namespace refract::campaign
