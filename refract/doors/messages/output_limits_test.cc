// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/messages/output_limits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "refract/base/units.h"

namespace refract::doors::redis {
namespace {

std::string of_pubsub(const OutputLimits& limits) {
  const std::string text = limits.text();
  return text.substr(text.find("pubsub"));
}

// Claim: a subscriber passes the hard limit at once, and the soft one when it has been there for longer than
// its seconds without a pause. A limit of 0 is none.
TEST(OutputLimits, are_passed_at_once_or_after_their_seconds) {
  OutputLimits limits;
  EXPECT_EQ(of_pubsub(limits), "pubsub 33554432 8388608 60");
  ASSERT_EQ(limits.set("pubsub 1000 100 5", /*is_trial=*/true), "");
  EXPECT_EQ(of_pubsub(limits), "pubsub 33554432 8388608 60");
  ASSERT_EQ(limits.set("pubsub 1000 100 5", /*is_trial=*/false), "");
  uint64_t since_ns = 0;
  EXPECT_TRUE(limits.are_passed(1000, since_ns, kSecond_ns));
  EXPECT_FALSE(limits.are_passed(99, since_ns, 2 * kSecond_ns));
  EXPECT_EQ(since_ns, 0U);
  EXPECT_FALSE(limits.are_passed(100, since_ns, 10 * kSecond_ns));
  EXPECT_FALSE(limits.are_passed(999, since_ns, 15 * kSecond_ns));
  EXPECT_FALSE(limits.are_passed(99, since_ns, 16 * kSecond_ns));
  EXPECT_FALSE(limits.are_passed(100, since_ns, 17 * kSecond_ns));
  EXPECT_FALSE(limits.are_passed(100, since_ns, 22 * kSecond_ns));
  EXPECT_TRUE(limits.are_passed(100, since_ns, 23 * kSecond_ns));
  ASSERT_EQ(limits.set("pubsub 0 0 0", /*is_trial=*/false), "");
  EXPECT_FALSE(limits.are_passed(SIZE_MAX, since_ns, 100 * kSecond_ns));
}

// Claim: values are those that Redis takes, with its units; those of other classes are only taken as they
// are.
TEST(OutputLimits, are_written_as_in_redis) {
  OutputLimits limits;
  const auto set = [&](std::string_view value) {
    const std::string wrong = limits.set(value, /*is_trial=*/false);
    return wrong.empty() ? of_pubsub(limits) : wrong.substr(0, wrong.find(' '));
  };
  EXPECT_EQ(set("pubsub 1kb 1k 7"), "pubsub 1024 1000 7");
  EXPECT_EQ(set("PUBSUB 2Mb 1b 7 normal 0 0 0"), "pubsub 2097152 1 7");
  EXPECT_EQ(set("slave 256mb 64mb 60 pubsub 1gb 1g 0 replica 268435456 67108864 60"),
            "pubsub 1073741824 1000000000 0");
  EXPECT_EQ(set("pubsub 99999999999999999999 0 0"), "pubsub 18446744073709551615 0 0");
  EXPECT_EQ(set("pubsub 1 1 1 pubsub 2 2 2"), "pubsub 2 2 2");
  EXPECT_EQ(set(""), "pubsub 2 2 2");
  for (const std::string_view value : {" ", "pubsub", "pubsub 1 2", " pubsub 1 1 1", "pubsub 1 1  1"}) {
    EXPECT_EQ(set(value), "Wrong") << value;
  }
  for (const std::string_view value : {"master 1 1 1", "nosuch 1 2 3", "pubsub 1 1 1 nosuch 1 2 3"}) {
    EXPECT_EQ(set(value), "Invalid") << value;
  }
  for (const std::string_view value :
       {"pubsub a 1 1", "pubsub 1 x 1", "pubsub 1 1 c", "pubsub -1 1 1", "pubsub 1.5mb 1 1", "pubsub 1tb 1 1",
        "pubsub 1 1 -1", "pubsub 1 1 5s"}) {
    EXPECT_EQ(set(value), "Error") << value;
  }
  EXPECT_EQ(set("normal 1 0 0"), "the");
  EXPECT_EQ(of_pubsub(limits), "pubsub 2 2 2");
}

}  // namespace
}  // namespace refract::doors::redis
