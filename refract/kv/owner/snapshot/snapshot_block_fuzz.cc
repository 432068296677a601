// SPDX-License-Identifier: Apache-2.0
// Any bytes as the blocks of a snapshot: refused, or entries within the contract's limits. Each block is two
// bytes of length, a byte of kind, a byte of entries, and its bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "refract/base/check.h"
#include "refract/kv/owner/snapshot/snapshot_block.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace refract;
  using namespace refract::kv;
  SnapshotBlockReader reader;
  while (size > 4) {
    const size_t bytes = std::min<size_t>(size - 4, data[0] | (size_t{data[1]} << 8));
    // Storage of exactly that length, so that the sanitizer sees a read behind it.
    std::vector<std::byte> block(bytes);
    std::copy_n(reinterpret_cast<const std::byte*>(data + 4), bytes, block.begin());
    const Result<> begun =
        reader.begin({.kind = static_cast<SnapshotBlockKind>(data[2]), .entries = data[3], .bytes = block});
    if (!begun) return 0;
    SnapshotEntry entry;
    Result<> more = reader.next(entry);
    for (; more; more = reader.next(entry)) {
      REFRACT_CHECK(entry.stamp != 0 && !entry.key.empty() && entry.value.size() <= kValueBytesMax);
      uint64_t sum = 0;
      for (const std::byte byte : entry.key) sum += std::to_integer<uint64_t>(byte);
      for (const std::byte byte : entry.value) sum += std::to_integer<uint64_t>(byte);
      REFRACT_CHECK(sum <= 255 * (entry.key.size() + entry.value.size()));
    }
    if (more.error().code != Code::kNotFound) return 0;
    data += 4 + bytes;
    size -= 4 + bytes;
  }
  return 0;
}
