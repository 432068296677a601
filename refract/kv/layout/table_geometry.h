// SPDX-License-Identifier: Apache-2.0
// Where a table's buckets lie, as its root and directory said when a remote reader looked last. A table only
// grows, so what is known stays true; a reader that looks for a key learns the count again on the way.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "refract/kv/layout/layout.h"
#include "refract/memory/space.h"

namespace refract::kv {

class TableGeometry {
 public:
  TableGeometry() = default;
  TableGeometry(const TableRoot& root, uint64_t hash_seed)
      : hash_seed_(hash_seed),
        count_(root.bucket_count),
        directory_(root.directory),
        chunks_(root.directory_words) {}

  // What the front of a space says: its header and the root, up to the root's end. Nothing: it holds no
  // table.
  static constexpr uint32_t kFrontBytes = kRootAt.value + sizeof(TableRoot);
  [[nodiscard]] static std::optional<TableGeometry> of_front(
      std::span<const std::byte, kFrontBytes> front) noexcept {
    TableRoot root{};
    uint64_t hash_seed = 0;
    uint64_t magic = 0;
    std::memcpy(&magic, front.data(), sizeof(magic));
    std::memcpy(&hash_seed, front.data() + offsetof(SpaceHeader, hash_seed), sizeof(hash_seed));
    std::memcpy(&root, front.data() + kRootAt.value, sizeof(root));
    if (magic != kSpaceMagic || root.bucket_count == 0 || root.directory_words >= kDirectoryWordsMax)
      return {};
    return TableGeometry(root, hash_seed);
  }

  [[nodiscard]] uint64_t hash_seed() const noexcept { return hash_seed_; }
  [[nodiscard]] uint64_t count() const noexcept { return count_; }
  // Of a table that may have grown. It never shrinks; what does not fit its own past is no count.
  void note_count(uint64_t count) noexcept { count_ = std::max(count_, count); }

  // The index of the bucket of a hash. REQUIRES: count() > 0.
  [[nodiscard]] uint64_t index_of(uint64_t hash) const noexcept { return bucket_index(hash, count_); }
  // Nowhere: its chunk is not known yet; directory_word() says where that stands, or nowhere in a damaged
  // space.
  [[nodiscard]] Offset bucket_at(uint64_t index) const noexcept {
    const uint64_t chunk = index / kBucketsPerChunk;
    if (chunk >= chunks_.size() || !chunks_[chunk]) return {};
    return chunks_[chunk].plus(index % kBucketsPerChunk * kLineBytes);
  }
  [[nodiscard]] Offset directory_word(uint64_t index) const noexcept {
    const uint64_t chunk = index / kBucketsPerChunk;
    return chunk < chunks_.size() ? Offset{directory_ + chunk * sizeof(uint64_t)} : Offset{};
  }
  void set_chunk(uint64_t index, Offset chunk) noexcept {
    if (index / kBucketsPerChunk < chunks_.size()) chunks_[index / kBucketsPerChunk] = chunk;
  }

 private:
  // More are damage; the directory is allocated here.
  static constexpr uint64_t kDirectoryWordsMax = uint64_t{1} << 24;

  uint64_t hash_seed_ = 0;
  uint64_t count_ = 0;
  uint64_t directory_ = 0;
  std::vector<Offset> chunks_;
};

}  // namespace refract::kv
