// SPDX-License-Identifier: Apache-2.0
// Parts of transactions over several shards: what is held meanwhile, and against which writes, that all keys
// of both shards change at one moment for readers whose loads fall anywhere, and what the next owners make of
// a kill at any store of either.
#include "refract/kv/owner/parts/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/direct/careful_reader.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/owner/parts/home_words.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::parts_test {
namespace {

using refract::test::needed;
using test::bytes_of;
using test::Space;
using test::text_of;

// What one shard is asked to change.
class Asked {
 public:
  explicit Asked(Space& space) : table_(space.table()) {}
  Asked& put(std::string_view key, std::string_view value) {
    writes_.push_back(
        {.key = table_.hashed(bytes_of(key)), .kind = WriteKind::kPut, .value = bytes_of(value)});
    return *this;
  }
  Asked& exists(std::string_view key) {
    conditions_.push_back({.key = table_.hashed(bytes_of(key)), .kind = ConditionKind::kExists});
    return *this;
  }
  Asked& value(std::string_view key, std::string_view value) {
    conditions_.push_back(
        {.key = table_.hashed(bytes_of(key)), .kind = ConditionKind::kValue, .value = bytes_of(value)});
    return *this;
  }
  Asked& add(std::string_view key, int64_t addend) {
    writes_.push_back({.key = table_.hashed(bytes_of(key)), .kind = WriteKind::kAdd, .addend = addend});
    return *this;
  }
  Asked& erase(std::string_view key) {
    writes_.push_back({.key = table_.hashed(bytes_of(key)), .kind = WriteKind::kErase});
    return *this;
  }
  Asked& run(std::string_view key, functions::Function function, std::string_view arguments) {
    rows_.push_back({.function = function});
    writes_.push_back({.key = table_.hashed(bytes_of(key)),
                       .kind = WriteKind::kFunction,
                       .value = bytes_of(arguments),
                       .row = &rows_.back()});
    return *this;
  }
  Asked& absent(std::string_view key) {
    conditions_.push_back({.key = table_.hashed(bytes_of(key)), .kind = ConditionKind::kAbsent});
    return *this;
  }
  Asked& version(std::string_view key, uint64_t version) {
    conditions_.push_back(
        {.key = table_.hashed(bytes_of(key)), .kind = ConditionKind::kVersion, .version = version});
    return *this;
  }
  [[nodiscard]] TableBatch batch() { return {.conditions = conditions_, .writes = writes_}; }
  [[nodiscard]] const BatchWrite& write(size_t i) const { return writes_[i]; }

 private:
  Table& table_;
  std::vector<BatchCondition> conditions_;
  std::vector<BatchWrite> writes_;
  std::deque<BatchRow> rows_;
};

// Two shards of a node: the home, number 0, and another.
class TwoShards {
 public:
  TwoShards() {
    const std::vector<Decisions::Home> homes{{.space = home.base()}, {.space = other.base()}};
    decisions.emplace(homes);
    decisions->recovered();
    decisions->recovered();
    home_parts.emplace(home.table(), *decisions);
    parts.emplace(other.table(), *decisions);
    words.emplace(*decisions, 0, 0);
  }
  // Of a session of the home.
  [[nodiscard]] TransactionName begin(uint64_t session = 7) {
    const std::vector<HomeWords::Given> given = words->give(session, 1, 0);
    EXPECT_EQ(given.size(), 1U);
    return {.place = given.at(0).place, .number = given.at(0).first};
  }
  [[nodiscard]] Code prepare(Asked& asked, const TransactionName& name, uint64_t session = 9) {
    TableBatch batch = asked.batch();
    return parts->prepare(batch, {.name = name, .session = session, .now_ns = 1}).code();
  }
  [[nodiscard]] Code decide(Asked& asked, const TransactionName& name) {
    TableBatch batch = asked.batch();
    return home_parts->decide(batch, name).code();
  }

  Space home;
  Space other;
  std::optional<Decisions> decisions;
  std::optional<Table::Parts> home_parts;
  std::optional<Table::Parts> parts;
  std::optional<HomeWords> words;
};

std::string value_in(Space& space, std::string_view key) {
  const Result<Table::Entry> entry = space.table().find(bytes_of(key));
  return entry ? text_of(entry->value) : std::string(text(entry.error().code));
}
uint64_t put(Space& space, std::string_view key, std::string_view value) {
  return needed(space.table().put(bytes_of(key), bytes_of(value), {}));
}
void expect_sound(Space& space) {
  const auto damage = space.table().validate();
  EXPECT_FALSE(damage) << damage->what << " at " << damage->at.value;
}

TEST(Parts, appear_with_the_decision_in_all_shards) {
  TwoShards node;
  put(node.other, "old", "1");
  const uint64_t gone = put(node.other, "gone", "x");
  const TransactionName name = node.begin();
  Asked there(node.other);
  there.put("old", "2").put("new", "3").erase("gone").erase("never there").add("n", 5);
  ASSERT_EQ(node.prepare(there, name), Code::kOk);
  EXPECT_EQ(there.write(2).version, gone);
  EXPECT_EQ(there.write(3).version, 0U);
  EXPECT_EQ(there.write(4).sum, 5);
  EXPECT_EQ(value_in(node.other, "old"), "1");
  EXPECT_EQ(value_in(node.other, "new"), "not_found");
  EXPECT_EQ(value_in(node.other, "gone"), "x");
  expect_sound(node.other);
  Asked here(node.home);
  here.put("h", "4");
  ASSERT_EQ(node.decide(here, name), Code::kOk);
  // Before it is settled.
  EXPECT_EQ(value_in(node.other, "old"), "2");
  EXPECT_EQ(value_in(node.other, "new"), "3");
  EXPECT_EQ(value_in(node.other, "gone"), "not_found");
  EXPECT_EQ(value_in(node.other, "n"), "5");
  EXPECT_EQ(node.parts->settle(name), Code::kOk);
  EXPECT_EQ(node.parts->settle(name), Code::kNotFound);
  EXPECT_EQ(node.decisions->parts(name.place), 0U);
  EXPECT_EQ(value_in(node.other, "old"), "2");
  EXPECT_EQ(value_in(node.other, "gone"), "not_found");
  EXPECT_EQ(node.other.table().stats().entries, 3U);
  expect_sound(node.other);
  node.other.heap().reclaim();
  EXPECT_EQ(node.other.heap().stats().buffers_live, 3U);
}

TEST(Parts, that_are_not_decided_are_undone_and_never_decided_later) {
  TwoShards node;
  const uint64_t version = put(node.other, "old", "1");
  const TransactionName name = node.begin();
  Asked there(node.other);
  there.put("old", "2").put("new", "3").erase("none");
  ASSERT_EQ(node.prepare(there, name), Code::kOk);
  EXPECT_EQ(node.parts->settle(name), Code::kConflict);
  EXPECT_EQ(value_in(node.other, "old"), "1");
  EXPECT_EQ(node.other.table().find(bytes_of("old"))->version, version);
  EXPECT_EQ(value_in(node.other, "new"), "not_found");
  EXPECT_EQ(node.words->may_decide(7, name), Code::kConflict);
  Asked here(node.home);
  here.put("h", "4");
  EXPECT_EQ(node.decide(here, name), Code::kConflict);
  EXPECT_EQ(value_in(node.home, "h"), "not_found");
  // A copy of the prepare that comes late.
  EXPECT_EQ(node.prepare(there, name), Code::kConflict);
  EXPECT_EQ(node.parts->count(), 0U);
  expect_sound(node.other);
  expect_sound(node.home);
  node.other.heap().reclaim();
  EXPECT_EQ(node.other.heap().stats().buffers_live, 1U);
}

TEST(Parts, hold_what_they_write_against_all_and_what_they_read_against_writes) {
  TwoShards node;
  const uint64_t version = put(node.other, "read", "1");
  put(node.other, "written", "1");
  const TransactionName name = node.begin();
  Asked there(node.other);
  there.version("read", version).absent("none").put("written", "2").erase("nothing");
  ASSERT_EQ(node.prepare(there, name), Code::kOk);
  Table& table = node.other.table();
  for (const char* const key : {"read", "none", "written", "nothing"}) {
    EXPECT_EQ(table.put(bytes_of(key), bytes_of("x"), {}).code(), Code::kOverloaded) << key;
    EXPECT_EQ(table.erase(bytes_of(key), 0).code(), Code::kOverloaded) << key;
    EXPECT_EQ(table.begin(table.hashed(bytes_of(key)), 100, {}).code(), Code::kOverloaded) << key;
    Asked second(node.other);
    EXPECT_EQ(node.prepare(second.put(key, "3"), node.begin()), Code::kConflict) << key;
    Asked whole(node.other);
    whole.put(key, "3").put("else", "4");
    TableBatch batch = whole.batch();
    EXPECT_EQ(table.change_at_once(batch).code(), Code::kOverloaded) << key;
  }
  // Others may read what is read, and not what is written.
  Asked reader(node.other);
  const TransactionName also = node.begin();
  EXPECT_EQ(node.prepare(reader.version("read", version).absent("none"), also), Code::kOk);
  EXPECT_EQ(node.parts->settle(also), Code::kConflict);
  Asked late(node.other);
  EXPECT_EQ(node.prepare(late.absent("written"), node.begin()), Code::kConflict);
  EXPECT_TRUE(table.put(bytes_of("free"), bytes_of("x"), {}));
  Asked here(node.home);
  ASSERT_EQ(node.decide(here.put("h", "1"), name), Code::kOk);
  // A write that meets what is decided settles it.
  EXPECT_TRUE(table.put(bytes_of("written"), bytes_of("3"), {}));
  EXPECT_EQ(node.parts->count(), 0U);
  EXPECT_EQ(value_in(node.other, "written"), "3");
  expect_sound(node.other);
}

// An error is an answer, and true at the moment of the decision: its key is held as one that was read.
TEST(Parts, hold_what_their_rows_leave_as_what_was_read) {
  TwoShards node;
  put(node.other, "text", "t");
  put(node.other, "n", "1");
  const TransactionName name = node.begin();
  Asked there(node.other);
  const std::string one("\1\0\0\0\0\0\0\0", 8);
  there.run("text", functions::Function::kAdd, one).run("n", functions::Function::kAdd, one);
  there.run("none", functions::Function::kPersist, "");
  ASSERT_EQ(node.prepare(there, name), Code::kOk);
  EXPECT_EQ(there.write(0).row->plan.code, Code::kInvalidArgument);
  EXPECT_EQ(there.write(1).row->plan.answer[0], std::byte{2});
  Table& table = node.other.table();
  for (const char* const key : {"text", "n", "none"}) {
    EXPECT_EQ(table.put(bytes_of(key), bytes_of("x"), {}).code(), Code::kOverloaded) << key;
  }
  Asked reader(node.other);
  const TransactionName also = node.begin();
  EXPECT_EQ(node.prepare(reader.exists("text").absent("none"), also), Code::kOk) << "others may read them";
  EXPECT_EQ(node.parts->settle(also), Code::kConflict);
  Asked late(node.other);
  EXPECT_EQ(node.prepare(late.exists("n"), node.begin()), Code::kConflict);
  EXPECT_EQ(value_in(node.other, "n"), "1");
  Asked here(node.home);
  ASSERT_EQ(node.decide(here.put("h", "1"), name), Code::kOk);
  EXPECT_EQ(value_in(node.other, "n"), "2");
  EXPECT_EQ(node.parts->settle(name), Code::kOk);
  EXPECT_TRUE(table.put(bytes_of("text"), bytes_of("x"), {}));
  EXPECT_EQ(value_in(node.other, "none"), "not_found");
  expect_sound(node.other);
}

TEST(Parts, stand_on_entries_that_expire_also_where_a_row_leaves_them) {
  TwoShards node;
  const uint64_t then = node.other.clock().wall_ns() + 100;
  ASSERT_TRUE(node.other.table().put(bytes_of("text"), bytes_of("t"), {.expires_wall_ns = then}));
  Asked there(node.other);
  there.run("text", functions::Function::kAppend, "");
  TableBatch appended = there.batch();
  const TransactionName name = node.begin();
  ASSERT_TRUE(node.parts->prepare(appended, {.name = name, .session = 9, .now_ns = 1}));
  EXPECT_EQ(appended.expires_wall_ns, then);
  EXPECT_EQ(node.parts->settle(name), Code::kConflict);
  Asked error(node.other);
  error.run("text", functions::Function::kAddFloat, "1");
  TableBatch failed = error.batch();
  const TransactionName second = node.begin();
  ASSERT_TRUE(node.parts->prepare(failed, {.name = second, .session = 9, .now_ns = 1}));
  EXPECT_EQ(failed.writes[0].row->plan.code, Code::kInvalidArgument);
  EXPECT_EQ(failed.expires_wall_ns, then);
  node.home.clock().advance_ns(100);
  TableBatch nothing;
  EXPECT_EQ(node.home_parts->decide(nothing, second, then).code(), Code::kConflict) << "it is over";
}

// All of the home is prepared as well: then it is the decision alone.
TEST(Parts, may_be_of_the_home_whose_decision_comes_behind_them) {
  for (const bool is_decided : {true, false}) {
    TwoShards node;
    put(node.home, "h", "1");
    const TransactionName name = node.begin();
    const std::string one("\1\0\0\0\0\0\0\0", 8);
    Asked here(node.home);
    here.run("h", functions::Function::kAdd, one);
    TableBatch batch = here.batch();
    ASSERT_TRUE(node.home_parts->prepare(batch, {.name = name, .session = 7, .now_ns = 1}));
    EXPECT_EQ(here.write(0).row->plan.answer[0], std::byte{2});
    Asked there(node.other);
    ASSERT_EQ(node.prepare(there.put("o", "1"), name), Code::kOk);
    EXPECT_EQ(value_in(node.home, "h"), "1");
    TableBatch nothing;
    if (is_decided) {
      ASSERT_TRUE(node.home_parts->decide(nothing, name));
      EXPECT_EQ(value_in(node.home, "h"), "2");
      EXPECT_EQ(value_in(node.other, "o"), "1");
    }
    const Code code = is_decided ? Code::kOk : Code::kConflict;
    EXPECT_EQ(node.home_parts->settle(name), code);
    EXPECT_EQ(node.parts->settle(name), code);
    EXPECT_EQ(node.decisions->parts(name.place), 0U);
    EXPECT_EQ(value_in(node.home, "h"), is_decided ? "2" : "1");
    EXPECT_NE(node.words->may_decide(7, name), Code::kOk) << "it is decided once";
    expect_sound(node.home);
    expect_sound(node.other);
  }
}

TEST(Parts, are_refused_with_what_did_not_hold_and_nothing_is_held) {
  TwoShards node;
  put(node.other, "there", "1");
  Asked there(node.other);
  there.put("a", "1").absent("there");
  TableBatch batch = there.batch();
  const TransactionName name = node.begin();
  EXPECT_EQ(node.parts->prepare(batch, {.name = name}).code(), Code::kExists);
  EXPECT_EQ(batch.failed, 0U);
  EXPECT_EQ(node.parts->count(), 0U);
  EXPECT_EQ(node.decisions->parts(name.place), 0U);
  EXPECT_TRUE(node.other.table().put(bytes_of("a"), bytes_of("2"), {}));
  Asked here(node.home);
  here.put("h", "1").version("h", 5);
  EXPECT_EQ(node.decide(here, name), Code::kNotFound);
  // A refusal is decided as well.
  EXPECT_EQ(node.words->may_decide(7, name), Code::kConflict);
}

TEST(Parts, take_names_of_words_that_were_given_out_alone) {
  TwoShards node;
  TransactionName name = node.begin();
  Asked there(node.other);
  there.put("a", "1");
  for (const uint64_t bits :
       {uint64_t{0}, name.place.bits + 1, name.place.bits - (uint64_t{1} << 40), uint64_t{5} << 48 | 4096}) {
    EXPECT_EQ(node.prepare(there, {.place = {bits}, .number = name.number}), Code::kInvalidArgument) << bits;
  }
  EXPECT_EQ(node.prepare(there, {.place = name.place, .number = name.number + (uint64_t{1} << 40)}),
            Code::kInvalidated);
  ASSERT_EQ(node.prepare(there, name), Code::kOk);
  EXPECT_EQ(node.prepare(there, name), Code::kInvalidated) << "twice";
  EXPECT_EQ(node.words->may_decide(8, name), Code::kInvalidated) << "another session's";
  EXPECT_EQ(node.words->may_decide(7, name), Code::kOk);
}

TEST(Parts, a_word_that_has_committed_stays_until_all_have_looked) {
  TwoShards node;
  const TransactionName name = node.begin();
  Asked there(node.other);
  ASSERT_EQ(node.prepare(there.put("a", "1"), name), Code::kOk);
  Asked here(node.home);
  ASSERT_EQ(node.decide(here.put("h", "1"), name), Code::kOk);
  // By no number that anyone names.
  const Decision wanted = Decision::aborted(name.number + 1);
  EXPECT_TRUE(node.decisions->decide(name.place, wanted).commits(name.number));
  EXPECT_EQ(node.words->may_decide(7, {.place = name.place, .number = name.number + 1}), Code::kInvalidated);
  node.words->bring_back(7, std::span(&name.place, 1));
  for (uint64_t i = 0; i < kDecisionWords; ++i) {
    const std::vector<HomeWords::Given> given = node.words->give(100 + i / HomeWords::kPerSession, 1, 0);
    if (given.empty()) continue;
    EXPECT_NE(given[0].place.bits, name.place.bits);
  }
  EXPECT_EQ(node.parts->settle(name), Code::kOk);
  const std::vector<HomeWords::Given> last = node.words->give(1'000'000, 1, 0);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].place.bits, name.place.bits);
  EXPECT_GT(last[0].first, name.number);
}

// A server is killed when all its words have decided at some time, and all but the last ones were brought
// back.
TEST(Parts, leave_words_that_a_later_process_may_give_at_once) {
  TwoShards node;
  std::vector<DecisionPlace> ended;
  for (uint64_t i = 0; i < kDecisionWords; ++i) {
    const TransactionName name = node.begin();
    Asked there(node.other);
    Asked here(node.home);
    ASSERT_EQ(node.prepare(there.put("a", "1"), name), Code::kOk);
    ASSERT_EQ(node.decide(here.put("h", "1"), name), Code::kOk);
    // The part is settled behind the answer, and here behind the word's return, too.
    node.words->bring_back(7, std::span(&name.place, 1));
    ASSERT_EQ(node.parts->settle(name), Code::kOk);
  }
  const TransactionName last = node.begin();
  Asked here(node.home);
  ASSERT_EQ(node.decide(here.put("h", "2"), last), Code::kOk);
  HomeWords next(*node.decisions, 0, 0);
  for (uint64_t session = 1; session < 100; ++session) {
    const std::vector<HomeWords::Given> given = next.give(session, HomeWords::kPerSession, 0);
    ASSERT_EQ(given.size(), HomeWords::kPerSession);
    // What was not brought back may still be asked about.
    for (const HomeWords::Given& one : given) EXPECT_NE(one.place.bits, last.place.bits);
  }
}

TEST(Parts, of_a_session_end_with_it_and_overdue_ones_by_time) {
  TwoShards node;
  Asked first(node.other);
  Asked second(node.other);
  Asked third(node.other);
  const TransactionName decided = node.begin();
  ASSERT_EQ(node.prepare(first.put("a", "1"), decided, 9), Code::kOk);
  ASSERT_EQ(node.prepare(second.put("b", "1"), node.begin(), 9), Code::kOk);
  ASSERT_EQ(node.prepare(third.put("c", "1"), node.begin(), 10), Code::kOk);
  Asked here(node.home);
  ASSERT_EQ(node.decide(here.put("h", "1"), decided), Code::kOk);
  EXPECT_EQ(node.parts->settle_of(9), 2U);
  EXPECT_EQ(value_in(node.other, "a"), "1");
  EXPECT_EQ(value_in(node.other, "b"), "not_found");
  EXPECT_EQ(node.parts->settle_overdue({.wanted_before_ns = 100, .all_before_ns = 1}), 0U);
  EXPECT_EQ(node.other.table().put(bytes_of("c"), bytes_of("2"), {}).code(), Code::kOverloaded);
  EXPECT_EQ(node.parts->settle_overdue({.wanted_before_ns = 100, .all_before_ns = 1}), 1U);
  EXPECT_TRUE(node.other.table().put(bytes_of("c"), bytes_of("2"), {}));
  expect_sound(node.other);
}

// Nothing of what makes room takes a key that is held, and all of it does afterwards.
TEST(Parts, are_not_evicted_and_not_swept) {
  TwoShards node;
  Table& table = node.other.table();
  const uint64_t kept = put(node.other, "kept", "1");
  const uint64_t now_ns = node.other.clock().wall_ns();
  const uint64_t expiring =
      needed(table.put(bytes_of("expiring"), bytes_of("1"), {.expires_wall_ns = now_ns + 1'000}));
  const TransactionName name = node.begin();
  Asked there(node.other);
  there.version("kept", kept).version("expiring", expiring).put("new", "1");
  ASSERT_EQ(node.prepare(there, name), Code::kOk);
  for (const char* const key : {"kept", "new"}) {
    EXPECT_EQ(table.evict(table.standing(table.hashed(bytes_of(key)))), Code::kConflict) << key;
  }
  node.other.clock().advance_ns(2'000);
  EXPECT_EQ(table.sweep(1'000), 0U);
  expect_sound(node.other);
  // After a second it ends, though no other write wanted its keys.
  EXPECT_EQ(node.parts->settle_overdue({.wanted_before_ns = 100, .all_before_ns = 1}), 0U);
  EXPECT_EQ(node.parts->settle_overdue({.wanted_before_ns = 100, .all_before_ns = 100}), 1U);
  EXPECT_EQ(table.sweep(1'000), 1U);
  EXPECT_EQ(table.evict(table.standing(table.hashed(bytes_of("kept")))), Code::kOk);
  EXPECT_EQ(table.stats().entries, 0U);
  expect_sound(node.other);
}

TEST(Parts, expire_and_split_as_entries_do) {
  TwoShards node;
  const TransactionName name = node.begin();
  Asked there(node.other);
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) keys.push_back("key " + std::to_string(i));
  for (const std::string& key : keys) there.put(key, "pending");
  ASSERT_EQ(node.prepare(there, name), Code::kOk);
  // The table doubles several times over.
  for (int i = 0; i < 20'000; ++i) put(node.other, "other " + std::to_string(i), "x");
  expect_sound(node.other);
  Asked here(node.home);
  ASSERT_EQ(node.decide(here.put("h", "1"), name), Code::kOk);
  EXPECT_EQ(node.parts->settle(name), Code::kOk);
  for (const std::string& key : keys) EXPECT_EQ(value_in(node.other, key), "pending");
  EXPECT_EQ(node.other.table().stats().entries, 20'040U);
  expect_sound(node.other);
}

// --- Times to live.

constexpr uint64_t kLease_ns = 1'000'000;

// At the other shard a number that expires, and the time at which it does.
uint64_t lease(TwoShards& node, std::string_view key) {
  const uint64_t expires_wall_ns = node.other.clock().wall_ns() + kLease_ns;
  (void)needed(node.other.table().put(bytes_of(key), bytes_of("1"), {.expires_wall_ns = expires_wall_ns}));
  return expires_wall_ns;
}
// Both are shards of one node, whose clock is one.
void advance(TwoShards& node, uint64_t ns) {
  node.home.clock().advance_ns(ns);
  node.other.clock().advance_ns(ns);
}

TEST(PartsThatExpire, tell_the_first_moment_at_which_something_goes_that_they_stand_on) {
  TwoShards node;
  const uint64_t first = lease(node, "first");
  advance(node, 10);
  const uint64_t second = lease(node, "second");
  put(node.other, "stays", "1");
  const uint64_t now = node.other.clock().wall_ns();
  const auto told = [&](Asked& asked) {
    TableBatch batch = asked.batch();
    const TransactionName name = node.begin();
    EXPECT_TRUE(node.parts->prepare(batch, {.name = name}));
    EXPECT_EQ(batch.looked_wall_ns, now);
    (void)node.parts->settle(name);
    return batch.expires_wall_ns;
  };
  EXPECT_EQ(told(Asked(node.other).exists("second")), second);
  EXPECT_EQ(told(Asked(node.other).value("second", "1")), second);
  EXPECT_EQ(told(Asked(node.other).exists("second").exists("first").exists("stays")), first);
  EXPECT_EQ(told(Asked(node.other).add("second", 1)), second);
  EXPECT_EQ(told(Asked(node.other).erase("second").add("first", 1)), first) << "that it was there is told";
  EXPECT_EQ(told(Asked(node.other).put("first", "2").exists("stays").absent("none")), 0U);
  advance(node, kLease_ns);
  EXPECT_EQ(node.other.clock().wall_ns(), second);
  Asked gone(node.other);
  EXPECT_EQ(node.prepare(gone.exists("first"), node.begin()), Code::kNotFound);
  Asked absent(node.other);
  absent.absent("first").add("second", 4).erase("first");
  TableBatch batch = absent.batch();
  EXPECT_TRUE(node.parts->prepare(batch, {.name = node.begin()}));
  EXPECT_EQ(batch.expires_wall_ns, 0U) << "what has expired stays absent";
  EXPECT_EQ(absent.write(0).sum, 4);
  EXPECT_EQ(absent.write(1).version, 0U);
  expect_sound(node.other);
}

TEST(PartsThatExpire, are_not_decided_for_behind_that_moment) {
  for (const uint64_t waited_ns : {kLease_ns - 1, kLease_ns, 2 * kLease_ns}) {
    TwoShards node;
    const uint64_t expires_wall_ns = lease(node, "lease");
    put(node.home, "h", "1");
    const TransactionName name = node.begin();
    Asked asked_there(node.other);
    TableBatch there = asked_there.exists("lease").put("written", "2").batch();
    ASSERT_TRUE(node.parts->prepare(there, {.name = name}));
    ASSERT_EQ(there.expires_wall_ns, expires_wall_ns);
    advance(node, waited_ns);
    const bool is_there = waited_ns < kLease_ns;
    EXPECT_EQ(value_in(node.other, "lease"), is_there ? "1" : "not_found");
    Asked asked_here(node.home);
    TableBatch here = asked_here.put("h", "2").add("n", 1).batch();
    const Result<> decided = node.home_parts->decide(here, name, there.expires_wall_ns);
    EXPECT_EQ(decided.code(), is_there ? Code::kOk : Code::kConflict);
    EXPECT_EQ(node.decisions->look(name.place).commits(name.number), is_there);
    EXPECT_EQ(node.parts->settle(name), is_there ? Code::kOk : Code::kConflict);
    EXPECT_EQ(value_in(node.home, "h"), is_there ? "2" : "1");
    EXPECT_EQ(value_in(node.home, "n"), is_there ? "1" : "not_found");
    EXPECT_EQ(value_in(node.other, "written"), is_there ? "2" : "not_found");
    expect_sound(node.home);
    expect_sound(node.other);
  }
}

// An absence that holds because an entry has expired: what would make it untrue waits for the decision.
TEST(PartsThatExpire, hold_an_absence_that_came_from_it) {
  TwoShards node;
  (void)lease(node, "lease");
  advance(node, kLease_ns);
  const TransactionName name = node.begin();
  Asked there(node.other);
  there.absent("lease").put("written", "2");
  ASSERT_EQ(node.prepare(there, name), Code::kOk);
  EXPECT_EQ(node.other.table().put(bytes_of("lease"), bytes_of("2"), {}).code(), Code::kOverloaded);
  advance(node, kLease_ns);
  Asked here(node.home);
  ASSERT_EQ(node.decide(here.put("h", "1"), name), Code::kOk);
  EXPECT_EQ(value_in(node.other, "written"), "2");
  EXPECT_EQ(value_in(node.other, "lease"), "not_found");
}

// Runs by one with each look.
class LookedAtClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const noexcept override { return 0; }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return now_wall_ns_++; }
  void begin_again() noexcept { now_wall_ns_ = kBegin_ns; }
  static constexpr uint64_t kBegin_ns = 1'000;

 private:
  mutable uint64_t now_wall_ns_ = kBegin_ns;
};

// Between its conditions and the decision time passes at the home as well.
TEST(PartsThatExpire, of_the_home_are_looked_at_directly_before_the_decision) {
  Space space;
  LookedAtClock clock;
  test::NoPins pins;
  Heap heap(space.writer(), pins);
  heap.add({0}, space.bytes());
  Table table(space.writer(), heap, clock);
  ASSERT_TRUE(table.recover());
  const std::vector<Decisions::Home> homes{{.space = space.base()}};
  Decisions decisions(homes);
  decisions.recovered();
  Table::Parts parts(table, decisions);
  HomeWords words(decisions, 0, 0);
  std::vector<Code> codes;
  for (uint64_t lived = 0; lived < 10; ++lived) {
    (void)needed(
        table.put(bytes_of("lease"), bytes_of("1"), {.expires_wall_ns = LookedAtClock::kBegin_ns + lived}));
    const HomeWords::Given word = words.give(7, 1, 0).at(0);
    const std::vector<BatchCondition> conditions{{.key = table.hashed(bytes_of("lease"))}};
    std::vector<BatchWrite> writes{{.key = table.hashed(bytes_of("h")), .value = bytes_of("1")}};
    TableBatch batch{.conditions = conditions, .writes = writes};
    clock.begin_again();
    codes.push_back(parts.decide(batch, {.place = word.place, .number = word.first}).code());
  }
  EXPECT_EQ(codes.front(), Code::kNotFound);
  EXPECT_EQ(std::ranges::count(codes, Code::kConflict), 1) << "all conditions held";
  EXPECT_EQ(codes.back(), Code::kOk);
}

}  // namespace
}  // namespace refract::kv::parts_test
