// SPDX-License-Identifier: Apache-2.0
// Batches: their conditions, and that all of one is seen at one moment, by readers whose loads fall anywhere
// between the owner's stores, and by the next owner after a kill at any of them.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "refract/base/testing/keys_of_hash.h"
#include "refract/kv/testing/test_trial.h"

namespace refract::kv::table_batch_test {
namespace {

using test::bytes_of;
using test::Space;
using test::text_of;
using test::Trial;

// A batch as people write it, with its own memory.
class Batch {
 public:
  explicit Batch(Table& table) : table_(table) {}

  Batch& absent(std::string_view key) { return when(key, ConditionKind::kAbsent); }
  Batch& exists(std::string_view key) { return when(key, ConditionKind::kExists); }
  Batch& version(std::string_view key, uint64_t version) {
    when(key, ConditionKind::kVersion);
    conditions_.back().version = version;
    return *this;
  }
  Batch& value(std::string_view key, std::string_view value) {
    when(key, ConditionKind::kValue);
    conditions_.back().value = bytes_of(value);
    return *this;
  }
  Batch& put(std::string_view key, std::string_view value, uint64_t expires_wall_ns = 0) {
    writes_.push_back({.key = table_.hashed(bytes_of(key)),
                       .kind = WriteKind::kPut,
                       .value = bytes_of(value),
                       .expires_wall_ns = expires_wall_ns});
    return *this;
  }
  Batch& erase(std::string_view key) {
    writes_.push_back({.key = table_.hashed(bytes_of(key)), .kind = WriteKind::kErase});
    return *this;
  }
  Batch& add(std::string_view key, int64_t addend) {
    writes_.push_back({.key = table_.hashed(bytes_of(key)), .kind = WriteKind::kAdd, .addend = addend});
    return *this;
  }
  [[nodiscard]] Code run() {
    TableBatch batch{.conditions = conditions_, .writes = writes_};
    const Result<> changed = table_.change_at_once(batch);
    failed = batch.failed;
    return changed.code();
  }
  [[nodiscard]] const BatchWrite& write(size_t i) const { return writes_[i]; }
  size_t failed = 0;

 private:
  Batch& when(std::string_view key, ConditionKind kind) {
    conditions_.push_back({.key = table_.hashed(bytes_of(key)), .kind = kind});
    return *this;
  }

  Table& table_;
  std::vector<BatchCondition> conditions_;
  std::vector<BatchWrite> writes_;
};

std::string value_in(Space& space, std::string_view key) {
  const Result<Table::Entry> entry = space.table().find(bytes_of(key));
  return entry ? text_of(entry->value) : std::string(text(entry.error().code));
}
void expect_sound(Space& space) {
  const auto damage = space.table().validate();
  EXPECT_FALSE(damage) << damage->what << " at " << damage->at.value;
}
uint64_t put(Space& space, std::string_view key, std::string_view value, uint64_t expires_wall_ns = 0) {
  return refract::test::needed(
      space.table().put(bytes_of(key), bytes_of(value), {.expires_wall_ns = expires_wall_ns}));
}

TEST(Batches, all_writes_are_made_and_told) {
  Space space;
  const uint64_t old = put(space, "gone", "was here");
  put(space, "n", "40");
  Batch batch(space.table());
  batch.put("new", "1").erase("gone").add("n", 2).add("fresh", -7).erase("never there");
  ASSERT_EQ(batch.run(), Code::kOk);
  EXPECT_EQ(value_in(space, "new"), "1");
  EXPECT_EQ(value_in(space, "gone"), "not_found");
  EXPECT_EQ(value_in(space, "n"), "42");
  EXPECT_EQ(value_in(space, "fresh"), "-7");
  EXPECT_EQ(batch.write(0).version, space.table().find(bytes_of("new"))->version);
  EXPECT_EQ(batch.write(1).version, old);
  EXPECT_EQ(batch.write(2).sum, 42);
  EXPECT_EQ(batch.write(3).sum, -7);
  EXPECT_EQ(batch.write(4).version, 0U);
  EXPECT_EQ(space.table().stats().entries, 3U);
  expect_sound(space);
}

TEST(Batches, a_condition_that_does_not_hold_is_named_and_nothing_changes) {
  Space space;
  const uint64_t version = put(space, "key", "value");
  const uint64_t live = space.heap().stats().bytes_live;
  const auto refused = [&](Batch& batch, Code code, size_t failed) {
    batch.put("one", "1").put("two", "2");
    EXPECT_EQ(batch.run(), code);
    EXPECT_EQ(batch.failed, failed);
    EXPECT_EQ(space.table().stats().entries, 1U);
    EXPECT_EQ(space.heap().stats().bytes_live, live);
  };
  refused(Batch(space.table()).exists("key").absent("key"), Code::kExists, 1);
  refused(Batch(space.table()).exists("none"), Code::kNotFound, 0);
  refused(Batch(space.table()).version("key", version + 1), Code::kVersionMismatch, 0);
  refused(Batch(space.table()).version("none", version), Code::kNotFound, 0);
  refused(Batch(space.table()).absent("none").value("key", "values"), Code::kVersionMismatch, 1);
  refused(Batch(space.table()).value("none", ""), Code::kNotFound, 0);
  Batch held(space.table());
  held.absent("none").exists("key").version("key", version).value("key", "value").put("a", "1").erase("key");
  EXPECT_EQ(held.run(), Code::kOk);
  EXPECT_EQ(value_in(space, "key"), "not_found");
  expect_sound(space);
}

TEST(Batches, conditions_alone_change_nothing) {
  Space space;
  const uint64_t version = put(space, "key", "value");
  EXPECT_EQ(Batch(space.table()).version("key", version).absent("other").run(), Code::kOk);
  EXPECT_EQ(Batch(space.table()).run(), Code::kOk);
  EXPECT_EQ(space.table().find(bytes_of("key"))->version, version);
}

TEST(Batches, an_add_needs_a_number_with_room_above_it) {
  Space space;
  put(space, "text", "12a");
  put(space, "empty", "");
  put(space, "spaced", " 1");
  put(space, "signed", "+1");
  put(space, "agent", "007");
  put(space, "minus", "-0");
  put(space, "most", std::to_string(std::numeric_limits<int64_t>::max()));
  for (const char* key : {"text", "empty", "spaced", "signed", "agent", "minus", "most"}) {
    Batch alone(space.table());
    EXPECT_EQ(alone.add(key, 1).run(), Code::kInvalidArgument) << key;
    Batch batch(space.table());
    EXPECT_EQ(batch.exists(key).put("other", "1").add(key, 1).run(), Code::kInvalidArgument) << key;
    EXPECT_EQ(batch.failed, 2U);
    EXPECT_EQ(value_in(space, "other"), "not_found");
  }
  EXPECT_EQ(Batch(space.table()).add("most", std::numeric_limits<int64_t>::min()).run(), Code::kOk);
  EXPECT_EQ(value_in(space, "most"), "-1");
}

TEST(Batches, an_add_keeps_the_time_to_live_and_what_expired_counts_as_nothing) {
  Space space;
  const uint64_t now = space.clock().wall_ns();
  put(space, "soon", "5", now + 10);
  put(space, "over", "100", now + 1);
  space.clock().advance_ns(5);
  Batch batch(space.table());
  ASSERT_EQ(batch.absent("over").add("soon", 1).add("over", 1).run(), Code::kOk);
  EXPECT_EQ(value_in(space, "soon"), "6");
  EXPECT_EQ(value_in(space, "over"), "1");
  EXPECT_EQ(space.table().stats().expiring_entries, 1U);
  space.clock().advance_ns(5);
  EXPECT_EQ(value_in(space, "soon"), "not_found");
  EXPECT_EQ(value_in(space, "over"), "1");
  expect_sound(space);
}

TEST(Batches, a_key_twice_is_refused) {
  Space space;
  Batch batch(space.table());
  EXPECT_EQ(batch.exists("x").put("a", "1").put("b", "2").erase("a").run(), Code::kInvalidArgument);
  EXPECT_EQ(batch.failed, 3U);
}

TEST(Batches, new_entries_of_one_bucket_get_places_of_their_own) {
  Space space;
  const std::vector<std::string> keys = test::keys_of_bucket(space.table(), 3, 16, 40);
  Batch batch(space.table());
  for (const std::string& key : keys) batch.put(key, key);
  ASSERT_EQ(batch.run(), Code::kOk);
  for (const std::string& key : keys) EXPECT_EQ(value_in(space, key), key);
  expect_sound(space);
  space.restart();
  for (const std::string& key : keys) EXPECT_EQ(value_in(space, key), key);
  expect_sound(space);
}

TEST(Batches, without_memory_nothing_changes) {
  Space space({.chunks = 5, .chunks_max = 5});
  const std::string large(300 << 10, 'x');
  put(space, "old", "1");
  const uint64_t live = space.heap().stats().bytes_live;
  Batch batch(space.table());
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back("large " + std::to_string(i));
  batch.erase("old");
  for (const std::string& key : keys) batch.put(key, large);
  EXPECT_EQ(batch.run(), Code::kNoSpace);
  EXPECT_GT(batch.failed, 0U);
  EXPECT_EQ(space.heap().stats().bytes_live, live);
  EXPECT_EQ(value_in(space, "old"), "1");
  EXPECT_EQ(space.table().stats().entries, 1U);
  expect_sound(space);
}

// What a batch wrote is written, erased, read and split as any other.
TEST(Batches, entries_of_batches_live_on) {
  Space space;
  Batch batch(space.table());
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) keys.push_back("key " + std::to_string(i));
  for (const std::string& key : keys) batch.put(key, "by a batch");
  ASSERT_EQ(batch.run(), Code::kOk);
  EXPECT_GT(space.table().stats().buckets, 16U);
  const uint64_t with_trailers = space.heap().stats().bytes_live;
  for (size_t i = 0; i < keys.size(); i += 2) put(space, keys[i], "by a put");
  for (size_t i = 1; i < keys.size(); i += 2) EXPECT_TRUE(space.table().erase(bytes_of(keys[i]), 0));
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(value_in(space, keys[i]), i % 2 == 0 ? "by a put" : "not_found");
  }
  space.heap().reclaim();
  EXPECT_LT(space.heap().stats().bytes_live, with_trailers);
  expect_sound(space);
  space.restart();
  expect_sound(space);
}

using Values = std::map<std::string, std::string>;

// Of a recorded batch: the same number of stores brings all keys from what they were to what they become, and
// no read says anything else.
void expect_one_moment(Trial& trial, const Values& before, const Values& after) {
  std::map<std::string, std::vector<std::string>> states;
  for (const auto& [key, value] : before) states[key] = trial.states_of(key);
  bool has_happened = false;
  for (size_t stores = 0; stores <= trial.stores().size(); ++stores) {
    const std::string& witness = before.begin()->first;
    if (states[witness][stores] == after.at(witness)) has_happened = true;
    const Values& now = has_happened ? after : before;
    for (const auto& [key, value] : now) EXPECT_EQ(states[key][stores], value) << key << " behind " << stores;
  }
  EXPECT_TRUE(has_happened);
  for (const auto& [key, value] : before) EXPECT_EQ(trial.first_wrong(key), std::nullopt) << key;
}

// Killed behind any store, and again behind any store of the recovery: all of it or nothing.
void expect_all_or_nothing_after_a_kill(Trial& trial, const Values& before, const Values& after) {
  for (size_t stores = 0; stores <= trial.stores().size(); ++stores) {
    const std::unique_ptr<Space> killed = trial.killed_after(stores);
    ASSERT_TRUE(killed->try_restart()) << stores;
    const std::string& witness = before.begin()->first;
    const Values& expected = value_in(*killed, witness) == before.at(witness) ? before : after;
    for (const auto& [key, value] : expected)
      EXPECT_EQ(value_in(*killed, key), value) << key << " at " << stores;
    expect_sound(*killed);
    // What it gives out again is nothing that the table names.
    for (int i = 0; i < 50; ++i) put(*killed, "another " + std::to_string(i), "some other value");
    for (const auto& [key, value] : expected)
      EXPECT_EQ(value_in(*killed, key), value) << key << " at " << stores;
    expect_sound(*killed);
  }
}

struct Recorded {
  Values before{{"a", "old a"}, {"b", "not_found"}, {"c", "old c"}, {"n", "41"}};
  Values after{{"a", "new a, which is longer"}, {"b", "new b"}, {"c", "not_found"}, {"n", "42"}};

  explicit Recorded(Trial& trial) {
    trial.put("a", "old a");
    trial.put("c", "old c");
    trial.put("n", "41");
    trial.record([&] {
      EXPECT_EQ(Batch(trial.space().table())
                    .put("a", "new a, which is longer")
                    .put("b", "new b")
                    .erase("c")
                    .add("n", 1)
                    .run(),
                Code::kOk);
    });
  }
};

TEST(BatchInterleaving, all_writes_are_seen_at_one_moment) {
  Trial trial;
  const Recorded recorded(trial);
  expect_one_moment(trial, recorded.before, recorded.after);
}

TEST(BatchInterleaving, also_when_the_buffers_are_used_again_at_once) {
  Trial trial;
  trial.put("a", "old a");
  trial.put("b", "old b");
  trial.record([&] {
    ASSERT_EQ(Batch(trial.space().table()).put("a", "new a").put("b", "new b").run(), Code::kOk);
    trial.reuse_now();
    trial.put("c", "old a");
    trial.put("d", "old b");
    ASSERT_EQ(Batch(trial.space().table()).put("a", "last a").erase("b").run(), Code::kOk);
    trial.reuse_now();
  });
  EXPECT_EQ(trial.history("a"), (std::vector<std::string>{"old a", "new a", "last a"}));
  EXPECT_EQ(trial.history("b"), (std::vector<std::string>{"old b", "new b", "not_found"}));
  for (const char* key : {"a", "b", "c", "d"}) EXPECT_EQ(trial.first_wrong(key), std::nullopt) << key;
}

// Rules broken on purpose, each found.
bool has_one_moment(Trial& trial, const Values& before, const Values& after) {
  for (size_t stores = 0; stores <= trial.stores().size(); ++stores) {
    size_t old = 0;
    for (const auto& [key, value] : before) old += trial.states_of(key)[stores] == value ? 1 : 0;
    if (old != 0 && old != before.size()) return false;
  }
  return trial.states_of(after.begin()->first).back() == after.begin()->second;
}
auto decision_in(std::vector<sim::Store>& stores) {
  return std::ranges::find_if(stores, [](const sim::Store& store) { return store.at == kDecisionAt; });
}

TEST(BatchInterleaving, a_decision_before_the_last_pending_entry_is_found) {
  Trial trial;
  const Recorded recorded(trial);
  EXPECT_TRUE(has_one_moment(trial, recorded.before, recorded.after));
  auto& stores = trial.stores();
  const auto decision = decision_in(stores);
  ASSERT_NE(decision, stores.end());
  std::rotate(decision - 1, decision, decision + 1);
  EXPECT_FALSE(has_one_moment(trial, recorded.before, recorded.after));
}

TEST(BatchInterleaving, a_flag_cleared_before_the_decision_is_found) {
  Trial trial;
  const Recorded recorded(trial);
  auto& stores = trial.stores();
  const auto decision = decision_in(stores);
  ASSERT_LT(decision + 1, stores.end());
  std::rotate(decision, decision + 1, decision + 2);
  EXPECT_FALSE(has_one_moment(trial, recorded.before, recorded.after));
}

class DeafMemory : public SimReaderMemory {
 public:
  using SimReaderMemory::SimReaderMemory;
  [[nodiscard]] uint64_t observe(Offset at) {
    const uint64_t word = SimReaderMemory::observe(at);
    return at == kDecisionAt ? 0 : word;
  }
};

TEST(BatchInterleaving, a_reader_that_ignores_the_decision_is_found) {
  Trial trial;
  const Recorded recorded(trial);
  EXPECT_NE(trial.first_wrong<DeafMemory>("a"), std::nullopt);
}

TEST(BatchInterleaving, a_kill_leaves_all_of_it_or_nothing) {
  Trial trial;
  const Recorded recorded(trial);
  expect_all_or_nothing_after_a_kill(trial, recorded.before, recorded.after);
}

TEST(BatchInterleaving, so_does_a_second_kill_in_the_recovery_of_the_first) {
  Trial trial;
  const Recorded recorded(trial);
  for (size_t stores = 0; stores <= trial.stores().size(); ++stores) {
    Trial second;
    std::memcpy(second.space().base(), trial.killed_after(stores)->base(), second.space().bytes());
    second.record([&] { ASSERT_TRUE(second.space().try_restart()); });
    expect_all_or_nothing_after_a_kill(second, recorded.before, recorded.after);
  }
}

}  // namespace
}  // namespace refract::kv::table_batch_test
