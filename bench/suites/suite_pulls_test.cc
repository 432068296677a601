// SPDX-License-Identifier: Apache-2.0
// Simulated pulls take what can be worked out from the costs, and a suite of them that leaves one out is
// refused.
#include "bench/suites/suite_pulls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/suites/suite.h"

namespace refract::bench {
namespace {

using testing::HasSubstr;

// A byte takes a nanosecond on the wire, a network's way 1 us; what hosts take is far apart, so that it can
// be told from a sum.
constexpr std::string_view kPulls = R"(
name = "pulls"
title = "some pulls"
experiment = "pulls"
seed = 1
tolerance = 0.15
[testbed]
port_gbit_per_s = 8
read_us = 2.008
read_bytes = 8
packet_bytes_max = 4096
message_header_bytes = 0
one_sided_header_bytes = 0
one_sided_request_bytes = 0
client_hosts = 1
[load]
operations = 2
sizes = [1024, 131072, 262144]
[[cost]]
name = "socket-piece"
value = 50
source = "x"
[[cost]]
name = "socket-trip"
value = 1000
source = "x"
[[cost]]
name = "local-trip"
value = 10000
source = "x"
[[cost]]
name = "message"
value = 3
source = "x"
[[cost]]
name = "copy-KiB"
value = 20
source = "x"
[[cost]]
name = "register"
value = 100000
source = "x"
[[cost]]
name = "register-page"
value = 7
source = "x"
[[cost]]
name = "release"
value = 400000
source = "x"
[[cost]]
name = "release-page"
value = 11
source = "x"
[[cost]]
name = "buffer-KiB"
value = 64
source = "x"
[[system]]
name = "socket"
design = "socket"
[[system]]
name = "send"
design = "send"
[[system]]
name = "each"
design = "read-each"
against = "send"
[[system]]
name = "once"
design = "read"
against = "send"
)";

std::string with(std::string_view from, std::string_view to) {
  std::string text(kPulls);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  const Reported<Suite> suite = parse_suite(text, "a.toml");
  return suite ? "accepted" : suite.error().what;
}

// Microseconds of a pull.
double took_us(const std::vector<Measured>& measured, std::string_view system, std::string_view size,
               double bytes) {
  const Measured* const rate = find(measured, "rate-" + std::string(size), system, "");
  return rate == nullptr ? 0 : bytes / rate->value;
}

TEST(Pulls, what_is_wrong_in_their_suite_is_refused) {
  EXPECT_EQ(refusal(std::string(kPulls)), "accepted");
  EXPECT_THAT(refusal(with("\"copy-KiB\"", "\"copy-MiB\"")), HasSubstr("'copy-MiB' is no cost of pulls"));
  EXPECT_THAT(refusal(with("\"copy-KiB\"", "\"message\"")), HasSubstr("'message' is there twice"));
  EXPECT_THAT(refusal(with("[[cost]]\nname = \"release\"\nvalue = 400000\nsource = \"x\"\n", "")),
              HasSubstr("'release' is missing"));
  EXPECT_THAT(refusal(with("\"read-each\"", "\"write\"")), HasSubstr("no way to pull is 'write'"));
  EXPECT_THAT(refusal(with("against = \"send\"", "against = \"sent\"")), HasSubstr("no system is 'sent'"));
  EXPECT_THAT(refusal(with("sizes = [1024, 131072, 262144]", "sizes = [0]")), HasSubstr("from 1 to 1 GiB"));
}

TEST(Pulls, run_on_the_simulator_alone) {
  const Reported<Suite> suite = parse_suite(kPulls, "a.toml");
  ASSERT_TRUE(suite.has_value());
  const Reported<SuiteResult> result = run_suite(*suite, SuiteFabric::kTcp);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().what, HasSubstr("runs on sim"));
}

TEST(Pulls, take_as_long_as_can_be_worked_out) {
  const Reported<Suite> suite = parse_suite(kPulls, "a.toml");
  ASSERT_TRUE(suite.has_value());
  const Reported<std::vector<Measured>> measured = simulate_pulls(*suite);
  ASSERT_TRUE(measured.has_value()) << measured.error().what;
  // Look-up, the request by a socket, and three calls of stores. Then come the network's 4 us, the bytes, and
  // some hundred bytes of heads.
  constexpr double kSteps_us = 1'000 + 500 + 3 * 10'000;
  constexpr double kSmall = kSteps_us + 4 + 1;
  EXPECT_NEAR(took_us(*measured, "socket", "1KiB", 1024), kSmall + 500 + 2 * 50, 1);
  EXPECT_NEAR(took_us(*measured, "send", "1KiB", 1024), kSmall + 2 * (3 + 20), 1);
  // Both ends register; the puller releases behind the READ, the holder behind the pull.
  EXPECT_NEAR(took_us(*measured, "once", "1KiB", 1024), kSmall + 2 + 3 * 3, 1);
  EXPECT_NEAR(took_us(*measured, "each", "1KiB", 1024), kSmall + 2 + 3 * 3 + 2 * (100'000 + 7) + 400'000 + 11,
              1);
  EXPECT_NEAR(took_us(*measured, "each", "128KiB", 131'072) - took_us(*measured, "once", "128KiB", 131'072),
              2 * (100'000 + 7 * 32) + 400'000 + 11 * 32, 1);
  // Two sets of buffers, the second filled when the first is drained.
  EXPECT_NEAR(took_us(*measured, "send", "128KiB", 131'072), kSteps_us + 4 + 2 + 4 * (3 + 64 * 20) + 131, 4);
  EXPECT_NEAR(took_us(*measured, "send", "256KiB", 262'144), kSteps_us + 8 + 4 + 8 * (3 + 64 * 20) + 262, 8);
  // A stream's two ends work at once: 32 pieces, one more of the other end, and one more of the first, behind
  // which the others are asked for.
  EXPECT_NEAR(took_us(*measured, "socket", "128KiB", 131'072), kSteps_us + 500 + 34 * 50 + 8, 10);
}

// Registered each time nothing wins up to 1 MiB; once, from some bytes on.
TEST(Pulls, the_switch_is_where_both_take_as_long) {
  const Reported<Suite> suite = parse_suite(kPulls, "a.toml");
  ASSERT_TRUE(suite.has_value());
  const Reported<std::vector<Measured>> measured = simulate_pulls(*suite);
  ASSERT_TRUE(measured.has_value()) << measured.error().what;
  EXPECT_EQ(find(*measured, "switch", "each", "")->value, 2048);
  // 40 us a KiB for copies against 2 us and 3 of a message: 128 B, as far as it is told.
  EXPECT_NEAR(find(*measured, "switch", "once", "")->value, 0.125, 0.07);
}

TEST(Pulls, figures_may_be_orders_or_within_a_factor) {
  Suite suite;
  suite.tolerance = 0.15;
  Figure order;
  order.paper = 1;
  order.is_at_least = true;
  EXPECT_FALSE(is_off(suite, order, 1));
  EXPECT_FALSE(is_off(suite, order, 50));
  EXPECT_TRUE(is_off(suite, order, 0.99));
  Figure factor;
  factor.paper = 32;
  factor.within_times = 2;
  EXPECT_FALSE(is_off(suite, factor, 16));
  EXPECT_FALSE(is_off(suite, factor, 64));
  EXPECT_TRUE(is_off(suite, factor, 15));
  EXPECT_TRUE(is_off(suite, factor, 65));
}

// Each cost twice; what a figure does not depend on does not change it.
TEST(Pulls, each_cost_is_halved_and_doubled) {
  const Reported<Suite> suite =
      parse_suite(std::string(kPulls) + "[[figure]]\nwhat = 'rate-1KiB'\nsystem = 'send'\nover = 'socket'\n" +
                      "paper = 1\nsource = 'x'\n",
                  "a.toml");
  ASSERT_TRUE(suite.has_value());
  const Reported<SuiteResult> plain = run_suite(*suite, SuiteFabric::kSim);
  const Reported<std::vector<Varied>> varied = vary(*suite);
  ASSERT_TRUE(plain.has_value());
  ASSERT_TRUE(varied.has_value()) << varied.error().what;
  ASSERT_EQ(varied->size(), 2 * suite->costs.size());
  for (const Varied& one : *varied) {
    ASSERT_EQ(one.ours.size(), 1U);
    const bool is_elsewhere = one.cost->name == "release" || one.cost->name == "register-page";
    if (is_elsewhere) {
      EXPECT_EQ(one.ours[0], plain->compared[0].ours) << one.cost->name;
    }
    if (one.cost->name == "socket-trip") {
      EXPECT_NE(one.ours[0], plain->compared[0].ours) << one.times;
    }
  }
  EXPECT_EQ(varied->front().times, 0.5);
  EXPECT_EQ(varied->back().times, 2);
}

}  // namespace
}  // namespace refract::bench
