// SPDX-License-Identifier: Apache-2.0
// Sessions outlive their connections, and belong to one at a time.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "refract/kv/testing/test_numbered.h"

namespace refract::kv {
namespace {

using test::body_of;
using test::bytes_of;
using test::NumberedPeer;
using test::operations_body;
using test::put_op;
using test::Served;
using test::withdraw_op;

class NumberedSessionsTest : public testing::Test {
 protected:
  void pass(uint64_t ns) {
    (void)served.shard.run_until([] { return false; }, served.shard.refresh_now() + ns);
  }
  [[nodiscard]] SessionRecords::Counts counts() const { return served.numbered.records().counts(); }
  [[nodiscard]] std::string get(Served::Peer& by, std::string_view key) {
    std::string value;
    StringSink sink(value);
    return by.client->get_and_wait(bytes_of(key), sink) ? value : "nothing";
  }

  Served served{{.chunks = 8, .chunks_max = 64, .link = {.message_bytes_max = 8'192}}};
};

TEST_F(NumberedSessionsTest, a_connection_begins_one_session) {
  NumberedPeer first(served);
  EXPECT_NE(first.session.id, 0u);
  EXPECT_EQ(first.session.functions, functions::version());
  EXPECT_EQ(first.session.reserved, 0u);
  EXPECT_EQ(first.begin(), Code::kInvalidArgument);
  NumberedPeer second(served);
  EXPECT_NE(second.session.id, first.session.id);
  EXPECT_NE(second.session.secret, first.session.secret);
  EXPECT_EQ(counts().sessions, 2u);
  EXPECT_EQ(served.numbered.counts().begun, 2u);
}

TEST_F(NumberedSessionsTest, a_session_is_resumed_by_its_secret_alone) {
  std::optional<NumberedPeer> first(served);
  const wire::SessionReply session = first->session;
  ASSERT_EQ(first->one(put_op(1, "a", "1")).code, Code::kOk);
  first.reset();
  served.settle();
  EXPECT_EQ(counts().ended, 1u);

  NumberedPeer second(served, false);
  for (size_t i = 0; i < session.secret.size(); ++i) {
    wire::SessionReply wrong = session;
    wrong.secret[i] ^= std::byte{1};
    EXPECT_EQ(second.resume(wrong), Code::kInvalidated) << i;
  }
  wire::SessionReply unknown = session;
  ++unknown.id;
  EXPECT_EQ(second.resume(unknown), Code::kInvalidated);
  unknown.id = 0;
  EXPECT_EQ(second.resume(unknown), Code::kMalformed);
  EXPECT_EQ(counts().ended, 1u);
  // What every client of the host can read is not the secret.
  wire::SessionReply read_in_space = session;
  const auto& head = served.space.writer().view<SessionHead>({served.space.writer().load(kSessionsAt)});
  std::memcpy(read_in_space.secret.data(), head.secret.data(), sizeof(head.secret));
  EXPECT_EQ(second.resume(read_in_space), Code::kInvalidated);

  EXPECT_EQ(second.resume(session), Code::kOk);
  EXPECT_EQ(second.session.id, session.id);
  EXPECT_EQ(second.session.secret, session.secret);
  EXPECT_EQ(second.session.functions, functions::version());
  EXPECT_EQ(counts().ended, 0u);
  EXPECT_TRUE(second.one(withdraw_op(1)).is_told_again());
  EXPECT_TRUE(second.one(withdraw_op(2)).is_not_executed());
  // Schedule 35: the answer was lost, the same again.
  EXPECT_EQ(second.resume(session), Code::kOk);
  EXPECT_EQ(second.one(put_op(2, "b", "1")).code, Code::kOk);
  EXPECT_EQ(second.begin(), Code::kInvalidArgument) << "one session a connection";
  const NumberedPeer third(served);
  EXPECT_EQ(second.resume(third.session), Code::kInvalidArgument);
  EXPECT_EQ(get(second.peer, "b"), "1");
}

// Schedules 10 and 25: both calls stand in one batch, or the old connection's comes behind.
TEST_F(NumberedSessionsTest, the_old_connection_runs_nothing_and_is_closed) {
  NumberedPeer old(served);
  NumberedPeer young(served, false);
  const auto start = [&](NumberedPeer& by, wire::NumberedMethod method, const std::string& body) {
    const uint64_t id =
        by.peer.session->start({.method = static_cast<uint16_t>(method), .head = bytes_of(body)});
    ASSERT_NE(id, 0u);
  };
  start(old, wire::NumberedMethod::kOperations, operations_body({put_op(1, "before", "1")}));
  served.settle();
  start(young, wire::NumberedMethod::kSessionResume,
        body_of(wire::SessionRequest{.id = old.session.id, .secret = old.session.secret}));
  start(old, wire::NumberedMethod::kOperations, operations_body({put_op(2, "behind", "1")}));
  start(old, wire::NumberedMethod::kOperations, operations_body({put_op(0, "behind too", "1")}));
  start(old, wire::NumberedMethod::kSessionBegin, "");
  served.settle();
  EXPECT_EQ(old.peer.session->state(), rpc::Session::State::kClosed);
  EXPECT_EQ(counts().sessions, 1u);
  EXPECT_EQ(served.numbered.counts().resumed, 1u);
  EXPECT_EQ(get(young.peer, "before"), "1");
  EXPECT_EQ(get(young.peer, "behind"), "nothing");
  EXPECT_EQ(get(young.peer, "behind too"), "nothing");
  EXPECT_TRUE(young.one(withdraw_op(1)).is_told_again());
  EXPECT_TRUE(young.one(withdraw_op(2)).is_not_executed());
  EXPECT_EQ(counts().ended, 0u) << "the end of the old connection does not end its session";
}

TEST_F(NumberedSessionsTest, a_session_that_has_ended_is_kept_for_a_minute) {
  std::optional<NumberedPeer> first(served);
  const wire::SessionReply session = first->session;
  ASSERT_EQ(first->one(put_op(1, "a", "1")).code, Code::kOk);
  first.reset();
  served.settle();
  pass(SessionRecords::kKept_ns - kSecond_ns);
  {
    NumberedPeer second(served, false);
    ASSERT_EQ(second.resume(session), Code::kOk);
    pass(2 * SessionRecords::kKept_ns);
    EXPECT_TRUE(second.one(withdraw_op(1)).is_told_again()) << "a session with a connection stays";
  }
  served.settle();
  EXPECT_EQ(counts().ended, 1u);
  // By the timer, without a call.
  pass(SessionRecords::kKept_ns + kSecond_ns);
  EXPECT_EQ(counts().sessions, 0u);
  EXPECT_EQ(counts().blocks, 0u);
  NumberedPeer third(served, false);
  EXPECT_EQ(third.resume(session), Code::kInvalidated);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(NumberedSessionsTest, while_too_many_have_ended_none_begins) {
  served.space.table().sessions().set_ended_max(3);
  wire::SessionReply last{};
  for (int i = 0; i < 3; ++i) {
    NumberedPeer one(served);
    last = one.session;
  }
  served.settle();
  NumberedPeer more(served, false);
  EXPECT_EQ(more.begin(), Code::kOverloaded);
  EXPECT_EQ(counts().sessions, 3u) << "none goes before its time";
  EXPECT_EQ(more.resume(last), Code::kOk);
  NumberedPeer another(served);
  EXPECT_EQ(counts().sessions, 4u);
  pass(SessionRecords::kKept_ns + kSecond_ns);
  EXPECT_EQ(counts().sessions, 2u);
}

// Schedule 11: memory is full, nothing is evicted: without a session a door could erase nothing.
TEST_F(NumberedSessionsTest, a_session_begins_in_a_full_memory_and_can_erase) {
  const auto fill = [&](size_t bytes) {
    for (int i = 0;; ++i) {
      const std::string key = std::to_string(bytes) + " " + std::to_string(i);
      if (!served.space.table().put(bytes_of(key), bytes_of(test::patterned(bytes)), {})) return i;
    }
  };
  const int large = fill(100'000);
  for (const size_t bytes : {5'000u, 300u, 10u}) (void)fill(bytes);
  NumberedPeer late(served);
  EXPECT_EQ(late.one(put_op(1, "new", test::patterned(5'000))).code, Code::kNoSpace);
  EXPECT_EQ(late.one(withdraw_op(1)).code, Code::kNoSpace) << "a last word leaves a record";
  for (int i = 0; i < large; ++i) {
    const auto number = static_cast<uint64_t>(100 + i);
    EXPECT_EQ(late.call({test::erase_op(number, "100000 " + std::to_string(i))}, {{.number = number - 1}})
                  .one()
                  .code,
              Code::kOk);
  }
  served.space.heap().reclaim();
  EXPECT_EQ(late.one(put_op(2, "new", test::patterned(4'000))).code, Code::kOk);
  // Schedule 9: what was refused for good stays refused, though memory has come.
  EXPECT_EQ(late.one(put_op(1, "new", "old")).code, Code::kNoSpace);
  EXPECT_EQ(get(late.peer, "new"), test::patterned(4'000));
  EXPECT_TRUE(served.is_sound());
}

}  // namespace
}  // namespace refract::kv
