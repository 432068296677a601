// SPDX-License-Identifier: Apache-2.0
// An operation that has the number of instructions that it had when it was last looked at.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "bench/measure/instruction_count.h"

namespace refract::test {

using bench::Operations;

// With g++ 12 at -O3.
struct Cost {
  const char* name;
  uint64_t instructions;
  std::function<Operations()> prepare;
};

[[nodiscard]] inline bool is_optimised() {
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

inline void expect_cost(const Cost& cost) {
  if (!is_optimised()) GTEST_SKIP() << "instructions are counted in optimised builds";
  const auto instructions = bench::instructions_of(cost.prepare);
  if (!instructions) GTEST_SKIP() << "processes may not be traced here";
  ASSERT_GT(*instructions, 0U) << "an operation failed";
  testing::Test::RecordProperty("instructions", static_cast<int>(*instructions));
  fmt::print("{}: {} instructions, {} are known\n", cost.name, *instructions, cost.instructions);
  EXPECT_LE(*instructions, cost.instructions + cost.instructions / 10) << cost.name;
  EXPECT_GE(*instructions, cost.instructions - cost.instructions / 4)
      << cost.name << ": it has become cheaper; write the new figure down";
}

template <typename Operation>
Operations repeated(Operation operation) {
  return [operation = std::move(operation)](unsigned count) mutable {
    bool is_right = true;
    for (unsigned i = 0; i < count; ++i) is_right = operation() && is_right;
    return is_right;
  };
}

}  // namespace refract::test
