// SPDX-License-Identifier: Apache-2.0
// A table that was filled from its log is the one that its memory would have kept.
#include "refract/kv/owner/table/replay.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::ManualLog;
using test::text_of;

class ReplayTest : public testing::Test {
 protected:
  ReplayTest() { space.table().log_to(&log); }

  void put(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    ASSERT_TRUE(space.table().put(bytes_of(key), bytes_of(value), options).has_value());
  }
  // Everything in the log, in batches.
  void replay_all(test::Space& target) {
    Replay replay(target.table(), target.heap());
    const std::vector<ChangeLog::Change> changes = log.changes();
    for (size_t at = 0; at < changes.size(); at += 100) {
      const auto batch = std::span(changes).subspan(at, std::min<size_t>(100, changes.size() - at));
      ASSERT_EQ(replay.apply(batch), batch.size());
    }
    EXPECT_EQ(replay.finish(), log.records.back().stamp + Replay::kStampsLostMax);
  }
  static void expect_same(Table& is, Table& should, std::span<const std::string> keys) {
    uint64_t present = 0;
    for (const std::string& key : keys) {
      const auto one = is.find(bytes_of(key));
      const auto other = should.find(bytes_of(key));
      ASSERT_EQ(one.code(), other.code()) << key;
      if (!one) continue;
      ++present;
      EXPECT_EQ(one->version, other->version) << key;
      EXPECT_EQ(one->expires_wall_ns, other->expires_wall_ns) << key;
      EXPECT_EQ(one->request, other->request) << key;
      EXPECT_EQ(text_of(one->value), text_of(other->value)) << key;
    }
    EXPECT_GE(is.stats().entries, present);
    EXPECT_FALSE(is.validate().has_value());
  }

 public:
  test::Space space{{.chunks = 36, .chunks_max = 40}};
  ManualLog log;
};

// Puts of every kind, erasures, entries that expire, over and over on the same keys.
TEST_F(ReplayTest, a_replayed_table_equals_one_that_was_restarted_warm_entry_by_entry) {
  Prng prng(7);
  std::vector<std::string> keys;
  keys.reserve(3'000);
  for (int i = 0; i < 3'000; ++i) keys.push_back("key" + std::to_string(i));
  for (int i = 0; i < 20'000; ++i) {
    const std::string& key = keys[prng.below(keys.size())];
    if (prng.chance(0.2)) {
      (void)space.table().erase(bytes_of(key), 0);
      continue;
    }
    PutOptions options;
    if (prng.chance(0.2)) options.expires_wall_ns = space.clock().wall_ns() + 1 + prng.below(20'000);
    if (prng.chance(0.3)) options.request = {.client = 9, .sequence = static_cast<uint64_t>(i) + 1};
    const uint64_t bytes = prng.chance(0.01) ? 5'000 + prng.below(70'000) : prng.below(200);
    put(key, std::string(bytes, static_cast<char>('a' + i % 26)), options);
    space.clock().advance_ns(1);
  }
  test::Space cold({.chunks = 36, .chunks_max = 40});
  cold.clock().set_now_ns(space.clock().now_ns());
  replay_all(cold);
  space.restart();
  ASSERT_GT(space.table().stats().expiring_entries, 10U);
  expect_same(cold.table(), space.table(), keys);
  cold.heap().reclaim();
  EXPECT_EQ(cold.heap().stats().buffers_live, cold.table().stats().entries);
  // Again, as where a log begins before its snapshot's moment.
  Replay again(cold.table(), cold.heap());
  const std::vector<ChangeLog::Change> changes = log.changes();
  const std::span<const ChangeLog::Change> last = std::span(changes).last(1'000);
  ASSERT_EQ(again.apply(last.last(1)), 1U);
  EXPECT_EQ(again.stats().without_effect, 1U);
  expect_same(cold.table(), space.table(), keys);
  cold.restart();
  expect_same(cold.table(), space.table(), keys);
}

TEST_F(ReplayTest, what_has_expired_is_left_out_and_takes_away_what_it_had_replaced) {
  put("key", "for ever");
  put("key", "for a while", {.expires_wall_ns = space.clock().wall_ns() + 10});
  put("other", "for a while", {.expires_wall_ns = space.clock().wall_ns() + 10});
  test::Space cold;
  cold.clock().advance_ns(20);
  replay_all(cold);
  EXPECT_EQ(cold.table().find(bytes_of("key")).code(), Code::kNotFound);
  EXPECT_EQ(cold.table().stats().entries, 0U);
}

TEST_F(ReplayTest, versions_go_on_far_above_what_readers_may_have_seen) {
  put("key", "value");
  const uint64_t last = log.records.back().stamp;
  test::Space cold;
  replay_all(cold);
  EXPECT_EQ(cold.table().find(bytes_of("key"))->version, last);
  const auto version = cold.table().put(bytes_of("key"), bytes_of("next"), {});
  ASSERT_TRUE(version.has_value());
  EXPECT_GE(*version, last + Replay::kStampsLostMax);
  cold.restart();
  EXPECT_GT(cold.table().put(bytes_of("key"), bytes_of("next"), {}).value(), *version);
}

TEST_F(ReplayTest, a_host_that_dies_twice_gives_no_version_again_even_if_nothing_was_kept_in_between) {
  put("key", "value");
  const std::vector<ChangeLog::Change> changes = log.changes();
  uint64_t first = 0;
  uint64_t last = 0;
  for (int death = 0; death < 3; ++death) {
    test::Space cold;
    Replay replay(cold.table(), cold.heap());
    ASSERT_EQ(replay.apply(changes), 1U);
    replay.know_stamp(first);
    first = replay.finish();
    const auto version = cold.table().put(bytes_of("key"), bytes_of("seen, and lost"), {});
    ASSERT_TRUE(version.has_value());
    EXPECT_GT(*version, last);
    last = *version;
  }
}

TEST_F(ReplayTest, a_full_memory_ends_a_batch_and_it_goes_on_with_more) {
  for (int i = 0; i < 40; ++i) put("key" + std::to_string(i), std::string(100'000, 'x'));
  test::Space cold({.chunks = 4, .chunks_max = 32});
  Replay replay(cold.table(), cold.heap());
  const std::vector<ChangeLog::Change> changes = log.changes();
  size_t taken = replay.apply(changes);
  EXPECT_LT(taken, changes.size());
  EXPECT_EQ(cold.table().stats().entries, taken);
  cold.add_chunks(10);
  taken += replay.apply(std::span(changes).subspan(taken));
  EXPECT_EQ(taken, changes.size());
  EXPECT_EQ(cold.table().stats().entries, 40U);
}

TEST_F(ReplayTest, a_table_that_was_told_how_much_will_come_does_not_grow_meanwhile) {
  constexpr int kEntries = 30'000;
  for (int i = 0; i < kEntries; ++i) put("key" + std::to_string(i), "value");
  test::Space cold({.chunks = 36, .chunks_max = 40});
  Replay replay(cold.table(), cold.heap());
  replay.expect(kEntries);
  EXPECT_EQ(cold.table().stats().buckets, 8'192U);
  const std::vector<ChangeLog::Change> changes = log.changes();
  ASSERT_EQ(replay.apply(changes), changes.size());
  EXPECT_EQ(cold.table().stats().splits, 0U);
  EXPECT_EQ(cold.table().stats().entries, uint64_t{kEntries});
  cold.restart();
  EXPECT_EQ(cold.table().stats().entries, uint64_t{kEntries});
  EXPECT_FALSE(cold.table().validate().has_value());
  for (int i = kEntries; i < 2 * kEntries; ++i) {
    ASSERT_TRUE(cold.table().put(bytes_of("key" + std::to_string(i)), bytes_of("value"), {}).has_value());
  }
  EXPECT_GT(cold.table().stats().splits, 0U);
  EXPECT_FALSE(cold.table().validate().has_value());
}

TEST_F(ReplayTest, a_memory_too_small_for_all_buckets_has_as_many_as_fit) {
  test::Space cold({.chunks = 6, .chunks_max = 8});
  Replay replay(cold.table(), cold.heap());
  replay.expect(100'000'000);
  EXPECT_GT(cold.table().stats().buckets, 16'384U);
  EXPECT_FALSE(cold.table().validate().has_value());
  cold.restart();
  EXPECT_FALSE(cold.table().validate().has_value());
}

}  // namespace
}  // namespace refract::kv
