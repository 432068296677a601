// SPDX-License-Identifier: Apache-2.0
// What follows from two looks at a node, and how it is shown.
#include "apps/refract/top/top_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "refract/base/units.h"

namespace refract::cli {
namespace {

observe::ShardState shard_at(uint32_t index, uint64_t second, uint64_t puts) {
  observe::ShardState state;
  state.identity = {1, 2};
  state.incarnation = 3;
  state.shard_index = index;
  state.shard_count = 2;
  state.process = 77;
  state.now_ns = 100 * kSecond_ns + second * kSecond_ns;
  state.uptime_ns = (10 + second) * kSecond_ns;
  state.cpu_ns = second * kSecond_ns / 2;
  state.sleeps = second * 100;
  state.connections = 1;
  state.batches = puts / 4;
  state.memory = {.total = 1'000,
                  .free = 500,
                  .live = 300,
                  .retired = 50,
                  .table = 100,
                  .largest_free_run = 400 + index,
                  .pins = 1};
  state.entries.count = 10;
  observe::MethodUse put{.name = "put", .calls = puts, .service_ns = {}};
  // In the first second all took 1,000 ns, in the second 9,000.
  put.service_ns.record_n(1'000, 100);
  if (second > 1) put.service_ns.record_n(9'000, 100);
  state.methods.push_back(std::move(put));
  state.methods.push_back({.name = "get", .calls = 0, .service_ns = {}});
  state.counters = {{"rpc.calls", puts}, {"rpc.closed_overrun", 0}};
  return state;
}

Look look_at_second(uint64_t second) {
  Look look;
  look.address = "/run/node.sock";
  look.transport = "shm";
  look.shards = {shard_at(0, second, 1'000 * second), shard_at(1, second, 3'000 * second)};
  const auto connection = [&](uint64_t place, uint64_t calls) {
    observe::ConnectionState state;
    state.place = place;
    state.transport = "shm";
    state.peer = "process 5, user 0";
    state.reason = "same host";
    state.age_ns = (5 + second) * kSecond_ns;
    state.calls = calls;
    state.received_bytes = calls * 100;
    return state;
  };
  look.connections = {{.shard = 0, .state = connection(0, 1'000 * second)},
                      {.shard = 1, .state = connection(7, 3'000 * second)}};
  return look;
}

TEST(TopFigures, rates_and_quantiles_are_those_of_the_time_between_two_looks) {
  const Figures figures = figures_of(look_at_second(1), look_at_second(2));
  EXPECT_FALSE(figures.since_start);
  EXPECT_EQ(figures.interval_ns, kSecond_ns);
  EXPECT_DOUBLE_EQ(figures.calls_per_s, 4'000);
  ASSERT_EQ(figures.methods.size(), 1u) << "what was never called is not shown";
  const MethodFigures& put = figures.methods[0];
  EXPECT_DOUBLE_EQ(put.calls_per_s, 4'000);
  EXPECT_EQ(put.calls, 8'000u);
  EXPECT_EQ(put.service_ns.samples, 200u);
  EXPECT_NEAR(static_cast<double>(put.service_ns.p50), 9'000, 150);
  ASSERT_EQ(figures.shards.size(), 2u);
  EXPECT_DOUBLE_EQ(figures.shards[1].calls_per_s, 3'000);
  EXPECT_DOUBLE_EQ(figures.shards[1].cpu_share, 0.5);
  EXPECT_DOUBLE_EQ(figures.shards[1].sleeps_per_s, 100);
  EXPECT_DOUBLE_EQ(figures.shards[1].calls_per_batch, 4);
  EXPECT_EQ(figures.memory.total, 2'000u);
  EXPECT_EQ(figures.memory.largest_free_run, 401u);
  EXPECT_EQ(figures.entries.count, 20u);
  ASSERT_EQ(figures.connections.size(), 2u);
  EXPECT_EQ(figures.connections[0].shard, 1u) << "the busiest stands first";
  EXPECT_DOUBLE_EQ(figures.connections[0].calls_per_s, 3'000);
  EXPECT_DOUBLE_EQ(figures.connections[0].received_per_s, 300'000);
}

TEST(TopFigures, without_a_look_before_rates_are_means_since_the_start) {
  const Figures figures = figures_of({}, look_at_second(2));
  EXPECT_TRUE(figures.since_start);
  EXPECT_EQ(figures.interval_ns, 12 * kSecond_ns);
  EXPECT_NEAR(figures.calls_per_s, 8'000.0 / 12, 1);
}

TEST(TopFigures, another_server_or_connection_is_not_compared_with_the_one_before) {
  Look before = look_at_second(2);
  Look now = look_at_second(3);
  for (observe::ShardState& shard : now.shards) {
    shard.incarnation = 4;
    shard.methods[0].calls = 12;
  }
  now.connections[0].state.age_ns = kSecond_ns / 2;
  now.connections[0].state.calls = 10;
  const Figures figures = figures_of(before, now);
  EXPECT_TRUE(figures.since_start);
  EXPECT_NEAR(figures.calls_per_s, 24.0 / 13, 0.1);
  const auto young = std::ranges::find(figures.connections, 0u, &ConnectionFigures::shard);
  EXPECT_DOUBLE_EQ(young->calls_per_s, 20);
  EXPECT_EQ(figures_of({}, {}).shards.size(), 0u);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(TopScreen, no_line_is_wider_and_no_screen_higher_than_the_terminal) {
  Look now = look_at_second(2);
  now.connections[0].state.peer =
      "\xc3\xa4\xc3\xb6\xc3\xbc and a very long name that no terminal holds in one line";
  for (int i = 0; i < 100; ++i) now.connections.push_back(now.connections[0]);
  const Figures figures = figures_of(look_at_second(1), now);
  for (const size_t columns : {1U, 20U, 80U, 300U}) {
    for (const size_t rows : {1U, 5U, 24U, 500U}) {
      const std::vector<std::string> lines = lines_of(draw(figures, {.columns = columns, .rows = rows}));
      EXPECT_LE(lines.size(), rows);
      for (const std::string& line : lines) {
        const auto letters = std::ranges::count_if(
            line, [](char letter) { return (static_cast<unsigned char>(letter) & 0xc0) != 0x80; });
        EXPECT_LE(static_cast<size_t>(letters), columns) << line;
      }
    }
  }
}

TEST(TopScreen, it_says_who_is_connected_how_and_why_and_what_the_memory_is_used_for) {
  Look now = look_at_second(2);
  const std::string calm = draw(figures_of(look_at_second(1), now), {.columns = 200});
  for (const char* wanted : {"/run/node.sock", "by shm", "incarnation 3", "4,000/s", "put", "9.0 us", "50 %",
                             "[############", "process 5, user 0", "same host", "1.7"}) {
    EXPECT_NE(calm.find(wanted), std::string::npos) << wanted << "\n" << calm;
  }
  EXPECT_EQ(calm.find("trouble"), std::string::npos);
  now.shards[0].counters[1].second = 5;
  now.connections[0].state.peer = "\x1b[2Jescape";
  const std::string troubled = draw(figures_of(look_at_second(1), now), {.columns = 200});
  EXPECT_NE(troubled.find("rpc.closed_overrun 5"), std::string::npos);
  EXPECT_EQ(troubled.find('\x1b'), std::string::npos) << "a peer's name must not move the cursor";
}

TEST(TopFigures, the_json_form_says_the_same) {
  const auto json = nlohmann::json::parse(to_json(figures_of(look_at_second(1), look_at_second(2))));
  EXPECT_EQ(json["calls_per_s"], 4'000.0);
  EXPECT_EQ(json["methods"][0]["name"], "put");
  EXPECT_GT(json["methods"][0]["service_ns"]["p99.9"], 8'000);
  EXPECT_EQ(json["shards"].size(), 2u);
  EXPECT_EQ(json["memory"]["live"], 600);
  EXPECT_EQ(json["connections"][0]["peer"], "process 5, user 0");
  EXPECT_EQ(json["counters"]["rpc.calls"], 8'000);
}

}  // namespace
}  // namespace refract::cli
