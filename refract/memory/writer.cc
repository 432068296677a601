// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/writer.h"

#include <algorithm>
#include <array>

namespace refract {

void Writer::zero(Offset at, size_t bytes) noexcept {
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kZeros.size());
    copy(at, std::span(kZeros).first(piece));
    at = at.plus(piece);
    bytes -= piece;
  }
}

}  // namespace refract
