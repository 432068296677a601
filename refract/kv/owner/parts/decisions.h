// SPDX-License-Identifier: Apache-2.0
// The decision words of all shards of a node with keys, as their owners share them: docs/design/066.
//
// Threads: any of the process that owns the spaces.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/memory/writer.h"

namespace refract::kv {

class Decisions final : public MappedSpaces {
 public:
  struct Home {
    std::byte* space = nullptr;
    StoreLog* log = nullptr;  // Told of each store; null: no receiver.
  };
  // The spaces of the shards, by their numbers: formatted, and mapped as long as this lives.
  explicit Decisions(std::span<const Home> homes);

  [[nodiscard]] uint32_t shards() const noexcept { return static_cast<uint32_t>(homes_.size()); }
  // Whose space begins there. REQUIRES: it is one of them.
  [[nodiscard]] uint32_t shard_at(const std::byte* space) const noexcept;
  [[nodiscard]] const std::byte* space_of(uint32_t shard) const noexcept override;
  [[nodiscard]] static Offset first_word(const std::byte* space) noexcept;
  [[nodiscard]] DecisionPlace place_of(uint32_t shard, size_t word) const noexcept {
    return DecisionPlace::of(shard, homes_[shard].words_at.plus(word * sizeof(uint64_t)));
  }
  // Whether it leads to a word.
  [[nodiscard]] bool is_sound(DecisionPlace place) const noexcept;

  // REQUIRES of all that follow: is_sound(place).
  [[nodiscard]] Decision look(DecisionPlace place) const noexcept;
  // Decides, unless this number or a later one has been decided, or the word has committed one, or is
  // claimed: what is committed stays until renew(), since parts may have to look at it. What the word says
  // then.
  Decision decide(DecisionPlace place, Decision wanted) noexcept;
  // By its home alone: what follows on what it has claimed, or has committed unconfirmed.
  void replace(DecisionPlace place, Decision wanted) noexcept;
  // By its home alone: numbers up to this one are over. REQUIRES: it has committed none, or no part is left.
  void renew(DecisionPlace place, uint64_t number) noexcept;

  // How many parts may still look at the word: of any of its numbers. A part is counted before it first looks
  // at its word, so that a word that is used again is seen by it, or it by who wants to use the word.
  void begin_part(DecisionPlace place) noexcept;
  void end_part(DecisionPlace place) noexcept;
  [[nodiscard]] uint32_t parts(DecisionPlace place) const noexcept;

  // A shard has settled what a killed server has left, and its log has confirmed that. Until all have, no
  // word is given out.
  void recovered() noexcept { recovered_.fetch_add(1); }
  [[nodiscard]] bool are_recovered() const noexcept { return recovered_.load() >= homes_.size(); }

 private:
  struct Words {
    Home home;
    Offset words_at;
    std::unique_ptr<std::atomic<uint32_t>[]> parts;
  };
  [[nodiscard]] std::atomic<uint32_t>& parts_at(DecisionPlace place) const noexcept;
  void tell(DecisionPlace place) const noexcept;
  [[nodiscard]] uint64_t& word_at(DecisionPlace place) const noexcept;

  std::vector<Words> homes_;
  std::atomic<size_t> recovered_ = 0;
};

}  // namespace refract::kv
