// SPDX-License-Identifier: Apache-2.0
// Judges a history: is there an order of its operations that respects real time and explains every answer?
//
// Keys are independent of each other, so each is judged alone. What the store promises of versions across
// keys (one given later is greater, none is given twice) is judged apart, by check_versions().
//
// 100,000 operations take a fraction of a second where versions or values are different from each other,
// however they are spread over keys; docs and figures: NOTES.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/testing/linearizability/history.h"

namespace refract::linearizability {

// A contradiction, made as small as can be: these operations alone cannot have happened, whatever came
// before.
struct Violation {
  std::string sentence;
  uint32_t key = 0;
  size_t convicted = 0;          // Index of the operation whose answer nothing explains.
  std::vector<size_t> involved;  // Its accusers and itself. Indices, sorted.
  std::vector<size_t>
      surrounding;  // Others on the key at that time, which change nothing in the argument. Sorted.
};

struct Judgement {
  std::optional<Violation> violation;
  // Keys that were given up because their operations allow too many orders; no word on them.
  std::vector<uint32_t> undecided;
  uint64_t steps = 0;
  // The most versions or values that an unknown one was said not to be, by as many failed conditions.
  size_t excluded_max = 0;

  [[nodiscard]] bool is_good() const noexcept { return !violation && undecided.empty(); }
};

struct CheckOptions {
  uint64_t steps_max_per_key = 4'000'000;  // And 200 for each operation.
};

[[nodiscard]] Judgement check(const History& history, const CheckOptions& options = {});

// Of the keys of one shard, given by `is_in_shard`, or of all.
[[nodiscard]] std::optional<Violation> check_versions(const History& history,
                                                      const std::vector<bool>& is_in_shard = {});

}  // namespace refract::linearizability
