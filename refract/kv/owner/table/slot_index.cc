// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/slot_index.h"

#include <utility>

#include "refract/base/check.h"

namespace refract::kv {

SlotIndex::SlotIndex(int depth_max) : depth_max_(depth_max) {
  begin();
}

void SlotIndex::begin() {
  owned_.clear();
  owned_.push_back(std::make_unique<Segment>());
  directory_.assign(1, owned_.back().get());
  depth_ = 0;
  size_ = 0;
  segments_ = 1;
}

// Along a run of words; it ends, because no segment is ever full.
void SlotIndex::insert(Segment& segment, uint64_t word) noexcept {
  size_t at = home_of(word >> kPlaceBits);
  while (segment.words[at] != 0) at = behind(at);
  segment.words[at] = word;
  ++segment.used;
}

void SlotIndex::add(uint64_t hash, uint64_t place) {
  REFRACT_DCHECK((place + 1) >> kPlaceBits == 0);
  const uint64_t tag = hash >> kPlaceBits;
  Segment* segment = segment_of(tag);
  while (segment->used >= kFull && segment->depth < depth_max_) {
    split(tag);
    segment = segment_of(tag);
  }
  while (segment->used >= kFull) {
    if (segment->behind == nullptr) {
      segment->behind = std::make_unique<Segment>();
      segment->behind->depth = segment->depth;
      ++segments_;
    }
    segment = segment->behind.get();
  }
  insert(*segment, tag << kPlaceBits | (place + 1));
  ++size_;
}

void SlotIndex::split(uint64_t tag) {
  Segment* const low = segment_of(tag);
  if (low->depth == depth_) {
    std::vector<Segment*> twice;
    twice.reserve(2 * directory_.size());
    for (Segment* const segment : directory_) twice.insert(twice.end(), 2, segment);
    directory_ = std::move(twice);
    ++depth_;
  }
  owned_.push_back(std::make_unique<Segment>());
  ++segments_;
  Segment* const high = owned_.back().get();
  const int bit = kTagBits - ++low->depth;
  high->depth = low->depth;
  const std::array<uint64_t, kWordsPerSegment> words = std::exchange(low->words, {});
  low->used = 0;
  for (const uint64_t word : words) {
    if (word != 0) insert((word >> (kPlaceBits + bit) & 1) != 0 ? *high : *low, word);
  }
  // The directory's places of both stand side by side.
  const size_t span = size_t{1} << (depth_ - low->depth);
  const size_t first = directory_at(tag >> (bit + 1) << (bit + 1));
  for (size_t i = 0; i < span; ++i) directory_[first + span + i] = high;
}

bool SlotIndex::remove(uint64_t hash, uint64_t place) {
  const uint64_t tag = hash >> kPlaceBits;
  const uint64_t wanted = tag << kPlaceBits | (place + 1);
  for (Segment* segment = segment_of(tag); segment != nullptr; segment = segment->behind.get()) {
    for (size_t at = home_of(tag); segment->words[at] != 0; at = behind(at)) {
      if (segment->words[at] != wanted) continue;
      erase_at(*segment, at);
      if (--size_ == 0 && segments_ > 1) begin();
      return true;
    }
  }
  return false;
}

// What stands behind moves up as far as its home allows, so that no gap ends a run too early.
void SlotIndex::erase_at(Segment& segment, size_t at) noexcept {
  --segment.used;
  for (size_t next = behind(at); segment.words[next] != 0; next = behind(next)) {
    const size_t home = home_of(segment.words[next] >> kPlaceBits);
    const size_t from_home = (next - home) % kWordsPerSegment;
    const size_t from_gap = (next - at) % kWordsPerSegment;
    if (from_home < from_gap) continue;
    segment.words[at] = segment.words[next];
    at = next;
  }
  segment.words[at] = 0;
}

}  // namespace refract::kv
