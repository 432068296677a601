// SPDX-License-Identifier: Apache-2.0
// What is remembered of how a table's slots were used: two bytes for each, private to the owner, nothing of
// it survives a restart. docs/design/030-eviction.md says why they look as they do.
//
// Time is counted in uses: a round is as many of them as there are entries. So an idle store forgets nothing.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/layout/layout.h"

namespace refract::kv {

// What makes an entry the next to be evicted.
enum class EvictionPolicy : uint8_t {
  kNone,  // Nothing does: a full memory says no_space.
  kLeastRecentlyUsed,
  kLeastOftenUsed,
};

// Of how many reads that the owner does not see one is written down. Fewer cost hit rate, more cost reads:
// counts need more of them than an order of time does.
[[nodiscard]] constexpr uint64_t reads_per_use(EvictionPolicy policy) noexcept {
  switch (policy) {
    case EvictionPolicy::kNone:
      return 0;
    case EvictionPolicy::kLeastRecentlyUsed:
      return 8;
    case EvictionPolicy::kLeastOftenUsed:
      break;
  }
  return 3;
}

class SlotUses {
 public:
  // REQUIRES: not kNone.
  explicit SlotUses(EvictionPolicy policy) noexcept : policy_(policy) {}
  // Where the number of entries stands from now on.
  void count_by(const uint64_t* entries) noexcept { entries_ = entries; }

  // An entry that was not there before has got this slot. REQUIRES, as all that follow: count_by().
  void stored(Offset slot_at);
  // The entry in this slot was used.
  void used(Offset slot_at);
  // One of some reads_per_use() uses of it was seen.
  void sampled(Offset slot_at);
  // The entry stands in another slot now.
  void moved(Offset from, Offset to);

  // The larger, the sooner it goes. Only to be compared with that of others.
  [[nodiscard]] uint32_t idleness(Offset slot_at) const noexcept;
  // Whether an entry has so much more to lose than another that both should not be treated alike.
  [[nodiscard]] bool is_far_busier(uint32_t idleness, uint32_t other) const noexcept;

 private:
  using Word = uint16_t;
  static constexpr size_t kWordsPerChunk = kChunkBytes / sizeof(Slot);
  using Words = std::array<Word, kWordsPerChunk>;

  [[nodiscard]] Word word_of(Offset slot_at) const noexcept;
  [[nodiscard]] Word& word_at(Offset slot_at);
  [[nodiscard]] uint32_t age_of(Word word) const noexcept;
  void pass(uint64_t uses);
  void tick();
  void grow_older(Word& word) const noexcept;
  [[nodiscard]] Word counted(Word word, uint64_t uses) noexcept;

  const EvictionPolicy policy_;
  Prng prng_{0x75736573};  // Decides how counts are rounded: no secret.
  const uint64_t* entries_ = nullptr;
  uint64_t clock_ = 1;  // In ticks.
  uint64_t uses_ = 0;   // In this tick.
  std::vector<std::unique_ptr<Words>> chunks_;
  // Where words grow older next.
  size_t chunk_ = 0;
  size_t word_ = 0;
  uint64_t passes_ = 1;
};

}  // namespace refract::kv
