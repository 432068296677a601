// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/table/slot_uses.h"

#include <algorithm>
#include <bit>

namespace refract::kv {
namespace {

constexpr uint64_t kTicksPerRound = 256;
// In which every word is looked at once. Shorter than ages can be told apart, so that none wraps round.
constexpr uint64_t kRoundsToGrowOlder = 32;

// Every so many times that a word is looked at its count is halved: often, and what is known is forgotten.
constexpr uint64_t kPassesToHalve = 8;

// Least recently used: the tick of the last use, and whether that was a sampled one.
constexpr uint32_t kSampledBit = 1 << 15;
constexpr uint32_t kTickMask = kSampledBit - 1;
// An entry whose use was sampled has been used about reads_per_use() times as often as was seen: it may stay
// for as much longer until it is seen again, or an entry that is read often would go between two samples.
constexpr uint32_t kSampledShift = 3;
static_assert(reads_per_use(EvictionPolicy::kLeastRecentlyUsed) == 1 << kSampledShift);

// Least often used: a count of seven bits, then the tick of the last use, in eighths of a round.
constexpr uint32_t kCountShift = 9;
constexpr uint32_t kCountMax = 127;
constexpr uint32_t kCoarseMask = (1 << kCountShift) - 1;
constexpr uint64_t kTicksPerCoarse = kTicksPerRound / 8;
// To halve a count that is larger than a mantissa.
constexpr uint32_t kCountsPerDoubling = 8;

// What a count stands for: an exponent of four bits and a mantissa of three, whose first bit is implied.
constexpr uint64_t uses_of(uint32_t count) noexcept {
  const uint32_t mantissa = count % kCountsPerDoubling;
  const uint32_t exponent = count / kCountsPerDoubling;
  return exponent == 0 ? mantissa : uint64_t{kCountsPerDoubling + mantissa} << (exponent - 1);
}
static_assert(uses_of(7) == 7 && uses_of(8) == 8 && uses_of(16) == 16 && uses_of(17) == 18);

}  // namespace

SlotUses::Word SlotUses::word_of(Offset slot_at) const noexcept {
  const size_t chunk = slot_at.value / kChunkBytes;
  if (chunk >= chunks_.size() || chunks_[chunk] == nullptr) return 0;
  return (*chunks_[chunk])[slot_at.value % kChunkBytes / sizeof(Slot)];
}

// Memory is taken with the first use of a chunk of table, which is when the table takes that chunk.
SlotUses::Word& SlotUses::word_at(Offset slot_at) {
  const size_t chunk = slot_at.value / kChunkBytes;
  if (chunk >= chunks_.size()) chunks_.resize(chunk + 1);
  if (chunks_[chunk] == nullptr) chunks_[chunk] = std::make_unique<Words>();
  return (*chunks_[chunk])[slot_at.value % kChunkBytes / sizeof(Slot)];
}

void SlotUses::stored(Offset slot_at) {
  pass(1);
  word_at(slot_at) = policy_ == EvictionPolicy::kLeastRecentlyUsed
                         ? static_cast<Word>(clock_ & kTickMask)
                         : static_cast<Word>(1 << kCountShift | (clock_ / kTicksPerCoarse & kCoarseMask));
}

void SlotUses::used(Offset slot_at) {
  pass(1);
  Word& word = word_at(slot_at);
  word = policy_ == EvictionPolicy::kLeastRecentlyUsed
             ? static_cast<Word>((word & kSampledBit) | (clock_ & kTickMask))
             : counted(word, 1);
}

void SlotUses::sampled(Offset slot_at) {
  pass(1);
  word_at(slot_at) = policy_ == EvictionPolicy::kLeastRecentlyUsed
                         ? static_cast<Word>(kSampledBit | (clock_ & kTickMask))
                         : counted(word_of(slot_at), reads_per_use(policy_));
}

void SlotUses::moved(Offset from, Offset to) {
  word_at(to) = word_of(from);
}

// Where a step of the count stands for more uses than there were, it is made with that much chance.
SlotUses::Word SlotUses::counted(Word word, uint64_t uses) noexcept {
  uint32_t count = word >> kCountShift;
  while (uses > 0 && count < kCountMax) {
    const uint64_t step = uses_of(count + 1) - uses_of(count);
    if (uses < step && prng_.below(step) >= uses) break;
    ++count;
    uses -= std::min(uses, step);
  }
  return static_cast<Word>(count << kCountShift | (clock_ / kTicksPerCoarse & kCoarseMask));
}

uint32_t SlotUses::age_of(Word word) const noexcept {
  if (policy_ == EvictionPolicy::kLeastRecentlyUsed) {
    return (static_cast<uint32_t>(clock_) - word) & kTickMask;
  }
  return (static_cast<uint32_t>(clock_ / kTicksPerCoarse) - word) & kCoarseMask;
}

uint32_t SlotUses::idleness(Offset slot_at) const noexcept {
  const Word word = word_of(slot_at);
  const uint32_t age = age_of(word);
  if (policy_ == EvictionPolicy::kLeastRecentlyUsed) {
    return (word & kSampledBit) != 0 ? age >> kSampledShift : age;
  }
  return (kCountMax - (word >> kCountShift)) << kCountShift | age;
}

bool SlotUses::is_far_busier(uint32_t idleness, uint32_t other) const noexcept {
  if (policy_ == EvictionPolicy::kLeastRecentlyUsed) {
    return uint64_t{idleness} * 4 + kTicksPerRound / 16 < other;
  }
  // By much more often; or no less often, and not so long ago.
  const uint32_t fewer = idleness >> kCountShift;
  const uint32_t others_fewer = other >> kCountShift;
  if (fewer + 2 * kCountsPerDoubling <= others_fewer) return true;
  return fewer <= others_fewer && (idleness & kCoarseMask) * 4 + 1 < (other & kCoarseMask);
}

void SlotUses::pass(uint64_t uses) {
  uses_ += uses;
  if (uses_ * kTicksPerRound < *entries_) return;
  uses_ = 0;
  tick();
}

void SlotUses::tick() {
  ++clock_;
  size_t left = chunks_.size() * kWordsPerChunk / (kRoundsToGrowOlder * kTicksPerRound) + 1;
  while (left > 0 && !chunks_.empty()) {
    if (word_ == kWordsPerChunk) {
      word_ = 0;
      ++chunk_;
    }
    if (chunk_ >= chunks_.size()) {
      chunk_ = 0;
      ++passes_;
    }
    if (chunks_[chunk_] == nullptr) {
      const size_t skipped = std::min(left, kWordsPerChunk - word_);
      word_ += skipped;
      left -= skipped;
      continue;
    }
    grow_older((*chunks_[chunk_])[word_++]);
    --left;
  }
}

// Ages stop before they would look young again; counts are halved, so that what was busy once can go.
void SlotUses::grow_older(Word& word) const noexcept {
  if (policy_ == EvictionPolicy::kLeastRecentlyUsed) {
    constexpr uint32_t kOldest = kTickMask / 2;
    if (age_of(word) <= kOldest) return;
    word = static_cast<Word>((word & kSampledBit) | ((clock_ - kOldest) & kTickMask));
    return;
  }
  constexpr uint32_t kOldest = kCoarseMask / 2;
  uint32_t count = word >> kCountShift;
  if (passes_ % kPassesToHalve == 0) {
    count = count < 2 * kCountsPerDoubling ? (count + 1) / 2 : count - kCountsPerDoubling;
  }
  const uint32_t age = std::min(age_of(word), kOldest);
  word = static_cast<Word>((count << kCountShift) | ((clock_ / kTicksPerCoarse - age) & kCoarseMask));
}

}  // namespace refract::kv
