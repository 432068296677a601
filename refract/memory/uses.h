// SPDX-License-Identifier: Apache-2.0
// Uses: how a server that evicts what was used least learns of reads that leave no trace.
//
// A reader owns one page, its UseTable, that the server can read. Of some reads it writes the key's hash
// there, round and round; what was not looked at in time is overwritten. The server trusts nothing of it: a
// hash names no place, so the worst a lying reader can do is to have entries kept that no client reads.
//
// The page has one writer and one reader, which is why nothing waits: docs/design/030-eviction.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "refract/base/prng.h"
#include "refract/memory/remote_visible.h"

namespace refract {

inline constexpr size_t kUsesMax = 510;

struct UseTable {
  uint64_t written;  // Hashes since the page was made; the last kUsesMax of them are there.
  uint64_t reserved;
  uint64_t hash[kUsesMax];  // Number n stands at n % kUsesMax.
};
static_assert(sizeof(UseTable) == 4096 && offsetof(UseTable, hash) == 16);
static_assert(std::is_trivially_copyable_v<UseTable>);
static_assert(std::has_unique_object_representations_v<UseTable>);

// The reader's side: the only writer of one table, used by one thread. The table outlives it.
class UseWriter {
 public:
  UseWriter() = default;
  // Continues where the table stands.
  explicit UseWriter(UseTable* table) noexcept;

  void write(uint64_t hash) noexcept {
    publish_u64(&table_->hash[next_], hash);
    if (++next_ == kUsesMax) next_ = 0;
    publish_u64(&table_->written, ++written_);
  }

 private:
  UseTable* table_ = nullptr;
  uint64_t written_ = 0;
  size_t next_ = 0;
};

// Which of a thread's reads are written down: one of `reads_per_use` on average, at random, so that no rhythm
// of a program hides what it reads. The common read compares its number with due() and does no more.
class UseSampler {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  // 0: none is, from now on.
  void start(uint64_t reads_per_use, uint64_t reads) noexcept;
  // From this number of reads on the next is to be written down.
  [[nodiscard]] uint64_t due() const noexcept { return due_; }
  // One was, after so many reads.
  void taken(uint64_t reads) noexcept;

 private:
  Prng prng_{0x72656164};  // Decides what is left out: no secret.
  uint64_t gap_max_ = 0;
  uint64_t due_ = kNever;
};

// The server's side of one untrusted table.
class UseReader {
 public:
  // Adds what was written since the last call, as far as it is still there: at most kUsesMax.
  void collect(const UseTable& table, std::vector<uint64_t>& hashes);

 private:
  uint64_t read_ = 0;
};

// Where an evicting owner learns what readers have used.
class UseSource {
 public:
  virtual ~UseSource() = default;
  // Adds hashes of keys that were read since the last call. They are not checked.
  virtual void collect_uses(std::vector<uint64_t>& hashes) = 0;
};

}  // namespace refract
