// SPDX-License-Identifier: Apache-2.0
// Whether what is taken grows: moments of an earlier time beside moments of a later one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

namespace refract::test {

// One number of a Use: its name, and by how much it may be higher at the end: by a share, and by so much.
template <typename Use>
struct Bound {
  const char* name;
  uint64_t Use::* what;
  double share;
  uint64_t further;
};

// The middle of many moments, since each is one of much coming and going. REQUIRES: there are some.
template <typename Use>
[[nodiscard]] Use middle_of(std::span<const Bound<Use>> bounds, const std::vector<Use>& moments) {
  Use middle;
  for (const Bound<Use>& bound : bounds) {
    std::vector<uint64_t> values;
    values.reserve(moments.size());
    for (const Use& moment : moments) values.push_back(moment.*bound.what);
    std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(values.size() / 2));
    middle.*bound.what = values[values.size() / 2];
  }
  return middle;
}

// Prints both, too.
template <typename Use>
void expect_flat(std::span<const Bound<Use>> bounds, const std::vector<Use>& before,
                 const std::vector<Use>& after) {
  const Use first = middle_of(bounds, before);
  const Use last = middle_of(bounds, after);
  for (const Bound<Use>& bound : bounds) {
    const uint64_t was = first.*bound.what;
    const uint64_t is = last.*bound.what;
    std::printf("%-22s %12lu %12lu\n", bound.name, was, is);
    EXPECT_LE(static_cast<double>(is),
              static_cast<double>(was) * (1 + bound.share) + static_cast<double>(bound.further))
        << bound.name;
  }
}

}  // namespace refract::test
