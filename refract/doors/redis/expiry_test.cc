// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/redis/expiry.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/units.h"
#include "refract/kv/functions/functions.h"

namespace refract::doors::redis {
namespace {

namespace functions = kv::functions;

using List = std::vector<std::string_view>;

constexpr uint64_t kNow_ns = 1'700'000'000'123'456'789;
constexpr uint64_t kNow_ms = kNow_ns / kMillisecond_ns;

StringOptions of_set(const List& words) {
  return string_options_of(words, OptionsOf::kSet);
}
StringOptions of_getex(const List& words) {
  return string_options_of(words, OptionsOf::kGetEx);
}

TEST(Expiry, options_of_set_are_taken_in_any_order_and_letters) {
  const StringOptions options = of_set({"nx", "GeT", "eX", "10"});
  EXPECT_FALSE(options.is_wrong);
  EXPECT_TRUE(options.if_absent);
  EXPECT_TRUE(options.wants_old);
  EXPECT_FALSE(options.if_present);
  EXPECT_EQ(options.expiry, Expiry::kSeconds);
  EXPECT_EQ(options.time, "10");
  EXPECT_EQ(of_set({"KEEPTTL", "XX"}).expiry, Expiry::kKept);
  EXPECT_TRUE(of_set({"KEEPTTL", "XX"}).if_present);
  EXPECT_EQ(of_set({"PXAT", "1", "pxat", "2"}).time, "2") << "the last one counts";
  EXPECT_TRUE(of_set({std::string_view("nx\0x", 4)}).if_absent) << "Redis sees what is in front of a zero";
}

TEST(Expiry, options_that_exclude_each_other_are_no_syntax) {
  for (const List& words : std::vector<List>{{"NX", "XX"},
                                             {"XX", "NX"},
                                             {"EX"},
                                             {"EX", "1", "PX"},
                                             {"EX", "1", "PX", "1"},
                                             {"KEEPTTL", "EX", "1"},
                                             {"EXAT", "1", "KEEPTTL"},
                                             {"PERSIST"},
                                             {""},
                                             {"NXX"}}) {
    EXPECT_TRUE(of_set(words).is_wrong) << words.front();
  }
  for (const List& words : std::vector<List>{
           {"NX"}, {"GET"}, {"KEEPTTL"}, {"PERSIST", "EX", "1"}, {"EX", "1", "PERSIST"}, {"PX"}}) {
    EXPECT_TRUE(of_getex(words).is_wrong) << words.front();
  }
  EXPECT_TRUE(of_getex({"PERSIST", "persist"}).persists);
  EXPECT_FALSE(of_getex({"EX", "1"}).is_wrong);
}

TEST(Expiry, positive_times_become_moments_of_whole_milliseconds) {
  EXPECT_EQ(positive_moment_of("10", Expiry::kSeconds, "set", kNow_ns).wall_ns,
            (kNow_ms + 10'000) * kMillisecond_ns);
  EXPECT_EQ(positive_moment_of("10", Expiry::kMilliseconds, "set", kNow_ns).wall_ns,
            (kNow_ms + 10) * kMillisecond_ns);
  EXPECT_EQ(positive_moment_of("10", Expiry::kMomentSeconds, "set", kNow_ns).wall_ns, 10 * kSecond_ns);
  EXPECT_EQ(positive_moment_of("10", Expiry::kMomentMilliseconds, "set", kNow_ns).wall_ns,
            10 * kMillisecond_ns);
}

TEST(Expiry, times_that_cannot_be_counted_are_refused_in_the_words_of_redis) {
  const std::string wrong = "ERR invalid expire time in 'setex' command";
  const auto why = [](std::string_view time, Expiry expiry) {
    return positive_moment_of(time, expiry, "setex", kNow_ns).wrong;
  };
  for (const std::string_view time : {"0", "-1", "9223372036854775807", "9223372036854776"}) {
    EXPECT_EQ(why(time, Expiry::kSeconds), wrong) << time;
  }
  EXPECT_EQ(why("9223372036854775807", Expiry::kMilliseconds), wrong);
  EXPECT_EQ(why("9223372036854775807", Expiry::kMomentMilliseconds), "");
  EXPECT_EQ(why("1x", Expiry::kSeconds), "ERR value is not an integer or out of range");
}

TEST(Expiry, of_expire_any_time_is_a_moment) {
  EXPECT_EQ(moment_of("-1", Expiry::kSeconds, "expire", kNow_ns).wall_ns, (kNow_ms - 1000) * kMillisecond_ns);
  EXPECT_EQ(moment_of("-1", Expiry::kMomentSeconds, "expireat", kNow_ns).wall_ns, 1U) << "it is over";
  EXPECT_EQ(moment_of("0", Expiry::kMomentMilliseconds, "pexpireat", kNow_ns).wall_ns, 1U);
  EXPECT_EQ(moment_of("-9223372036854775808", Expiry::kMilliseconds, "pexpire", kNow_ns).wall_ns, 1U);
  EXPECT_EQ(moment_of("-9223372036854775808", Expiry::kSeconds, "expire", kNow_ns).wrong,
            "ERR invalid expire time in 'expire' command");
  EXPECT_EQ(moment_of("9223372036854775807", Expiry::kMilliseconds, "pexpire", kNow_ns).wrong,
            "ERR invalid expire time in 'pexpire' command");
}

TEST(Expiry, a_moment_behind_the_end_of_our_time_is_that_end) {
  const uint64_t end_ns = moment_of("9223372036854775807", Expiry::kMomentMilliseconds, "", kNow_ns).wall_ns;
  EXPECT_LE(end_ns, static_cast<uint64_t>(INT64_MAX));
  EXPECT_GT(end_ns, static_cast<uint64_t>(INT64_MAX) - kSecond_ns);
}

TEST(Expiry, conditions_of_expire_are_those_of_redis) {
  const auto conditions = [](const List& words) { return int{expire_options_of(words).conditions}; };
  const auto wrong = [](const List& words) { return expire_options_of(words).wrong; };
  EXPECT_EQ(conditions({}), 0);
  EXPECT_EQ(conditions({"xX", "GT"}), functions::kIfSome | functions::kIfLater);
  EXPECT_EQ(conditions({"lt", "lt"}), functions::kIfEarlier);
  EXPECT_EQ(wrong({"lt", "xx"}), "");
  for (const std::string_view other : {"xx", "gt", "lt"}) {
    EXPECT_EQ(wrong({other, "nx"}), "ERR NX and XX, GT or LT options at the same time are not compatible");
  }
  EXPECT_EQ(wrong({"gt", "lt"}), "ERR GT and LT options at the same time are not compatible");
  EXPECT_EQ(wrong({"nx", "xx", std::string_view("e\0x", 3)}), "ERR Unsupported option e");
}

}  // namespace
}  // namespace refract::doors::redis
