// SPDX-License-Identifier: Apache-2.0
// What one numbered operation does, what it answers, and what its record says.
#include "refract/kv/owner/numbered/numbered_turn.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/owner/parts/home_words.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_kills.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::numbered_turn_test {
namespace {

using functions::Function;
using functions::Refusal;
using refract::test::needed;
using test::bytes_of;
using test::ManualLog;
using test::text_of;
using Kind = NumberedOperation::Kind;

class NumberedTurns : public testing::Test {
 protected:
  NumberedTurns() { session = needed(table().sessions().begin(1, {1, 2})); }
  [[nodiscard]] Table& table() { return space.table(); }
  [[nodiscard]] TableKey key(std::string_view text) { return table().hashed(bytes_of(text)); }
  uint64_t native_put(std::string_view name, std::string_view value, uint64_t expires_wall_ns = 0) {
    return needed(table().put(bytes_of(name), bytes_of(value), {.expires_wall_ns = expires_wall_ns}));
  }
  [[nodiscard]] std::string value_of(std::string_view name) {
    const auto entry = table().find(bytes_of(name));
    return entry ? text_of(entry->value) : "nothing";
  }
  [[nodiscard]] uint64_t expiry_of(std::string_view name) {
    return needed(table().find(bytes_of(name))).expires_wall_ns;
  }

  NumberedOutcome execute(NumberedOperation operation) { return turn->execute(session, operation); }
  [[nodiscard]] NumberedOperation put(std::string_view name, std::string_view value) {
    return {.number = next++, .key = key(name), .value = bytes_of(value)};
  }
  [[nodiscard]] NumberedOperation erase(std::string_view name) {
    return {.number = next++, .kind = Kind::kErase, .key = key(name)};
  }
  // The arguments stay as long as the test.
  [[nodiscard]] NumberedOperation function(Function function, std::string_view name,
                                           std::string_view arguments) {
    return {.number = next++,
            .kind = Kind::kFunction,
            .key = key(name),
            .value = bytes_of(arguments_.emplace_back(arguments)),
            .function = function};
  }
  [[nodiscard]] static std::string word(uint64_t value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
  [[nodiscard]] static uint64_t word_in(const NumberedOutcome& outcome) {
    uint64_t value = 0;
    EXPECT_EQ(outcome.answer_bytes, sizeof(value));
    std::memcpy(&value, outcome.answer.data(), sizeof(value));
    return value;
  }
  // It is told again, now and behind a restart.
  void expect_record(const NumberedOutcome& outcome, uint64_t number) {
    EXPECT_NE(outcome.place, kPlaceUnknown);
    EXPECT_FALSE(outcome.is_told_again);
    for (int times = 0; times < 2; ++times) {
      const auto told = table().sessions().find(*session, number);
      ASSERT_TRUE(told);
      EXPECT_TRUE(told->is_told_again);
      EXPECT_EQ(told->code, outcome.code);
      EXPECT_EQ(told->version, outcome.version);
      EXPECT_EQ(told->place, outcome.place);
      EXPECT_EQ(told->answer_bytes, outcome.answer_bytes);
      EXPECT_EQ(told->answer, outcome.answer);
      if (times == 0) restart();
    }
  }
  void expect_no_record(const NumberedOutcome& outcome, uint64_t number) {
    EXPECT_EQ(outcome.place, kPlaceUnknown);
    EXPECT_FALSE(table().sessions().find(*session, number));
  }
  void restart() {
    const uint64_t id = session->id();
    ChangeLog* const log = table().log();
    space.restart();
    table().log_to(log);
    session = needed(table().sessions().resume(id, {1, 2}, 1)).session;
    turn.emplace(table());
  }
  void fill_memory() {
    const std::string value(60'000, 'v');
    for (int number = 0; table().put(bytes_of("large " + std::to_string(number)), bytes_of(value), {});
         ++number) {
    }
  }
  [[nodiscard]] uint64_t buffers() {
    space.heap().reclaim();
    return space.heap().stats().buffers_live;
  }

 public:
  test::Space space{{.chunks = 8, .chunks_max = 8}};
  NumberedSession* session = nullptr;
  std::optional<Table::NumberedTurn> turn{space.table()};
  uint64_t next = 1;

 private:
  std::deque<std::string> arguments_;
};

TEST_F(NumberedTurns, a_put_and_an_erasure_are_answered_and_recorded) {
  const NumberedOutcome first = execute(put("k", "one"));
  EXPECT_EQ(first.code, Code::kOk);
  EXPECT_EQ(value_of("k"), "one");
  EXPECT_EQ(needed(table().find(bytes_of("k"))).version, first.version);
  expect_record(first, 1);
  const NumberedOutcome gone = execute(erase("k"));
  EXPECT_EQ(word_in(gone), first.version) << "which version was erased";
  EXPECT_GT(gone.version, first.version) << "a stamp of its own";
  EXPECT_EQ(value_of("k"), "nothing");
  expect_record(gone, 2);
  const NumberedOutcome nothing = execute(erase("k"));
  EXPECT_EQ(nothing.code, Code::kNotFound);
  EXPECT_EQ(nothing.version, 0U);
  expect_record(nothing, 3);
  EXPECT_FALSE(table().validate());
}

TEST_F(NumberedTurns, a_number_is_executed_once) {
  NumberedOperation add = function(Function::kAdd, "n", word(1));
  const NumberedOutcome first = execute(add);
  native_put("n", "50");
  const NumberedOutcome again = execute(add);
  EXPECT_TRUE(again.is_told_again);
  EXPECT_EQ(word_in(again), 1U);
  EXPECT_EQ(again.version, first.version);
  EXPECT_EQ(value_of("n"), "50");
  ASSERT_TRUE(table().sessions().acknowledge(*session, add.number, first.place));
  EXPECT_EQ(word_in(execute(add)), 51U);
  add.number = 0;
  expect_no_record(execute(add), 0);
  EXPECT_EQ(value_of("n"), "52");
}

TEST_F(NumberedTurns, what_a_condition_refuses_has_a_record_as_well) {
  const uint64_t version = native_put("k", "v");
  const auto refused = [&](std::string_view name, auto change, Code code) {
    NumberedOperation operation = put(name, "new");
    change(operation);
    const uint64_t number = operation.number;
    const NumberedOutcome outcome = execute(operation);
    EXPECT_EQ(outcome.code, code);
    if (code == Code::kOk) return;
    expect_record(outcome, number);
    EXPECT_EQ(value_of("k"), "v");
    EXPECT_EQ(value_of("absent"), "nothing");
    NumberedOperation condition = operation;
    condition.kind = Kind::kCondition;
    condition.number = 0;
    EXPECT_EQ(execute(condition).code, code);
  };
  const auto if_absent = [](NumberedOperation& one) { one.if_absent = true; };
  const auto if_present = [](NumberedOperation& one) { one.if_present = true; };
  const auto if_version = [](uint64_t wanted) {
    return [wanted](NumberedOperation& one) { one.if_version = wanted; };
  };
  refused("k", if_absent, Code::kExists);
  refused("k", if_version(version + 1), Code::kVersionMismatch);
  refused("absent", if_version(version), Code::kNotFound);
  refused("absent", if_present, Code::kNotFound);
  refused("k", if_version(version), Code::kOk);
  refused("k", if_present, Code::kOk);
  refused("new", if_absent, Code::kOk);
  EXPECT_EQ(value_of("new"), "new");
}

TEST_F(NumberedTurns, a_put_keeps_the_time_to_live_or_brings_its_own) {
  const uint64_t then = space.clock().wall_ns() + 100;
  native_put("k", "v", then);
  NumberedOperation keeps = put("k", "kept");
  keeps.keeps_expiry = true;
  EXPECT_EQ(execute(keeps).code, Code::kOk);
  EXPECT_EQ(expiry_of("k"), then);
  NumberedOperation later = put("k", "later");
  later.expires_wall_ns = then + 50;
  EXPECT_EQ(execute(later).code, Code::kOk);
  EXPECT_EQ(expiry_of("k"), then + 50);
  space.clock().advance_ns(150);
  // What has expired is not there, whether or not it was swept.
  NumberedOperation over = put("k", "new");
  over.keeps_expiry = over.if_absent = true;
  EXPECT_EQ(execute(over).code, Code::kOk);
  EXPECT_EQ(expiry_of("k"), 0U);
  EXPECT_EQ(execute(put("k", "for ever")).code, Code::kOk);
  EXPECT_FALSE(table().validate());
  EXPECT_EQ(table().stats().expiring_entries, 0U);
}

TEST_F(NumberedTurns, functions_run_on_what_is_there_now) {
  EXPECT_EQ(word_in(execute(function(Function::kAppend, "s", "abc"))), 3U);
  EXPECT_EQ(word_in(execute(function(Function::kAppend, "s", "def"))), 6U);
  EXPECT_EQ(word_in(execute(function(Function::kSetRange, "s", word(4) + "XY"))), 6U);
  EXPECT_EQ(value_of("s"), "abcdXY");
  const uint64_t then = space.clock().wall_ns() + 100;
  const NumberedOutcome expire = execute(function(Function::kExpire, "s", word(then) + '\0'));
  EXPECT_EQ(expire.answer[0], std::byte{1});
  EXPECT_EQ(expiry_of("s"), then);
  EXPECT_EQ(value_of("s"), "abcdXY");
  const NumberedOperation absent = function(Function::kExpire, "absent", word(then) + '\0');
  const NumberedOutcome none = execute(absent);
  EXPECT_EQ(none.code, Code::kOk);
  EXPECT_EQ(none.version, 0U);
  expect_record(none, absent.number);
  const NumberedOutcome erased = execute(function(Function::kExpire, "s", word(1) + '\0'));
  EXPECT_EQ(erased.answer[0], std::byte{1});
  EXPECT_NE(erased.version, 0U);
  EXPECT_EQ(value_of("s"), "nothing");
}

TEST_F(NumberedTurns, an_error_of_a_function_has_a_record_and_nonsense_has_none) {
  native_put("s", "text");
  const NumberedOperation add = function(Function::kAdd, "s", word(1));
  const NumberedOutcome outcome = execute(add);
  EXPECT_EQ(outcome.code, Code::kInvalidArgument);
  EXPECT_EQ(outcome.answer_bytes, 1U);
  EXPECT_EQ(outcome.answer[0], std::byte{static_cast<uint8_t>(Refusal::kNoInteger)});
  expect_record(outcome, add.number);
  const NumberedOperation nonsense = function(Function::kAdd, "s", "one");
  const NumberedOutcome refused = execute(nonsense);
  EXPECT_EQ(refused.code, Code::kInvalidArgument);
  expect_no_record(refused, nonsense.number);
}

TEST_F(NumberedTurns, a_function_copies_no_more_than_a_mebibyte) {
  const std::string most(Table::NumberedTurn::kCopiedBytesMax - 1, 'm');
  native_put("s", most);
  EXPECT_EQ(word_in(execute(function(Function::kAppend, "s", "1"))), most.size() + 1);
  EXPECT_EQ(value_of("s"), most + "1");
  const NumberedOperation append = function(Function::kAppend, "s", "2");
  const NumberedOutcome outcome = execute(append);
  EXPECT_EQ(outcome.code, Code::kTooLarge);
  expect_record(outcome, append.number);
  EXPECT_EQ(value_of("s"), most + "1");
}

TEST_F(NumberedTurns, a_draft_is_committed_with_its_conditions_compared_then) {
  const auto begun = [&](uint64_t expires_wall_ns) {
    const PutOptions options{.expires_wall_ns = expires_wall_ns};
    const Table::Draft draft = needed(table().begin(key("d"), 5, options));
    table().fill(draft, 0, bytes_of("draft"));
    return draft;
  };
  const auto commit = [&](const Table::Draft& draft) {
    return NumberedOperation{.number = next++, .kind = Kind::kCommit, .draft = draft};
  };
  const uint64_t then = space.clock().wall_ns() + 100;
  NumberedOperation first = commit(begun(1));
  first.expires_wall_ns = then;
  EXPECT_EQ(execute(first).code, Code::kOk);
  EXPECT_EQ(value_of("d"), "draft");
  EXPECT_EQ(expiry_of("d"), then);
  const uint64_t before = buffers();
  NumberedOperation absent = commit(begun(0));
  absent.if_absent = true;
  const NumberedOutcome refused = execute(absent);
  EXPECT_EQ(refused.code, Code::kExists);
  EXPECT_EQ(buffers(), before) << "the draft is gone";
  expect_record(refused, absent.number);
  ManualLog log;
  table().log_to(&log);
  const NumberedOperation last = commit(begun(0));
  log.room = Code::kOverloaded;
  expect_no_record(execute(last), last.number);
  log.room = Code::kOk;
  EXPECT_EQ(execute(last).code, Code::kOk) << "the draft has waited";
  EXPECT_EQ(log.records.back().value, "draft");
  EXPECT_FALSE(table().validate());
}

TEST_F(NumberedTurns, a_record_stands_in_front_of_the_log_s_and_that_in_front_of_the_change) {
  ManualLog log;
  table().log_to(&log);
  native_put("k", "old");
  for (const NumberedOperation& operation : {put("k", "new"), erase("k")}) {
    const std::string before = value_of("k");
    bool was_told = false;
    log.on_append = [&](const ManualLog::Record& record) {
      const auto told = table().sessions().find(*session, operation.number);
      was_told = told && told->version == record.stamp && value_of("k") == before;
    };
    const NumberedOutcome outcome = execute(operation);
    EXPECT_TRUE(was_told);
    EXPECT_EQ(log.records.back().stamp, outcome.version);
  }
}

TEST_F(NumberedTurns, what_is_refused_for_now_leaves_no_record_and_its_last_word_does) {
  ManualLog log;
  table().log_to(&log);
  native_put("k", "v");
  for (const Code code : {Code::kOverloaded, Code::kReadOnly}) {
    log.room = code;
    for (const NumberedOperation& operation :
         {put("k", "new"), erase("k"), function(Function::kAppend, "k", "1")}) {
      const NumberedOutcome refused = execute(operation);
      EXPECT_EQ(refused.code, code);
      expect_no_record(refused, operation.number);
      if (code != Code::kReadOnly) continue;
      const NumberedOutcome last = turn->refuse(*session, operation.number, code);
      EXPECT_EQ(last.code, code);
      expect_record(last, operation.number);
      log.room = Code::kOk;
      EXPECT_EQ(execute(operation).code, code) << "repeated behind a younger one it would succeed";
      log.room = code;
    }
  }
  EXPECT_EQ(execute(erase("absent")).code, Code::kNotFound) << "what changes nothing needs no log";
  EXPECT_EQ(value_of("k"), "v");
}

TEST_F(NumberedTurns, without_a_free_place_one_is_refused_for_now) {
  for (uint64_t i = 0; i < kRecordsPerSession; ++i) ASSERT_EQ(execute(put("k", "v")).code, Code::kOk);
  const NumberedOperation more = put("k", "more");
  EXPECT_EQ(execute(more).code, Code::kOverloaded);
  EXPECT_EQ(execute(erase("absent")).code, Code::kOverloaded);
  EXPECT_EQ(turn->refuse(*session, 9'000, Code::kNoSpace).code, Code::kOverloaded);
  EXPECT_EQ(value_of("k"), "v");
  ASSERT_TRUE(table().sessions().acknowledge(*session, 1));
  EXPECT_EQ(execute(more).code, Code::kOk);
  EXPECT_EQ(value_of("k"), "more");
}

TEST_F(NumberedTurns, where_the_memory_is_full_nothing_changes_but_an_erasure_does) {
  native_put("k", "v");
  fill_memory();
  const uint64_t before = buffers();
  const std::string text(900, 't');
  const NumberedOperation large = put("k", text);
  const NumberedOutcome refused = execute(large);
  EXPECT_EQ(refused.code, Code::kNoSpace);
  EXPECT_EQ(refused.wanted_bytes, 16 + 1 + 900U);
  expect_no_record(refused, large.number);
  EXPECT_EQ(buffers(), before);
  EXPECT_EQ(session->records(), 0U);
  for (int number = 0; number < 16; ++number) {
    EXPECT_EQ(execute(erase("large " + std::to_string(number))).code, Code::kOk);
  }
  EXPECT_EQ(execute(large).code, Code::kOk);
  EXPECT_EQ(value_of("k"), text);
}

class EvictedTurns : public NumberedTurns {
 protected:
  // The key of the operation goes for its buffer, and others with it.
  NumberedOutcome execute_evicting(const NumberedOperation& operation, std::string_view name) {
    fill_memory();
    std::vector<std::string> keys{std::string(name)};
    for (int number = 0; number < 17; ++number) keys.push_back("large " + std::to_string(number));
    test::Evictor evictor(table(), keys);
    const NumberedOutcome outcome = execute(operation);
    table().evict_by(nullptr, nullptr);
    EXPECT_EQ(table().stats().evicted, keys.size());
    EXPECT_FALSE(table().validate());
    space.heap().reclaim();
    EXPECT_EQ(space.heap().stats().buffers_live, table().stats().entries + 1) << "and the session's block";
    restart();
    return outcome;
  }
};

TEST_F(EvictedTurns, a_function_is_planned_again_on_what_its_buffer_has_left) {
  native_put("s", std::string(300, 's'));
  const NumberedOperation append =
      function(Function::kAppend, "s", std::string_view("tail of another length that is longer"));
  const NumberedOutcome outcome = execute_evicting(append, "s");
  EXPECT_EQ(word_in(outcome), append.value.size());
  EXPECT_EQ(value_of("s"), "tail of another length that is longer");
}

TEST_F(EvictedTurns, a_condition_is_compared_behind_the_buffer) {
  native_put("k", "v");
  NumberedOperation operation = put("k", "a value of another class of buffers than the one that it replaces");
  operation.if_present = true;
  const NumberedOutcome outcome = execute_evicting(operation, "k");
  EXPECT_EQ(outcome.code, Code::kNotFound);
  EXPECT_EQ(value_of("k"), "nothing");
}

TEST_F(EvictedTurns, a_put_goes_where_the_key_would_stand_now) {
  native_put("k", "v");
  const NumberedOperation operation =
      put("k", "a value of another class of buffers than the one that it replaces");
  const NumberedOutcome outcome = execute_evicting(operation, "k");
  EXPECT_EQ(outcome.code, Code::kOk);
  EXPECT_EQ(text_of(operation.value), value_of("k"));
}

// Parts are settled between turns.
TEST_F(NumberedTurns, a_key_that_a_transaction_holds_is_refused_for_now) {
  native_put("k", "41");
  test::Space home{{.chunks = 8, .chunks_max = 8}};
  const std::vector<Decisions::Home> homes{{.space = home.base()}, {.space = space.base()}};
  Decisions decisions(homes);
  decisions.recovered();
  decisions.recovered();
  Table::Parts home_parts(home.table(), decisions);
  Table::Parts parts(table(), decisions);
  HomeWords words(decisions, 0, 0);
  const HomeWords::Given given = words.give(7, 1, 0).at(0);
  const TransactionName name{.place = given.place, .number = given.first};
  std::vector<BatchWrite> writes{{.key = key("k"), .kind = WriteKind::kPut, .value = bytes_of("pending")}};
  TableBatch batch{.conditions = {}, .writes = writes};
  ASSERT_TRUE(parts.prepare(batch, {.name = name, .session = 9, .now_ns = 1}));
  NumberedOperation condition{.kind = Kind::kCondition, .key = key("k")};
  condition.if_present = true;
  const NumberedOperation add = function(Function::kAdd, "k", word(1));
  for (const NumberedOperation& operation : {add, erase("k"), condition}) {
    expect_no_record(execute(operation), operation.number);
    EXPECT_EQ(execute(operation).code, Code::kOverloaded);
  }
  TableBatch nothing{.conditions = {}, .writes = {}};
  ASSERT_TRUE(home_parts.decide(nothing, name));
  // It looks behind the wait: at what was committed.
  EXPECT_EQ(execute(add).code, Code::kInvalidArgument);
  EXPECT_EQ(value_of("k"), "pending");
}

}  // namespace
}  // namespace refract::kv::numbered_turn_test
