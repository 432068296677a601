// SPDX-License-Identifier: Apache-2.0
// Which calls the client's end of numbered writes makes, and what it does with answers of any kind. Schedules
// are those of numbered_campaign_test.cc.
#include "refract/client/numbered/numbered_writes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/client/testing/test_numbered_writes.h"

namespace refract::client {
namespace {

using kv::wire::OperationAnswer;
using kv::wire::OperationKind;
using kv::wire::TakenAnswer;
using refract::test::NumberedWritesTest;

TEST_F(NumberedWritesTest, a_session_is_opened_by_the_first_write_and_not_before) {
  connect();
  EXPECT_EQ(machine.next(), nullptr);
  const Write& write = add();
  const NumberedCall begin = *machine.next();
  EXPECT_EQ(begin.what, NumberedCall::What::kBegin);
  EXPECT_EQ(machine.next(), nullptr) << "nothing leaves before it is there";
  machine.refused(begin.place, Code::kOverloaded);
  const NumberedCall again = *machine.next();
  EXPECT_EQ(again.what, NumberedCall::What::kBegin);
  machine.opened(again.place, {.id = 5, .secret = {}, .functions = kFunctions, .reserved = 0});
  answer_all(*machine.next(), Code::kOk);
  EXPECT_EQ(write.code(), Code::kOk);
}

TEST_F(NumberedWritesTest, an_owner_without_such_calls_says_so_to_each_write) {
  connect();
  const Write& write = add();
  machine.refused(machine.next()->place, Code::kUnsupported);
  EXPECT_EQ(write.code(), Code::kUnsupported);
  EXPECT_FALSE(machine.has_work());
}

TEST_F(NumberedWritesTest, sixteen_share_a_call_and_where_messages_are_stores_half_of_what_there_is) {
  connect();
  for (int i = 0; i < 40; ++i) (void)add();
  open();
  std::vector<size_t> counts;
  for (const NumberedCall& call : calls()) {
    counts.push_back(call.count);
    answer_all(call, Code::kOk);
  }
  EXPECT_EQ(counts, (std::vector<size_t>{16, 16, 8}));
  machine.lost();
  connect({.body_bytes_max = 8'192, .answer_bytes_max = 8'192, .messages_are_stores = true});
  for (int i = 0; i < 12; ++i) (void)add();
  open();
  counts.clear();
  for (const NumberedCall& call : calls()) counts.push_back(call.count);
  EXPECT_EQ(counts, (std::vector<size_t>{6, 6}));
}

TEST_F(NumberedWritesTest, on_the_shortest_channel_a_call_has_as_many_as_answers_fit) {
  connect({.body_bytes_max = 512, .answer_bytes_max = 512});
  for (int i = 0; i < 16; ++i) {
    (void)add({.kind = OperationKind::kFunction, .key = std::span(kBytes).first(1)});
  }
  open();
  const NumberedCall* const call = machine.next();
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->count, 512 / (sizeof(OperationAnswer) + kv::wire::kOperationAnswerBytesMax));
}

TEST_F(NumberedWritesTest, what_no_message_has_room_for_is_told_so_before_or_behind_the_connection) {
  constexpr auto kFunction = OperationKind::kFunction;
  const Write& early = add({.kind = kFunction, .value = kBytes});
  connect({.body_bytes_max = 1'024, .answer_bytes_max = 1'024});
  EXPECT_EQ(early.code(), Code::kTooLarge);
  Write late({.kind = kFunction, .value = kBytes});
  EXPECT_EQ(machine.add(late), Code::kTooLarge);
  // The longest that goes has room beside as many acknowledgements as a call may bring.
  size_t bytes = 1;
  for (; bytes < 1'024; ++bytes) {
    Write one(
        {.kind = kFunction, .key = std::span(kBytes).first(8), .value = std::span(kBytes).first(bytes)});
    if (machine.add(one) != Code::kOk) break;
    machine.leave(one);
  }
  EXPECT_GT(bytes, 600U);
  for (int i = 0; i < 100; ++i) (void)add();
  open();
  for (const NumberedCall& call : calls()) answer_all(call, Code::kOk);
  (void)add({.kind = kFunction, .value = std::span(kBytes).first(bytes - 1)});
  const NumberedCall* const longest = machine.next();
  ASSERT_NE(longest, nullptr);
  EXPECT_EQ(longest->count, 1U);
  EXPECT_GT(longest->acknowledged_count, 0U);
}

TEST_F(NumberedWritesTest, functions_go_only_where_the_owners_table_is_ours) {
  connect();
  const Write& early = add({.kind = OperationKind::kFunction});
  const Write& put = add();
  open(kFunctions + 1);
  EXPECT_EQ(early.code(), Code::kUnsupported);
  Write late({.kind = OperationKind::kFunction});
  EXPECT_EQ(machine.add(late), Code::kUnsupported);
  answer_all(*machine.next(), Code::kOk);
  EXPECT_EQ(put.code(), Code::kOk);
}

// Schedule 36: those in doubt are asked, and what was not executed is not sent to other functions.
TEST_F(NumberedWritesTest, a_server_of_another_release_is_asked_and_gets_no_function) {
  connect();
  const Write& executed = add({.kind = OperationKind::kFunction});
  const Write& lost = add({.kind = OperationKind::kFunction});
  open();
  ASSERT_NE(machine.next(), nullptr);
  machine.lost();
  connect();
  open(kFunctions + 1);
  const NumberedCall asking = *machine.next();
  ASSERT_EQ(asking.count, 2U);
  std::vector<TakenAnswer> answers(2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(asking.room[i].operation, nullptr);
    answers[i] = asking.room[i].number == 1
                     ? answer_of(Code::kOk, 0, OperationAnswer::kToldAgain)
                     : answer_of(Code::kOk, kv::wire::kPlaceUnknown, OperationAnswer::kNotExecuted);
  }
  answer(asking, answers);
  EXPECT_EQ(executed.code(), Code::kOk);
  EXPECT_TRUE(executed.outcome->is_told_again);
  EXPECT_EQ(lost.code(), Code::kUnsupported);
  EXPECT_EQ(machine.next(), nullptr);
}

// Their caller does these by other means, and those behind them later.
TEST_F(NumberedWritesTest, what_stands_behind_one_that_cannot_be_sent_is_not_sent_without_it) {
  connect();
  const Write& executed = add_of_tag(7);
  const Write& function = add({.kind = OperationKind::kFunction, .tag = 7});
  const Write& sent = add_of_tag(7);
  const Write& other = add_of_tag(8);
  open();
  ASSERT_NE(machine.next(), nullptr);
  const Write& unsent = add_of_tag(7);
  machine.lost();
  connect();
  open(kFunctions + 1);
  EXPECT_FALSE(unsent.outcome.has_value()) << "what has been executed is not known yet";
  const std::vector<NumberedCall> asking = calls();
  ASSERT_EQ(asking.size(), 1U);
  std::vector<TakenAnswer> answers;
  for (const NumberedCall::Item& item : asking[0].items()) {
    answers.push_back(item.number == 1
                          ? answer_of(Code::kOk, 0, OperationAnswer::kToldAgain)
                          : answer_of(Code::kOk, kv::wire::kPlaceUnknown, OperationAnswer::kNotExecuted));
  }
  answer(asking[0], answers);
  EXPECT_EQ(executed.code(), Code::kOk);
  for (const Write* const write : {&function, &sent, &unsent}) EXPECT_EQ(write->code(), Code::kUnsupported);
  answer_all(*machine.next(), Code::kOk);
  EXPECT_EQ(other.code(), Code::kOk) << "another tag is not held";
}

TEST_F(NumberedWritesTest, acknowledgements_travel_with_the_next_call_and_again_where_it_was_lost) {
  connect();
  for (int i = 0; i < 100; ++i) (void)add();
  open();
  for (const NumberedCall& call : calls()) answer_all(call, Code::kOk);
  EXPECT_EQ(machine.in_hand(), 100U);
  (void)add();
  EXPECT_EQ(machine.next()->acknowledged_count, kv::wire::kAcknowledgedPerCall);
  machine.lost();
  connect();
  open();
  const NumberedCall asking = *machine.next();
  EXPECT_EQ(asking.acknowledged_count, kv::wire::kAcknowledgedPerCall);
  (void)asking;
  answer_all(asking, Code::kOk);
  EXPECT_EQ(machine.in_hand(), 100U - kv::wire::kAcknowledgedPerCall + 1);
}

TEST_F(NumberedWritesTest, what_a_call_brings_is_in_hand_again_where_the_owner_refused_all_of_it) {
  connect();
  (void)add();
  open();
  answer_all(*machine.next(), Code::kOk);
  const Write& write = add();
  const NumberedCall call = *machine.next();
  EXPECT_EQ(call.acknowledged_count, 1U);
  machine.refused(call.place, Code::kTooLarge);
  EXPECT_EQ(write.code(), Code::kTooLarge);
  EXPECT_EQ(machine.in_hand(), 1U);
  (void)add();
  EXPECT_EQ(machine.next()->acknowledged_count, 1U);
}

TEST_F(NumberedWritesTest, the_first_refused_goes_alone_and_may_wait_and_sixteen_follow_it) {
  connect();
  for (int i = 0; i < 40; ++i) (void)add_of_tag(3);
  const Write& other = add_of_tag(4);
  open();
  const std::vector<NumberedCall> first = calls();
  for (const NumberedCall& call : first) {
    std::vector<TakenAnswer> answers(call.count, answer_of(Code::kOverloaded));
    if (call.room[call.count - 1].tag == 4) answers.back() = answer_of(Code::kOk, 0);
    answer(call, answers);
  }
  EXPECT_EQ(other.code(), Code::kOk) << "another tag is not held";
  (void)add_of_tag(3);
  std::vector<NumberedCall> waiting = calls();
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_TRUE(waiting[0].may_wait);
  EXPECT_EQ(waiting[0].count, 1U);
  EXPECT_EQ(waiting[0].room[0].number, 1U);
  answer_all(waiting[0], Code::kOverloaded);
  waiting = calls();
  ASSERT_EQ(waiting.size(), 1U) << "it goes again";
  EXPECT_TRUE(waiting[0].may_wait);
  answer_all(waiting[0], Code::kOk);
  const std::vector<NumberedCall> behind = calls();
  ASSERT_EQ(behind.size(), 1U);
  EXPECT_FALSE(behind[0].may_wait);
  EXPECT_EQ(behind[0].count, 16U);
  EXPECT_EQ(behind[0].room[0].number, 2U);
  answer_all(behind[0], Code::kOk);
  // What is refused still is led by its first again.
  const std::vector<NumberedCall> rest = calls();
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].room[0].number, 18U);
  EXPECT_EQ(rest[0].count, 16U);
}

TEST_F(NumberedWritesTest, writes_without_a_tag_do_not_hold_each_other) {
  connect();
  for (int i = 0; i < 3; ++i) (void)add();
  open();
  answer_all(*machine.next(), Code::kOverloaded);
  const Write& later = add();
  const std::vector<NumberedCall> again = calls();
  ASSERT_EQ(again.size(), 4U);
  EXPECT_EQ(std::ranges::count_if(again, &NumberedCall::may_wait), 3);
  answer_all(again.back(), Code::kOk);
  EXPECT_EQ(later.code(), Code::kOk);
}

TEST_F(NumberedWritesTest, only_so_many_calls_wait_and_what_is_given_up_is_withdrawn_beside_them) {
  connect();
  std::vector<Write*> writes;
  for (uint32_t tag = 1; tag <= 64; ++tag) writes.push_back(&add_of_tag(tag));
  open();
  for (const NumberedCall& call : calls()) answer_all(call, Code::kOverloaded);
  const std::vector<NumberedCall> waiting = calls();
  EXPECT_EQ(waiting.size(), NumberedWrites::kWaitingCallsMax);
  for (Write* const write : writes) EXPECT_FALSE(machine.give_up(*write));
  const std::vector<NumberedCall> asking = calls();
  ASSERT_EQ(asking.size(), NumberedWrites::kAskingCallsMax);
  for (const NumberedCall& call : asking) {
    answer(call, std::vector(call.count,
                             answer_of(Code::kOk, kv::wire::kPlaceUnknown, OperationAnswer::kNotExecuted)));
  }
  for (const Write* const write : writes) EXPECT_EQ(write->code(), Code::kDeadlineExceeded);
  for (const NumberedCall& call : waiting) answer_all(call, Code::kOverloaded);
  EXPECT_FALSE(machine.has_work());
  EXPECT_EQ(machine.in_hand(), 0U);
}

TEST_F(NumberedWritesTest, no_more_numbers_are_in_hand_than_a_session_has_records) {
  connect();
  for (int i = 0; i < 3'000; ++i) (void)add();
  open();
  // None is acknowledged before it is answered, and none answered.
  std::vector<NumberedCall> under_way = calls();
  EXPECT_EQ(under_way.size(), NumberedWrites::kCallsMax);
  size_t told = 0;
  while (!under_way.empty()) {
    size_t open_numbers = 0;
    for (const NumberedCall& call : under_way) open_numbers += call.count;
    EXPECT_LE(open_numbers, NumberedWrites::kInHandMax);
    EXPECT_LE(machine.in_hand(), NumberedWrites::kInHandMax);
    for (const NumberedCall& call : under_way) {
      told += call.count;
      answer_all(call, Code::kOk);
    }
    under_way = calls();
  }
  EXPECT_EQ(told, 3'000U);
}

TEST_F(NumberedWritesTest, all_that_are_refused_stay_within_what_an_owner_takes) {
  connect();
  for (int i = 0; i < 3'000; ++i) (void)add({.tag = 1 + static_cast<uint32_t>(i) % 500});
  open();
  size_t most = 0;
  for (int round = 0; round < 200; ++round) {
    for (const NumberedCall& call : calls()) answer_all(call, Code::kOverloaded);
    most = std::max(most, machine.in_hand());
  }
  EXPECT_LE(most, NumberedWrites::kInHandMax);
  EXPECT_GE(most, 500U);
}

TEST_F(NumberedWritesTest, answers_that_make_no_sense_are_told_from_late_ones) {
  connect();
  (void)add();
  const NumberedCall begin = *machine.next();
  EXPECT_FALSE(machine.answered(begin.place, {})) << "a session is not opened by that";
  machine.opened(begin.place, {.id = 5, .secret = {}, .functions = kFunctions, .reserved = 0});
  const NumberedCall call = *machine.next();
  const std::vector<TakenAnswer> two(2, answer_of(Code::kOk, 0));
  EXPECT_FALSE(machine.answered(call.place, two));
  EXPECT_TRUE(machine.answered(call.place + 1, two)) << "a call that is not under way";
  answer_all(call, Code::kOk);
  EXPECT_TRUE(machine.answered(call.place, two)) << "one that is over";
}

TEST_F(NumberedWritesTest, a_write_that_leaves_is_withdrawn_and_its_record_acknowledged) {
  connect();
  Write& write = add();
  open();
  const NumberedCall call = *machine.next();
  machine.leave(write);
  const NumberedCall asking = *machine.next();
  EXPECT_EQ(asking.room[0].operation, nullptr);
  answer(call, {answer_of(Code::kOk, 9)});
  EXPECT_EQ(write.code(), std::nullopt);
  EXPECT_EQ(machine.in_hand(), 1U);
  answer(asking, {answer_of(Code::kOk, 9, OperationAnswer::kToldAgain)});
  EXPECT_EQ(machine.in_hand(), 1U) << "once";
  (void)add();
  const NumberedCall next = *machine.next();
  ASSERT_EQ(next.acknowledged_count, 1U);
  EXPECT_EQ(next.acknowledged_room[0].number(), 1U);
  EXPECT_EQ(next.acknowledged_room[0].place(), 9U);
}

// Of another shard nothing is sent that was meant for this one.
TEST_F(NumberedWritesTest, what_was_not_sent_can_be_ended_and_what_was_is_asked) {
  connect();
  const Write& sent = add();
  open();
  ASSERT_NE(machine.next(), nullptr);
  machine.lost();
  const Write& unsent = add();
  machine.end_unsent(Code::kWrongShard);
  EXPECT_EQ(unsent.code(), Code::kWrongShard);
  EXPECT_EQ(sent.code(), std::nullopt);
  connect();
  const NumberedCall resume = *machine.next();
  EXPECT_EQ(resume.what, NumberedCall::What::kResume);
  EXPECT_EQ(machine.session().id, 5U);
  machine.refused(resume.place, Code::kInvalidated);
  EXPECT_EQ(sent.code(), Code::kIndeterminate);
  EXPECT_FALSE(machine.has_work());
}

// Whatever an owner says, nothing breaks, and each write is told once it is there to be told.
TEST_F(NumberedWritesTest, an_owner_that_answers_at_random_breaks_nothing) {
  constexpr std::array kCodes{Code::kOk,         Code::kOverloaded,  Code::kIndeterminate,
                              Code::kWrongShard, Code::kInvalidated, Code::kUnsupported};
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Prng prng(seed);
    NumberedWrites one(kFunctions);
    std::vector<std::unique_ptr<Write>> writes;
    std::vector<NumberedCall> under_way;
    for (int step = 0; step < 300; ++step) {
      if (!one.is_connected()) one.connected({.body_bytes_max = 2'048, .answer_bytes_max = 1'024});
      writes.push_back(std::make_unique<Write>(
          NumberedOperation{.kind = prng.below(4) == 0 ? OperationKind::kCondition : OperationKind::kPut,
                            .tag = static_cast<uint32_t>(prng.below(3)),
                            .key = std::span(kBytes).first(1)}));
      ASSERT_EQ(one.add(*writes.back()), Code::kOk);
      if (prng.below(4) == 0) one.leave(*writes[prng.below(writes.size())]);
      while (const NumberedCall* const call = one.next()) under_way.push_back(*call);
      if (under_way.empty()) continue;
      const NumberedCall call = under_way[prng.below(under_way.size())];
      const Code code = kCodes[prng.below(kCodes.size())];
      if (prng.below(8) == 0) {
        one.refused(call.place, code);
      } else if (call.what != NumberedCall::What::kOperations || prng.below(8) == 0) {
        one.opened(call.place,
                   {.id = 1 + prng.below(2), .secret = {}, .functions = kFunctions, .reserved = 0});
      } else {
        std::vector<TakenAnswer> answers(call.count);
        for (TakenAnswer& answer : answers) {
          answer = answer_of(kCodes[prng.below(kCodes.size())], static_cast<uint16_t>(prng.below(UINT16_MAX)),
                             static_cast<uint8_t>(prng.below(4)));
        }
        if (!one.answered(call.place, answers)) one.lost();
      }
      if (prng.below(20) == 0 && one.is_connected()) one.lost();
    }
    for (const auto& write : writes) one.leave(*write);
  }
}

}  // namespace
}  // namespace refract::client
