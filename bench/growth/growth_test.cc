// SPDX-License-Identifier: Apache-2.0
// What a curve says must be what was measured: places, ratios turn by turn, what is disturbed; and the
// simulated shards, whose figures can be worked out.
#include "bench/growth/growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/growth/simulated_shards.h"
#include "bench/report/findings.h"

namespace refract::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Nothing is measured with it: only what it was told counts.
class Growth : public testing::Test {
 protected:
  void SetUp() override {
    timer_ = {.ns_per_tick = 1, .overhead_ticks = 0};
    Reported<std::unique_ptr<References>> references = References::start(timer_);
    ASSERT_TRUE(references) << references.error().what;
    references_ = std::move(*references);
    bars_.emplace(BarRun{.options = {}, .timer = timer_, .references = *references_});
  }
  [[nodiscard]] GrowthRun run_with(const GrowthOptions& options) {
    return {.options = options, .bars = *bars_};
  }

  Timer timer_;
  std::unique_ptr<References> references_;
  std::optional<BarRun> bars_;
};

TEST_F(Growth, places_have_both_ends_and_one_digit) {
  EXPECT_THAT(run_with({.steps_a_decade = 2}).places(10'000, 1'000'000),
              ElementsAre(10'000, 30'000, 100'000, 300'000, 1'000'000));
  EXPECT_THAT(run_with({.steps_a_decade = 1}).places(1, 250), ElementsAre(1, 10, 100, 250));
  EXPECT_THAT(run_with({}).places(10'000, 500), ElementsAre(500));
  EXPECT_THAT(run_with({.at = {7}}).places(1, 1'000), ElementsAre(7));
}

GrowthCurve curve_of(bool is_disturbed) {
  GrowthPoint point = {.x = 1'000, .is_disturbed = is_disturbed};
  const GrowthFigure ours = {.what = "get", .side = "<ours>", .unit = "ns", .over = "table", .samples = {}};
  const GrowthFigure table = {.what = "get", .side = "table", .unit = "ns", .over = "", .samples = {}};
  for (const double ns : {100.0, 300.0, 80.0}) point.add(ours, ns);
  for (const double ns : {50.0, 100.0, 80.0}) point.add(table, ns);
  GrowthPoint later = point;
  later.x = 100'000;
  later.is_disturbed = false;
  return {.title = "keys", .how = "how", .points = {point, later}, .gaps = {"none & nothing"}};
}

TEST_F(Growth, ratios_are_of_one_turn_and_their_median_is_shown) {
  const GrowthCurve curve = curve_of(false);
  const GrowthPoint& point = curve.points[0];
  EXPECT_THAT(point.ratios_of(*point.find("get", "<ours>")), ElementsAre(2, 3, 1));
  EXPECT_TRUE(point.ratios_of(*point.find("get", "table")).empty());
  EXPECT_THAT(lines_of(curve), HasSubstr("100 ns (80 ns..300 ns) 2 x"));
  EXPECT_THAT(lines_of(curve), HasSubstr("not measured: none & nothing"));
}

TEST_F(Growth, a_disturbed_point_says_so_and_is_in_no_plot) {
  EXPECT_THAT(lines_of(curve_of(false)), Not(HasSubstr("DISTURBED")));
  EXPECT_THAT(lines_of(curve_of(true)), HasSubstr("DISTURBED, no result"));
  const auto plotted = [&](bool is_disturbed) {
    const Reported<std::string> page = html_of(json_of(findings_of(run_with({}), {curve_of(is_disturbed)})));
    EXPECT_TRUE(page.has_value());
    const std::string text = page.value_or("");
    const size_t begin = text.find("<polyline points=\"") + 18;
    return std::count(text.begin() + static_cast<ptrdiff_t>(begin),
                      text.begin() + static_cast<ptrdiff_t>(text.find('"', begin)), ',');
  };
  EXPECT_EQ(plotted(false), 2);
  EXPECT_EQ(plotted(true), 1);
}

TEST_F(Growth, its_page_shows_text_as_text) {
  const Reported<std::string> page = html_of(json_of(findings_of(run_with({}), {curve_of(true)})));
  ASSERT_TRUE(page) << page.error().what;
  EXPECT_THAT(*page, HasSubstr("&lt;ours&gt;"));
  EXPECT_THAT(*page, HasSubstr("none &amp; nothing"));
  EXPECT_THAT(*page, HasSubstr("disturbed, no result"));
  EXPECT_EQ(page->find("http"), std::string::npos) << "the page needs nothing but itself";
}

TEST_F(Growth, of_a_point_the_warm_up_counts_for_nothing) {
  GrowthPoint point;
  bars_->options.alternations = 3;
  bars_->options.attempts = 1;
  const Reported<> done = measure_turns(run_with({}), point, [](GrowthPoint& figures, uint64_t number) {
    figures.add({.what = "get", .side = "ours", .unit = "ns", .over = {}, .samples = {}},
                static_cast<double>(number));
    return Reported<>{};
  });
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(point.figures.at(0).samples, ElementsAre(1, 2, 3));
  EXPECT_EQ(point.is_disturbed, !point.blocks.back().accepted);
  EXPECT_EQ(point.is_disturbed, !point.note.empty()) << "who is disturbed says by what";
}

TEST_F(Growth, a_point_of_another_machine_is_no_part_of_the_curve) {
  GrowthCurve curve;
  for (const double ns : {120.0, 130.0, 600.0, 60.0, 110.0}) {
    Block block;
    block.accepted = true;
    block.before.ping_pong_ns = block.after.ping_pong_ns = ns;
    curve.points.push_back({.x = ns, .figures = {}, .blocks = {block}});
  }
  mark_apart(curve, Over::kTcp);
  EXPECT_FALSE(curve.points[2].is_disturbed) << "over TCP that reference counts for nothing";
  mark_apart(curve, Over::kSharedMemory);
  EXPECT_FALSE(curve.points[0].is_disturbed);
  EXPECT_FALSE(curve.points[1].is_disturbed);
  EXPECT_TRUE(curve.points[2].is_disturbed);
  EXPECT_THAT(curve.points[2].note, HasSubstr("400 % off"));
  EXPECT_TRUE(curve.points[3].is_disturbed) << "a faster one is another one, too";
  EXPECT_FALSE(curve.points[4].is_disturbed);
}

// One caller and one shard: a call takes the way there, the core, and the way back, and nothing else.
TEST(SimulatedShards, a_lone_call_takes_what_can_be_worked_out) {
  const auto node = SimulatedShards::start(
      {.shards = 1, .entries = 64, .get_core_ns = 1'000, .put_core_ns = 3'000, .one_way_ns = 2'000});
  ASSERT_TRUE(node) << node.error().what;
  for (const auto& [is_get, call_ns] : {std::pair(true, 5'000.0), std::pair(false, 7'000.0)}) {
    const Reported<SimulatedTurn> turn = (*node)->run({.is_get = is_get, .duration_ns = 1'000'000});
    ASSERT_TRUE(turn) << turn.error().what;
    EXPECT_NEAR(turn->per_second, 1e9 / call_ns, 1e9 / call_ns * 0.02);
    EXPECT_NEAR(static_cast<double>(turn->latency_ns.quantile(0.5)), call_ns, call_ns * 0.02);
    EXPECT_NEAR(turn->busy_mean, is_get ? 0.2 : 3.0 / 7, 0.02);
  }
}

TEST(SimulatedShards, more_of_them_serve_more_and_none_more_than_its_core_can) {
  double before = 0;
  for (const uint32_t shards : {1U, 4U, 16U}) {
    const auto node = SimulatedShards::start({.shards = shards,
                                              .entries = 8'192,
                                              .get_core_ns = 1'000,
                                              .put_core_ns = 1'000,
                                              .one_way_ns = 2'000});
    ASSERT_TRUE(node) << node.error().what;
    const Reported<SimulatedTurn> turn = (*node)->run({.callers = 16 * shards, .duration_ns = 200'000});
    ASSERT_TRUE(turn) << turn.error().what;
    EXPECT_GT(turn->per_second, 1.5 * before);
    EXPECT_LE(turn->per_second, 1e6 * shards * 1.001);
    EXPECT_LE(turn->busy_most, 1.001);
    before = turn->per_second;
  }
}

TEST(SimulatedShards, the_same_seed_gives_the_same_figures) {
  std::vector<double> rates;
  for (int i = 0; i < 2; ++i) {
    const auto node = SimulatedShards::start(
        {.shards = 2, .entries = 256, .get_core_ns = 700, .put_core_ns = 900, .one_way_ns = 1'500});
    ASSERT_TRUE(node) << node.error().what;
    const Reported<SimulatedTurn> turn = (*node)->run({.callers = 8, .duration_ns = 100'000});
    ASSERT_TRUE(turn) << turn.error().what;
    rates.push_back(turn->per_second);
  }
  EXPECT_EQ(rates[0], rates[1]);
}

}  // namespace
}  // namespace refract::bench
