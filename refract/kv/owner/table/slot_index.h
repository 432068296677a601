// SPDX-License-Identifier: Apache-2.0
// Which places belong to a hash: the owner's private index of the entries of crowded buckets (crowds.h).
//
// A word of 8 bytes for each: 28 bits of the hash, and the place. It grows by segments of 4 KiB that are
// split one at a time, so that no insertion takes longer than some microseconds however many there are; what
// a split needs of the hash stands in the word. With hashes that no client can choose, segments fill evenly.
//
// Threads: one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace refract::kv {

class SlotIndex {
 public:
  static constexpr int kPlaceBits = 36;
  static constexpr int kTagBits = 64 - kPlaceBits;
  static constexpr size_t kWordsPerSegment = 512;
  // Of the tag, what tells segments apart; the rest tells where in a segment a word belongs.
  static constexpr int kDepthMax = kTagBits - 9;

  // `depth_max`: for tests, which see what happens where no segment can be split any more.
  explicit SlotIndex(int depth_max = kDepthMax);

  // REQUIRES: place + 1 has kPlaceBits bits.
  void add(uint64_t hash, uint64_t place);
  // Takes one such word away; false: there is none.
  bool remove(uint64_t hash, uint64_t place);
  // A place that was added with this hash, or, seldom, with another one, and of which `is_it(place)` is true.
  template <typename IsIt>
  [[nodiscard]] std::optional<uint64_t> find(uint64_t hash, IsIt&& is_it) const {
    const uint64_t tag = hash >> kPlaceBits;
    for (const Segment* segment = segment_of(tag); segment != nullptr; segment = segment->behind.get()) {
      for (size_t at = home_of(tag); segment->words[at] != 0; at = behind(at)) {
        const uint64_t word = segment->words[at];
        if (word >> kPlaceBits == tag && is_it(place_of(word))) return place_of(word);
      }
    }
    return std::nullopt;
  }
  // So that find() of this hash meets no miss.
  void prefetch(uint64_t hash) const noexcept {
    const uint64_t tag = hash >> kPlaceBits;
    __builtin_prefetch(&segment_of(tag)->words[home_of(tag)]);
  }

  [[nodiscard]] size_t size() const noexcept { return size_; }
  // What it takes, without the directory's few bytes for each segment.
  [[nodiscard]] size_t bytes() const noexcept { return segments_ * sizeof(Segment); }

 private:
  struct Segment {
    std::array<uint64_t, kWordsPerSegment> words{};  // 0: free.
    size_t used = 0;
    int depth = 0;                    // So many bits of the tag are the same in all its words.
    std::unique_ptr<Segment> behind;  // Where it could not be split.
  };
  static_assert(kWordsPerSegment == size_t{1} << (kTagBits - kDepthMax));
  static constexpr size_t kFull = kWordsPerSegment / 4 * 3;

  [[nodiscard]] static constexpr size_t home_of(uint64_t tag) noexcept { return tag % kWordsPerSegment; }
  [[nodiscard]] static constexpr size_t behind(size_t at) noexcept { return (at + 1) % kWordsPerSegment; }
  [[nodiscard]] static constexpr uint64_t place_of(uint64_t word) noexcept {
    return (word & ((uint64_t{1} << kPlaceBits) - 1)) - 1;
  }
  [[nodiscard]] size_t directory_at(uint64_t tag) const noexcept { return tag >> (kTagBits - depth_); }
  [[nodiscard]] Segment* segment_of(uint64_t tag) const noexcept { return directory_[directory_at(tag)]; }

  void begin();
  static void insert(Segment& segment, uint64_t word) noexcept;
  static void erase_at(Segment& segment, size_t at) noexcept;
  void split(uint64_t tag);

  const int depth_max_;
  int depth_ = 0;
  std::vector<Segment*> directory_;
  std::vector<std::unique_ptr<Segment>> owned_;
  size_t size_ = 0;
  size_t segments_ = 0;
};

}  // namespace refract::kv
