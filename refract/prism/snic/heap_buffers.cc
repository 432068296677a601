// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/snic/heap_buffers.h"

namespace refract::prism::snic {

Result<Buffers::Fresh> HeapBuffers::allocate(uint64_t list, std::span<const std::byte> data) noexcept {
  if (list != 0) return fail(Code::kInvalidArgument);
  const uint64_t bytes = kHeaderBytes + data.size();
  const auto at = heap_.allocate(bytes);
  if (!at) return fail(Code::kNoSpace);
  // No stamp while the bytes change.
  writer_.withdraw(*at);
  if (!data.empty()) writer_.copy(at->plus(kHeaderBytes), data);
  const uint64_t stamp = heap_.next_stamp();
  writer_.publish(*at, stamp);
  return Fresh{.at = *at, .bytes = bytes, .stamp = stamp};
}

}  // namespace refract::prism::snic
