// SPDX-License-Identifier: Apache-2.0
// Erasing all that is older than a moment, while all else happens to the table between the steps.
#include "refract/kv/owner/numbered/clear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/owner/parts/home_words.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_space.h"
#include "refract/kv/testing/test_two_shards.h"

namespace refract::kv::clear_test {
namespace {

using refract::test::needed;
using test::bytes_of;
using test::ManualLog;
using test::Space;
using test::text_of;
using test::TwoShards;

constexpr uint64_t kErasedOfStepMax = Table::Clear::kErasedMax + kLinesPerPiece * kSlotsPerBucket;

uint64_t put(Table& table, std::string_view key, std::string_view value, const PutOptions& options = {}) {
  return needed(table.put(bytes_of(key), bytes_of(value), options));
}
std::string value_in(Table& table, std::string_view key) {
  const Result<Table::Entry> entry = table.find(bytes_of(key));
  return entry ? text_of(entry->value) : "nothing";
}
std::string key_of(uint64_t number) {
  return "key " + std::to_string(number);
}
void expect_sound(Table& table) {
  const auto damage = table.validate();
  EXPECT_FALSE(damage) << damage->what << " at " << damage->at.value;
}

// A client that has begun.
struct Clearing {
  explicit Clearing(Table& table) : stamp(Table::Clear(table).begin()) {}

  // Returns how many went.
  uint64_t step(Table& table) {
    const Table::Clear::Step step = Table::Clear(table).step(stamp, cursor);
    EXPECT_EQ(step.code, Code::kOk);
    EXPECT_LE(step.erased, kErasedOfStepMax);
    cursor = step.next;
    waits = step.waits;
    is_over = step.next == 0 && !step.waits;
    ++steps;
    return step.erased;
  }
  uint64_t finish(Table& table) {
    uint64_t erased = 0;
    while (!is_over && !waits) erased += step(table);
    return erased;
  }

  uint64_t stamp;
  uint64_t cursor = 0;
  uint64_t steps = 0;
  bool waits = false;
  bool is_over = false;
};

TEST(Clear, an_empty_table_is_clear_at_once) {
  Space space;
  Clearing clearing(space.table());
  EXPECT_EQ(clearing.step(space.table()), 0U);
  EXPECT_TRUE(clearing.is_over);
}

// Between any two steps some keys are new, some old ones are written again, some are erased by others, and
// the table has more buckets.
TEST(Clear, what_is_older_goes_and_what_is_younger_stays_while_the_table_grows) {
  constexpr uint64_t kOld = 20'000;
  constexpr uint64_t kWrittenEach = 97;
  Space space({.chunks = 32, .chunks_max = 32});
  Table& table = space.table();
  for (uint64_t i = 0; i < kOld; ++i) put(table, key_of(i), "old");
  const uint64_t splits = table.stats().splits;
  Clearing clearing(table);
  uint64_t next = kOld;
  std::vector<std::string> younger;
  while (!clearing.is_over) {
    (void)clearing.step(table);
    for (int i = 0; i < 200; ++i) younger.push_back(key_of(next++));
    younger.push_back(key_of(clearing.steps * kWrittenEach % kOld));
    for (size_t i = younger.size() - 201; i < younger.size(); ++i) put(table, younger[i], "young");
    (void)table.erase(bytes_of(key_of(clearing.steps * kWrittenEach % kOld + 1)), 0);
  }
  EXPECT_GT(clearing.steps, kOld / kErasedOfStepMax / 2);
  EXPECT_GT(table.stats().splits, splits) << "or nothing was shown";
  for (uint64_t i = 0; i < kOld; ++i) {
    if (value_in(table, key_of(i)) == "old") ADD_FAILURE() << key_of(i);
  }
  uint64_t missing = 0;
  for (const std::string& key : younger) missing += value_in(table, key) == "young" ? 0 : 1;
  // Those that the test has erased itself.
  EXPECT_LE(missing, clearing.steps);
  for (uint64_t i = kOld; i < next; ++i) ASSERT_EQ(value_in(table, key_of(i)), "young") << key_of(i);
  expect_sound(table);
}

// A key that was chosen to stand in one bucket with thousands of others costs no more than any other.
TEST(Clear, a_crowded_bucket_is_cleared_in_pieces) {
  constexpr size_t kKeys = 6'000;
  Space space({.chunks = 24, .chunks_max = 24});
  Table& table = space.table();
  // Buckets are split as usual: the keys stay together longer than that.
  const std::vector<std::string> keys = test::keys_of_bucket(table, 5, uint64_t{1} << 11, kKeys / 20);
  for (const std::string& key : keys) put(table, key, "old");
  ASSERT_NE(table.crowds(), nullptr);
  ASSERT_GT(table.crowds()->count(), 0U);
  Clearing clearing(table);
  uint64_t erased = 0;
  while (!clearing.is_over) {
    erased += clearing.step(table);
    put(table, keys[clearing.steps], "young");
  }
  EXPECT_GE(clearing.steps, 2U);
  EXPECT_GE(erased + clearing.steps, keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool is_young = i >= 1 && i <= clearing.steps;
    EXPECT_EQ(value_in(table, keys[i]), is_young ? "young" : "nothing") << i;
  }
  expect_sound(table);
}

TEST(Clear, what_has_expired_goes_too_and_counts_as_expired) {
  Space space;
  Table& table = space.table();
  put(table, "brief", "v", {.expires_wall_ns = space.clock().wall_ns() + 5});
  put(table, "long", "v", {.expires_wall_ns = space.clock().wall_ns() + kSecond_ns});
  ManualLog log;
  table.log_to(&log);
  space.clock().advance_ns(10);
  Clearing clearing(table);
  EXPECT_EQ(clearing.finish(table), 2U);
  EXPECT_EQ(table.stats().entries, 0U);
  EXPECT_EQ(table.stats().expiring_entries, 0U);
  EXPECT_EQ(table.stats().expired, 1U);
  ASSERT_EQ(log.records.size(), 1U);
  EXPECT_EQ(log.records[0].key, "long");
}

// A message that comes late, a second clear beside the first, and steps of a process that came after a kill.
TEST(Clear, a_step_that_comes_again_erases_nothing_younger) {
  Space space;
  for (uint64_t i = 0; i < 2'000; ++i) put(space.table(), key_of(i), "old");
  Clearing first(space.table());
  (void)first.step(space.table());
  put(space.table(), "between", "v");
  Clearing second(space.table());
  space.restart();
  const Clearing late = first;
  (void)first.finish(space.table());
  EXPECT_EQ(value_in(space.table(), "between"), "v") << "it is younger than the first";
  EXPECT_EQ(space.table().stats().entries, 1U);
  EXPECT_EQ(second.finish(space.table()), 1U);
  for (uint64_t i = 0; i < 2'000; ++i) put(space.table(), key_of(i), "new");
  for (Clearing again = late; !again.is_over;) EXPECT_EQ(again.step(space.table()), 0U);
  EXPECT_EQ(space.table().stats().entries, 2'000U);
  expect_sound(space.table());
}

TEST(Clear, a_stamp_that_was_not_given_is_known) {
  Space space;
  put(space.table(), "key", "v");
  Table::Clear clear(space.table());
  const uint64_t stamp = clear.begin();
  EXPECT_TRUE(clear.was_given(stamp));
  EXPECT_FALSE(clear.was_given(stamp + 1'000));
  EXPECT_FALSE(clear.was_given(UINT64_MAX));
}

// Its stamp is from before the moment, and what was installed behind the end would go with a repeated step.
TEST(Clear, a_chain_that_allocated_before_it_is_refused) {
  Space space;
  Table& table = space.table();
  const uint64_t before = space.heap().next_stamp();
  const Table::Draft draft = needed(table.begin(table.hashed(bytes_of("key")), 1, {}));
  EXPECT_EQ(table.before_install(draft.buffer, before), Code::kOk);
  (void)Table::Clear(table).begin();
  EXPECT_EQ(table.before_install(draft.buffer, before), Code::kAccessDenied);
  EXPECT_EQ(table.before_install(draft.buffer, space.heap().next_stamp()), Code::kOk);
  table.abandon(draft);
}

// --- With a log ---

// All that was told to it makes the same table, wherever a log ends.
TEST(Clear, nothing_that_went_comes_back_from_the_log) {
  Space space;
  ManualLog log;
  Table& table = space.table();
  table.log_to(&log);
  for (uint64_t i = 0; i < 3'000; ++i) put(table, key_of(i), "old");
  Clearing clearing(table);
  while (!clearing.is_over) {
    (void)clearing.step(table);
    put(table, key_of(clearing.steps * 31 % 3'000), "young");
  }
  Space after;
  for (const ChangeLog::Change& change : log.changes()) {
    ASSERT_TRUE(after.table().restore(after.table().hashed(change.key), change).has_value());
  }
  EXPECT_EQ(after.table().stats().entries, table.stats().entries);
  for (uint64_t i = 0; i < 3'000; ++i) {
    EXPECT_EQ(value_in(after.table(), key_of(i)), value_in(table, key_of(i))) << i;
  }
}

TEST(Clear, without_room_in_the_log_a_step_ends_and_waits) {
  Space space;
  ManualLog log;
  Table& table = space.table();
  table.log_to(&log);
  for (uint64_t i = 0; i < 100; ++i) put(table, key_of(i), "old");
  Clearing clearing(table);
  log.on_append = [&](const ManualLog::Record&) {
    if (log.records.size() == 103) log.room = Code::kOverloaded;
  };
  EXPECT_EQ(clearing.step(table), 3U);
  EXPECT_TRUE(clearing.waits);
  EXPECT_FALSE(clearing.is_over);
  EXPECT_EQ(clearing.step(table), 0U);
  EXPECT_TRUE(clearing.waits);
  log.room = Code::kOk;
  clearing.waits = false;
  EXPECT_EQ(clearing.finish(table), 97U);
  EXPECT_EQ(table.stats().entries, 0U);
  put(table, "one more", "v");
  log.room = Code::kReadOnly;
  Clearing other(table);
  EXPECT_EQ(Table::Clear(table).step(other.stamp, 0).code, Code::kReadOnly);
}

// --- Beside transactions over several shards ---

struct Node : TwoShards {
  Node() : words(*decisions, 0, 0) {
    decisions->recovered();
    decisions->recovered();
  }
  [[nodiscard]] TransactionName begin() {
    const auto given = words.give(++session, 1, 0);
    return {.place = given.at(0).place, .number = given.at(0).first};
  }
  // At shard 1.
  [[nodiscard]] Code prepare(const TransactionName& name, std::vector<BatchWrite> writes,
                             std::vector<BatchCondition> conditions = {}) {
    TableBatch batch{.conditions = conditions, .writes = writes};
    return parts(1).prepare(batch, {.name = name, .session = 9, .now_ns = 1}).code();
  }
  [[nodiscard]] Code decide(const TransactionName& name) {
    TableBatch nothing;
    return parts(0).decide(nothing, name).code();
  }
  [[nodiscard]] Code abort(const TransactionName& name) { return parts(1).settle(name); }
  [[nodiscard]] BatchWrite write(std::string_view key, std::string_view value) {
    return {.key = table(1).hashed(bytes_of(key)), .kind = WriteKind::kPut, .value = bytes_of(value)};
  }
  [[nodiscard]] BatchCondition exists(std::string_view key) {
    return {.key = table(1).hashed(bytes_of(key)), .kind = ConditionKind::kExists};
  }

  HomeWords words;
  uint64_t session = 0;
};

// What was prepared before the moment is older, also where it is decided behind it.
TEST(Clear, a_pending_key_is_waited_for_and_goes_when_it_has_happened) {
  Node node;
  const TransactionName name = node.begin();
  node.put(1, "old", "1");
  ASSERT_EQ(node.prepare(name, {node.write("old", "2"), node.write("new", "3")}), Code::kOk);
  Clearing clearing(node.table(1));
  (void)clearing.finish(node.table(1));
  EXPECT_TRUE(clearing.waits);
  EXPECT_FALSE(clearing.is_over);
  ASSERT_EQ(node.decide(name), Code::kOk);
  clearing.waits = false;
  EXPECT_EQ(clearing.finish(node.table(1)), 2U);
  EXPECT_TRUE(clearing.is_over);
  EXPECT_EQ(node.table(1).stats().entries, 0U);
  EXPECT_EQ(node.parts(1).count(), 0U) << "it was settled on the way";
  expect_sound(node.table(1));
}

// Of a transaction that began behind the moment what it writes stays, and what it would have replaced goes
// where it does not happen.
TEST(Clear, of_a_younger_transaction_the_old_value_goes_or_the_new_one_stays) {
  for (const bool happens : {true, false}) {
    Node node;
    const TransactionName name = node.begin();
    node.put(1, "key", "old");
    Clearing clearing(node.table(1));
    ASSERT_EQ(node.prepare(name, {node.write("key", "young")}), Code::kOk);
    (void)clearing.finish(node.table(1));
    EXPECT_TRUE(clearing.waits);
    EXPECT_EQ(happens ? node.decide(name) : node.abort(name), happens ? Code::kOk : Code::kConflict);
    clearing.waits = false;
    EXPECT_EQ(clearing.finish(node.table(1)), happens ? 0U : 1U);
    EXPECT_EQ(value_in(node.table(1), "key"), happens ? "young" : "nothing");
    expect_sound(node.table(1));
  }
}

// What a transaction has read stays until it is decided; of a younger key nothing is waited for.
TEST(Clear, a_marked_key_is_waited_for_if_it_is_older) {
  Node node;
  node.put(1, "old", "1");
  Clearing clearing(node.table(1));
  node.put(1, "young", "1");
  ASSERT_EQ(node.prepare(node.begin(), {}, {node.exists("young")}), Code::kOk);
  const TransactionName name = node.begin();
  ASSERT_EQ(node.prepare(name, {}, {node.exists("old")}), Code::kOk);
  (void)clearing.finish(node.table(1));
  EXPECT_TRUE(clearing.waits);
  EXPECT_EQ(value_in(node.table(1), "old"), "1");
  ASSERT_EQ(node.abort(name), Code::kConflict);
  clearing.waits = false;
  EXPECT_EQ(clearing.finish(node.table(1)), 1U);
  EXPECT_TRUE(clearing.is_over);
  EXPECT_EQ(value_in(node.table(1), "young"), "1");
}

// Settling what has been decided removes entries and unlinks lines of the bucket that is looked at.
TEST(Clear, keys_that_are_decided_are_settled_on_the_way_however_many_share_a_bucket) {
  Node node;
  Table& table = node.table(1);
  const std::vector<std::string> keys = test::keys_of_bucket(table, 3, 16, 40);
  std::vector<TransactionName> undecided;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i % 3 == 0) node.put(1, keys[i], "old");
    const TransactionName name = node.begin();
    ASSERT_EQ(node.prepare(name, {node.write(keys[i], "v")}), Code::kOk);
    if (i % 2 == 0) {
      ASSERT_EQ(node.decide(name), Code::kOk);
    } else {
      undecided.push_back(name);
    }
  }
  Clearing clearing(table);
  (void)clearing.finish(table);
  EXPECT_TRUE(clearing.waits);
  for (const TransactionName& name : undecided) EXPECT_EQ(node.abort(name), Code::kConflict);
  clearing.waits = false;
  (void)clearing.finish(table);
  EXPECT_TRUE(clearing.is_over);
  EXPECT_EQ(table.stats().entries, 0U);
  EXPECT_EQ(node.parts(1).count(), 0U);
  expect_sound(table);
}

}  // namespace
}  // namespace refract::kv::clear_test
