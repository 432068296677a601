// SPDX-License-Identifier: Apache-2.0
// Sweeps: what they go over, and that a disturbed point never passes for a result.
#include "bench/kv/kv_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kv/kv_results.h"
#include "bench/report/findings.h"

namespace refract::bench {
namespace {

TEST(KvSweep, goes_over_whole_ranges_and_over_no_more_bytes_than_fit) {
  EXPECT_EQ(values_of(Sweep::kDepth), (std::vector<uint64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256}));
  EXPECT_EQ(values_of(Sweep::kClients), (std::vector<uint64_t>{1, 2, 4, 8, 16}));
  EXPECT_EQ(values_of(Sweep::kShards), (std::vector<uint64_t>{1, 2, 4, 8}));
  EXPECT_EQ(values_of(Sweep::kSize).front(), 16U);
  EXPECT_EQ(values_of(Sweep::kSize).back(), uint64_t{4} << 20);
  EXPECT_TRUE(values_of(Sweep::kRate).empty());
  KvLoad load;
  load.sweep = Sweep::kSize;
  for (const uint64_t size : values_of(Sweep::kSize)) {
    const KvLoad there = load_at(load, size);
    EXPECT_EQ(there.workload.value_bytes, size);
    EXPECT_LE(there.workload.keys * size, uint64_t{256} << 20);
    EXPECT_GE(there.workload.keys, 16U);
  }
  load.sweep = Sweep::kClients;
  EXPECT_EQ(load_at(load, 8).clients, 8U);
}

TEST(KvSweep, is_refused_with_the_point_at_which_it_could_not_be) {
  KvLoad load;
  load.sweep = Sweep::kClients;
  EXPECT_TRUE(check_sweep(load));
  load.beside = {KvPeer::kTable};
  const Reported<> refused = check_sweep(load);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().what.starts_with("--sweep clients, at 2: ")) << refused.error().what;
  load = {};
  load.address = "/run/refract/node.sock";
  load.sweep = Sweep::kSize;
  EXPECT_FALSE(check_sweep(load));
  load.sweep = Sweep::kDepth;
  EXPECT_TRUE(check_sweep(load));
}

KvSweepPoint point_at(uint64_t value, double rate, double drift) {
  KvSweepPoint point{.at = value, .keys = 100, .result = {}, .drift = drift};
  for (const char* name : {"refract", "redis <b>"}) {
    KvSide& side = point.result.sides.emplace_back();
    side.name = name;
    side.how = "tcp";
    side.served_by = "it";
    side.rates = {rate};
    for (uint64_t i = 1; i <= 1'000; ++i) side.sum.latency_ns.record(i * 100);
  }
  return point;
}

// The number of points of all curves of a page.
size_t points_drawn(const std::string& page) {
  size_t count = 0;
  constexpr std::string_view kStart = R"(<polyline points=")";
  for (size_t at = page.find(kStart); at != std::string::npos; at = page.find(kStart, at + 1)) {
    const size_t end = page.find('"', at + kStart.size());
    const std::string_view points = std::string_view(page).substr(at, end - at);
    count += static_cast<size_t>(std::ranges::count(points, ','));
  }
  return count;
}

TEST(KvSweep, names_disturbed_points_and_does_not_draw_them) {
  KvLoad load;
  load.sweep = Sweep::kDepth;
  load.beside = {KvPeer::kRedis};
  KvSweep sweep{.over = Sweep::kDepth, .is_bound = true, .points = {}};
  sweep.points.push_back(point_at(1, 1e5, 0.1));
  sweep.points.push_back(point_at(2, 9e9, 0.31));
  sweep.points.push_back(point_at(4, 3e5, 0.3));
  const std::string lines = lines_of(load, sweep);
  EXPECT_NE(lines.find("DISTURBED, they are 31 % apart"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("DISTURBED"), lines.rfind("DISTURBED"));
  const std::string text = json_of(findings_of(load, sweep));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  const auto& rates = json["sections"][0]["series"][0];
  EXPECT_EQ(rates["what"], "operations a second");
  EXPECT_EQ(rates["points"][1]["is_disturbed"], true);
  EXPECT_EQ(rates["points"][2]["is_disturbed"], false);
  EXPECT_EQ(rates["points"][2]["median"], 3e5);
  const Reported<std::string> page = html_of(text);
  ASSERT_TRUE(page) << page.error().what;
  EXPECT_EQ(points_drawn(*page), 2U * 2U * 4U) << "two sides, two points, rate and three quantiles";
  EXPECT_NE(page->find("disturbed, no result"), std::string::npos);
  EXPECT_EQ(page->find("<b>"), std::string::npos);
  EXPECT_EQ(page->find("http"), std::string::npos) << "the page needs nothing but itself";
}

}  // namespace
}  // namespace refract::bench
