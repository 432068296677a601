// SPDX-License-Identifier: Apache-2.0
// Batches of a table with a log: the group that they leave there, and that table and log have the same behind
// a kill at any store, and behind a second one in the recovery.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/kv/owner/table/replay.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_trial.h"

namespace refract::kv::table_group_test {
namespace {

using test::bytes_of;
using test::ManualLog;
using test::Space;
using test::text_of;
using test::Trial;
using Values = std::map<std::string, std::string>;

BatchWrite put_of(Table& table, std::string_view key, std::string_view value, uint64_t expires_wall_ns = 0) {
  return {.key = table.hashed(bytes_of(key)),
          .kind = WriteKind::kPut,
          .value = bytes_of(value),
          .expires_wall_ns = expires_wall_ns};
}
BatchWrite erase_of(Table& table, std::string_view key) {
  return {.key = table.hashed(bytes_of(key)), .kind = WriteKind::kErase};
}
BatchWrite add_of(Table& table, std::string_view key, int64_t addend) {
  return {.key = table.hashed(bytes_of(key)), .kind = WriteKind::kAdd, .addend = addend};
}
std::string value_in(Space& space, std::string_view key) {
  const Result<Table::Entry> entry = space.table().find(bytes_of(key));
  return entry ? text_of(entry->value) : std::string(text(entry.error().code));
}
Values values_in(Space& space, const Values& keys) {
  Values values;
  for (const auto& [key, value] : keys) values[key] = value_in(space, key);
  return values;
}
void expect_sound(Space& space) {
  const auto damage = space.table().validate();
  EXPECT_FALSE(damage) << damage->what << " at " << damage->at.value;
}

// What a recovery is told of the log's last group.
struct LastGroup {
  explicit LastGroup(const ManualLog& log) {
    for (const ManualLog::Record& record : log.records) {
      if (record.group == log.records.back().group) stamps.push_back(record.stamp);
    }
    change = {.kind = ChangeLog::Kind::kGroup, .stamp = log.records.back().group, .group = stamps};
  }
  std::vector<uint64_t> stamps;
  ChangeLog::Change change;
};

class TableGroups : public testing::Test {
 protected:
  TableGroups() { table().log_to(&log); }
  Table& table() { return space.table(); }
  uint64_t put(std::string_view key, std::string_view value) {
    return refract::test::needed(table().put(bytes_of(key), bytes_of(value), {}));
  }
  Code change(std::vector<BatchWrite> writes, std::vector<BatchCondition> conditions = {}) {
    TableBatch batch{.conditions = conditions, .writes = writes, .request = {.client = 5, .sequence = 6}};
    const Result<> changed = table().change_at_once(batch);
    made = std::move(writes);
    return changed.code();
  }
  // Conditions and evictions log nothing here: all that a batch does to the log is its group.
  void expect_nothing_logged(size_t before) {
    EXPECT_EQ(log.records.size(), before);
    expect_sound(space);
  }

 public:
  Space space{{.chunks = 8, .chunks_max = 8}};
  ManualLog log;
  std::vector<BatchWrite> made;
};

TEST_F(TableGroups, a_batch_is_one_group_in_the_log_before_anybody_sees_it) {
  const uint64_t old = put("gone", "was here");
  put("n", "41");
  const uint64_t expires = space.clock().wall_ns() + 1'000;
  Values seen;
  const Values before{{"a", "not_found"}, {"gone", "was here"}, {"n", "41"}};
  log.on_append = [&](const ManualLog::Record&) {
    for (const auto& [key, value] : before) {
      MappedMemory memory(space.base(), space.bytes(), nullptr);
      seen[key] = test::read(memory, space.clock(), key);
    }
  };
  ASSERT_EQ(change({erase_of(table(), "gone"), put_of(table(), "a", "new", expires), add_of(table(), "n", 1),
                    erase_of(table(), "never there")}),
            Code::kOk);
  EXPECT_EQ(seen, before);
  ASSERT_EQ(log.records.size(), 5U);
  const ManualLog::Record& erase = log.records[2];
  const ManualLog::Record& first = log.records[3];
  const ManualLog::Record& sum = log.records[4];
  EXPECT_EQ(erase.kind, ChangeLog::Kind::kErase);
  EXPECT_EQ(erase.key, "gone");
  EXPECT_EQ(erase.value, "");
  EXPECT_GT(erase.stamp, old);
  EXPECT_EQ(first.key, "a");
  EXPECT_EQ(first.value, "new");
  EXPECT_EQ(first.expires_wall_ns, expires);
  EXPECT_EQ(first.request, (RequestId{.client = 5, .sequence = 6})) << "the first entry that it makes";
  EXPECT_EQ(first.stamp, made[1].version);
  EXPECT_EQ(sum.value, "42");
  EXPECT_EQ(sum.stamp, made[2].version);
  EXPECT_FALSE(sum.request);
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(log.records[i].group, erase.stamp - 1);
}

TEST_F(TableGroups, what_is_refused_and_what_changes_nothing_is_not_logged) {
  put("there", "1");
  put("text", "no number");
  const size_t before = log.records.size();
  const auto exists = [&](std::string_view key, ConditionKind kind) {
    return BatchCondition{.key = table().hashed(bytes_of(key)), .kind = kind};
  };
  const std::vector<BatchWrite> two{put_of(table(), "a", "1"), put_of(table(), "b", "1")};
  EXPECT_EQ(change(two, {exists("there", ConditionKind::kAbsent)}), Code::kExists);
  EXPECT_EQ(change({two[0], add_of(table(), "text", 1)}), Code::kInvalidArgument);
  EXPECT_EQ(change({two[0], two[0]}), Code::kInvalidArgument);
  EXPECT_EQ(change({}, {exists("there", ConditionKind::kExists)}), Code::kOk);
  EXPECT_EQ(change({erase_of(table(), "x"), erase_of(table(), "y")}), Code::kOk);
  expect_nothing_logged(before);
  EXPECT_EQ(value_in(space, "a"), "not_found");
}

TEST_F(TableGroups, without_room_in_the_log_nothing_is_changed) {
  const std::vector<BatchWrite> two{put_of(table(), "a", "1"), put_of(table(), "b", "1")};
  put("b", "0");
  const size_t before = log.records.size();
  for (const Code code : {Code::kOverloaded, Code::kReadOnly}) {
    log.room = code;
    EXPECT_EQ(change(two), code);
  }
  log.room = Code::kOk;
  log.group_bytes_max = 30;
  EXPECT_EQ(change(two), Code::kTooLarge) << "each of them is counted as a sum";
  expect_nothing_logged(before);
  EXPECT_EQ(value_in(space, "a"), "not_found");
  EXPECT_EQ(value_in(space, "b"), "0");
  log.group_bytes_max = UINT64_MAX;
  EXPECT_EQ(change(two), Code::kOk);
}

// Evicts one entry when it is asked, whose erasure takes the room that the log had.
class OneEntry final : public RoomMaker {
 public:
  OneEntry(Table& table, ManualLog& log, std::string_view key) : table_(table), log_(log), key_(key) {}
  Code make_room(uint64_t, int attempts) noexcept override {
    if (attempts > 0) return Code::kNoSpace;
    const Code code = table_.evict(table_.standing(table_.hashed(bytes_of(key_))));
    log_.room = Code::kOverloaded;
    return code;
  }
  void make_room_for_table() noexcept override {}

 private:
  Table& table_;
  ManualLog& log_;
  std::string_view key_;
};

TEST_F(TableGroups, what_makes_room_for_it_may_take_the_logs_room) {
  const std::string large(1 << 20, 'x');
  put("goes", large);
  std::vector<std::string> keys;
  while (table().put(bytes_of("fills " + std::to_string(keys.size())), bytes_of(large), {}))
    keys.emplace_back();
  OneEntry maker(table(), log, "goes");
  table().evict_by(&maker, nullptr);
  EXPECT_EQ(change({put_of(table(), "a", large), put_of(table(), "b", "1")}), Code::kOverloaded);
  EXPECT_EQ(log.records.back().key, "goes");
  EXPECT_EQ(value_in(space, "a"), "not_found");
  log.room = Code::kOk;
  EXPECT_EQ(change({put_of(table(), "a", large), put_of(table(), "b", "1")}), Code::kOk);
  table().evict_by(nullptr, nullptr);
  expect_sound(space);
}

TEST_F(TableGroups, a_replay_gives_every_entry_back_as_it_was) {
  put("gone", "was here");
  put("n", "41");
  const uint64_t expires = space.clock().wall_ns() + 1'000;
  ASSERT_EQ(
      change({put_of(table(), "a", "new", expires), erase_of(table(), "gone"), add_of(table(), "n", 1)}),
      Code::kOk);
  Space other;
  Replay replay(other.table(), other.heap());
  ASSERT_EQ(replay.apply(log.changes()), log.records.size());
  for (const char* key : {"a", "gone", "n"}) {
    const auto is = other.table().find(bytes_of(key));
    const auto should = table().find(bytes_of(key));
    ASSERT_EQ(is.code(), should.code()) << key;
    if (!should) continue;
    EXPECT_EQ(is->version, should->version);
    EXPECT_EQ(is->expires_wall_ns, should->expires_wall_ns);
    EXPECT_EQ(is->request, should->request);
    EXPECT_EQ(text_of(is->value), text_of(should->value));
  }
}

// A buffer that the log still has to read, and that a batch replaces or erases, is held back.
TEST_F(TableGroups, what_it_replaces_is_reused_only_when_the_log_has_read_it) {
  log.waits = true;
  log.needed_bytes_min = 100;
  put("a", std::string(200, 'a'));
  put("b", std::string(200, 'b'));
  ASSERT_EQ(change({put_of(table(), "a", std::string(300, 'c')), erase_of(table(), "b")}), Code::kOk);
  EXPECT_EQ(table().held_back().count(), 2U);
  log.confirm_all();
  EXPECT_EQ(table().release_held_back(), 2U);
}

// A recorded batch: where in its stores the log got the group.
struct Logged {
  Values before{{"a", "old a"}, {"b", "not_found"}, {"c", "old c"}, {"n", "41"}};
  Values after{{"a", "new a, which is longer"}, {"b", "new b"}, {"c", "not_found"}, {"n", "42"}};
  ManualLog log;
  size_t logged_at = 0;

  explicit Logged(Trial& trial) {
    Table& table = trial.space().table();
    trial.put("a", "old a");
    trial.put("c", "old c");
    trial.put("n", "41");
    table.log_to(&log);
    log.on_append = [&](const ManualLog::Record&) { logged_at = trial.stores_so_far(); };
    trial.record([&] {
      std::vector<BatchWrite> writes{put_of(table, "a", "new a, which is longer"),
                                     put_of(table, "b", "new b"), erase_of(table, "c"),
                                     add_of(table, "n", 1)};
      TableBatch batch{.conditions = {}, .writes = writes};
      EXPECT_TRUE(table.change_at_once(batch));
    });
  }
};

// A space killed behind so many stores is recovered with what the log had then, and says the same.
void expect_as_logged(Space& space, const Logged& logged, bool has_group) {
  const LastGroup last(logged.log);
  ASSERT_TRUE(space.try_restart(has_group ? &last.change : nullptr));
  EXPECT_EQ(values_in(space, logged.before), has_group ? logged.after : logged.before);
  expect_sound(space);
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(space.table().put(bytes_of("another " + std::to_string(i)), bytes_of("some value"), {}));
  }
  EXPECT_EQ(values_in(space, logged.before), has_group ? logged.after : logged.before);
  expect_sound(space);
}

TEST(GroupInterleaving, nothing_is_seen_before_the_log_has_the_group_and_all_behind_one_store_after_it) {
  Trial trial;
  const Logged logged(trial);
  for (const auto& [key, value] : logged.before) {
    EXPECT_EQ(trial.first_wrong(key), std::nullopt) << key;
    const std::vector<std::string> states = trial.states_of(key);
    // The decision is the very next store.
    EXPECT_EQ(states[logged.logged_at], value) << key;
    EXPECT_EQ(states[logged.logged_at + 1], logged.after.at(key)) << key;
  }
}

TEST(GroupInterleaving, a_kill_at_any_store_leaves_table_and_log_the_same) {
  Trial trial;
  const Logged logged(trial);
  for (size_t stores = 0; stores <= trial.stores().size(); ++stores) {
    SCOPED_TRACE(stores);
    if (stores <= logged.logged_at) expect_as_logged(*trial.killed_after(stores), logged, false);
    if (stores >= logged.logged_at) expect_as_logged(*trial.killed_after(stores), logged, true);
  }
}

TEST(GroupInterleaving, so_does_a_second_kill_in_the_recovery_of_the_first) {
  Trial trial;
  const Logged logged(trial);
  const LastGroup last(logged.log);
  for (size_t stores = 0; stores <= trial.stores().size(); ++stores) {
    SCOPED_TRACE(stores);
    const bool has_group = stores >= logged.logged_at;
    Trial second;
    std::memcpy(second.space().base(), trial.killed_after(stores)->base(), second.space().bytes());
    second.record([&] { ASSERT_TRUE(second.space().try_restart(has_group ? &last.change : nullptr)); });
    // The decision first: no reader sees one of them before all of them.
    for (const auto& [key, value] : logged.before) EXPECT_EQ(second.first_wrong(key), std::nullopt) << key;
    for (size_t again = 0; again <= second.stores().size(); ++again) {
      expect_as_logged(*second.killed_after(again), logged, has_group);
    }
  }
}

// Rules broken on purpose: the moment before the log has the group, and each record published by itself.
TEST(GroupInterleaving, a_decision_before_the_group_is_found) {
  Trial trial;
  const Logged logged(trial);
  const std::unique_ptr<Space> killed = trial.killed_after(logged.logged_at + 1);
  ASSERT_TRUE(killed->try_restart()) << "the log has nothing yet";
  EXPECT_NE(values_in(*killed, logged.before), logged.before);
}

TEST(GroupInterleaving, half_a_group_in_the_log_is_found) {
  Trial trial;
  const Logged logged(trial);
  LastGroup last(logged.log);
  for (const size_t kept : {size_t{1}, last.stamps.size() - 1}) {
    last.change.group = std::span(last.stamps).first(kept);
    const std::unique_ptr<Space> killed = trial.killed_after(logged.logged_at);
    std::vector<std::byte> bytes(killed->base(), killed->base() + killed->bytes());
    EXPECT_EQ(killed->try_restart(&last.change).code(), Code::kCorrupt);
    EXPECT_EQ(std::memcmp(bytes.data(), killed->base(), bytes.size()), 0) << "nothing was stored";
  }
}

// The last group is an older batch's: what is pending was never logged.
TEST(GroupInterleaving, what_is_pending_and_in_no_group_has_not_happened) {
  Trial trial;
  Table& table = trial.space().table();
  ManualLog log;
  table.log_to(&log);
  const auto change = [&](std::string_view value) {
    std::vector<BatchWrite> writes{put_of(table, "a", value), put_of(table, "b", value)};
    TableBatch batch{.conditions = {}, .writes = writes};
    EXPECT_TRUE(table.change_at_once(batch));
  };
  change("older");
  const LastGroup older(log);
  size_t logged_at = 0;
  log.on_append = [&](const ManualLog::Record&) { logged_at = trial.stores_so_far(); };
  trial.record([&] { change("younger"); });
  for (size_t stores = 0; stores <= logged_at; ++stores) {
    const std::unique_ptr<Space> killed = trial.killed_after(stores);
    ASSERT_TRUE(killed->try_restart(&older.change));
    EXPECT_EQ(value_in(*killed, "a"), "older");
    EXPECT_EQ(value_in(*killed, "b"), "older");
    expect_sound(*killed);
  }
}

TEST(GroupInterleaving, a_group_is_never_made_again) {
  Trial trial;
  Space& space = trial.space();
  ManualLog log;
  space.table().log_to(&log);
  const uint64_t expires = space.clock().wall_ns() + 100;
  std::vector<BatchWrite> writes{put_of(space.table(), "soon", "1", expires),
                                 put_of(space.table(), "a", "1")};
  TableBatch batch{.conditions = {}, .writes = writes};
  ASSERT_TRUE(space.table().change_at_once(batch));
  space.clock().advance_ns(200);
  EXPECT_EQ(space.table().sweep(1'000), 1U);
  trial.record([] {});
  const LastGroup last(log);
  const std::unique_ptr<Space> killed = trial.killed_after(0);
  ASSERT_TRUE(killed->try_restart(&last.change));
  EXPECT_EQ(value_in(*killed, "soon"), "not_found");
  EXPECT_EQ(value_in(*killed, "a"), "1");
  EXPECT_EQ(killed->table().stats().entries, 1U);
}

}  // namespace
}  // namespace refract::kv::table_group_test
