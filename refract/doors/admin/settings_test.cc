// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/admin/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {
namespace {

class SettingsTest : public testing::Test {
 protected:
  std::string set(const std::vector<std::string_view>& words) { return set_settings(common_, words); }

  Common common_{{.memory_limit_bytes = 200 << 20, .eviction = "allkeys-lru"}, /*is_loading=*/false, -1};
};

// Claim: what can be set is set; what is so already may be set, in whatever units; nothing else.
TEST_F(SettingsTest, only_what_can_be_set_is_set) {
  EXPECT_EQ(set({"slowlog-max-len", "7", "SLOWLOG-LOG-slower-than", "-1"}), "");
  EXPECT_EQ(common_.slow_log.length_max(), 7U);
  EXPECT_EQ(common_.slow_log.slower_than_us(), -1);
  EXPECT_EQ(set({"maxmemory", "209715200"}), "");
  EXPECT_EQ(set({"maxmemory", "200mb", "maxmemory-policy", "allkeys-lru"}), "");
  for (const std::string_view value : {"200", "200m", "201mb", "mb", "", "9223372036854775807gb", "-200mb"}) {
    EXPECT_NE(set({"maxmemory", value}), "") << value;
  }
  EXPECT_NE(set({"databases", "1"}), "") << "Redis never sets it";
}

// Claim: where one of several is wrong none is set.
TEST_F(SettingsTest, all_are_set_or_none) {
  for (const std::string_view wrong : {"nothing", "databases", "slowlog-max-len", "timeout"}) {
    EXPECT_NE(set({"slowlog-max-len", "7", wrong, "9"}), "") << wrong;
    EXPECT_EQ(common_.slow_log.length_max(), SlowLog::kLengthDefault) << wrong;
  }
}

// Claim: no name is there twice, and each shows something that may be set again, unless it never may.
TEST_F(SettingsTest, each_shows_what_it_has) {
  std::vector<std::string_view> names;
  for (const Setting& one : settings()) {
    names.push_back(one.name);
    if (one.is_fixed) continue;
    EXPECT_EQ(set({one.name, one.show(common_)}), "") << one.name;
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

}  // namespace
}  // namespace refract::doors::redis
