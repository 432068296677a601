// SPDX-License-Identifier: Apache-2.0
// The memory policy of a direct reader whose node's space is mapped here: plain loads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "refract/kv/direct/held_bytes.h"
#include "refract/kv/layout/slot_match.h"
#include "refract/memory/copy_team.h"
#include "refract/memory/pins.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

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
    return equals(base_ + at.value, bytes.data(), bytes.size());
  }
  [[nodiscard]] uint32_t match(Offset bucket, uint8_t fingerprint) const noexcept {
    return match_slots(base_ + bucket.value, fingerprint);
  }
  [[gnu::always_inline]] void prefetch(Offset at) const noexcept { __builtin_prefetch(base_ + at.value); }
  [[nodiscard]] uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] PinWriter* pins() const noexcept { return pins_; }

  [[nodiscard]] const std::byte* at(Offset at) const noexcept { return base_ + at.value; }
  void set_bytes(uint64_t bytes) noexcept { bytes_ = bytes; }

 private:
  // Eight bytes at a time, the last overlapping: keys are short, and a call costs as much as the compare.
  [[nodiscard, gnu::always_inline]] static bool equals(const std::byte* left, const std::byte* right,
                                                       size_t bytes) noexcept {
#ifdef REFRACT_THREAD_SANITIZER
    for (size_t i = 0; i < bytes; ++i) {
      std::byte byte;
      copy_possibly_torn(&byte, left + i, 1);
      if (byte != right[i]) return false;
    }
    return true;
#else
    if (bytes < 8) [[unlikely]]
      return equals_short(left, right, bytes);
    if (!equal_words<uint64_t>(left, right)) return false;
    if (!equal_words<uint64_t>(left + bytes - 8, right + bytes - 8)) return false;
    if (bytes <= 16) [[likely]]
      return true;
    for (size_t at = 8; at + 8 < bytes; at += 8) {
      if (!equal_words<uint64_t>(left + at, right + at)) return false;
    }
    return true;
#endif
  }

#ifndef REFRACT_THREAD_SANITIZER
  template <typename Word>
  [[nodiscard, gnu::always_inline]] static bool equal_words(const std::byte* left,
                                                            const std::byte* right) noexcept {
    Word a;
    Word b;
    std::memcpy(&a, left, sizeof(a));
    std::memcpy(&b, right, sizeof(b));
    return a == b;
  }
  [[nodiscard, gnu::always_inline]] static bool equals_short(const std::byte* left, const std::byte* right,
                                                             size_t bytes) noexcept {
    if (bytes >= 4) {
      return equal_words<uint32_t>(left, right) && equal_words<uint32_t>(left + bytes - 4, right + bytes - 4);
    }
    for (size_t i = 0; i < bytes; ++i) {
      if (left[i] != right[i]) return false;
    }
    return true;
  }
#endif

  const std::byte* base_;
  uint64_t bytes_;
  PinWriter* pins_;
  CopyTeam* team_;
};

}  // namespace refract::kv
