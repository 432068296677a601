// SPDX-License-Identifier: Apache-2.0
// Operations with numbers and without: what each does, what its client is told, the first time and again.
#include "refract/kv/owner/numbered/numbered_service.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "refract/kv/testing/test_numbered.h"

namespace refract::kv {
namespace {

using functions::Function;
using test::add_op;
using test::body_of;
using test::bytes_of;
using test::condition_op;
using test::erase_op;
using test::function_op;
using test::NumberedAnswer;
using test::NumberedOp;
using test::NumberedPeer;
using test::NumberedReply;
using test::operations_body;
using test::put_op;
using test::reply_as;
using test::Served;
using test::withdraw_op;
using wire::Operation;

class NumberedServiceTest : public testing::Test {
 protected:
  [[nodiscard]] std::string get(std::string_view key) {
    std::string value;
    StringSink sink(value);
    return peer.peer.client->get_and_wait(bytes_of(key), sink) ? value : "nothing";
  }
  [[nodiscard]] uint64_t expiry(std::string_view key) {
    const auto entry = served.space.table().find(bytes_of(key));
    return entry ? entry->expires_wall_ns : UINT64_MAX;
  }
  [[nodiscard]] size_t records() { return served.numbered.records().counts().records; }

  Served served;
  NumberedPeer peer{served};
};

TEST_F(NumberedServiceTest, each_kind_does_what_it_says) {
  const NumberedReply reply =
      peer.call({put_op(1, "a", "red"), put_op(2, "b", "7"), add_op(3, "b", 5), add_op(4, "none yet", -2),
                 erase_op(5, "a"), erase_op(6, "a"), condition_op("b", Operation::kIfPresent)});
  EXPECT_EQ(reply.codes(),
            (std::vector{Code::kOk, Code::kOk, Code::kOk, Code::kOk, Code::kOk, Code::kNotFound, Code::kOk}));
  ASSERT_EQ(reply.answers.size(), 7u);
  EXPECT_EQ(reply.answers[2].number(), 12);
  EXPECT_EQ(reply.answers[3].number(), -2);
  EXPECT_EQ(static_cast<uint64_t>(reply.answers[4].number()), reply.answers[0].version)
      << "the version erased";
  EXPECT_EQ(reply.answers[6].version, 0u);
  EXPECT_EQ(reply.answers[6].place, wire::kPlaceUnknown);
  EXPECT_EQ(get("a"), "nothing");
  EXPECT_EQ(get("b"), "12");
  EXPECT_EQ(get("none yet"), "-2");
  for (size_t i = 1; i < 5; ++i) EXPECT_GT(reply.answers[i].version, reply.answers[i - 1].version);
  EXPECT_EQ(records(), 6u);
  for (const NumberedAnswer& each : reply.answers) EXPECT_EQ(each.flags, 0u);
  EXPECT_EQ(served.service.stat().ops[static_cast<size_t>(wire::Method::kErase)], 2u);
  EXPECT_EQ(served.service.stat().ops[static_cast<size_t>(wire::Method::kPut)], 4u);
  EXPECT_TRUE(served.is_sound());
}

// Whatever it was: a change, a refusal, an error.
TEST_F(NumberedServiceTest, a_number_that_comes_again_is_told_its_first_answer_and_does_nothing) {
  const std::vector<NumberedOp> all = {
      put_op(1, "count", "1"),
      add_op(2, "count", 1),
      put_op(3, "count", "9").flagged(Operation::kIfAbsent),
      put_op(4, "absent", "9").flagged(Operation::kIfPresent),
      erase_op(5, "absent"),
      put_op(6, "text", "no number"),
      add_op(7, "text", 1),
      erase_op(8, "text"),
      put_op(9, "count", "9").if_version(1),
  };
  const NumberedReply first = peer.call(all);
  EXPECT_EQ(first.codes(),
            (std::vector{Code::kOk, Code::kOk, Code::kExists, Code::kNotFound, Code::kNotFound, Code::kOk,
                         Code::kInvalidArgument, Code::kOk, Code::kVersionMismatch}));
  EXPECT_EQ(first.answers[6].bytes, std::string(1, '\1')) << "no integer";
  // What would be executed now: younger writes have changed what the conditions are about.
  ASSERT_EQ(peer.call({erase_op(20, "count"), put_op(21, "absent", "here"), put_op(22, "text", "5")}).code,
            Code::kOk);
  const NumberedReply again = peer.call(all);
  std::vector<NumberedOp> asks;
  asks.reserve(all.size());
  for (uint64_t number = 1; number <= all.size(); ++number) asks.push_back(withdraw_op(number));
  const NumberedReply asked = peer.call(asks);
  ASSERT_EQ(again.answers.size(), all.size());
  ASSERT_EQ(asked.answers.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    for (const NumberedReply* told : {&again, &asked}) {
      EXPECT_TRUE(told->answers[i].is_told_again()) << i;
      EXPECT_FALSE(told->answers[i].is_not_executed()) << i;
      EXPECT_EQ(told->answers[i].code, first.answers[i].code) << i;
      EXPECT_EQ(told->answers[i].version, first.answers[i].version) << i;
      EXPECT_EQ(told->answers[i].place, first.answers[i].place) << i;
      EXPECT_EQ(told->answers[i].bytes, first.answers[i].bytes) << i;
    }
  }
  EXPECT_EQ(get("count"), "nothing");
  EXPECT_EQ(get("absent"), "here");
  EXPECT_EQ(get("text"), "5");
  EXPECT_EQ(served.numbered.counts().told_again, 2 * all.size());
}

TEST_F(NumberedServiceTest, conditions_are_compared_and_say_what_did_not_hold) {
  const uint64_t version = peer.one(put_op(1, "key", "v")).version;
  EXPECT_EQ(peer.one(condition_op("key", Operation::kIfPresent)).code, Code::kOk);
  EXPECT_EQ(peer.one(condition_op("key", Operation::kIfAbsent)).code, Code::kExists);
  EXPECT_EQ(peer.one(condition_op("none", Operation::kIfAbsent)).code, Code::kOk);
  EXPECT_EQ(peer.one(condition_op("none", Operation::kIfPresent)).code, Code::kNotFound);
  EXPECT_EQ(peer.one(condition_op("key", 0).if_version(version)).code, Code::kOk);
  EXPECT_EQ(peer.one(condition_op("key", 0).if_version(version + 1)).code, Code::kVersionMismatch);
  EXPECT_EQ(peer.one(condition_op("none", 0).if_version(version)).code, Code::kNotFound);
  EXPECT_EQ(peer.one(erase_op(2, "key").if_version(version + 1)).code, Code::kVersionMismatch);
  EXPECT_EQ(get("key"), "v");
  EXPECT_EQ(peer.one(put_op(3, "key", "w").if_version(version)).code, Code::kOk);
  EXPECT_EQ(peer.one(put_op(4, "key", "x").flagged(Operation::kIfPresent)).code, Code::kOk);
  EXPECT_EQ(peer.one(put_op(5, "none", "x").flagged(Operation::kIfAbsent)).code, Code::kOk);
  EXPECT_EQ(get("key") + get("none"), "xx");
  const size_t before = records();
  for (const NumberedOp& odd :
       {condition_op("key", 0), condition_op("key", 3), put_op(6, "key", "y").flagged(3),
        put_op(6, "key", "y").flagged(4, 1), put_op(6, "key", "y").flagged(12),
        put_op(6, "key", "y").flagged(1).if_version(9)}) {
    EXPECT_EQ(peer.one(odd).code, Code::kInvalidArgument);
  }
  EXPECT_EQ(records(), before) << "what makes no sense leaves none";
  EXPECT_EQ(get("key"), "x");
}

TEST_F(NumberedServiceTest, expiry_is_a_moment_or_a_time_to_live_and_may_stay) {
  const uint64_t now_ns = served.space.clock().wall_ns();
  ASSERT_EQ(peer.one(put_op(1, "key", "v").flagged(0, now_ns + 100 * kSecond_ns)).code, Code::kOk);
  EXPECT_EQ(expiry("key"), now_ns + 100 * kSecond_ns);
  ASSERT_EQ(peer.one(put_op(2, "key", "longer than it was").flagged(Operation::kKeepsExpiry)).code,
            Code::kOk);
  EXPECT_EQ(expiry("key"), now_ns + 100 * kSecond_ns);
  ASSERT_EQ(peer.one(add_op(3, "number", 1)).code, Code::kOk);
  EXPECT_EQ(expiry("number"), 0u);
  ASSERT_EQ(peer.one(put_op(4, "key", "v").flagged(Operation::kForSoLong, 5 * kSecond_ns)).code, Code::kOk);
  EXPECT_EQ(expiry("key"), served.space.clock().wall_ns() + 5 * kSecond_ns);
  ASSERT_EQ(peer.one(put_op(5, "key", "v")).code, Code::kOk);
  EXPECT_EQ(expiry("key"), 0u);
  ASSERT_EQ(peer.one(put_op(6, "new", "v").flagged(Operation::kKeepsExpiry)).code, Code::kOk);
  EXPECT_EQ(expiry("new"), 0u);
}

TEST_F(NumberedServiceTest, functions_change_values_and_their_errors_leave_records) {
  EXPECT_EQ(peer.one(function_op(1, Function::kAppend, "text", "one ")).number(), 4);
  EXPECT_EQ(peer.one(function_op(2, Function::kAppend, "text", "two")).number(), 7);
  EXPECT_EQ(get("text"), "one two");
  const uint64_t now_ns = served.space.clock().wall_ns();
  std::string moment = body_of(now_ns + 50 * kSecond_ns) + '\0';
  EXPECT_EQ(peer.one(function_op(3, Function::kExpire, "text", moment)).bytes, std::string(1, '\1'));
  EXPECT_EQ(expiry("text"), now_ns + 50 * kSecond_ns);
  EXPECT_EQ(peer.one(function_op(4, Function::kPersist, "text", "")).code, Code::kOk);
  EXPECT_EQ(expiry("text"), 0u);
  EXPECT_EQ(peer.one(add_op(5, "text", 1)).code, Code::kInvalidArgument);
  EXPECT_EQ(peer.one(add_op(6, "most", std::numeric_limits<int64_t>::max())).code, Code::kOk);
  EXPECT_EQ(peer.one(add_op(7, "most", 1)).bytes, std::string(1, '\2')) << "overflow";
  EXPECT_EQ(records(), 7u);
  // Arguments that are not the row's form, and rows that the table does not have, say so each time.
  EXPECT_EQ(peer.one(function_op(8, Function::kAdd, "text", "123")).code, Code::kInvalidArgument);
  EXPECT_EQ(peer.one(function_op(9, static_cast<Function>(7), "text", "")).code, Code::kUnsupported);
  EXPECT_EQ(records(), 7u);
  EXPECT_TRUE(served.is_sound());
}

// As single calls.
TEST_F(NumberedServiceTest, operations_without_numbers_need_no_session_and_leave_no_record) {
  NumberedPeer plain(served, false);
  const NumberedReply reply = plain.call({put_op(0, "a", "1"), add_op(0, "a", 1), erase_op(0, "none"),
                                          condition_op("a", Operation::kIfPresent)});
  EXPECT_EQ(reply.codes(), (std::vector{Code::kOk, Code::kOk, Code::kNotFound, Code::kOk}));
  for (const NumberedAnswer& each : reply.answers) EXPECT_EQ(each.place, wire::kPlaceUnknown);
  EXPECT_EQ(get("a"), "2");
  EXPECT_EQ(records(), 0u);
  for (const auto& ops : {std::vector{put_op(1, "a", "1")}, std::vector{withdraw_op(1)},
                          std::vector{put_op(0, "b", "1"), condition_op("a", 2).tagged(4)}}) {
    EXPECT_EQ(plain.call(ops).code, Code::kInvalidated) << "there is no session";
  }
  EXPECT_EQ(plain.call({put_op(0, "b", "1")}, {{.number = 1}}).code, Code::kInvalidated);
  EXPECT_EQ(get("b"), "nothing");
}

TEST_F(NumberedServiceTest, acknowledgements_free_records_by_number_and_place) {
  const NumberedReply three = peer.call({put_op(1, "a", "1"), put_op(2, "b", "1"), put_op(3, "c", "1")});
  ASSERT_EQ(three.answers.size(), 3u);
  const uint16_t first = three.answers[0].place;
  ASSERT_EQ(records(), 3u);
  // Of another number, and of a place that is none.
  EXPECT_EQ(peer.call({withdraw_op(9)}, {{.number = 2, .place = first}, {.number = 3, .place = 1'007}}).code,
            Code::kOk);
  EXPECT_EQ(records(), 3u);
  // Schedule 5: it came, its answer was lost, and the place has another number when it comes again.
  EXPECT_TRUE(peer.call({withdraw_op(1)}, {{.number = 1, .place = first}}).one().is_not_executed());
  EXPECT_EQ(records(), 2u);
  EXPECT_EQ(peer.one(put_op(4, "d", "1")).place, first);
  EXPECT_TRUE(peer.call({withdraw_op(4)}, {{.number = 1, .place = first}}).one().is_told_again());
  EXPECT_EQ(records(), 3u);
  // Without the place.
  EXPECT_TRUE(peer.call({withdraw_op(2)}, {{.number = 2}, {.number = 3}, {.number = 4}, {.number = 5}})
                  .one()
                  .is_not_executed());
  EXPECT_EQ(records(), 0u);
  EXPECT_EQ(served.numbered.counts().acknowledged, 4u);
}

// They are taken first: their places are for this call's records.
TEST_F(NumberedServiceTest, acknowledgements_come_before_the_operations_of_their_call) {
  const NumberedAnswer first = peer.one(put_op(1, "a", "1"));
  const NumberedAnswer again = peer.call({put_op(1, "a", "2")}, {{.number = 1, .place = first.place}}).one();
  EXPECT_FALSE(again.is_told_again());
  EXPECT_EQ(get("a"), "2");
}

TEST_F(NumberedServiceTest, all_numbers_of_a_session_are_kept_until_they_are_acknowledged) {
  std::vector<test::NumberedAcknowledgement> told;
  told.reserve(kRecordsPerSession);
  for (uint64_t number = 1; number <= kRecordsPerSession; ++number) {
    const NumberedAnswer made = peer.one(put_op(number, "key", std::to_string(number)));
    ASSERT_EQ(made.code, Code::kOk) << number;
    told.push_back({.number = number, .place = made.place});
  }
  EXPECT_EQ(peer.one(put_op(2'000, "key", "too many")).code, Code::kOverloaded);
  EXPECT_EQ(peer.one(put_op(1'008, "key", "again")).version, 0u + peer.one(withdraw_op(1'008)).version);
  // Schedule 41: all but one are acknowledged, one by one.
  for (size_t from = 0; from + 1 < told.size();) {
    const size_t count = std::min<size_t>(wire::kAcknowledgedPerCall, told.size() - 1 - from);
    const auto begin = told.begin() + static_cast<ptrdiff_t>(from);
    ASSERT_EQ(peer.call({withdraw_op(3'000)}, {begin, begin + static_cast<ptrdiff_t>(count)}).code,
              Code::kOk);
    from += count;
  }
  EXPECT_EQ(records(), 1u);
  EXPECT_EQ(peer.one(put_op(2'000, "key", "now")).code, Code::kOk);
  EXPECT_TRUE(peer.one(withdraw_op(1'008)).is_told_again());
  EXPECT_TRUE(served.is_sound());
}

TEST_F(NumberedServiceTest, a_call_whose_answers_would_not_fit_is_refused_before_anything_is_done) {
  Served shortest({.link = {.message_bytes_max = wire::kBodyBytesMin + sizeof(rpc::MessageHeader)}});
  NumberedPeer client(shortest);
  ASSERT_EQ(client.one(put_op(1, "a", "1")).code, Code::kOk);
  std::vector<NumberedOp> asks;
  asks.reserve(11);
  for (uint64_t number = 1; number <= 10; ++number) asks.push_back(withdraw_op(number));
  EXPECT_EQ(client.call(asks).answers.size(), 10u);
  asks.push_back(withdraw_op(11));
  EXPECT_EQ(client.call(asks, {{.number = 1}}).code, Code::kTooLarge);
  EXPECT_TRUE(client.one(withdraw_op(1)).is_told_again()) << "nothing was acknowledged";
  std::vector<NumberedOp> erasures;
  erasures.reserve(8);
  for (uint64_t number = 1; number <= 8; ++number) erasures.push_back(erase_op(10 + number, "a"));
  EXPECT_EQ(client.call(erasures).answers.size(), 8u);
}

TEST_F(NumberedServiceTest, keys_of_other_shards_are_refused_alone) {
  Served half({.shard_index = 1, .shard_count = 2});
  NumberedPeer client(half);
  std::vector<NumberedOp> puts;
  puts.reserve(16);
  for (uint64_t i = 1; i <= 16; ++i) puts.push_back(put_op(i, "key " + std::to_string(i), "v"));
  const NumberedReply reply = client.call(puts);
  ASSERT_EQ(reply.answers.size(), puts.size());
  size_t stored = 0;
  for (const NumberedAnswer& each : reply.answers) {
    EXPECT_TRUE(each.code == Code::kOk || each.code == Code::kWrongShard);
    EXPECT_EQ(each.place == wire::kPlaceUnknown, each.code == Code::kWrongShard);
    stored += each.code == Code::kOk ? 1 : 0;
  }
  EXPECT_GT(stored, 0u);
  EXPECT_LT(stored, puts.size());
  EXPECT_EQ(half.space.table().stats().entries, stored);
  EXPECT_EQ(half.numbered.records().counts().records, stored);
}

TEST_F(NumberedServiceTest, a_staged_key_is_used_once) {
  const std::string key(1'000, 'k');
  const auto stage = [&] {
    const std::string body =
        body_of(wire::StageKeyRequest{.place = 1, .reserved = 0, .offset = 0, .reserved_end = 0}, key);
    ASSERT_EQ(served.call(peer.peer, wire::Method::kStageKey, bytes_of(body)), Code::kOk);
  };
  const auto staged = [&](uint64_t number, uint16_t bytes) {
    NumberedOp made = put_op(number, "", "v");
    made.operation.key_bytes = bytes;
    made.operation.staged = 2;
    return made;
  };
  stage();
  EXPECT_EQ(peer.one(staged(1, 1'000)).code, Code::kOk);
  EXPECT_EQ(get(key), "v");
  EXPECT_EQ(peer.one(staged(2, 1'000)).code, Code::kInvalidated);
  stage();
  EXPECT_EQ(peer.one(staged(3, 999)).code, Code::kInvalidated);
  EXPECT_EQ(records(), 1u);
}

TEST_F(NumberedServiceTest, a_body_that_makes_no_sense_changes_nothing) {
  ASSERT_EQ(peer.one(put_op(1, "key", "v")).code, Code::kOk);
  const auto refused = [&](const std::string& body) { return peer.call_body(body).code; };
  const std::string good = operations_body({put_op(2, "key", "w")}, false, {{.number = 1}});
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    ASSERT_EQ(refused(good.substr(0, bytes)), Code::kMalformed) << bytes;
  }
  EXPECT_EQ(refused(good + "x"), Code::kMalformed);
  EXPECT_EQ(refused(operations_body({put_op(2, "key", "w")}, false, {{.number = 0}})), Code::kMalformed);
  EXPECT_EQ(refused(operations_body({put_op(2, "key", "w"), put_op(3, "key", "w")}, true)), Code::kMalformed)
      << "one alone may wait";
  EXPECT_EQ(refused(operations_body({})), Code::kMalformed);
  EXPECT_EQ(refused(operations_body(std::vector(17, withdraw_op(1)))), Code::kMalformed);
  EXPECT_EQ(refused(operations_body({withdraw_op(1)}, false,
                                    std::vector(65, test::NumberedAcknowledgement{.number = 1}))),
            Code::kMalformed);
  const auto odd = [](const std::function<void(Operation&)>& change) {
    NumberedOp made = put_op(2, "key", "w");
    change(made.operation);
    return operations_body({put_op(3, "key", "x"), made});
  };
  EXPECT_EQ(refused(odd([](Operation& one) { one.kind = 6; })), Code::kMalformed);
  EXPECT_EQ(refused(odd([](Operation& one) { one.flags = 16; })), Code::kMalformed);
  EXPECT_EQ(refused(odd([](Operation& one) { one.number = 0, one.tag = 1; })), Code::kMalformed);
  EXPECT_EQ(refused(odd([](Operation& one) { one.key_bytes = 60'000; })), Code::kMalformed);
  EXPECT_EQ(refused(odd([](Operation& one) { one.value_bytes = UINT32_MAX; })), Code::kMalformed);
  for (const auto method : {wire::NumberedMethod::kSessionBegin, wire::NumberedMethod::kSessionResume}) {
    EXPECT_EQ(served.call(peer.peer, static_cast<wire::Method>(method), bytes_of("x")), Code::kMalformed);
  }
  EXPECT_EQ(served.call(peer.peer, static_cast<wire::Method>(0xdf), {}), Code::kUnsupported);
  EXPECT_EQ(get("key"), "v");
  EXPECT_EQ(records(), 1u) << "nothing was acknowledged";
}

// A value brought in pieces, under a number.
TEST_F(NumberedServiceTest, an_upload_is_committed_as_an_operation) {
  const auto begin = [&](std::string_view key, std::string_view value, size_t filled, uint64_t ttl_ns = 0) {
    wire::PutRequest request = test::put_request(key.size(), value.size());
    request.ttl_ns = ttl_ns;
    std::string reply;
    EXPECT_EQ(served.call(peer.peer, wire::Method::kPutBegin, bytes_of(body_of(request, key)), &reply),
              Code::kOk);
    const uint64_t upload = reply_as<wire::Handle>(reply).id;
    const std::string piece =
        body_of(wire::PutPieceRequest{.upload = upload, .offset = 0}, value.substr(0, filled));
    EXPECT_EQ(served.call(peer.peer, wire::Method::kPutPiece, bytes_of(piece)), Code::kOk);
    return upload;
  };
  const auto commit = [](uint64_t number, uint64_t upload, uint64_t expires_wall_ns = 0) {
    return test::numbered_op(wire::OperationKind::kCommit, number, "",
                             expires_wall_ns == 0 ? "" : body_of(expires_wall_ns))
        .flagged(0, upload);
  };
  const uint64_t first = begin("key", "value", 5);
  const NumberedAnswer made = peer.one(commit(1, first));
  EXPECT_EQ(made.code, Code::kOk);
  EXPECT_EQ(get("key"), "value");
  EXPECT_EQ(served.service.stat().uploads, 0u);
  const NumberedAnswer again = peer.one(commit(1, first));
  EXPECT_TRUE(again.is_told_again());
  EXPECT_EQ(again.version, made.version);
  EXPECT_EQ(peer.one(commit(2, first)).code, Code::kInvalidated) << "it is not there any more";
  EXPECT_EQ(peer.one(withdraw_op(2)).code, Code::kInvalidated) << "a last word, for others follow";

  const uint64_t part = begin("key", "value", 4);
  EXPECT_EQ(peer.one(commit(3, part)).code, Code::kInvalidArgument) << "a byte is missing";
  EXPECT_EQ(served.service.stat().uploads, 1u);
  const uint64_t second = begin("key", "other", 5);
  EXPECT_EQ(peer.one(commit(4, second).flagged(Operation::kIfAbsent, second)).code, Code::kExists);
  EXPECT_EQ(peer.one(withdraw_op(4)).code, Code::kExists);
  EXPECT_EQ(served.service.stat().uploads, 1u) << "its draft has gone with the outcome";
  EXPECT_EQ(get("key"), "value");
  const uint64_t now_ns = served.space.clock().wall_ns();
  const uint64_t third = begin("brief", "value", 5, kSecond_ns);
  EXPECT_EQ(peer.one(commit(5, third, now_ns + 9 * kSecond_ns)).code, Code::kOk);
  EXPECT_EQ(expiry("brief"), now_ns + 9 * kSecond_ns);
  // Told again, where it was brought again.
  const uint64_t fourth = begin("brief", "again", 5, kSecond_ns);
  EXPECT_TRUE(peer.one(commit(5, fourth)).is_told_again());
  EXPECT_EQ(served.service.stat().uploads, 1u);
  EXPECT_EQ(get("brief"), "value");
  EXPECT_TRUE(served.is_sound());
}

}  // namespace
}  // namespace refract::kv
