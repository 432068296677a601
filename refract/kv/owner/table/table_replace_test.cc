// SPDX-License-Identifier: Apache-2.0
// An entry takes another's place in one pass or in several: what stands afterwards is the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/kv/owner/table/table.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::table_replace_test {
namespace {

using test::bytes_of;
using test::Space;
using test::text_of;

struct Stored {
  std::string value;
  uint64_t version = 0;
  uint64_t expires_wall_ns = 0;
};
using Model = std::map<std::string, Stored>;

// Sizes of both sides of the limit from which values are aligned.
std::string any_value(Prng& prng) {
  const uint64_t bytes = prng.below(8) == 0 ? 4'090 + prng.below(12) : prng.below(200);
  return std::string(bytes, static_cast<char>('a' + prng.below(26)));
}

// What one kind of put leaves behind must not show in what another reads.
PutOptions any_options(Prng& prng, uint64_t now_ns) {
  switch (prng.below(6)) {
    case 0:
      return {.expires_wall_ns = now_ns + 1 + prng.below(kSecond_ns)};
    case 1:
      return {.request = {.client = 7, .sequence = 1 + prng.below(100)}};
    default:
      return {};
  }
}

void expect_as_in(Space& space, const Model& model) {
  uint64_t expiring = 0;
  for (const auto& [key, stored] : model) {
    const Result<Table::Entry> entry = space.table().find(bytes_of(key));
    ASSERT_TRUE(entry.has_value()) << key;
    EXPECT_EQ(text_of(entry->value), stored.value) << key;
    EXPECT_EQ(entry->version, stored.version) << key;
    EXPECT_EQ(entry->expires_wall_ns, stored.expires_wall_ns) << key;
    expiring += stored.expires_wall_ns != 0 ? 1 : 0;
  }
  EXPECT_EQ(space.table().stats().entries, model.size());
  EXPECT_EQ(space.table().stats().expiring_entries, expiring);
  EXPECT_FALSE(space.table().validate());
}

TEST(TableReplace, what_stands_is_what_was_put_last) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Space space({.chunks = 48, .hash_seed = seed});
    Prng prng(seed);
    Model model;
    const uint64_t bytes_of_buckets = space.heap().stats().bytes_live;
    uint64_t last_version = 0;
    for (int step = 0; step < 4'000; ++step) {
      const std::string key = std::string(prng.below(30), 'k') + std::to_string(prng.below(20));
      const PutOptions options = any_options(prng, space.clock().wall_ns());
      const std::string value = any_value(prng);
      const Result<uint64_t> version = space.table().put(bytes_of(key), bytes_of(value), options);
      ASSERT_TRUE(version.has_value());
      ASSERT_GT(*version, last_version);
      last_version = *version;
      model[key] = {.value = value, .version = *version, .expires_wall_ns = options.expires_wall_ns};
      if (step % 500 == 0) expect_as_in(space, model);
    }
    expect_as_in(space, model);
    // Each buffer was given back once, with as many bytes as were taken.
    for (const auto& [key, stored] : model) ASSERT_TRUE(space.table().erase(bytes_of(key), 0)) << key;
    space.heap().reclaim();
    EXPECT_EQ(space.heap().stats().buffers_live, 0u);
    EXPECT_EQ(space.heap().stats().bytes_live, bytes_of_buckets);
  }
}

// Puts of one call look for their places before the first of them is made. Others of the call put the same
// keys and split buckets meanwhile, and none of that shows.
TEST(TableReplace, puts_that_looked_for_their_places_together_are_as_single_ones) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Space space({.chunks = 64, .chunks_max = 64, .hash_seed = seed});
    Table& table = space.table();
    Prng prng(seed);
    Model model;
    const uint64_t bytes_of_buckets = space.heap().stats().bytes_live;
    uint64_t calls_that_moved_places = 0;
    for (int call = 0; call < 600; ++call) {
      std::vector<std::string> keys(1 + prng.below(16));
      // Of few keys at first, so that they are put twice in a call, then of many.
      std::ranges::generate(keys,
                            [&] { return std::to_string(prng.below(10 + 5 * static_cast<uint64_t>(call))); });
      std::vector<Table::Sought> many(keys.size());
      for (size_t i = 0; i < keys.size(); ++i) table.seek(bytes_of(keys[i]), many[i]);
      const uint64_t places_moved = table.fetch(many);
      for (size_t i = 0; i < keys.size(); ++i) {
        const PutOptions options = any_options(prng, space.clock().wall_ns());
        const std::string value = any_value(prng);
        const Result<uint64_t> version = table.put(many[i], bytes_of(value), options, places_moved);
        ASSERT_TRUE(version.has_value());
        model[keys[i]] = {.value = value, .version = *version, .expires_wall_ns = options.expires_wall_ns};
      }
      calls_that_moved_places += table.stats().places_moved() != places_moved ? 1 : 0;
      if (call % 100 == 0) expect_as_in(space, model);
    }
    EXPECT_GT(calls_that_moved_places, 50u);
    EXPECT_GT(table.stats().overflow_lines, 0u);
    expect_as_in(space, model);
    for (const auto& [key, stored] : model) ASSERT_TRUE(table.erase(bytes_of(key), 0)) << key;
    space.heap().reclaim();
    EXPECT_EQ(space.heap().stats().buffers_live, 0u);
    EXPECT_GE(space.heap().stats().bytes_live, bytes_of_buckets);
  }
}

// The memory of a line that has gone may be a value by now, whose client chooses its bytes.
TEST(TableReplace, a_place_in_a_line_that_has_gone_is_not_written) {
  Space space({.chunks = 8, .chunks_max = 8});
  Table& table = space.table();
  const test::LongBucket bucket(table);
  const std::string& key = bucket.coming.front();
  // A put of one pass takes a buffer that was given back.
  ASSERT_TRUE(table.put(bytes_of(bucket.leaving.front()), bytes_of("new"), {}).has_value());
  space.heap().reclaim();
  Table::Sought sought;
  table.seek(bytes_of(key), sought);
  const uint64_t places_moved = table.fetch({&sought, 1});
  const uint64_t lines = table.stats().overflow_lines;
  ASSERT_TRUE(table.put(bytes_of("one more"), bytes_of("v"), {}).has_value());
  ASSERT_LT(table.stats().overflow_lines, lines);
  space.writer().publish(sought.slot_at, sought.slot.bits);
  ASSERT_TRUE(table.put(sought, bytes_of("new"), {}, places_moved).has_value());
  EXPECT_EQ(space.writer().load(sought.slot_at), sought.slot.bits);
  const Result<Table::Entry> entry = table.find(bytes_of(key));
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(text_of(entry->value), "new");
}

// Whichever way a put takes, its record comes before its slot, and what a log still reads stays.
TEST(TableReplace, a_log_is_told_of_each_before_it_stands_and_makes_the_same_again) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Space space({.chunks = 48, .hash_seed = seed});
    test::ManualLog log;
    log.waits = true;
    log.needed_bytes_min = 100;
    space.table().log_to(&log);
    Prng prng(seed);
    Model model;
    log.on_append = [&](const test::ManualLog::Record& record) {
      const Result<Table::Entry> before = space.table().find(bytes_of(record.key));
      const auto known = model.find(record.key);
      ASSERT_EQ(before.has_value(), known != model.end()) << record.key;
      if (!before) return;
      ASSERT_EQ(before->version, known->second.version);
    };
    for (int step = 0; step < 4'000; ++step) {
      const std::string key = std::to_string(prng.below(20));
      const PutOptions options = any_options(prng, space.clock().wall_ns());
      const std::string value = any_value(prng);
      log.room = prng.below(20) == 0 ? Code::kOverloaded : Code::kOk;
      const size_t told = log.records.size();
      const Result<uint64_t> version = space.table().put(bytes_of(key), bytes_of(value), options);
      ASSERT_EQ(version.has_value(), log.room == Code::kOk);
      ASSERT_EQ(log.records.size(), told + (version ? 1 : 0));
      if (!version) continue;
      model[key] = {.value = value, .version = *version, .expires_wall_ns = options.expires_wall_ns};
      if (prng.below(10) == 0) {
        for (const auto& record : log.records) {
          if (record.end <= log.confirmed_position || record.value.size() < 100) continue;
          ASSERT_EQ(space.writer().load(record.buffer), record.stamp) << "its bytes are still to be read";
        }
        log.confirm_all();
        (void)space.table().release_held_back();
      }
    }
    expect_as_in(space, model);
    Space again({.chunks = 48, .hash_seed = seed});
    for (const auto& record : log.records) {
      ASSERT_TRUE(
          again.table().restore(again.table().hashed(bytes_of(record.key)), record.change()).has_value());
    }
    expect_as_in(again, model);
  }
}

TEST(TableReplace, a_restart_finds_the_same) {
  Space space({.chunks = 48});
  Prng prng(5);
  Model model;
  for (int step = 0; step < 2'000; ++step) {
    const std::string key = std::to_string(prng.below(50));
    const std::string value = any_value(prng);
    const Result<uint64_t> version = space.table().put(bytes_of(key), bytes_of(value), {});
    ASSERT_TRUE(version.has_value());
    model[key] = {.value = value, .version = *version};
    if (step % 200 != 0) continue;
    space.restart();
    expect_as_in(space, model);
  }
}

}  // namespace
}  // namespace refract::kv::table_replace_test
