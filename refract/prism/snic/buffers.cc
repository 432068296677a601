// SPDX-License-Identifier: Apache-2.0
#include "refract/prism/snic/buffers.h"

#include <algorithm>

#include "refract/base/check.h"

namespace refract::prism::snic {

void Buffers::give_back(const Fresh& buffer) noexcept {
  // A hostile chain may have had it retired already; it must not come back twice.
  if (!waiting_.empty()) std::erase_if(waiting_, [&](const Waiting& other) { return other.at == buffer.at; });
  take_back(buffer);
}

bool Buffers::is_out(Offset at) const noexcept {
  const bool waits = !waiting_.empty() && std::ranges::find(waiting_, at, &Waiting::at) != waiting_.end();
  return !waits && bytes_out(at) > 0;
}

void Buffers::retire(Offset at) noexcept {
  const uint64_t bytes = bytes_out(at);
  if (holders_ > 0) {
    waiting_.push_back({.at = at, .bytes = bytes});
  } else {
    recycle(at, bytes);
  }
}

void Buffers::release() noexcept {
  REFRACT_CHECK(holders_ > 0);
  if (--holders_ > 0) return;
  for (const Waiting& buffer : waiting_) recycle(buffer.at, buffer.bytes);
  waiting_.clear();
}

}  // namespace refract::prism::snic
