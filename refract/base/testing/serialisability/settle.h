// SPDX-License-Identifier: Apache-2.0
// Fills the graph: first with what the versions tell, then, as often as something new follows, with what is
// left for all that has no version (places.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/testing/serialisability/evidence.h"
#include "refract/base/testing/serialisability/graph.h"

namespace refract::serialisability {

struct Settled {
  enum class Kind : uint8_t {
    kGood,
    kCircle,       // The graph has one.
    kUnexplained,  // An access has no place, whatever the order.
    kInferred,     // It is good as far as was known, but more is: look again.
  };
  Kind kind = Kind::kGood;
  uint32_t access = 0;  // That has no place.
  Inferred inferred = {};
};

// What follows from sums, before there is a graph. `by_time`: what began after a write is not what it found.
void settle_sums(Evidence& evidence, const CheckOptions& options, bool by_time);

// `steps`: is added to.
[[nodiscard]] Settled settle(const Evidence& evidence, Graph& graph, const CheckOptions& options,
                             uint64_t& steps);

}  // namespace refract::serialisability
