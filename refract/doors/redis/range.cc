// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/range.h"

#include <algorithm>

namespace refract::doors::redis {

std::string_view range_of(std::string_view value, int64_t first, int64_t last) noexcept {
  const auto bytes = static_cast<int64_t>(value.size());
  // What is before the first byte is the first byte, unless both are there in the wrong order.
  if (first < 0 && last < 0 && first > last) return {};
  if (first < 0) first = std::max<int64_t>(bytes + first, 0);
  if (last < 0) last = std::max<int64_t>(bytes + last, 0);
  last = std::min(last, bytes - 1);
  if (first > last) return {};
  return value.substr(static_cast<size_t>(first), static_cast<size_t>(last - first + 1));
}

}  // namespace refract::doors::redis
