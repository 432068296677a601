// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/uses.h"

#include <algorithm>

#include "refract/memory/remote_visible.h"

namespace refract {

UseWriter::UseWriter(UseTable* table) noexcept
    : table_(table), written_(observe_u64(&table->written)), next_(written_ % kUsesMax) {}

void UseSampler::start(uint64_t reads_per_use, uint64_t reads) noexcept {
  gap_max_ = reads_per_use == 0 ? 0 : 2 * reads_per_use - 1;
  due_ = kNever;
  if (gap_max_ != 0) taken(reads);
}

void UseSampler::taken(uint64_t reads) noexcept {
  due_ = reads + 1 + prng_.below(gap_max_);
}

void UseReader::collect(const UseTable& table, std::vector<uint64_t>& hashes) {
  const uint64_t written = observe_u64(&table.written);
  // Whatever the word says, so much and no more is read; a writer that went back begins again.
  const uint64_t fresh = std::min<uint64_t>(written - read_, kUsesMax);
  for (uint64_t n = written - fresh; n != written; ++n) {
    hashes.push_back(observe_u64(&table.hash[n % kUsesMax]));
  }
  read_ = written;
}

}  // namespace refract
