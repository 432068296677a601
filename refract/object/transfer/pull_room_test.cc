// SPDX-License-Identifier: Apache-2.0
// Room for copies where the memory has to grow, which takes as long as it takes, or cannot.
#include "refract/object/transfer/pull_room.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "refract/kv/testing/test_service.h"
#include "refract/object/testing/test_store.h"

namespace refract::object {
namespace {

class PullRoomTest : public testing::Test {
 protected:
  void TearDown() override { shard_.drop_tasks(); }

  runtime::Task<> take(std::string id, uint64_t birth, uint64_t bytes, std::optional<Code>& outcome) {
    outcome = co_await room_.take(
        {.id = test::id_of(id), .birth = birth, .body_bytes = bytes, .metadata_bytes = 0, .is_pulled = true},
        true);
  }
  void pass(uint64_t ns) {
    const uint64_t until_ns = shard_.refresh_now() + ns;
    (void)shard_.run_until([] { return false; }, until_ns);
    if (clock_.now_ns() < until_ns) clock_.set_now_ns(until_ns);
    (void)shard_.refresh_now();
  }

  ManualClock clock_;
  kv::test::ManualGrowth growth_;
  kv::test::JumpingIdler idler_{clock_};
  runtime::Shard shard_{clock_, {.idler = &idler_}};
  test::StoreWorld world_{{.chunks = 10, .chunks_max = 60, .limit = 64 * kMiB, .growth = &growth_}};
  PullRoom room_{{.store = world_.store(), .shard = shard_, .growth = growth_, .pins = nullptr}};
};

TEST_F(PullRoomTest, memory_that_can_come_is_waited_for_by_all_in_the_line) {
  growth_.allowed = true;
  std::optional<Code> large;
  std::optional<Code> small;
  shard_.spawn(take("large", 1, 20 * kMiB, large));
  shard_.spawn(take("small", 2, kMiB, small));
  pass(10 * PullRoom::kTimeout_ns);
  EXPECT_FALSE(large) << "the node takes long";
  EXPECT_FALSE(small) << "it stands behind the large one";
  EXPECT_GE(growth_.wanted_bytes, 20 * kMiB);
  world_.add_chunks(24);
  pass(10 * kMillisecond_ns);
  EXPECT_EQ(large.value_or(Code::kUnavailable), Code::kOk);
  EXPECT_EQ(small.value_or(Code::kUnavailable), Code::kOk);
  EXPECT_EQ(room_.counts().fails, 0U);
}

TEST_F(PullRoomTest, memory_that_is_refused_in_the_end_is_no_space_soon_after) {
  growth_.allowed = true;
  std::optional<Code> large;
  shard_.spawn(take("large", 1, 20 * kMiB, large));
  pass(10 * PullRoom::kTimeout_ns);
  ASSERT_FALSE(large);
  growth_.allowed = false;
  pass(2 * PullRoom::kTimeout_ns);
  EXPECT_EQ(large.value_or(Code::kOk), Code::kNoSpace);
  EXPECT_EQ(room_.counts().fails, 1U);
  std::optional<Code> small;
  shard_.spawn(take("small", 2, kMiB, small));
  pass(kMillisecond_ns);
  EXPECT_EQ(small.value_or(Code::kUnavailable), Code::kOk) << "it fits";
}

}  // namespace
}  // namespace refract::object
