// SPDX-License-Identifier: Apache-2.0
// A node's mapped memory that notes every look a direct reader takes at it: the reader itself is the one that
// programs use.
//
// Threads: one. Copies note into the same list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/clock.h"
#include "refract/kv/direct/mapped_memory.h"

namespace refract::cli {

struct MemoryLook {
  enum class Kind : uint8_t { kWord, kMatch, kCompare, kCopy };
  Kind kind{};
  Offset at;
  uint64_t bytes = 0;
  uint64_t value = 0;  // kWord: the word. kMatch: the slots that may be it, a bit each. kCompare: 1, equal.
  uint64_t asked = 0;  // kMatch: the fingerprint.
  uint64_t ns = 0;     // When it was done.
};

class TracingMemory {
 public:
  // `looks` outlives the memory and its copies.
  TracingMemory(const std::byte* base, uint64_t bytes, std::vector<MemoryLook>& looks) noexcept
      : memory_(base, bytes, nullptr), looks_(&looks) {}

  [[nodiscard]] uint64_t observe(Offset at) const {
    const uint64_t value = memory_.observe(at);
    note({.kind = MemoryLook::Kind::kWord, .at = at, .bytes = 8, .value = value});
    return value;
  }
  void copy(void* target, Offset at, size_t bytes) const {
    memory_.copy(target, at, bytes);
    note({.kind = MemoryLook::Kind::kCopy, .at = at, .bytes = bytes});
  }
  [[nodiscard]] bool equals(Offset at, std::span<const std::byte> bytes) const {
    const bool equal = memory_.equals(at, bytes);
    note({.kind = MemoryLook::Kind::kCompare, .at = at, .bytes = bytes.size(), .value = equal ? 1U : 0U});
    return equal;
  }
  [[nodiscard]] uint32_t match(Offset bucket, uint8_t fingerprint) const {
    const uint32_t hits = memory_.match(bucket, fingerprint);
    note({.kind = MemoryLook::Kind::kMatch, .at = bucket, .bytes = 56, .value = hits, .asked = fingerprint});
    return hits;
  }
  void prefetch(Offset at) const noexcept { memory_.prefetch(at); }
  [[nodiscard]] uint64_t bytes() const noexcept { return memory_.bytes(); }
  [[nodiscard]] PinWriter* pins() const noexcept { return nullptr; }

 private:
  void note(MemoryLook look) const {
    look.ns = system_clock().now_ns();
    looks_->push_back(look);
  }

  kv::MappedMemory memory_;
  std::vector<MemoryLook>* looks_;
};

}  // namespace refract::cli
