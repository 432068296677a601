// SPDX-License-Identifier: Apache-2.0
// What came back of a chain, for people and for programs: for each operation what became of it, and its
// bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/chains/chain_text.h"

#include "refract/prism/reply.h"

namespace refract::chains {

struct Outcomes {
  const ParsedChain& chain;
  const prism::Reply& reply;  // Of as many operations.
  uint64_t round_trip_ns = 0;
  std::string_view transport;  // "shm"
};

[[nodiscard]] std::string outcome_text(const Outcomes& outcomes);
[[nodiscard]] std::string outcome_json(const Outcomes& outcomes);

}  // namespace refract::chains
