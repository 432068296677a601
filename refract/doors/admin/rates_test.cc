// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/rates.h"

#include <gtest/gtest.h>

#include "refract/base/units.h"

namespace refract::doors::redis {
namespace {

// A second of `count` commands, told every millisecond.
uint64_t do_a_second(Rates& rates, uint64_t& now_ns, uint64_t commands, uint64_t count) {
  for (uint64_t i = 0; i < 1000; ++i) {
    now_ns += kMillisecond_ns;
    commands += count / 1000;
    if (rates.is_due(now_ns)) rates.note(now_ns, {.commands = commands, .bytes_in = 2 * commands});
  }
  return commands;
}

// Claim: it is what the last second and a half had, and not what was before; nothing while nothing is done.
TEST(Rates, tell_what_the_last_second_had) {
  Rates rates;
  uint64_t now_ns = kSecond_ns;
  EXPECT_EQ(rates.of_a_second(now_ns, {}).commands, 0U);
  uint64_t commands = do_a_second(rates, now_ns, 0, 1'000'000);
  EXPECT_NEAR(static_cast<double>(rates.of_a_second(now_ns, {.commands = commands}).commands), 1e6, 1e5);
  for (int i = 0; i < 3; ++i) commands = do_a_second(rates, now_ns, commands, 5000);
  const Rates::Sums sums = rates.of_a_second(now_ns, {.commands = commands, .bytes_in = 2 * commands});
  EXPECT_NEAR(static_cast<double>(sums.commands), 5000, 500);
  EXPECT_NEAR(static_cast<double>(sums.bytes_in), 10'000, 1000);
  // Nothing has been noted for long.
  now_ns += 100 * kSecond_ns;
  EXPECT_LT(rates.of_a_second(now_ns, {.commands = commands}).commands, 60U);
}

// Claim: sums that begin at 0 again are no rate below 0.
TEST(Rates, begin_again_behind_a_reset) {
  Rates rates;
  uint64_t now_ns = kSecond_ns;
  (void)do_a_second(rates, now_ns, 0, 1'000'000);
  EXPECT_EQ(rates.of_a_second(now_ns, {.commands = 1}).commands, 0U);
  rates.reset();
  EXPECT_TRUE(rates.is_due(now_ns));
  EXPECT_EQ(rates.of_a_second(now_ns, {.commands = 1}).commands, 0U);
}

}  // namespace
}  // namespace refract::doors::redis
