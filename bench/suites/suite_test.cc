// SPDX-License-Identifier: Apache-2.0
// A wrong suite is refused, a misspelt parameter above all, and what a suite says of us follows from its
// file.
#include "bench/suites/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/suites/suite_testbed.h"

#include "refract/prism/operation.h"
#include "refract/rpc/message.h"

namespace refract::bench::suite_test {
namespace {

using testing::HasSubstr;

constexpr std::string_view kChase = R"(
name = "chase"
title = "a chase"
experiment = "chase"
seed = 3
tolerance = 0.15
[testbed]
port_gbit_per_s = 8  # A byte takes a nanosecond.
read_us = 4
read_bytes = 512
packet_bytes_max = 1024
message_header_bytes = 60
one_sided_header_bytes = 80
one_sided_request_bytes = 16
client_hosts = 1
[load]
operations = 20
value_bytes = 512
[[place]]
name = "near"
adds_us = 0
[[place]]
name = "far"
adds_us = 10
[[system]]
name = "reads"
design = "reads"
[[system]]
name = "chain"
design = "chain"
chain = { core_us = 0.5, delay_us = 1.5 }
)";

std::string with(std::string_view from, std::string_view to) {
  std::string text(kChase);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  const Reported<Suite> suite = parse_suite(text, "a.toml");
  return suite ? "accepted" : suite.error().what;
}

Suite suite_of(const std::string& text) {
  Reported<Suite> suite = parse_suite(text, "a.toml");
  EXPECT_TRUE(suite.has_value()) << suite.error().what;
  return suite ? *suite : Suite{};
}

TEST(Suite, what_is_wrong_is_refused_with_its_line) {
  EXPECT_THAT(refusal("name = "), HasSubstr("a.toml:1: not TOML"));
  EXPECT_EQ(refusal(with("read_us = 4", "")), "a.toml:7: 'read_us' is missing");
  EXPECT_EQ(refusal(with("read_us = 4", "read_us = '4'")), "a.toml:9: 'read_us' is not what it must be");
  EXPECT_EQ(refusal(with("seed = 3", "seed = -3")), "a.toml:5: 'seed' is not what it must be");
  EXPECT_EQ(refusal(with("core_us = 0.5", "cores_us = 0.5, core_us = 0.5")),
            "a.toml:31: 'cores_us' is no word of a suite");
  EXPECT_EQ(refusal(with("experiment = \"chase\"", "experiment = \"race\"")),
            "a.toml:1: experiment is 'chase', 'kv', 'txn', 'pulls' or 'bars'");
  EXPECT_THAT(refusal(with("read_us = 4", "read_us = 0.5")), HasSubstr("less than the bytes"));
  EXPECT_THAT(refusal(with("client_hosts = 1", "client_hosts = 0")), HasSubstr("at least 1"));
}

TEST(Suite, a_figure_names_what_there_is) {
  const std::string figure =
      std::string(kChase) + "[[figure]]\nwhat = 'latency'\npaper = 4\nsource = 'text'\n";
  EXPECT_THAT(refusal(figure + "system = 'writes'\n"), HasSubstr("no system is 'writes'"));
  EXPECT_THAT(refusal(figure + "system = 'reads'\nplace = 'moon'\n"), HasSubstr("no place is 'moon'"));
  EXPECT_THAT(refusal(figure + "system = 'reads'\nover = 'writes'\n"), HasSubstr("no system is 'writes'"));
  const Suite suite = suite_of(figure + "system = 'reads'\nplace = 'near'\n");
  EXPECT_EQ(suite.figures.size(), 1u);
}

TEST(Suite, every_suite_of_this_program_is_sound) {
  for (const char* name : {"prism-figure-2", "prism-kv", "plasma-rdma"}) {
    const Reported<Suite> suite = read_suite(name);
    ASSERT_TRUE(suite.has_value()) << suite.error().what;
    EXPECT_EQ(suite->name, name);
    EXPECT_FALSE(suite->figures.empty());
  }
  EXPECT_THAT(read_suite("prism").error().next, HasSubstr("prism-kv"));
  EXPECT_THAT(read_suite("./none.toml").error().what, HasSubstr("No such file"));
}

// A hardware READ of the calibrated size takes exactly as long as the testbed says, and each way of following
// a pointer what can be worked out from that.
TEST(Chase, takes_as_long_as_can_be_worked_out) {
  const Suite suite = suite_of(std::string(kChase));
  const Reported<std::vector<Measured>> measured = simulate_chase(suite);
  ASSERT_TRUE(measured.has_value()) << measured.error().what;
  const auto latency_us = [&](std::string_view system, std::string_view place) {
    const Measured* found = find(*measured, "latency", system, place);
    return found == nullptr ? 0 : found->value;
  };
  // The first READ brings 8 bytes instead of 512.
  EXPECT_NEAR(latency_us("reads", "near"), 4 - 0.504 + 4, 0.002);
  EXPECT_NEAR(latency_us("reads", "far"), 14 - 0.504 + 14, 0.002);
  // A chain's 16 + 12 + 5 bytes in the dense form, with a short address, and a reply's 16 + 8 + 512 go as
  // messages.
  constexpr double kReadWire_us = 0.080 * 2 + 0.016 + 0.512;
  constexpr double kChainWire_us = 0.060 * 2 + 0.033 + 0.024 + 0.512;
  EXPECT_NEAR(latency_us("chain", "near"), 4 - kReadWire_us + kChainWire_us + 2, 0.002);
  EXPECT_NEAR(latency_us("chain", "far"), 14 - kReadWire_us + kChainWire_us + 2, 0.002);
}

TEST(Testbed, each_kind_of_request_costs_what_the_system_says) {
  System system;
  system.read = {.core_us = 0, .delay_us = 1};
  system.chain = {.core_us = 2, .delay_us = 0};
  system.call = {.core_us = 3, .delay_us = 0.5};
  const auto cost_of = [&system](fabric::Op op, uint16_t method) {
    const rpc::MessageHeader header = {.id = 1, .method = method, .code = 0, .bytes = 0};
    const auto bytes = std::as_bytes(std::span(&header, 1));
    const sim::Work work = work_of(system, {.op = op, .message = bytes, .bytes = bytes.size()});
    return std::pair(work.core_ns, work.delay_ns);
  };
  EXPECT_EQ(cost_of(fabric::Op::kRead, 0), std::pair(uint64_t{0}, uint64_t{1'000}));
  EXPECT_EQ(cost_of(fabric::Op::kSend, prism::kChainMethod), std::pair(uint64_t{2'000}, uint64_t{0}));
  EXPECT_EQ(cost_of(fabric::Op::kSend, 0x301), std::pair(uint64_t{3'000}, uint64_t{500}));
}

// A ratio of 0.9 is within 15 % of 0.82, and no 18 % less.
TEST(Suite, a_ratio_is_judged_by_its_own_tolerance) {
  Suite loose;
  loose.tolerance = 0.15;
  Suite strict = loose;
  strict.ratio_tolerance = 0.05;
  Figure single;
  single.paper = 0.82;
  Figure ratio = single;
  ratio.over = "another";
  EXPECT_FALSE(is_off(loose, ratio, 0.90));
  EXPECT_TRUE(is_off(strict, ratio, 0.90));
  EXPECT_TRUE(is_off(strict, ratio, 0.76));
  EXPECT_FALSE(is_off(strict, ratio, 0.86));
  EXPECT_FALSE(is_off(strict, single, 0.90));
  const Reported<Suite> suite = read_suite("prism-tx");
  ASSERT_TRUE(suite.has_value());
  EXPECT_EQ(suite->ratio_tolerance, 0.05);
}

TEST(Suite, what_is_off_by_more_than_the_tolerance_wants_a_reason) {
  const std::string figure =
      std::string(kChase) +
      "[[figure]]\nwhat = 'latency'\nsystem = 'reads'\nplace = 'near'\nsource = 'text'\n";
  const auto verdict = [](const std::string& text) {
    const Suite suite = suite_of(text);
    const Reported<SuiteResult> result = run_suite(suite, SuiteFabric::kSim);
    EXPECT_TRUE(result.has_value());
    return result && has_unexplained(suite, *result);
  };
  EXPECT_FALSE(verdict(figure + "paper = 7\n"));
  EXPECT_TRUE(verdict(figure + "paper = 5\n"));
  EXPECT_TRUE(verdict(figure + "paper = 10\n"));
  EXPECT_FALSE(verdict(figure + "paper = 5\nbecause = 'it is another road'\n"));
  const Suite ratio = suite_of(figure + "over = 'chain'\npaper = 1.25\n");
  const Reported<SuiteResult> result = run_suite(ratio, SuiteFabric::kSim);
  ASSERT_TRUE(result.has_value());
  EXPECT_NEAR(result->compared[0].ours, 7.5 / 6, 0.01);
}

// Two runs from one seed, to the last digit; the figures of the paper would be worth nothing otherwise.
TEST(Kv, the_same_seed_gives_the_same_figures) {
  Reported<Suite> suite = read_suite("prism-kv");
  ASSERT_TRUE(suite.has_value());
  make_small(*suite);
  const Reported<SuiteResult> once = run_suite(*suite, SuiteFabric::kSim);
  const Reported<SuiteResult> again = run_suite(*suite, SuiteFabric::kSim);
  ASSERT_TRUE(once.has_value()) << once.error().what;
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(lines_of(*suite, *once), lines_of(*suite, *again));
  // What the paper is about, at any size: round trips, and that fewer of them are faster.
  const auto value = [&once](std::string_view what, std::string_view system) {
    const Measured* found = find(once->measured, what, system, "");
    return found == nullptr ? 0 : found->value;
  };
  EXPECT_LT(value("get-arrivals", "prism-kv"), 1.3);
  EXPECT_GE(value("get-arrivals", "pilaf-hardware"), 2);
  EXPECT_EQ(value("put-arrivals", "pilaf-hardware"), 1);
  EXPECT_GE(value("put-arrivals", "prism-kv"), 2);
  EXPECT_LT(value("get-latency", "prism-kv"), value("get-latency", "pilaf-hardware"));
  EXPECT_LT(value("get-latency", "pilaf-hardware"), value("get-latency", "pilaf-software"));
}

}  // namespace
}  // namespace refract::bench::suite_test
