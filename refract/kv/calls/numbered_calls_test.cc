// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/numbered_calls.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/testing/test_numbered.h"

namespace refract::kv {
namespace {

using refract::test::needed;

class NumberedCallsTest : public testing::Test {
 protected:
  [[nodiscard]] uint64_t deadline_ns() { return served.shard.refresh_now() + kSecond_ns; }
  [[nodiscard]] static wire::SessionRequest name_of(const wire::SessionReply& session) {
    return {.id = session.id, .secret = session.secret};
  }

  test::Served served;
  test::Served::Peer peer = served.connect();
  NumberedCalls calls{*peer.session};
};

TEST_F(NumberedCallsTest, a_session_is_begun_used_and_taken_over) {
  const auto session = needed(served.wait(calls.begin(deadline_ns())));
  EXPECT_EQ(session.functions, functions::version());
  wire::OperationsBody body;
  for (const test::NumberedOp& op : {test::put_op(1, "key", "41"), test::add_op(2, "key", 1)}) {
    body.add(op.operation, test::bytes_of(op.key), test::bytes_of(op.value));
  }
  std::array<ToldOperation, 2> told;
  ASSERT_EQ(served.wait(calls.operations(body, told, deadline_ns())), Code::kOk);
  EXPECT_EQ(told[0].code, Code::kOk);
  ASSERT_EQ(told[1].bytes().size(), sizeof(int64_t));
  int64_t sum = 0;
  std::memcpy(&sum, told[1].answer.data(), sizeof(sum));
  EXPECT_EQ(sum, 42);
  EXPECT_GT(told[1].version, told[0].version);

  test::Served::Peer other = served.connect();
  NumberedCalls others(*other.session);
  EXPECT_EQ(served.wait(others.resume(name_of(session), deadline_ns())).code(), Code::kOk);
  EXPECT_EQ(served.wait(calls.begin(deadline_ns())).code(), Code::kUnavailable) << "it was closed";
  body.clear();
  body.acknowledge(1, told[0].place);
  const test::NumberedOp asks[] = {test::withdraw_op(1), test::withdraw_op(2)};
  for (const test::NumberedOp& op : asks) body.add(op.operation, {}, {});
  ASSERT_EQ(served.wait(others.operations(body, told, deadline_ns())), Code::kOk);
  EXPECT_TRUE(told[0].is_not_executed) << "acknowledged";
  EXPECT_FALSE(told[0].is_told_again);
  EXPECT_TRUE(told[1].is_told_again);
  EXPECT_EQ(told[1].bytes().size(), sizeof(int64_t));
  EXPECT_EQ(served.wait(others.resume({.id = 1, .secret = {}}, deadline_ns())).code(), Code::kInvalidated);
}

TEST(ToldOperations, an_answer_of_another_length_makes_no_sense) {
  const std::array<wire::OperationAnswer, 2> answers{};
  const auto bytes = std::as_bytes(std::span(answers));
  std::array<ToldOperation, 3> told;
  EXPECT_TRUE(take_told(bytes, std::span(told).first(2)));
  EXPECT_FALSE(take_told(bytes, std::span(told).first(1)));
  EXPECT_FALSE(take_told(bytes, told));
  EXPECT_FALSE(take_told(bytes.first(31), std::span(told).first(2)));
}

}  // namespace
}  // namespace refract::kv
