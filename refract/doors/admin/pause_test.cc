// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/pause.h"

#include <gtest/gtest.h>

#include <string_view>

#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {
namespace {

const Row& row(std::string_view name) {
  const Row* const found = row_of(name);
  EXPECT_NE(found, nullptr) << name;
  return *found;
}

TEST(Pause, holds_what_it_is_about_until_its_end) {
  Pause pause;
  EXPECT_FALSE(pause.holds(row("set"), 5));
  pause.begin(Pause::What::kWrites, 100, 10);
  EXPECT_TRUE(pause.holds(row("set"), 99));
  EXPECT_TRUE(pause.holds(row("flushall"), 99));
  EXPECT_FALSE(pause.holds(row("get"), 99));
  EXPECT_FALSE(pause.holds(row("set"), 100));
  pause.begin(Pause::What::kAll, 50, 20);
  EXPECT_TRUE(pause.holds(row("get"), 99)) << "the later end, and all";
  EXPECT_TRUE(pause.holds(row("ping"), 99));
  EXPECT_FALSE(pause.holds(row("quit"), 99));
  pause.end();
  EXPECT_FALSE(pause.holds(row("set"), 60));
  pause.begin(Pause::What::kWrites, 90, 70);
  EXPECT_FALSE(pause.holds(row("get"), 80)) << "nothing is left of the one before";
  EXPECT_FALSE(pause.holds(row("set"), 95));
}

TEST(Pause, one_that_is_over_is_not_extended) {
  Pause pause;
  pause.begin(Pause::What::kAll, 100, 10);
  pause.begin(Pause::What::kWrites, 160, 150);
  EXPECT_TRUE(pause.holds(row("set"), 155));
  EXPECT_FALSE(pause.holds(row("get"), 155));
  pause.end_if_over(159);
  EXPECT_TRUE(pause.is_on());
  pause.end_if_over(160);
  EXPECT_FALSE(pause.is_on());
}

// One watches at a time, and none leaves while a pause is there.
TEST(Pause, has_one_that_watches) {
  Pause pause;
  pause.begin(Pause::What::kAll, 100, 10);
  EXPECT_TRUE(pause.watch());
  EXPECT_FALSE(pause.watch());
  EXPECT_FALSE(pause.unwatch()) << "it is not over";
  pause.end();
  EXPECT_TRUE(pause.unwatch());
  EXPECT_TRUE(pause.watch());
}

}  // namespace
}  // namespace refract::doors::redis
