// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/common_string.h"

#include <algorithm>

namespace refract::doors::redis {

CommonString::CommonString(std::string_view one, std::string_view other)
    : one_(one),
      other_(other),
      table_(std::make_unique_for_overwrite<uint32_t[]>((one.size() + 1) * (other.size() + 1))) {}

bool CommonString::go_on(size_t cells) {
  const size_t width = other_.size() + 1;
  const size_t end = std::min(row_ + std::max<size_t>(cells / width, 1), one_.size() + 1);
  for (; row_ < end; ++row_) {
    uint32_t* const row = &table_[row_ * width];
    if (row_ == 0) {
      std::fill_n(row, width, 0);
      continue;
    }
    const uint32_t* const above = row - width;
    row[0] = 0;
    for (size_t i = 1; i < width; ++i) {
      row[i] = one_[row_ - 1] == other_[i - 1] ? above[i - 1] + 1 : std::max(above[i], row[i - 1]);
    }
  }
  return row_ > one_.size();
}

CommonString::Found CommonString::find() const {
  Found found;
  found.text.resize(length());
  size_t rest = found.text.size();
  size_t one = one_.size();
  size_t other = other_.size();
  bool is_in_match = false;
  while (one > 0 && other > 0) {
    if (one_[one - 1] != other_[other - 1]) {
      is_in_match = false;
      (at(one - 1, other) > at(one, other - 1) ? one : other) -= 1;
      continue;
    }
    found.text[--rest] = one_[--one];
    --other;
    if (!is_in_match) found.matches.push_back({});
    is_in_match = true;
    Match& match = found.matches.back();
    match = {.first_of_one = one, .first_of_other = other, .bytes = match.bytes + 1};
  }
  return found;
}

}  // namespace refract::doors::redis
