// SPDX-License-Identifier: Apache-2.0
// Forked ranks hear what each of them gave, none waits for one that has ended, and pulls between their nodes
// bring all bytes in each way, over loopback and over a path between two networks; so do broadcasts.
#include "bench/ranks/ranks.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/ranks/broadcast_ranks.h"
#include "bench/ranks/object_ranks.h"
#include "bench/sides/private_node.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

using Texts = std::vector<std::string>;

// Tells what it heard by its exit code, which rank 0 learns by what it gathers next.
int repeat_numbers(Ranks& ranks) {
  const Reported<Texts> names = ranks.gather("rank " + std::to_string(ranks.index()));
  if (!names) return 1;
  std::string said = names->back();
  for (;;) {
    const Reported<uint64_t> number = ranks.hear();
    if (!number || *number == 0) break;
    said += " " + std::to_string(*number);
  }
  return ranks.gather(said).has_value() ? 0 : 1;
}

TEST(Ranks, each_gets_what_all_gave_and_hears_what_rank_0_tells_it) {
  const Reported<std::unique_ptr<Ranks>> made = fork_ranks(3, repeat_numbers);
  ASSERT_TRUE(made.has_value()) << made.error().what;
  Ranks& ranks = **made;
  EXPECT_EQ(ranks.index(), 0U);
  EXPECT_EQ(ranks.count(), 3U);
  const Reported<Texts> names = ranks.gather("");
  ASSERT_TRUE(names.has_value());
  EXPECT_EQ(*names, (Texts{"", "rank 1", "rank 2"}));
  for (const auto& [rank, number] :
       std::vector<std::pair<size_t, uint64_t>>{{1, 7}, {2, 8}, {1, 9}, {1, 0}, {2, 0}}) {
    ASSERT_TRUE(ranks.tell(rank, number).has_value());
  }
  const Reported<Texts> said = ranks.gather("zero");
  ASSERT_TRUE(said.has_value());
  EXPECT_EQ(*said, (Texts{"zero", "rank 2 7 9", "rank 2 8"}));
}

TEST(Ranks, that_have_ended_are_not_waited_for) {
  const Reported<std::unique_ptr<Ranks>> made =
      fork_ranks(3, [](Ranks& ranks) { return ranks.index() == 1 ? 0 : repeat_numbers(ranks); });
  ASSERT_TRUE(made.has_value());
  const Reported<Texts> names = (*made)->gather("");
  ASSERT_FALSE(names.has_value());
  EXPECT_EQ(names.error().code, Code::kUnavailable);
}

TEST(Ranks, forks_have_no_messages_of_mpi) {
  const Reported<std::unique_ptr<Ranks>> made = fork_ranks(2, [](Ranks&) { return 0; });
  ASSERT_TRUE(made.has_value());
  EXPECT_FALSE((*made)->has_messages());
  EXPECT_EQ((*made)->send(1, {}).error().code, Code::kUnsupported);
  EXPECT_EQ((*made)->receive(1, {}).error().code, Code::kUnsupported);
  EXPECT_EQ((*made)->broadcast({}).error().code, Code::kUnsupported);
}

// measure_pulls() compares bytes.
void expect_pulls(size_t count, bool is_apart) {
  const RanksOptions options{.sizes = {kKiB, 100'001, 3 * kMiB},
                             .turns = 1,
                             .turn_bytes = kMiB,
                             .node_program = default_node_program(),
                             .is_apart = is_apart};
  const Reported<std::unique_ptr<Ranks>> ranks =
      fork_ranks(count, [&options](Ranks& each) { return hold_objects(each, options).has_value() ? 0 : 1; });
  ASSERT_TRUE(ranks.has_value());
  const Reported<std::vector<RanksPoint>> points = measure_pulls(**ranks, options);
  if (!points && points.error().code == Code::kUnsupported) GTEST_SKIP() << points.error().to_string();
  ASSERT_TRUE(points.has_value()) << points.error().to_string();
  ASSERT_EQ(points->size(), options.sizes.size());
  for (const RanksPoint& point : *points) {
    for (const PullWay way : kPullWays) {
      const size_t turns = way == PullWay::kMpi ? 0 : 1;
      EXPECT_EQ(point.rates[static_cast<size_t>(way)].size(), turns) << text(way);
    }
  }
}

TEST(RankPulls, bring_all_bytes_by_each_way_from_two_holders) {
  expect_pulls(3, false);
}

TEST(RankPulls, bring_all_bytes_between_two_networks) {
  expect_pulls(2, true);
}

// Each rank compares all bytes.
TEST(RankBroadcasts, bring_all_bytes_to_each_rank) {
  const RanksOptions options{
      .sizes = {100'001, 3 * kMiB}, .turns = 2, .node_program = default_node_program()};
  const Reported<std::unique_ptr<Ranks>> ranks =
      fork_ranks(4, [&options](Ranks& each) { return take_broadcasts(each, options).has_value() ? 0 : 1; });
  ASSERT_TRUE(ranks.has_value());
  const Reported<std::vector<BroadcastPoint>> points = measure_broadcasts(**ranks, options);
  ASSERT_TRUE(points.has_value()) << points.error().to_string();
  ASSERT_EQ(points->size(), options.sizes.size());
  for (const BroadcastPoint& point : *points) {
    for (const BroadcastWay way : kBroadcastWays) {
      const size_t turns = way == BroadcastWay::kMpi ? 0 : 2;
      EXPECT_EQ(point.seconds[static_cast<size_t>(way)].size(), turns) << text(way);
    }
  }
}

}  // namespace
}  // namespace refract::bench
