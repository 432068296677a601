// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/pointer_chase.h"

#include <utility>

#include "refract/base/prng.h"

namespace refract::bench {

Reported<PointerChase> PointerChase::create(size_t bytes, Pages pages) {
  Reported<AnonymousMemory> memory = AnonymousMemory::create(bytes, pages);
  if (!memory) return report(memory.error());
  PointerChase chase(std::move(*memory));
  const uint64_t count = chase.memory_.bytes() / sizeof(Line);
  // Sattolo's shuffle leaves one cycle through everything, so that no short circle stays in a cache.
  for (uint64_t i = 0; i < count; ++i) chase.lines_[i].words[0] = i;
  Prng prng(7);
  for (uint64_t i = count - 1; i > 0; --i) {
    std::swap(chase.lines_[i].words[0], chase.lines_[prng.below(i)].words[0]);
  }
  return chase;
}

}  // namespace refract::bench
