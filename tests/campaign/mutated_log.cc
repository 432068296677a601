// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/mutated_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "refract/kv/layout/layout.h"

namespace refract::campaign {
namespace {

uint64_t word_at(const std::byte* base, Offset at) noexcept {
  uint64_t word = 0;
  std::memcpy(&word, base + at.value, sizeof(word));
  return word;
}

}  // namespace

bool MutatedLog::is_in_chunk(Offset at, ChunkKind kind) const noexcept {
  const Offset word{sizeof(SpaceHeader) + at.value / kChunkBytes * sizeof(ChunkWord)};
  return ChunkWord{word_at(memory_.owner(), word)}.kind() == kind;
}

uint64_t MutatedLog::bucket_of(Offset at) const noexcept {
  if (!is_in_chunk(at, ChunkKind::kBuckets)) return UINT64_MAX;
  kv::TableRoot root{};
  std::memcpy(&root, memory_.owner() + kv::kRootAt.value, sizeof(root));
  for (uint64_t i = 0; i < root.directory_words; ++i) {
    const uint64_t chunk = word_at(memory_.owner(), Offset{root.directory + i * 8});
    if (chunk == at.value / kChunkBytes * kChunkBytes) {
      return i * kv::kBucketsPerChunk + at.value % kChunkBytes / kLineBytes;
    }
  }
  return UINT64_MAX;
}

bool MutatedLog::is_held(Offset at, uint64_t word) noexcept {
  switch (mutation_) {
    case Mutation::kClearBeforeCount:
      // The stores of zero that follow reach others before the count.
      if (word != 0) catch_up();
      return at == kv::kBucketCountAt;
    case Mutation::kCountBeforeCopies: {
      // Until the old slots are cleared.
      if (at != kv::kBucketCountAt && word == 0) return false;
      const uint64_t bucket = bucket_of(at);
      const bool is_copy = bucket != UINT64_MAX && bucket >= word_at(memory_.owner(), kv::kBucketCountAt);
      if (!is_copy && at != kv::kBucketCountAt) catch_up();
      return is_copy;
    }
    case Mutation::kDecideLate:
      if (at == kv::kDecisionAt) return true;
      // The next entry that is placed or removed.
      if (is_in_chunk(at, ChunkKind::kBuckets) || is_in_chunk(at, ChunkKind::kLines)) catch_up();
      return false;
    case Mutation::kAcknowledgeEarly:
      if (word == 0 || !(is_in_chunk(at, ChunkKind::kBuckets) || is_in_chunk(at, ChunkKind::kLines))) {
        return false;
      }
      catch_up();
      return true;
    default:
      return false;
  }
}

void MutatedLog::hold_all(bool held) noexcept {
  holds_all_ = held && mutation_ == Mutation::kWordFirst;
  if (!holds_all_) catch_up();
}

void MutatedLog::stored(Offset at, std::span<const std::byte> bytes) noexcept {
  if (holds_all_) {
    for (uint64_t word = at.value / 8 * 8; word < at.value + bytes.size(); word += 8) {
      held_.push_back(Offset{word});
    }
    return;
  }
  if (bytes.size() == sizeof(uint64_t) && is_held(at, word_at(memory_.owner(), at))) {
    held_.push_back(at);
    return;
  }
  memory_.stored(at, bytes);
}

void MutatedLog::fenced() noexcept {
  catch_up();
  memory_.fenced();
}

void MutatedLog::catch_up() noexcept {
  for (const Offset at : std::exchange(held_, {})) {
    memory_.stored(at, {memory_.owner() + at.value, sizeof(uint64_t)});
  }
}

}  // namespace refract::campaign
