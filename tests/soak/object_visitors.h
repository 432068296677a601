// SPDX-License-Identifier: Apache-2.0
// Programs that come to nodes which share their objects, make, hold, get and remove some, and are killed at
// any moment.
#pragma once

#include <cstdint>
#include <string>

namespace refract::test {

// Visits one of these addresses after the other, as `seed` has it, until it is killed. Every byte that it
// gets is looked at. 1: something was wrong, which it has said to stderr.
struct ObjectVisit {
  std::string addresses[6];
  uint64_t seed = 0;
};
[[nodiscard]] int visit_objects(const ObjectVisit& visit);

}  // namespace refract::test
