// SPDX-License-Identifier: Apache-2.0
// Rows of batches (docs/design/079-rows-of-batches.md): writes whose effect depends on what they meet, with
// a code and an answer of their own, at one moment with the others, and behind a kill at any store.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/testing/test_kills.h"
#include "refract/kv/testing/test_trial.h"

namespace refract::kv::table_rows_test {
namespace {

using functions::Function;
using functions::Refusal;
using test::bytes_of;
using test::Space;
using test::text_of;
using test::Trial;

std::string word(uint64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
std::string until(uint64_t wall_ns, uint8_t conditions = 0) {
  return word(wall_ns) + static_cast<char>(conditions);
}
std::string offset_and(uint64_t offset, std::string_view bytes) {
  return word(offset) + std::string(bytes);
}

class Batch {
 public:
  explicit Batch(Table& table) : table_(table) {}
  Batch& run(std::string_view key, Function function, std::string_view arguments) {
    row(key, WriteKind::kFunction, arguments).function = function;
    return *this;
  }
  Batch& put_if(std::string_view key, std::string_view value, const BatchRow& terms) {
    row(key, WriteKind::kPut, value) = terms;
    return *this;
  }
  Batch& put(std::string_view key, std::string_view value) {
    writes_.push_back({.key = table_.hashed(kept(key)), .value = kept(value)});
    return *this;
  }
  Batch& version(std::string_view key, uint64_t version) {
    conditions_.push_back(
        {.key = table_.hashed(kept(key)), .kind = ConditionKind::kVersion, .version = version});
    return *this;
  }
  Batch& as(RequestId request) {
    request_ = request;
    return *this;
  }
  [[nodiscard]] Code commit() {
    TableBatch batch{.conditions = conditions_, .writes = writes_, .request = request_};
    const Result<> changed = table_.change_at_once(batch);
    failed = batch.failed;
    return changed.code();
  }
  [[nodiscard]] const BatchWrite& write(size_t i) const { return writes_[i]; }
  [[nodiscard]] Code code(size_t i) const { return writes_[i].row->plan.code; }
  [[nodiscard]] std::string answer(size_t i) const {
    const functions::Plan& plan = writes_[i].row->plan;
    return text_of(std::span(plan.answer).first(plan.answer_bytes));
  }
  size_t failed = 0;

 private:
  BatchRow& row(std::string_view key, WriteKind kind, std::string_view value) {
    BatchRow& made = rows_.emplace_back();
    writes_.push_back({.key = table_.hashed(kept(key)), .kind = kind, .value = kept(value), .row = &made});
    return made;
  }
  // Lives as long as this.
  std::span<const std::byte> kept(std::string_view text) { return bytes_of(texts_.emplace_back(text)); }

  Table& table_;
  std::vector<BatchCondition> conditions_;
  std::vector<BatchWrite> writes_;
  std::deque<BatchRow> rows_;
  std::deque<std::string> texts_;
  RequestId request_;
};

std::string value_in(Space& space, std::string_view key) {
  const Result<Table::Entry> entry = space.table().find(bytes_of(key));
  return entry ? text_of(entry->value) : std::string(text(entry.error().code));
}
uint64_t expiry_in(Space& space, std::string_view key) {
  return refract::test::needed(space.table().find(bytes_of(key))).expires_wall_ns;
}
uint64_t put(Space& space, std::string_view key, std::string_view value, uint64_t expires_wall_ns = 0) {
  return refract::test::needed(
      space.table().put(bytes_of(key), bytes_of(value), {.expires_wall_ns = expires_wall_ns}));
}
void expect_sound(Space& space) {
  const auto damage = space.table().validate();
  EXPECT_FALSE(damage) << damage->what << " at " << damage->at.value;
}

// Each row alone, which takes no pending entry, and all of them beside another write.
class Rows : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] Batch batch() { return Batch(space.table()); }
  // Behind the row.
  [[nodiscard]] Code commit(Batch& batch) {
    if (GetParam()) batch.put("beside", std::to_string(++count_));
    const Code code = batch.commit();
    if (GetParam() && code == Code::kOk) {
      EXPECT_EQ(value_in(space, "beside"), std::to_string(count_));
    }
    expect_sound(space);
    return code;
  }

  Space space;

 private:
  int count_ = 0;
};
INSTANTIATE_TEST_SUITE_P(AloneAndBeside, Rows, testing::Bool(),
                         [](const auto& one) { return std::string(one.param ? "beside" : "alone"); });

TEST_P(Rows, make_what_their_functions_say_and_answer) {
  put(space, "n", "41");
  Batch add = batch();
  ASSERT_EQ(commit(add.run("n", Function::kAdd, word(1))), Code::kOk);
  EXPECT_EQ(add.answer(0), word(42));
  EXPECT_EQ(value_in(space, "n"), "42");
  EXPECT_EQ(add.write(0).version, space.table().find(bytes_of("n"))->version);
  Batch append = batch();
  ASSERT_EQ(commit(append.run("n", Function::kAppend, "5")), Code::kOk);
  EXPECT_EQ(append.answer(0), word(3));
  EXPECT_EQ(value_in(space, "n"), "425");
  Batch range = batch();
  ASSERT_EQ(commit(range.run("r", Function::kSetRange, offset_and(2, "xy"))), Code::kOk);
  EXPECT_EQ(range.answer(0), word(4));
  EXPECT_EQ(value_in(space, "r"), std::string("\0\0xy", 4));
  Batch sum = batch();
  ASSERT_EQ(commit(sum.run("n", Function::kAddFloat, "0.5")), Code::kOk);
  EXPECT_EQ(sum.answer(0), "425.5");
  const uint64_t then = space.clock().wall_ns() + 100;
  Batch expire = batch();
  ASSERT_EQ(commit(expire.run("n", Function::kExpire, until(then))), Code::kOk);
  EXPECT_EQ(expire.answer(0), "\1");
  EXPECT_EQ(expiry_in(space, "n"), then);
  Batch more = batch();
  ASSERT_EQ(commit(more.run("n", Function::kAppend, "!")), Code::kOk);
  EXPECT_EQ(expiry_in(space, "n"), then) << "the time to live stays";
  Batch persist = batch();
  ASSERT_EQ(commit(persist.run("n", Function::kPersist, "")), Code::kOk);
  EXPECT_EQ(persist.answer(0), "\1");
  EXPECT_EQ(expiry_in(space, "n"), 0U);
  EXPECT_EQ(value_in(space, "n"), "425.5!");
}

TEST_P(Rows, that_change_nothing_say_so_and_leave_the_version) {
  const uint64_t version = put(space, "s", "text");
  const auto expect_untouched = [&](Batch& batch, Code code, const std::string& answer) {
    ASSERT_EQ(commit(batch), Code::kOk);
    EXPECT_EQ(batch.code(0), code);
    EXPECT_EQ(batch.answer(0), answer);
    EXPECT_EQ(batch.write(0).version, 0U);
    EXPECT_EQ(space.table().find(bytes_of("s"))->version, version);
    EXPECT_EQ(value_in(space, "none"), "not_found");
  };
  const std::string no_integer{static_cast<char>(Refusal::kNoInteger)};
  Batch add = batch();
  expect_untouched(add.run("s", Function::kAdd, word(1)), Code::kInvalidArgument, no_integer);
  Batch persist = batch();
  expect_untouched(persist.run("s", Function::kPersist, ""), Code::kOk, std::string(1, '\0'));
  Batch expire = batch();
  expect_untouched(expire.run("none", Function::kExpire, until(UINT64_MAX / 2)), Code::kOk,
                   std::string(1, '\0'));
  Batch nothing = batch();
  expect_untouched(nothing.run("s", Function::kSetRange, offset_and(9, "")), Code::kOk, word(4));
  Batch fresh = batch();
  expect_untouched(fresh.put_if("s", "x", {.if_absent = true}), Code::kExists, "");
  Batch known = batch();
  expect_untouched(known.put_if("none", "x", {.if_present = true}), Code::kNotFound, "");
}

TEST_P(Rows, put_with_terms_of_their_own) {
  const uint64_t then = space.clock().wall_ns() + 100;
  put(space, "s", "old", then);
  Batch keep = batch();
  ASSERT_EQ(commit(keep.put_if("s", "new", {.if_present = true, .keeps_expiry = true})), Code::kOk);
  EXPECT_EQ(value_in(space, "s"), "new");
  EXPECT_EQ(expiry_in(space, "s"), then);
  Batch fresh = batch();
  ASSERT_EQ(commit(fresh.put_if("f", "1", {.if_absent = true, .keeps_expiry = true})), Code::kOk);
  EXPECT_EQ(value_in(space, "f"), "1");
  EXPECT_EQ(expiry_in(space, "f"), 0U);
  space.clock().advance_ns(100);
  Batch over = batch();
  ASSERT_EQ(commit(over.put_if("s", "again", {.if_absent = true})), Code::kOk) << "it has expired";
  EXPECT_EQ(over.code(0), Code::kOk);
  EXPECT_EQ(value_in(space, "s"), "again");
}

TEST_P(Rows, erase_what_expires_at_a_moment_that_is_over) {
  const uint64_t version = put(space, "s", "old");
  Batch expire = batch();
  ASSERT_EQ(commit(expire.run("s", Function::kExpire, until(1))), Code::kOk);
  EXPECT_EQ(expire.answer(0), "\1");
  EXPECT_EQ(expire.write(0).version, version);
  EXPECT_EQ(value_in(space, "s"), "not_found");
  Batch again = batch();
  ASSERT_EQ(commit(again.run("s", Function::kExpire, until(1))), Code::kOk);
  EXPECT_EQ(again.answer(0), std::string(1, '\0'));
}

TEST_P(Rows, refuse_the_batch_where_the_owner_cannot_run_them) {
  const std::string most(kRowBytesMax, 'm');
  put(space, "s", most);
  Batch append = batch();
  EXPECT_EQ(commit(append.run("s", Function::kAppend, "1")), Code::kTooLarge);
  EXPECT_EQ(append.failed, 0U);
  put(space, "f", "123456789012345.1");
  Batch sum = batch();
  EXPECT_EQ(commit(sum.run("f", Function::kAddFloat, "1")), Code::kTooLarge) << "33 letters";
  Batch nonsense = batch();
  EXPECT_EQ(commit(nonsense.run("s", Function::kAdd, "one")), Code::kInvalidArgument);
  EXPECT_EQ(value_in(space, "beside"), "not_found");
  EXPECT_EQ(value_in(space, "s"), most);
}

TEST(RowsOfBatches, copy_no_more_than_a_batch_may_have) {
  Space space({.chunks = 40, .chunks_max = 40});
  const uint64_t live = space.heap().stats().bytes_live;
  std::vector<std::string> keys;
  for (size_t i = 0; i <= kRowsBytesMax / kRowBytesMax; ++i) keys.push_back("k" + std::to_string(i));
  Batch batch(space.table());
  for (const std::string& key : keys) batch.run(key, Function::kSetRange, offset_and(kRowBytesMax - 1, "x"));
  EXPECT_EQ(batch.commit(), Code::kTooLarge);
  EXPECT_EQ(batch.failed, keys.size() - 1);
  EXPECT_EQ(value_in(space, "k0"), "not_found");
  EXPECT_EQ(space.heap().stats().bytes_live, live);
  expect_sound(space);
}

// A condition that does not hold refuses all; an error of a row does not.
TEST(RowsOfBatches, an_error_is_a_rows_own_and_a_condition_the_batchs) {
  Space space;
  const uint64_t version = put(space, "t", "text");
  Batch refused(space.table());
  refused.version("t", version + 1).run("t", Function::kAdd, word(1)).put("a", "1");
  EXPECT_EQ(refused.commit(), Code::kVersionMismatch);
  EXPECT_EQ(value_in(space, "a"), "not_found");
  Batch batch(space.table());
  batch.version("t", version)
      .run("t", Function::kAdd, word(1))
      .run("n", Function::kAdd, word(2))
      .put("a", "1");
  ASSERT_EQ(batch.commit(), Code::kOk);
  EXPECT_EQ(batch.code(0), Code::kInvalidArgument);
  EXPECT_EQ(batch.code(1), Code::kOk);
  EXPECT_EQ(value_in(space, "n"), "2");
  EXPECT_EQ(value_in(space, "a"), "1");
  EXPECT_EQ(value_in(space, "t"), "text");
}

// The first entry that is made, which no row in front of it has made.
TEST(RowsOfBatches, the_identity_is_in_the_first_entry_that_is_made) {
  Space space;
  put(space, "t", "text");
  const RequestId request{.client = 5, .sequence = 6};
  Batch batch(space.table());
  batch.as(request).run("t", Function::kAdd, word(1)).run("n", Function::kAdd, word(2)).put("a", "1");
  ASSERT_EQ(batch.commit(), Code::kOk);
  EXPECT_EQ(space.table().find(bytes_of("n"))->request, request);
  EXPECT_EQ(space.table().find(bytes_of("a"))->request, RequestId{});
}

// The buffers of rows take away what the rows were planned on: all begins again on what is left.
TEST(RowsOfBatches, are_planned_again_on_what_their_buffers_have_left) {
  Space space({.chunks = 8, .chunks_max = 8});
  put(space, "s", std::string(300, 's'));
  put(space, "r", "abc");
  const std::string large(60'000, 'v');
  std::vector<std::string> keys{"s", "r"};
  for (int i = 0; space.table().put(bytes_of("large " + std::to_string(i)), bytes_of(large), {}); ++i) {
    keys.push_back("large " + std::to_string(i));
  }
  ASSERT_GT(keys.size(), 20U);
  keys.resize(20);
  const test::Evictor evictor(space.table(), keys);
  Batch batch(space.table());
  // Of the second length and answer would be the same whatever is there.
  batch.run("s", Function::kAppend, "tail").run("r", Function::kSetRange, offset_and(1, "yz"));
  batch.put("large, too", large).put_if("s2", "x", {.if_present = true});
  ASSERT_EQ(batch.commit(), Code::kOk);
  space.table().evict_by(nullptr, nullptr);
  EXPECT_EQ(space.table().stats().evicted, keys.size());
  EXPECT_EQ(value_in(space, "s"), "tail");
  EXPECT_EQ(batch.answer(0), word(4));
  EXPECT_EQ(value_in(space, "r"), std::string("\0yz", 3));
  EXPECT_EQ(batch.answer(1), word(3));
  EXPECT_EQ(batch.code(3), Code::kNotFound);
  expect_sound(space);
}

struct State {
  std::string n, t, fresh, gone, kept;
  auto operator<=>(const State&) const = default;
};
State state_of(Space& space) {
  return {value_in(space, "n"), value_in(space, "t"), value_in(space, "fresh"), value_in(space, "gone"),
          value_in(space, "kept")};
}

TEST(RowsOfBatches, a_kill_leaves_all_of_it_or_nothing) {
  Trial trial;
  trial.put("n", "41");
  trial.put("t", "text");
  trial.put("gone", "x");
  trial.put("kept", "old");
  const State before = state_of(trial.space());
  trial.record([&] {
    Batch batch(trial.space().table());
    batch.run("n", Function::kAdd, word(1))
        .run("t", Function::kAdd, word(1))
        .run("fresh", Function::kAppend, "made")
        .run("gone", Function::kExpire, until(1))
        .put_if("kept", "x", {.if_absent = true});
    ASSERT_EQ(batch.commit(), Code::kOk);
  });
  const State after{"42", "text", "made", "not_found", "old"};
  EXPECT_EQ(state_of(trial.space()), after);
  for (const char* key : {"n", "t", "fresh", "gone", "kept"}) {
    EXPECT_EQ(trial.first_wrong(key), std::nullopt) << key;
  }
  size_t happened = 0;
  for (size_t stores = 0; stores <= trial.stores().size(); ++stores) {
    const std::unique_ptr<Space> killed = trial.killed_after(stores);
    ASSERT_TRUE(killed->try_restart()) << stores;
    const State left = state_of(*killed);
    EXPECT_TRUE(left == before || left == after) << "at " << stores;
    happened += left == after ? 1 : 0;
    expect_sound(*killed);
  }
  EXPECT_GT(happened, 0U);
  EXPECT_LT(happened, trial.stores().size());
}

}  // namespace
}  // namespace refract::kv::table_rows_test
