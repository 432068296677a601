// SPDX-License-Identifier: Apache-2.0
// A store of counters that only grow, as small as a store can be that a node hosts beside its keys.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "refract/node/hosted/hosted_store.h"

namespace refract::test {

inline constexpr uint16_t kMethodAdd = 0x300;  // Answers with the value behind it.
inline constexpr uint16_t kMethodRead = 0x301;

// The body of both calls; likewise a counter in the space, where its value stands in place of the step.
struct CounterWords {
  uint64_t value = 0;           // 0 in the space: the place is free.
  std::array<char, 56> name{};  // Zero bytes behind, one at least.
};
static_assert(sizeof(CounterWords) == 64);

// The row's entry.
[[nodiscard]] std::unique_ptr<node::HostedStore> host_counter(const node::HostParts& parts);

}  // namespace refract::test
