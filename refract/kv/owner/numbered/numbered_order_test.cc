// SPDX-License-Identifier: Apache-2.0
// Operations that are refused for now: memory may still come, the log has no room, a transaction has the key.
// Those behind them of the same tag keep their order, some wait, some are withdrawn.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_numbered.h"

namespace refract::kv {
namespace {

using refract::test::needed;
using test::add_op;
using test::bytes_of;
using test::condition_op;
using test::erase_op;
using test::NumberedAnswer;
using test::NumberedPeer;
using test::NumberedReply;
using test::patterned;
using test::put_op;
using test::Served;
using test::withdraw_op;
using wire::Operation;

constexpr uint32_t kOneTag = 5;

[[nodiscard]] std::string value_of(Served& served, std::string_view key) {
  const auto entry = served.space.table().find(bytes_of(key));
  return entry ? test::text_of(entry->value) : "nothing";
}

// The memory is full, and the node says that it can grow.
class NumberedMemory : public testing::Test {
 protected:
  NumberedMemory() {
    // Short ones find room in a chunk of theirs.
    (void)served.space.table().put(bytes_of("short"), bytes_of("value"), {});
    for (int i = 0; served.space.table().put(bytes_of("fill" + std::to_string(i)), bytes_of(large), {});
         ++i) {
    }
    served.growth.allowed = true;
  }
  void memory_comes() {
    served.space.add_chunks(4);
    served.service.on_memory_added();
    served.settle();
  }

  const std::string large = patterned(20'000);
  Served served{{.chunks = 6, .chunks_max = 64, .link = {.message_bytes_max = 32'768}}};
  NumberedPeer peer{served};
};

TEST_F(NumberedMemory, those_behind_one_that_is_refused_are_refused_and_keep_their_order) {
  const NumberedReply first =
      peer.call({put_op(1, "a", large).tagged(kOneTag), put_op(2, "b", "2").tagged(kOneTag),
                 put_op(3, "c", "other").tagged(kOneTag + 1), put_op(4, "d", "none"),
                 condition_op("c", Operation::kIfPresent).tagged(kOneTag)});
  EXPECT_EQ(first.codes(),
            (std::vector{Code::kOverloaded, Code::kOverloaded, Code::kOk, Code::kOk, Code::kOverloaded}));
  for (const size_t which : {0u, 1u, 4u}) EXPECT_EQ(first.answers[which].place, wire::kPlaceUnknown);
  EXPECT_GT(served.growth.asked, 0u);
  EXPECT_EQ(served.numbered.barred(), 2u);
  // Schedule 44, and whatever comes again: the first alone passes.
  EXPECT_EQ(peer.call({put_op(5, "b", "5").tagged(kOneTag), put_op(2, "b", "2").tagged(kOneTag)}).codes(),
            (std::vector{Code::kOverloaded, Code::kOverloaded}));
  EXPECT_EQ(served.numbered.barred(), 3u);
  memory_comes();
  EXPECT_EQ(peer.one(put_op(5, "b", "5").tagged(kOneTag)).code, Code::kOverloaded);
  EXPECT_EQ(peer.one(put_op(1, "a", large).tagged(kOneTag)).code, Code::kOk);
  EXPECT_EQ(peer.one(put_op(5, "b", "5").tagged(kOneTag)).code, Code::kOverloaded) << "schedule 1";
  EXPECT_EQ(peer.one(condition_op("b", Operation::kIfAbsent).tagged(kOneTag)).code, Code::kOverloaded);
  EXPECT_EQ(peer.call({put_op(2, "b", "2").tagged(kOneTag), put_op(5, "b", "5").tagged(kOneTag)}).codes(),
            (std::vector{Code::kOk, Code::kOk}));
  EXPECT_EQ(served.numbered.barred(), 0u);
  EXPECT_EQ(value_of(served, "b"), "5");
  EXPECT_TRUE(served.is_sound());
}

TEST_F(NumberedMemory, one_that_waits_is_answered_when_memory_comes) {
  const uint64_t call = peer.start({put_op(1, "a", large).tagged(kOneTag)});
  EXPECT_FALSE(peer.is_answered(call));
  EXPECT_EQ(served.numbered.waiting(), 1u);
  EXPECT_EQ(served.service.stat().waiting_for_memory, 1u);
  EXPECT_EQ(peer.one(put_op(2, "a", "2").tagged(kOneTag)).code, Code::kOverloaded) << "it stands behind";
  EXPECT_EQ(value_of(served, "a"), "nothing");
  memory_comes();
  ASSERT_TRUE(peer.is_answered(call));
  const NumberedAnswer made = peer.finish(call).one();
  EXPECT_EQ(made.code, Code::kOk);
  EXPECT_EQ(value_of(served, "a"), large);
  EXPECT_EQ(peer.one(put_op(2, "a", "2").tagged(kOneTag)).code, Code::kOk);
  EXPECT_EQ(peer.one(withdraw_op(1, kOneTag)).version, made.version);
  EXPECT_EQ(value_of(served, "a"), "2");
  EXPECT_EQ(served.numbered.waiting(), 0u);
}

TEST_F(NumberedMemory, growth_that_is_refused_is_the_last_word_of_what_waits) {
  const uint64_t call = peer.start({put_op(1, "a", large).tagged(kOneTag)});
  served.growth.allowed = false;
  served.service.on_growth_refused();
  served.settle();
  ASSERT_TRUE(peer.is_answered(call));
  const NumberedAnswer refused = peer.finish(call).one();
  EXPECT_EQ(refused.code, Code::kNoSpace);
  EXPECT_NE(refused.place, wire::kPlaceUnknown);
  EXPECT_EQ(served.numbered.barred(), 0u);
  // Schedule 9.
  served.space.add_chunks(4);
  EXPECT_EQ(peer.one(put_op(2, "a", "2").tagged(kOneTag)).code, Code::kOk);
  EXPECT_EQ(peer.one(put_op(1, "a", large).tagged(kOneTag)).code, Code::kNoSpace);
  EXPECT_EQ(value_of(served, "a"), "2");
}

// Schedules 6, 40, 45.
TEST_F(NumberedMemory, what_is_withdrawn_is_not_executed_though_memory_comes) {
  const uint64_t waits = peer.start({put_op(1, "a", large).tagged(kOneTag)});
  EXPECT_EQ(peer.one(put_op(2, "b", "2").tagged(kOneTag)).code, Code::kOverloaded);
  EXPECT_EQ(peer.one(put_op(3, "c", "3").tagged(kOneTag)).code, Code::kOverloaded);
  const NumberedAnswer withdrawn = peer.one(withdraw_op(1, kOneTag));
  EXPECT_TRUE(withdrawn.is_not_executed());
  EXPECT_EQ(withdrawn.code, Code::kOk);
  ASSERT_TRUE(peer.is_answered(waits));
  EXPECT_EQ(peer.finish(waits).one().code, Code::kOverloaded);
  EXPECT_EQ(served.numbered.waiting(), 0u);
  EXPECT_EQ(peer.one(put_op(3, "c", "3").tagged(kOneTag)).code, Code::kOverloaded) << "behind 2";
  memory_comes();
  EXPECT_EQ(value_of(served, "a"), "nothing");
  EXPECT_TRUE(peer.one(withdraw_op(2, kOneTag)).is_not_executed());
  EXPECT_EQ(peer.one(put_op(3, "c", "3").tagged(kOneTag)).code, Code::kOk);
  EXPECT_EQ(value_of(served, "b"), "nothing");
  EXPECT_FALSE(peer.one(withdraw_op(3, kOneTag)).is_not_executed());
  EXPECT_EQ(served.numbered.barred(), 0u);
  EXPECT_EQ(served.numbered.counts().withdrawn, 2u);
  // It may be sent again all the same.
  EXPECT_EQ(peer.one(put_op(1, "a", large).tagged(kOneTag)).code, Code::kOk);
}

// Schedules 26 and 46.
TEST_F(NumberedMemory, what_waits_ends_with_its_connection) {
  (void)peer.start({put_op(1, "a", large).tagged(kOneTag)});
  EXPECT_EQ(peer.one(put_op(2, "b", "2").tagged(kOneTag)).code, Code::kOverloaded);
  NumberedPeer young(served, false);
  ASSERT_EQ(young.resume(peer.session), Code::kOk);
  EXPECT_EQ(served.numbered.waiting(), 0u);
  served.settle();
  EXPECT_EQ(served.numbered.barred(), 0u);
  EXPECT_EQ(young.call({withdraw_op(1, kOneTag), withdraw_op(2, kOneTag)}).answers[1].is_not_executed(),
            true);
  memory_comes();
  EXPECT_EQ(value_of(served, "a"), "nothing");
  for (uint64_t number = 1; number <= 3; ++number) {
    EXPECT_EQ(young.one(put_op(number, "a", std::to_string(number)).tagged(kOneTag)).code, Code::kOk);
  }
  EXPECT_EQ(value_of(served, "a"), "3");
}

TEST_F(NumberedMemory, what_waits_is_bounded) {
  std::vector<uint64_t> calls;
  calls.reserve(NumberedService::kWaitingPerConnection);
  for (uint64_t i = 1; i <= NumberedService::kWaitingPerConnection; ++i) {
    calls.push_back(peer.start({put_op(i, "a", large)}));
  }
  EXPECT_EQ(served.numbered.waiting(), NumberedService::kWaitingPerConnection);
  const uint64_t more = peer.start({put_op(100, "a", large)});
  ASSERT_TRUE(peer.is_answered(more));
  EXPECT_EQ(peer.finish(more).one().code, Code::kOverloaded);
  NumberedPeer other(served);
  const uint64_t its = other.start({put_op(1, "a", large)});
  EXPECT_FALSE(other.is_answered(its)) << "one client does not take the places of all";
  const uint64_t without = other.start({put_op(0, "a", large)});
  EXPECT_FALSE(other.is_answered(without));
  memory_comes();
  for (const uint64_t call : calls) {
    ASSERT_TRUE(peer.is_answered(call));
    EXPECT_EQ(peer.finish(call).one().code, Code::kOk);
  }
  EXPECT_EQ(other.finish(its).one().code, Code::kOk);
  EXPECT_EQ(other.finish(without).one().code, Code::kOk);
}

TEST_F(NumberedMemory, a_peer_with_more_in_bars_than_it_can_have_under_way_is_closed) {
  ASSERT_EQ(peer.one(put_op(1, "a", large).tagged(kOneTag)).code, Code::kOverloaded);
  NumberedPeer other(served);
  for (uint64_t number = 2; number <= TagBars::kNumbersMax; ++number) {
    ASSERT_EQ(peer.one(erase_op(number, "a").tagged(kOneTag)).code, Code::kOverloaded) << number;
  }
  EXPECT_EQ(peer.one(erase_op(TagBars::kNumbersMax, "a").tagged(kOneTag)).code, Code::kOverloaded);
  EXPECT_EQ(served.numbered.barred(), TagBars::kNumbersMax);
  (void)peer.start({erase_op(TagBars::kNumbersMax + 1, "a").tagged(kOneTag)});
  EXPECT_EQ(peer.peer.session->state(), rpc::Session::State::kClosed);
  EXPECT_EQ(served.numbered.counts().closed, 1u);
  EXPECT_EQ(served.numbered.barred(), 0u);
  EXPECT_EQ(other.one(put_op(1, "b", "1")).code, Code::kOk);
}

TEST_F(NumberedMemory, a_number_whose_outcome_is_known_is_told_in_front_of_a_bar) {
  ASSERT_EQ(peer.one(put_op(1, "b", "1").tagged(kOneTag)).code, Code::kOk);
  ASSERT_EQ(peer.one(put_op(2, "a", large).tagged(kOneTag)).code, Code::kOverloaded);
  EXPECT_TRUE(peer.one(put_op(1, "b", "1").tagged(kOneTag)).is_told_again());
  EXPECT_EQ(served.numbered.barred(), 1u);
}

class NumberedLog : public testing::Test {
 protected:
  NumberedLog() {
    served.space.table().log_to(&log);
    log.waits = true;
  }
  void progress() {
    (void)served.service.on_log_progress();
    served.settle();
  }

  test::ManualLog log;
  Served served;
  NumberedPeer peer{served};
};

TEST_F(NumberedLog, answers_wait_until_the_log_has_confirmed_what_they_tell) {
  const uint64_t made = peer.start({put_op(1, "a", "1"), add_op(2, "a", 1)}, false);
  const uint64_t again = peer.start({put_op(1, "a", "1")}, false);
  const uint64_t asked = peer.start({withdraw_op(2)}, false);
  const uint64_t refused = peer.start({put_op(3, "a", "1").flagged(Operation::kIfAbsent)}, false);
  const uint64_t looked = peer.start({condition_op("a", Operation::kIfPresent)}, false);
  const uint64_t nothing = peer.start({withdraw_op(9)}, false);
  EXPECT_EQ(value_of(served, "a"), "2");
  for (const uint64_t call : {made, again, asked, refused, looked}) EXPECT_FALSE(peer.is_answered(call));
  EXPECT_TRUE(peer.is_answered(nothing)) << "it says nothing that could be lost";
  EXPECT_TRUE(peer.finish(nothing).one().is_not_executed());
  log.confirm_all();
  progress();
  EXPECT_EQ(peer.finish(made).codes(), (std::vector{Code::kOk, Code::kOk}));
  EXPECT_TRUE(peer.finish(again).one().is_told_again());
  EXPECT_TRUE(peer.finish(asked).one().is_told_again());
  EXPECT_EQ(peer.finish(refused).one().code, Code::kExists);
  EXPECT_EQ(peer.finish(looked).one().code, Code::kOk);
  ASSERT_EQ(log.records.size(), 2u);
  EXPECT_EQ(log.records[1].value, "2");
}

// Schedule 32.
TEST_F(NumberedLog, what_the_log_loses_is_indeterminate_also_when_it_is_asked) {
  const uint64_t made = peer.start({put_op(1, "a", "1")}, false);
  log.failed = Code::kIndeterminate;
  log.room = Code::kReadOnly;
  progress();
  EXPECT_EQ(peer.finish(made).code, Code::kIndeterminate);
  EXPECT_EQ(peer.call({withdraw_op(1)}).code, Code::kIndeterminate);
  EXPECT_TRUE(peer.one(withdraw_op(2)).is_not_executed());
  // That it cannot be written is the last word.
  const NumberedAnswer refused = peer.one(put_op(2, "a", "2").tagged(kOneTag));
  EXPECT_EQ(refused.code, Code::kReadOnly);
  EXPECT_NE(refused.place, wire::kPlaceUnknown);
  EXPECT_EQ(peer.one(put_op(3, "a", "3").tagged(kOneTag)).code, Code::kReadOnly) << "no bar";
  EXPECT_EQ(served.numbered.counts().read_only, 2u);
  EXPECT_EQ(peer.one(put_op(2, "a", "2").tagged(kOneTag)).is_told_again(), true);
}

// Schedule 31.
TEST_F(NumberedLog, a_log_without_room_refuses_for_now_and_lets_one_wait) {
  log.room = Code::kOverloaded;
  EXPECT_EQ(peer.one(put_op(1, "a", "1").tagged(kOneTag)).code, Code::kOverloaded);
  EXPECT_EQ(peer.one(erase_op(2, "a").tagged(kOneTag)).code, Code::kOverloaded);
  const uint64_t waits = peer.start({put_op(1, "a", "1").tagged(kOneTag)});
  EXPECT_FALSE(peer.is_answered(waits));
  EXPECT_EQ(served.service.log_stats().waiting_writes, 1u);
  progress();
  EXPECT_FALSE(peer.is_answered(waits)) << "there is no room yet";
  log.room = Code::kOk;
  log.waits = false;
  progress();
  ASSERT_TRUE(peer.is_answered(waits));
  EXPECT_EQ(peer.finish(waits).one().code, Code::kOk);
  EXPECT_EQ(served.service.log_stats().waiting_writes, 0u);
  EXPECT_EQ(peer.one(erase_op(2, "a").tagged(kOneTag)).code, Code::kOk);
  EXPECT_EQ(value_of(served, "a"), "nothing");
  EXPECT_EQ(log.records.size(), 2u);
}

TEST(NumberedRecords, one_without_a_free_record_waits_for_an_acknowledgement) {
  Served served;
  NumberedPeer peer(served);
  for (uint64_t number = 1; number <= kRecordsPerSession; ++number) {
    ASSERT_EQ(peer.one(put_op(number, "key", "1")).code, Code::kOk);
  }
  const uint64_t waits = peer.start({add_op(2'000, "key", 1).tagged(kOneTag)});
  EXPECT_FALSE(peer.is_answered(waits));
  ASSERT_EQ(peer.call({withdraw_op(3'000)}, {{.number = 7}}).code, Code::kOk);
  ASSERT_TRUE(peer.is_answered(waits));
  EXPECT_EQ(peer.finish(waits).one().number(), 2);
  EXPECT_EQ(served.numbered.barred(), 0u);
}

// Schedule 33: INCR of a key that a transaction holds, and of what that has committed.
TEST(NumberedTransactions, one_whose_key_is_held_waits_and_looks_behind_the_wait) {
  Served served;
  NumberedPeer peer(served);
  ASSERT_EQ(peer.one(put_op(1, "key", "1")).code, Code::kOk);
  Served::Peer coordinator = served.connect();
  TransactionCalls calls(*coordinator.session, served.shard);
  const uint64_t deadline_ns = served.shard.refresh_now() + kSecond_ns;
  const TransactionCalls::Terms terms{.name = needed(served.wait(calls.begin(deadline_ns))),
                                      .begun_ns = served.shard.now_ns(),
                                      .deadline_ns = deadline_ns};
  std::vector<RpcBatchWrite> writes{{.key = bytes_of("key"), .value = bytes_of("41")}};
  RpcBatch part{.conditions = {}, .writes = writes};
  ASSERT_TRUE(served.wait(calls.prepare(part, terms)));

  EXPECT_EQ(peer.call({add_op(2, "key", 1).tagged(kOneTag), put_op(3, "other", "3").tagged(kOneTag)}).codes(),
            (std::vector{Code::kOverloaded, Code::kOverloaded}));
  const uint64_t waits = peer.start({add_op(2, "key", 1).tagged(kOneTag)});
  EXPECT_FALSE(peer.is_answered(waits));
  RpcBatch home{.conditions = {}, .writes = {}};
  ASSERT_TRUE(served.wait(calls.decide(home, terms)));
  calls.settle(terms.name);
  ASSERT_TRUE(served.run_until([&] { return peer.is_answered(waits); }));
  EXPECT_EQ(peer.finish(waits).one().number(), 42);
  EXPECT_EQ(peer.one(put_op(3, "other", "3").tagged(kOneTag)).code, Code::kOk);
  EXPECT_EQ(value_of(served, "key"), "42");
}

}  // namespace
}  // namespace refract::kv
