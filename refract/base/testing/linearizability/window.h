// SPDX-License-Identifier: Apache-2.0
// Makes a contradiction small enough for a person: the shortest time, and in it the fewest operations, that
// contradict each other without any help.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "refract/base/testing/linearizability/search.h"

namespace refract::linearizability {

struct Window {
  size_t convicted = 0;             // The last piece of evidence; mostly what was given.
  std::vector<size_t> involved;     // Indices of items, sorted.
  std::vector<size_t> surrounding;  // Likewise: of the same time, without a part in the argument.
};

// REQUIRES: find_order(items) says that the return of items[convicted] is the contradiction.
[[nodiscard]] Window smallest_window(std::span<const Item> items, size_t convicted);

}  // namespace refract::linearizability
