// SPDX-License-Identifier: Apache-2.0
// What the owner knows of buckets with long chains, so that none of its work on one grows with the chain:
// where each key's slot is, which slots are free, the chain's lines. docs/design/041-crowded-buckets.md.
//
// Every client knows the seed of the keys' hash, so that any number of keys can be chosen to fall into one
// bucket. A bucket is crowded when its chain has more lines than readers follow (kLinesWalked); from then on
// it has a Crowd, until it has become half as long. The keys of a crowd are found by a hash whose key no
// other process knows. Nothing of this is in the space: it is gathered again at recovery, and no result
// depends on it.
//
//   (C1) Every bucket whose chain has more than kLinesWalked lines has a crowd.
//   (C2) A crowd's `lines` are its chain, the index has a word for each of its entries and no other, and
//        `free` names each of its free slots at least once.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "refract/base/secret_hash.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/table/slot_index.h"
#include "refract/memory/writer.h"

namespace refract::kv {

// A slot of a chain: eight for each line, in the chain's order, so that it says what a trimmed line said.
struct ChainPlace {
  uint64_t number = 0;
  [[nodiscard]] static constexpr ChainPlace of(uint64_t line, uint64_t slot) noexcept {
    return {line * 8 + slot};
  }
  [[nodiscard]] constexpr uint64_t line() const noexcept { return number / 8; }
  [[nodiscard]] constexpr uint64_t slot() const noexcept { return number % 8; }
};

class Crowd {
 public:
  [[nodiscard]] std::span<const Offset> lines() const noexcept { return lines_; }
  // Nowhere: its line is no longer there.
  [[nodiscard]] Offset at(ChainPlace place) const noexcept {
    return place.line() < lines_.size() ? lines_[place.line()].plus(place.slot() * sizeof(Slot)) : Offset{};
  }

 private:
  friend class Crowds;
  std::vector<Offset> lines_;
  std::vector<uint64_t> free_;  // A heap, the lowest place first. Some are not free any more.
};

class Crowds {
 public:
  // The writer outlives this. `birth` is another number whenever the chains' order may be another: for each
  // process that has the space.
  Crowds(const Writer& writer, uint64_t birth);

  // Null: the bucket is not crowded.
  [[nodiscard]] Crowd* of(uint64_t bucket) noexcept {
    if (crowds_at_[bucket % crowds_at_.size()] == 0) [[likely]]
      return nullptr;
    return look_up(bucket);
  }
  [[nodiscard]] size_t count() const noexcept { return crowds_.size(); }
  [[nodiscard]] size_t entries() const noexcept { return index_.size(); }
  // Of the process's memory, about.
  [[nodiscard]] uint64_t bytes() const noexcept;

  // Makes the bucket's crowd from its chain. REQUIRES: it has none; the chain is sound.
  Crowd& gather(uint64_t bucket, Offset first);
  // The bucket is crowded no longer.
  void dissolve(uint64_t bucket);

  // Where the key's entry stands; nowhere: it is not in this crowd.
  [[nodiscard]] Offset find(const Crowd& crowd, std::span<const std::byte> key) const;
  // The lowest free slot; nowhere: the chain is full.
  [[nodiscard]] Offset free_slot(Crowd& crowd) const;
  // Hints, one after the other: the misses of find() for several keys overlap.
  void prefetch(std::span<const std::byte> key) const noexcept { index_.prefetch(secret_(key)); }
  void prefetch_entry(const Crowd& crowd, std::span<const std::byte> key) const noexcept;

  // What the owner does to a crowd is told at once. A line was linked to its end:
  void linked(Crowd& crowd, Offset line);
  // free_slot() has got an entry with this key;
  void stored(Crowd& crowd, std::span<const std::byte> key);
  // the entry with this key leaves the slot;
  void removing(Crowd& crowd, std::span<const std::byte> key, Offset slot_at);
  void removing(Crowd& crowd, std::span<const std::byte> key, ChainPlace place);
  // the last line goes. REQUIRES: it is empty, and not the only one.
  static void trimmed(Crowd& crowd) noexcept { crowd.lines_.pop_back(); }
  // Buckets whose chain has more empty lines at its end than were to be unlinked at once.
  void trim_later(uint64_t bucket) { untrimmed_.push_back(bucket); }
  [[nodiscard]] std::optional<uint64_t> take_untrimmed() noexcept;

  // Cursors into a bucket (scan_cursor.h): which piece of its chain one means that piece_bits() gave; nothing
  // for one that another process gave. The piece may lie behind the chain's end by now.
  [[nodiscard]] std::optional<uint64_t> piece_of(uint64_t bucket, uint64_t piece_bits) const noexcept;
  [[nodiscard]] uint64_t piece_bits(uint64_t bucket, uint64_t piece) const noexcept;

  // Some lines in front of the one with this number, their entries are on their way from memory.
  void look_ahead(std::span<const Offset> lines, uint64_t line) const noexcept;

 private:
  [[nodiscard]] Crowd* look_up(uint64_t bucket) noexcept;
  [[nodiscard]] bool is_at(Offset slot_at, std::span<const std::byte> key) const noexcept;
  void push_free(Crowd& crowd, ChainPlace place) const;
  static void pop_free(Crowd& crowd);
  void note_lines(const Crowd& crowd) noexcept;
  [[nodiscard]] uint64_t first_piece(uint64_t bucket) const noexcept;

  const Writer& writer_;
  const uint64_t birth_;
  uint64_t pieces_max_ = 0;  // That any chain ever had: of cursors that others gave few are below it.
  const SecretHash secret_;
  SlotIndex index_;
  std::unordered_map<uint64_t, Crowd, SecretHasher> crowds_;
  // How many crowds have a bucket with these low bits: most buckets are told by it that they have none.
  std::array<uint32_t, 1024> crowds_at_{};
  std::vector<uint64_t> untrimmed_;
};

// The key of the entry that the slot names, as the owner sees it.
[[nodiscard]] std::span<const std::byte> key_in_slot(const Writer& writer, Slot slot) noexcept;

}  // namespace refract::kv
