// SPDX-License-Identifier: Apache-2.0
// Which calls the client's end of numbered writes makes of values that no message has room for. Schedules are
// those of numbered_campaign_test.cc.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "refract/client/testing/test_numbered_writes.h"

namespace refract::client {
namespace {

using kv::wire::OperationAnswer;
using kv::wire::OperationKind;

class NumberedDraftsTest : public refract::test::NumberedWritesTest {
 protected:
  void connect() { NumberedWritesTest::connect({.body_bytes_max = 1'024, .answer_bytes_max = 1'024}); }
  Write& add_long(uint32_t tag = 0) { return add({.tag = tag, .value = kBytes}); }
  [[nodiscard]] static std::vector<uint64_t> numbers_of(const NumberedCall& call) {
    std::vector<uint64_t> numbers;
    for (const NumberedCall::Item& item : call.items()) numbers.push_back(item.number);
    return numbers;
  }
};

TEST_F(NumberedDraftsTest, a_long_value_holds_its_tag_until_its_draft_is_there_and_no_other) {
  connect();
  const Write& before = add_of_tag(3);
  Write& value = add_long(3);
  const Write& behind = add_of_tag(3);
  const Write& other = add_of_tag(4);
  const Write& untagged = add();
  open();
  std::vector<NumberedCall> sent = calls();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(numbers_of(sent[0]), (std::vector<uint64_t>{1, 4, 5}));
  answer_all(sent[0], Code::kOk);
  EXPECT_EQ(before.code(), Code::kOk);
  EXPECT_EQ(other.code(), Code::kOk);
  EXPECT_EQ(untagged.code(), Code::kOk);
  EXPECT_EQ(machine.next_draft(), &value);
  EXPECT_EQ(machine.next_draft(), nullptr) << "once";
  EXPECT_TRUE(calls().empty());
  machine.drafted(value, 77);
  sent = calls();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(numbers_of(sent[0]), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(sent[0].room[0].draft, 77U);
  EXPECT_EQ(sent[0].room[1].draft, 0U);
  answer_all(sent[0], Code::kOk);
  EXPECT_EQ(value.code(), Code::kOk);
  EXPECT_EQ(value.draft(), 0U) << "it has gone with the outcome";
  EXPECT_EQ(behind.code(), Code::kOk);
  EXPECT_FALSE(machine.has_work());
}

TEST_F(NumberedDraftsTest, of_a_tag_one_draft_is_under_way_and_without_tags_all_are) {
  connect();
  Write& first = add_long(3);
  Write& second = add_long(3);
  Write& other = add_long();
  Write& another = add_long();
  open();
  EXPECT_TRUE(calls().empty());
  EXPECT_EQ(machine.next_draft(), &first);
  EXPECT_EQ(machine.next_draft(), &other);
  EXPECT_EQ(machine.next_draft(), &another);
  EXPECT_EQ(machine.next_draft(), nullptr);
  machine.drafted(another, 2);
  std::vector<NumberedCall> sent = calls();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(numbers_of(sent[0]), std::vector<uint64_t>{4});
  machine.drafted(first, 3);
  sent = calls();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(numbers_of(sent[0]), std::vector<uint64_t>{1});
  EXPECT_EQ(machine.next_draft(), &second) << "the commit in front of it was sent";
}

// Of a commit it is asked; its number stays, also where it is not executed.
TEST_F(NumberedDraftsTest, a_draft_ends_with_its_connection_and_its_number_stays) {
  connect();
  Write& sent = add_long(3);
  Write& unsent = add_long(4);
  open();
  EXPECT_TRUE(calls().empty());
  EXPECT_EQ(machine.next_draft(), &sent);
  EXPECT_EQ(machine.next_draft(), &unsent);
  machine.drafted(sent, 7);
  ASSERT_EQ(calls().size(), 1U);
  machine.drafted(unsent, 8);
  machine.lost();
  EXPECT_EQ(sent.draft(), 0U);
  EXPECT_EQ(unsent.draft(), 0U);
  machine.drafted(unsent, 8);
  EXPECT_EQ(unsent.draft(), 0U) << "it is the old connection's";
  connect();
  open();
  const NumberedCall asking = *machine.next();
  ASSERT_EQ(numbers_of(asking), std::vector<uint64_t>{1});
  EXPECT_EQ(asking.room[0].operation, nullptr);
  EXPECT_EQ(machine.next(), nullptr);
  EXPECT_EQ(machine.next_draft(), nullptr) << "what was not executed goes first";
  answer(asking, {answer_of(Code::kOk, kv::wire::kPlaceUnknown, OperationAnswer::kNotExecuted)});
  EXPECT_TRUE(calls().empty());
  EXPECT_EQ(machine.next_draft(), &sent);
  EXPECT_EQ(machine.next_draft(), &unsent);
  machine.drafted(sent, 9);
  const NumberedCall again = *machine.next();
  EXPECT_EQ(numbers_of(again), std::vector<uint64_t>{1});
  EXPECT_EQ(again.room[0].draft, 9U);
}

TEST_F(NumberedDraftsTest, what_is_refused_in_front_of_a_long_value_goes_first) {
  connect();
  const Write& before = add_of_tag(3);
  Write& value = add_long(3);
  const Write& behind = add_of_tag(3);
  open();
  const NumberedCall first = *machine.next();
  ASSERT_EQ(machine.next(), nullptr);
  EXPECT_EQ(machine.next_draft(), &value);
  answer_all(first, Code::kOverloaded);
  const NumberedCall alone = *machine.next();
  EXPECT_TRUE(alone.may_wait);
  EXPECT_EQ(numbers_of(alone), std::vector<uint64_t>{1});
  machine.drafted(value, 7);
  EXPECT_EQ(machine.next(), nullptr);
  answer_all(alone, Code::kOk);
  EXPECT_EQ(before.code(), Code::kOk);
  const NumberedCall rest = *machine.next();
  EXPECT_EQ(numbers_of(rest), (std::vector<uint64_t>{2, 3}));
  // And the commit stands in the bar like others, with its draft.
  answer_all(rest, Code::kOverloaded);
  const NumberedCall again = *machine.next();
  EXPECT_EQ(numbers_of(again), std::vector<uint64_t>{2});
  EXPECT_EQ(again.room[0].draft, 7U);
  answer_all(again, Code::kOk);
  answer_all(*machine.next(), Code::kOk);
  EXPECT_EQ(behind.code(), Code::kOk);
}

TEST_F(NumberedDraftsTest, a_call_that_was_not_sent_stands_in_front_of_the_long_value_behind_it) {
  connect();
  (void)add_of_tag(3);
  (void)add_of_tag(3);
  Write& value = add_long(3);
  (void)add_of_tag(3);
  open();
  machine.not_sent(machine.next()->place);
  const NumberedCall again = *machine.next();
  EXPECT_EQ(numbers_of(again), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(machine.next_draft(), &value);
  EXPECT_EQ(machine.next_draft(), nullptr) << "once";
  machine.drafted(value, 7);
  machine.not_sent(machine.next()->place);
  EXPECT_EQ(numbers_of(*machine.next()), (std::vector<uint64_t>{3, 4})) << "its draft stays";
}

TEST_F(NumberedDraftsTest, what_does_not_come_is_tried_again_or_told_and_what_goes_lets_others_pass) {
  connect();
  Write& refused = add_long(3);
  Write& leaves = add_long(3);
  Write& given_up = add_long(3);
  const Write& last = add_of_tag(3);
  open();
  EXPECT_TRUE(calls().empty());
  EXPECT_EQ(machine.next_draft(), &refused);
  machine.not_drafted_now(refused);
  EXPECT_EQ(machine.next_draft(), &refused);
  machine.not_drafted(refused, Code::kNoSpace);
  EXPECT_EQ(refused.code(), Code::kNoSpace);
  EXPECT_TRUE(calls().empty());
  EXPECT_EQ(machine.next_draft(), &leaves);
  machine.leave(leaves);
  EXPECT_TRUE(calls().empty());
  EXPECT_TRUE(machine.has_to_draft());
  EXPECT_TRUE(machine.give_up(given_up)) << "it was not sent";
  EXPECT_EQ(machine.next_draft(), nullptr);
  answer_all(*machine.next(), Code::kOk);
  EXPECT_EQ(last.code(), Code::kOk);
}

// As an owner may do after half a minute. It has a record, for what is behind it is executed.
TEST_F(NumberedDraftsTest, a_draft_that_its_owner_gave_up_is_told_so_and_acknowledged) {
  connect();
  Write& write = add_long(3);
  open();
  EXPECT_TRUE(calls().empty());
  EXPECT_EQ(machine.next_draft(), &write);
  machine.drafted(write, 1);
  answer(*machine.next(), {answer_of(Code::kInvalidated, 5)});
  EXPECT_EQ(write.code(), Code::kUnavailable);
  EXPECT_EQ(write.draft(), 0U);
  EXPECT_EQ(machine.in_hand(), 1U);
}

TEST_F(NumberedDraftsTest, a_commit_that_is_given_up_is_withdrawn_and_its_draft_is_its_callers) {
  connect();
  Write& write = add_long();
  open();
  EXPECT_TRUE(calls().empty());
  EXPECT_EQ(machine.next_draft(), &write);
  machine.drafted(write, 7);
  const NumberedCall call = *machine.next();
  EXPECT_FALSE(machine.give_up(write));
  const NumberedCall asking = *machine.next();
  answer_all(call, Code::kOverloaded);
  answer(asking, {answer_of(Code::kOk, kv::wire::kPlaceUnknown, OperationAnswer::kNotExecuted)});
  EXPECT_EQ(write.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(write.draft(), 7U) << "to be given back";
}

TEST_F(NumberedDraftsTest, what_keeps_an_expiry_and_what_is_no_put_is_too_long_as_ever) {
  connect();
  for (const NumberedOperation& operation :
       {NumberedOperation{.flags = kv::wire::Operation::kKeepsExpiry},
        NumberedOperation{.kind = OperationKind::kFunction, .function = 3}}) {
    Write write(operation);
    write.operation.value = kBytes;
    EXPECT_EQ(machine.add(write), Code::kTooLarge);
  }
}

}  // namespace
}  // namespace refract::client
