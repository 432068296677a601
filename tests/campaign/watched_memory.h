// SPDX-License-Identifier: Apache-2.0
// The memory of a campaign's direct readers. It knows when a buffer was reused under a read; and as a
// mutation it can keep that from the reader: what a read looks at twice is then what it was at first, or a
// stamp is whatever its slot says.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "tests/campaign/mutation.h"

#include "refract/fabric/sim/visible_memory.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/testing/test_sim_reader_memory.h"
#include "refract/memory/space.h"

namespace refract::campaign {

// Words of a node's shards, for readers of one of them (TableView's observe_word()).
class WordSource {
 public:
  // Nothing: the reader does not reach it.
  [[nodiscard]] virtual std::optional<uint64_t> word_at(kv::DecisionPlace place) noexcept = 0;

 protected:
  ~WordSource() = default;
};

class WatchedMemory {
 public:
  // What was looked at in one read. Lies outside, because readers copy their memory.
  struct Looks {
    bool overtaken = false;
    std::map<uint64_t, uint64_t> first;
    std::map<uint64_t, uint64_t> slots;        // By the buffer they name.
    std::map<uint64_t, uint64_t> true_stamps;  // By what the reader was told.
    int lines = 0;                             // Of the chain at hand.
  };

  WatchedMemory(const sim::ReaderMemory& memory, const std::byte* image, PinWriter* pins, Looks& looks,
                Mutation mutation) noexcept
      : memory_(memory, pins), image_(image), looks_(&looks), mutation_(mutation) {}

  // Outlives the readers. Null: they reach no word.
  void reach(WordSource* words) noexcept { words_ = words; }
  [[nodiscard]] std::optional<uint64_t> observe_word(kv::DecisionPlace place, uint64_t number) noexcept {
    if (place.is_far()) return observe_afar(number);
    if (words_ == nullptr) return std::nullopt;
    return mutation_ == Mutation::kIgnoreWords ? std::optional<uint64_t>(0) : words_->word_at(place);
  }
  // Of another node's transaction: nothing, since its owner alone can tell.
  [[nodiscard]] std::optional<uint64_t> observe_afar(uint64_t number) const noexcept {
    if (mutation_ == Mutation::kFarIsDone) return kv::Decision::committed(number).bits;
    if (mutation_ == Mutation::kFarIsUndone) return kv::Decision::aborted(number).bits;
    return std::nullopt;
  }

  // Forgets what was looked at so far. Ends with whether a buffer was reused since.
  void begin_read() noexcept { *looks_ = {}; }
  [[nodiscard]] bool overtaken() const noexcept { return looks_->overtaken; }

  [[nodiscard]] uint64_t observe(Offset at) {
    const uint64_t word = as_wanted(at, memory_.observe(at));
    const auto [first, is_first] = looks_->first.try_emplace(at.value, word);
    if (is_first || first->second == word) return word;
    // The only words of buffers that are looked at twice are stamps, and the flags of what is pending.
    const bool is_stamp = is_in_buffer(at);
    looks_->overtaken = looks_->overtaken || is_stamp;
    if (!is_hidden(at, is_stamp)) first->second = word;
    return first->second;
  }
  // What the version is that a read gave, whatever it took for its stamp.
  [[nodiscard]] uint64_t true_version(uint64_t version) const noexcept {
    const auto found = looks_->true_stamps.find(version);
    return found == looks_->true_stamps.end() ? version : found->second;
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
  // Whether the reader keeps what it saw at first.
  [[nodiscard]] bool is_hidden(Offset at, bool is_stamp) const noexcept {
    if (at == kv::kBucketCountAt) return mutation_ == Mutation::kNoSecondCount;
    return mutation_ == Mutation::kBlindReaders || (mutation_ == Mutation::kNoSecondSlot && !is_stamp);
  }
  // The word that says where a chain continues, as a reader would have it that believes that none is long.
  [[nodiscard]] uint64_t end_of_chain(Offset at, uint64_t word) {
    if (at.value % kLineBytes != kv::kOverflowWord * sizeof(kv::Slot)) return word;
    const ChunkKind kind = kind_at(at);
    if (kind != ChunkKind::kBuckets && kind != ChunkKind::kLines) return word;
    looks_->lines = kind == ChunkKind::kBuckets ? 1 : looks_->lines + 1;
    return looks_->lines == kv::kLinesWalked ? 0 : word;
  }
  // A stamp that fits the slot that was looked at before it.
  [[nodiscard]] uint64_t as_wanted(Offset at, uint64_t word) {
    if (mutation_ == Mutation::kShortChains) return end_of_chain(at, word);
    if (mutation_ == Mutation::kBelievePending) return is_lengths(at) ? without_pending(word) : word;
    if (mutation_ != Mutation::kNoStampCheck) return word;
    if (!is_in_buffer(at)) {
      const kv::Slot slot{word};
      looks_->slots[slot.buffer().value] = word;
      return word;
    }
    const auto slot = looks_->slots.find(at.value);
    if (slot == looks_->slots.end()) return word;
    const uint64_t stamp = (uint64_t{1} << 63) | (slot->second >> kv::Slot::kStampShift & 0xffff);
    looks_->true_stamps.try_emplace(stamp, word);
    return stamp;
  }
  // A buffer's second word, whose first was looked at before it.
  [[nodiscard]] bool is_lengths(Offset at) const noexcept {
    return is_in_buffer(at) && looks_->first.contains(at.value - offsetof(kv::BufferHeader, lengths));
  }
  [[nodiscard]] static uint64_t without_pending(uint64_t word) noexcept {
    return kv::Lengths::from_word(word).without_batch().word();
  }
  [[nodiscard]] ChunkKind kind_at(Offset at) const noexcept {
    const uint64_t chunk = at.value / kChunkBytes;
    return ChunkWord{observe_u64(image_ + sizeof(SpaceHeader) + chunk * sizeof(ChunkWord))}.kind();
  }
  [[nodiscard]] bool is_in_buffer(Offset at) const noexcept {
    const ChunkKind kind = kind_at(at);
    return kind == ChunkKind::kSlab || kind == ChunkKind::kExtent;
  }

  kv::SimReaderMemory memory_;
  const std::byte* image_;
  Looks* looks_;
  Mutation mutation_;
  WordSource* words_ = nullptr;
};

}  // namespace refract::campaign
