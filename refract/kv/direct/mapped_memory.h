// SPDX-License-Identifier: Apache-2.0
// The memory policy of a direct reader whose node's space is mapped here: plain loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "refract/kv/direct/held_bytes.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/same_bytes.h"
#include "refract/kv/layout/slot_match.h"
#include "refract/memory/copy_team.h"
#include "refract/memory/pins.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

// The spaces of a node's shards, as far as this process has mapped them.
class MappedSpaces {
 public:
  // Null: it is not mapped.
  [[nodiscard]] virtual const std::byte* space_of(uint32_t shard) const noexcept = 0;
  // Whether a transaction has happened that another node decides. Nothing: the owner has to be asked.
  [[nodiscard]] virtual std::optional<bool> has_happened_afar(
      const TransactionName& /*name*/) const noexcept {
    return std::nullopt;
  }

 protected:
  ~MappedSpaces() = default;
};

class MappedMemory {
 public:
  // `pins` may be null, and so may `team`, which shares copies of whole values. What is mapped may grow
  // (set_bytes), the base stays.
  MappedMemory(const std::byte* base, uint64_t bytes, PinWriter* pins, CopyTeam* team = nullptr) noexcept
      : base_(base), bytes_(bytes), pins_(pins), team_(team) {}

  [[nodiscard]] uint64_t observe(Offset at) const noexcept { return observe_u64(base_ + at.value); }
  void copy(void* target, Offset at, size_t bytes) const noexcept {
    copy_possibly_torn(target, base_ + at.value, bytes);
  }
  void copy_value(std::byte* target, Offset at, size_t bytes) const noexcept {
    if (team_ != nullptr) {
      team_->copy(target, base_ + at.value, bytes);
    } else {
      copy(target, at, bytes);
    }
  }
#ifndef REFRACT_THREAD_SANITIZER
  [[nodiscard, gnu::always_inline]] HeldBytes hold(Offset at) const noexcept {
    return HeldBytes(base_ + at.value);
  }
#endif
  [[nodiscard, gnu::always_inline]] bool equals(Offset at, std::span<const std::byte> bytes) const noexcept {
    return same_bytes(base_ + at.value, bytes.data(), bytes.size());
  }
  [[nodiscard]] uint32_t match(Offset bucket, uint8_t fingerprint) const noexcept {
    return match_slots(base_ + bucket.value, fingerprint);
  }
  [[gnu::always_inline]] void prefetch(Offset at) const noexcept { __builtin_prefetch(base_ + at.value); }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] PinWriter* pins() const noexcept { return pins_; }

  // From now on words of other shards are looked for there; null: they are not.
  void reach(const MappedSpaces* spaces) noexcept { spaces_ = spaces; }
  // What says whether the transaction of this number has happened.
  [[nodiscard, gnu::noinline, gnu::cold]] std::optional<uint64_t> observe_word(
      DecisionPlace place, uint64_t number) const noexcept {
    if (place.is_far()) return observe_afar({.place = place, .number = number});
    const auto& own = *reinterpret_cast<const SpaceHeader*>(base_);
    const std::byte* home = place.shard() == own.shard_index ? base_ : nullptr;
    if (home == nullptr && spaces_ != nullptr) home = spaces_->space_of(place.shard());
    if (home == nullptr) return std::nullopt;
    // The same seed: it is the memory of the same node.
    const auto& header = *reinterpret_cast<const SpaceHeader*>(home);
    if (header.hash_seed != own.hash_seed || !leads_to_word(place, header)) return std::nullopt;
    return observe_u64(home + place.at().value);
  }

  [[nodiscard]] const std::byte* at(Offset at) const noexcept { return base_ + at.value; }
  void set_bytes(uint64_t bytes) noexcept { bytes_ = bytes; }

 private:
  // Another node decides it: docs/design/070.
  [[nodiscard]] std::optional<uint64_t> observe_afar(const TransactionName& name) const noexcept {
    const std::optional<bool> has_happened =
        spaces_ != nullptr ? spaces_->has_happened_afar(name) : std::nullopt;
    if (!has_happened) return std::nullopt;
    return (*has_happened ? Decision::committed(name.number) : Decision::aborted(name.number)).bits;
  }

  const std::byte* base_;
  uint64_t bytes_;
  PinWriter* pins_;
  CopyTeam* team_;
  const MappedSpaces* spaces_ = nullptr;
};

}  // namespace refract::kv
