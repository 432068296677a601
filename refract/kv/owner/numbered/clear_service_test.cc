// SPDX-License-Identifier: Apache-2.0
// The call that clears a shard: its forms, and when it is answered.
#include <gtest/gtest.h>

#include <string>

#include "refract/kv/layout/clear_wire.h"
#include "refract/kv/testing/test_log.h"
#include "refract/kv/testing/test_numbered.h"

namespace refract::kv {
namespace {

using test::body_of;
using test::bytes_of;
using test::reply_as;
using test::Served;
using wire::ClearReply;
using wire::ClearRequest;

constexpr auto kClear = static_cast<wire::Method>(wire::NumberedMethod::kClear);

class ClearServiceTest : public testing::Test {
 protected:
  void put(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const std::string key = "key " + std::to_string(i);
      ASSERT_TRUE(served.space.table().put(bytes_of(key), bytes_of("v"), {}).has_value());
    }
  }
  [[nodiscard]] Code step(const ClearRequest& request) {
    std::string text;
    const Code code = served.call(peer, kClear, bytes_of(body_of(request)), &text);
    if (code == Code::kOk) reply = reply_as<ClearReply>(text);
    return code;
  }
  [[nodiscard]] ClearRequest next() const {
    return {.generation = reply.generation, .stamp = reply.stamp, .cursor = reply.next};
  }

  Served served;
  Served::Peer peer = served.connect();
  ClearReply reply{};
};

// Over a connection without a session, too.
TEST_F(ClearServiceTest, steps_follow_each_other_until_all_is_gone) {
  put(3'000);
  uint64_t erased = 0;
  uint64_t steps = 0;
  ASSERT_EQ(step({}), Code::kOk);
  const uint64_t stamp = reply.stamp;
  for (;; ++steps) {
    EXPECT_EQ(reply.stamp, stamp) << "the moment stays";
    erased += reply.erased;
    if (reply.is_over()) break;
    ASSERT_EQ(step(next()), Code::kOk);
  }
  EXPECT_EQ(erased, 3'000U);
  EXPECT_GT(steps, 10U);
  EXPECT_EQ(served.space.table().stats().entries, 0U);
  EXPECT_EQ(served.numbered.counts().clears, 1U);
  EXPECT_EQ(served.numbered.counts().cleared, 3'000U);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(ClearServiceTest, what_makes_no_sense_erases_nothing) {
  put(10);
  EXPECT_EQ(served.call(peer, kClear, {}), Code::kMalformed);
  EXPECT_EQ(served.call(peer, kClear, bytes_of(std::string(25, '\0'))), Code::kMalformed);
  EXPECT_EQ(step({.generation = 0, .stamp = 0, .cursor = 5}), Code::kMalformed);
  EXPECT_EQ(step({.generation = 1, .stamp = 0, .cursor = 0}), Code::kMalformed);
  EXPECT_EQ(step({.generation = 0, .stamp = 1, .cursor = 0}), Code::kMalformed);
  EXPECT_EQ(step({.generation = 1, .stamp = UINT64_MAX, .cursor = 0}), Code::kInvalidArgument)
      << "no such stamp was given";
  EXPECT_EQ(served.space.table().stats().entries, 10U);
}

// What the stamps of another memory call older may be younger here.
TEST_F(ClearServiceTest, a_step_of_another_memory_is_refused) {
  ASSERT_EQ(step({}), Code::kOk);
  put(10);
  ClearRequest other = next();
  other.generation += 1;
  EXPECT_EQ(step(other), Code::kInvalidated);
  EXPECT_EQ(served.space.table().stats().entries, 10U);
}

// However many a client sends at once, others are served behind each.
TEST_F(ClearServiceTest, a_second_step_of_a_batch_is_refused_for_now) {
  put(1'000);
  const std::string body = body_of(ClearRequest{});
  const rpc::Call call{.method = static_cast<uint16_t>(kClear), .head = bytes_of(body)};
  const uint64_t first = peer.session->start(call);
  const uint64_t second = peer.session->start(call);
  served.settle();
  EXPECT_EQ(peer.session->finish(first).code, Code::kOk);
  EXPECT_EQ(peer.session->finish(second).code, Code::kOverloaded);
  EXPECT_GT(served.space.table().stats().entries, 500U);
  EXPECT_EQ(step({}), Code::kOk);
}

// It alone says that something is so; a sync for each step would take longer than all else.
TEST_F(ClearServiceTest, only_the_last_answer_waits_for_the_log) {
  test::ManualLog log;
  served.space.table().log_to(&log);
  put(300);
  log.waits = true;
  ASSERT_EQ(step({}), Code::kOk);
  ASSERT_FALSE(reply.is_over()) << "or nothing was shown";
  while (served.space.table().stats().entries > 100) {
    ASSERT_EQ(step(next()), Code::kOk);
    ASSERT_FALSE(reply.is_over());
  }
  uint64_t id = 0;
  for (;;) {
    const std::string body = body_of(next());
    id = peer.session->start({.method = static_cast<uint16_t>(kClear), .head = bytes_of(body)});
    served.settle();
    if (!peer.session->done(id)) break;
    const runtime::OpResult result = peer.session->finish(id);
    ASSERT_EQ(result.code, Code::kOk);
    reply = reply_as<ClearReply>(test::text_of(result.bytes));
    ASSERT_FALSE(reply.is_over());
  }
  EXPECT_EQ(served.space.table().stats().entries, 0U);
  log.confirm_all();
  (void)served.service.on_log_progress();
  served.settle();
  ASSERT_TRUE(peer.session->done(id));
  const runtime::OpResult result = peer.session->finish(id);
  ASSERT_EQ(result.code, Code::kOk);
  EXPECT_TRUE(reply_as<ClearReply>(test::text_of(result.bytes)).is_over());
  served.space.table().log_to(nullptr);
}

}  // namespace
}  // namespace refract::kv
