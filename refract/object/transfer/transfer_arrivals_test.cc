// SPDX-License-Identifier: Apache-2.0
// What is coming to a holder is given to those that follow it: as far as it has come, by the same plan, and
// not behind its end.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/object/testing/test_transfers.h"

namespace refract::object::transfer_arrivals_test {
namespace {

using test::body_of;
using test::ToldNode;
using wire::TransferBy;

constexpr uint64_t kPlan = 11;
constexpr uint64_t kBytes = 20'000;
constexpr uint64_t kHere = 8'192;

class ArrivalTest : public test::AskedGiver {
 protected:
  // Its room is taken, and so many of its bytes are there.
  void begin(uint64_t plan = kPlan, uint64_t ready = kHere) {
    const Result<Creation> made =
        store().create({.id = test::as_bytes(id), .birth = kBirth, .body_bytes = kBytes, .is_pulled = true});
    REFRACT_CHECK(made.has_value());
    store().writer().copy(made->object.plus(ObjectParts::body_at()), test::as_bytes(bytes));
    entry.emplace(node.owner().arrivals, Arrivals::Arrival{.id = id,
                                                           .birth = kBirth,
                                                           .parts = made->parts,
                                                           .plan = plan,
                                                           .object = made->object,
                                                           .room = store().room_of(*made)});
    entry->grew(ready);
  }
  void seal() {
    REFRACT_CHECK(store().seal(test::as_bytes(id), kBirth).has_value());
    entry->sealed();
    entry.reset();
  }
  [[nodiscard]] ObjectStore& store() { return node.owner().store; }
  [[nodiscard]] std::string follow_body(TransferBy by, uint32_t asked = 0, uint64_t plan = kPlan,
                                        uint32_t wait_ms = 0, uint64_t offset = 0) const {
    return body_of(wire::FollowRequest{.transfer = {.birth = kBirth,
                                                    .body_bytes = kBytes,
                                                    .offset = offset,
                                                    .metadata_bytes = 0,
                                                    .bytes = asked,
                                                    .id_bytes = test::short_of(id.size()),
                                                    .by = by,
                                                    .wants_digest = 0,
                                                    .reserved = {}},
                                       .plan = plan,
                                       .wait_ms = wait_ms,
                                       .reserved = 0},
                   id);
  }
  [[nodiscard]] uint64_t start(Method method, std::string_view body) {
    const uint64_t started =
        peer->start({.method = static_cast<uint16_t>(method), .head = test::as_bytes(body), .tail = {}});
    REFRACT_CHECK(started != 0);
    node.settle();
    return started;
  }
  [[nodiscard]] static std::string progress_body(uint64_t number, uint64_t least) {
    return body_of(wire::ProgressRequest{.transfer = number, .least = least});
  }

  const std::string bytes = std::string(kBytes / 2, 'x') + std::string(kBytes / 2, 'y');
  std::optional<Arrivals::Entry> entry;
};

TEST_F(ArrivalTest, what_is_ready_is_given_and_no_more) {
  begin();
  const test::Answer answer = call(Method::kFollow, follow_body(TransferBy::kMessages, 4000, kPlan, 0, 6000));
  ASSERT_EQ(answer.code, Code::kOk);
  const auto reply = answer.as<wire::FollowReply>();
  EXPECT_EQ(reply.ready, kHere);
  EXPECT_EQ(answer.behind<wire::FollowReply>(), bytes.substr(6000, kHere - 6000));
  const uint64_t number = reply.transfer.transfer;
  EXPECT_EQ(data(number, 0, 100).bytes, bytes.substr(0, 100));
  EXPECT_EQ(data(number, kHere - 100, 101).code, Code::kInvalidArgument);
  const uint64_t waiting = start(Method::kProgress, progress_body(reply.transfer.transfer, kHere + 2000));
  entry->grew(kHere + 1000);
  node.settle();
  EXPECT_FALSE(peer->done(waiting)) << "it wants more";
  entry->grew(kHere + 2000);
  node.settle();
  ASSERT_TRUE(peer->done(waiting));
  EXPECT_EQ((test::Answer{.code = Code::kOk, .bytes = kv::test::text_of(peer->finish(waiting).bytes)})
                .as<wire::ProgressReply>()
                .ready,
            kHere + 2000);
  EXPECT_EQ(data(number, kHere, 2000).bytes, bytes.substr(kHere, 2000));
  seal();
  EXPECT_EQ(
      call(Method::kProgress, progress_body(reply.transfer.transfer, kBytes)).as<wire::ProgressReply>().ready,
      kBytes);
  EXPECT_EQ(data(number, kBytes - 10, 10).bytes, bytes.substr(kBytes - 10));
  EXPECT_EQ(node.owner().fetches.count(), 1U) << "it stays where it is";
  EXPECT_EQ(done(number), Code::kOk);
  EXPECT_EQ(node.owner().fetches.count(), 0U);
}

// The room is another object's next: the window goes before it does.
TEST_F(ArrivalTest, what_does_not_come_any_more_is_read_by_no_one) {
  begin();
  const test::Answer answer = call(Method::kFollow, follow_body(TransferBy::kReads));
  ASSERT_EQ(answer.code, Code::kOk);
  const auto reply = answer.as<wire::FollowReply>();
  wire::TransferPiece piece{};
  const std::string place = answer.behind<wire::FollowReply>();
  ASSERT_EQ(place.size(), sizeof(piece));
  std::memcpy(&piece, place.data(), sizeof(piece));
  std::string got;
  EXPECT_EQ(read(piece, got), Code::kOk);
  EXPECT_EQ(got.substr(0, kHere), bytes.substr(0, kHere));
  const uint64_t waiting = start(Method::kProgress, progress_body(reply.transfer.transfer, kBytes));
  entry->end();
  EXPECT_NE(read(piece, got), Code::kOk);
  node.settle();
  ASSERT_TRUE(peer->done(waiting));
  EXPECT_EQ(peer->finish(waiting).code, Code::kInvalidated);
  EXPECT_EQ(call(Method::kProgress, progress_body(reply.transfer.transfer, 1)).code, Code::kInvalidated);
  EXPECT_EQ(call(Method::kFollow, follow_body(TransferBy::kReads)).code, Code::kNotFound);
  EXPECT_EQ(counts().open, 0U);
  EXPECT_EQ(node.owner().windows.open_count(), 0U);
  EXPECT_EQ(node.owner().fetches.count(), 0U);
}

TEST_F(ArrivalTest, only_those_of_the_same_plan_follow_unless_it_has_none) {
  begin();
  EXPECT_EQ(call(Method::kFollow, follow_body(TransferBy::kReads, 0, kPlan + 1)).code, Code::kNotFound);
  EXPECT_EQ(call(Method::kFollow, follow_body(TransferBy::kReads)).code, Code::kOk);
  entry.reset();
  REFRACT_CHECK(store().end_pull(test::as_bytes(id), kBirth) == Code::kOk);
  begin(0);
  EXPECT_EQ(call(Method::kFollow, follow_body(TransferBy::kReads, 0, kPlan + 1)).code, Code::kOk);
  EXPECT_EQ(counts().arriving, 2U);
}

TEST_F(ArrivalTest, a_holder_that_is_about_to_get_it_is_waited_for_so_long) {
  EXPECT_EQ(call(Method::kFollow, follow_body(TransferBy::kReads)).code, Code::kNotFound);
  const uint64_t began_ns = node.shard.refresh_now();
  EXPECT_EQ(call(Method::kFollow, follow_body(TransferBy::kReads, 0, kPlan, 5000)).code, Code::kNotFound);
  const uint64_t waited_ns = node.shard.refresh_now() - began_ns;
  EXPECT_GE(waited_ns, wire::kFollowWait_ns);
  EXPECT_LE(waited_ns, wire::kFollowWait_ns + 300 * kMillisecond_ns);
  const uint64_t waiting = start(Method::kFollow, follow_body(TransferBy::kReads, 0, kPlan, 1000));
  EXPECT_EQ(counts().waiting, 1U);
  begin();
  node.settle();
  ASSERT_TRUE(peer->done(waiting));
  EXPECT_EQ(peer->finish(waiting).code, Code::kOk);
  EXPECT_EQ(counts().waiting, 0U);
}

// The one that asks learns within half a second that the holder lives.
TEST_F(ArrivalTest, progress_is_answered_in_time_and_four_calls_wait) {
  begin();
  const auto reply = call(Method::kFollow, follow_body(TransferBy::kReads)).as<wire::FollowReply>();
  const uint64_t number = reply.transfer.transfer;
  const uint64_t began_ns = node.shard.refresh_now();
  EXPECT_EQ(call(Method::kProgress, progress_body(number, kBytes)).as<wire::ProgressReply>().ready, kHere);
  EXPECT_LE(node.shard.refresh_now() - began_ns, 700 * kMillisecond_ns);
  std::vector<uint64_t> waiting;
  for (size_t i = 0; i <= wire::kProgressCalls; ++i) {
    waiting.push_back(start(Method::kProgress, progress_body(number, kBytes)));
  }
  EXPECT_TRUE(peer->done(waiting[0]));
  for (size_t i = 1; i < waiting.size(); ++i) EXPECT_FALSE(peer->done(waiting[i])) << i;
  for (const uint64_t one : waiting) (void)peer->finish(one);
}

TEST_F(ArrivalTest, calls_that_make_no_sense_change_nothing) {
  begin();
  const std::string good = follow_body(TransferBy::kReads);
  EXPECT_EQ(call(Method::kFollow, good + "x").code, Code::kMalformed);
  EXPECT_EQ(call(Method::kFollow, good.substr(1)).code, Code::kMalformed);
  EXPECT_EQ(call(Method::kFollow, follow_body(TransferBy::kReads, 0, 0)).code, Code::kMalformed);
  EXPECT_EQ(call(Method::kFollow, follow_body(TransferBy::kReads, 1)).code, Code::kInvalidArgument);
  std::string bad = good;
  bad[offsetof(wire::FollowRequest, reserved)] = 1;
  EXPECT_EQ(call(Method::kFollow, bad).code, Code::kMalformed);
  EXPECT_EQ(call(Method::kProgress, progress_body(1, 1) + "x").code, Code::kMalformed);
  EXPECT_EQ(call(Method::kProgress, progress_body(99, 1)).code, Code::kInvalidated);
  EXPECT_EQ(counts().open, 0U);
}

// One that has not come under this list, or has deleted it, gives none.
TEST_F(ArrivalTest, what_was_deleted_is_not_waited_for) {
  REFRACT_CHECK(store().add_tombstone(test::as_bytes(id), kBirth) == Code::kOk);
  const uint64_t began_ns = node.shard.refresh_now();
  EXPECT_EQ(call(Method::kFollow, follow_body(TransferBy::kReads, 0, kPlan, 1000)).code, Code::kNotFound);
  EXPECT_LT(node.shard.refresh_now() - began_ns, 100 * kMillisecond_ns);
}

// What comes costs a fence only where it is told of: one for all that has come in a turn.
TEST_F(ArrivalTest, fences_are_for_followers_and_once_a_turn) {
  begin(kPlan, 0);
  const auto fences_of_pieces = [&] {
    const uint64_t before = node.fences.count;
    for (uint64_t piece = 1; piece <= 16; ++piece) entry->grew(piece * 512);
    node.settle();
    return node.fences.count - before;
  };
  EXPECT_EQ(fences_of_pieces(), 0U);
  const test::Answer answer = call(Method::kFollow, follow_body(TransferBy::kReads));
  ASSERT_EQ(answer.code, Code::kOk);
  EXPECT_EQ(answer.as<wire::FollowReply>().ready, kHere);
  EXPECT_EQ(fences_of_pieces(), 1U);
  EXPECT_EQ(done(answer.as<wire::FollowReply>().transfer.transfer), Code::kOk);
  EXPECT_EQ(fences_of_pieces(), 0U);
  entry.reset();
  EXPECT_EQ(counts().open, 0U);
}

}  // namespace
}  // namespace refract::object::transfer_arrivals_test
