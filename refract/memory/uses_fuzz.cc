// SPDX-License-Identifier: Apache-2.0
// Any bytes as pages in which a reader says what it has used, one page after another from the same reader:
// whatever stands there, a look takes no more than a page has, and nothing twice unless it was written twice.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "refract/base/check.h"
#include "refract/memory/uses.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace refract;
  UseReader reader;
  const auto page = std::make_unique<UseTable>();
  uint64_t written = 0;
  while (size > 0) {
    const size_t bytes = std::min(size, 1 + size_t{data[0]} * 17);
    std::memcpy(page.get(), data, std::min(bytes, sizeof(UseTable)));
    data += bytes;
    size -= bytes;
    std::vector<uint64_t> hashes;
    reader.collect(*page, hashes);
    REFRACT_CHECK(hashes.size() == std::min<uint64_t>(page->written - written, kUsesMax));
    written = page->written;
    for (const uint64_t hash : hashes)
      REFRACT_CHECK(std::ranges::find(page->hash, hash) != std::end(page->hash));
    hashes.clear();
    reader.collect(*page, hashes);
    REFRACT_CHECK(hashes.empty());
  }
  return 0;
}
