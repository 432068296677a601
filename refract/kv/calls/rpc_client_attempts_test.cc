// SPDX-License-Identifier: Apache-2.0
// Single attempts: what they do in one message, and what they leave to get() and put().
#include "refract/kv/calls/rpc_client_attempts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/fabric/conformance/allocation_count.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv::rpc_client_attempts_test {
namespace {

using runtime::Task;
using test::bytes_of;
using test::patterned;
using test::Served;
using test::ServedOptions;

constexpr size_t kMessageBytesMax = 32 * 1024;

struct Reading {
  std::string value;
  bool was_sent = false;
  bool was_settled = false;  // By the attempt alone.
  Result<Got> result = fail(Code::kNotFound);
};
Task<> read(RpcClient& client, std::string_view key, Reading& reading) {
  StringSink sink(reading.value);
  RpcClient::GetAttempt attempt(client, bytes_of(key), sink);
  reading.was_sent = attempt.is_sent();
  if (!reading.was_sent) co_return;
  std::optional<Result<Got>> got = co_await attempt;
  reading.was_settled = got.has_value();
  if (!got) got = co_await attempt.finish();
  reading.result = *got;
}

struct Writing {
  bool was_sent = false;
  std::optional<Result<uint64_t>> result;
};
Task<> write(RpcClient& client, std::string_view key, std::string_view value, Writing& writing) {
  RpcClient::PutAttempt attempt(client, {.key = bytes_of(key), .value = bytes_of(value)});
  writing.was_sent = attempt.is_sent();
  if (writing.was_sent) writing.result = co_await attempt;
}

class AttemptsTest : public testing::TestWithParam<uint32_t> {
 protected:
  [[nodiscard]] Reading read_now(std::string_view key) {
    Reading reading;
    runtime::block_on(served.shard, read(*peer.client, key, reading));
    return reading;
  }
  [[nodiscard]] Writing write_now(std::string_view key, std::string_view value) {
    Writing writing;
    runtime::block_on(served.shard, write(*peer.client, key, value, writing));
    return writing;
  }
  void put(std::string_view key, std::string_view value) {
    ASSERT_TRUE(peer.client->put_and_wait(bytes_of(key), bytes_of(value)).has_value());
  }

  Served served{ServedOptions{
      .link = {.depth = 32, .message_bytes_max = kMessageBytesMax, .one_sided_bytes_min = GetParam()}}};
  Served::Peer peer = served.connect();
};

TEST_P(AttemptsTest, an_attempt_takes_one_message_each_way_and_no_memory) {
  const auto once = [&] {
    const Writing writing = write_now("key", "value");
    EXPECT_TRUE(writing.was_sent && writing.result && writing.result->has_value());
    const Reading reading = read_now("key");
    EXPECT_TRUE(reading.was_settled && reading.result.has_value());
    EXPECT_EQ(reading.value, "value");
    EXPECT_EQ(reading.result->version, writing.result->value());
    const Reading missing = read_now("none");
    EXPECT_TRUE(missing.was_settled);
    EXPECT_EQ(missing.result.code(), Code::kNotFound);
  };
  for (int round = 0; round < 300; ++round) once();
  const uint64_t calls = peer.session->counts().calls;
  const uint64_t allocations = allocation_count();
  once();
  EXPECT_EQ(allocation_count(), allocations);
  EXPECT_EQ(peer.session->counts().calls, calls + 3);
}

TEST_P(AttemptsTest, a_value_longer_than_a_message_is_read_to_its_end_and_let_go_of) {
  const std::string large = patterned(5 * kMessageBytesMax);
  put("large", large);
  const Reading reading = read_now("large");
  EXPECT_TRUE(reading.was_sent);
  EXPECT_FALSE(reading.was_settled);
  ASSERT_TRUE(reading.result.has_value());
  EXPECT_TRUE(reading.value == large);
  served.settle();
  EXPECT_EQ(served.service.stat().views, 0u);
}

TEST_P(AttemptsTest, an_owner_that_is_busy_is_asked_again) {
  const std::string large = patterned(2 * kMessageBytesMax);
  put("large", large);
  // All the views that the session may have, opened by hand.
  const std::string_view key = "large";
  const wire::KeyRef ref{
      .key_bytes = static_cast<uint16_t>(key.size()), .staged = 0, .flags = 0, .value_bytes = 0};
  std::string body(sizeof(ref), '\0');
  std::memcpy(body.data(), &ref, sizeof(ref));
  body += key;
  std::string reply;
  for (size_t i = 0; i < wire::kViewsPerSession; ++i) {
    ASSERT_EQ(served.call(peer, wire::Method::kGet, bytes_of(body), &reply), Code::kOk);
  }
  std::span<const std::byte> bytes = bytes_of(reply);
  const wire::Handle last{wire::take<wire::GetReply>(bytes)->view};

  Reading reading;
  served.shard.spawn(read(*peer.client, "large", reading));
  ASSERT_TRUE(served.run_until([&] { return served.service.stat().overloaded >= 2; }));
  EXPECT_TRUE(reading.was_sent);
  EXPECT_FALSE(reading.was_settled);
  const auto handle = std::as_bytes(std::span(&last, 1));
  ASSERT_EQ(served.call(peer, wire::Method::kViewClose, handle), Code::kOk);
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  ASSERT_TRUE(reading.result.has_value());
  EXPECT_TRUE(reading.value == large);
}

TEST_P(AttemptsTest, what_cannot_go_at_once_is_not_sent) {
  const uint64_t calls = peer.session->counts().calls;
  EXPECT_FALSE(read_now("").was_sent);
  EXPECT_FALSE(read_now(std::string(40'000, 'k')).was_sent);
  EXPECT_FALSE(write_now("", "value").was_sent);
  EXPECT_FALSE(write_now("key", patterned(kMessageBytesMax)).was_sent);
  EXPECT_EQ(peer.session->counts().calls, calls);

  // More at once than the session has credits.
  std::vector<Reading> readings(100);
  for (Reading& reading : readings) served.shard.spawn(read(*peer.client, "key", reading));
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  size_t sent = 0;
  for (const Reading& reading : readings) sent += reading.was_settled ? 1 : 0;
  EXPECT_GT(sent, 0u);
  EXPECT_LT(sent, readings.size());
  EXPECT_TRUE(read_now("key").was_settled) << "all credits are back";
}

TEST_P(AttemptsTest, an_attempt_that_is_dropped_gives_its_credit_back_with_the_late_reply) {
  Reading reading;
  Writing writing;
  Task<> get = read(*peer.client, "key", reading);
  Task<> put = write(*peer.client, "key", "value", writing);
  get.start();
  put.start();
  ASSERT_TRUE(reading.was_sent && writing.was_sent);
  get = {};
  put = {};
  served.settle();
  EXPECT_EQ(peer.session->counts().late_replies, 2u);
  EXPECT_FALSE(writing.result.has_value());
  EXPECT_EQ(read_now("key").value, "value") << "it was executed all the same";
}

TEST_P(AttemptsTest, a_lost_connection_leaves_a_read_to_its_finish_and_a_write_in_doubt) {
  Reading reading;
  Writing writing;
  served.shard.spawn(read(*peer.client, "key", reading));
  served.shard.spawn(write(*peer.client, "key", "value", writing));
  ASSERT_TRUE(reading.was_sent && writing.was_sent);
  peer.session->close();
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  EXPECT_FALSE(reading.was_settled);
  EXPECT_EQ(reading.result.code(), Code::kUnavailable);
  ASSERT_TRUE(writing.result.has_value());
  EXPECT_EQ(writing.result->code(), Code::kIndeterminate);
  EXPECT_FALSE(read_now("key").was_sent);
}

TEST_P(AttemptsTest, an_answer_that_comes_too_late_is_none) {
  Reading reading;
  Writing writing;
  const RpcClientOptions hasty{.timeout_ns = 1};
  const Served::Peer other = served.connect(hasty);
  Task<> get = read(*other.client, "key", reading);
  Task<> put = write(*other.client, "key", "value", writing);
  get.start();
  put.start();
  served.space.clock().set_now_ns(served.space.clock().now_ns() + kSecond_ns);
  // One turn: the owner sees them, and their time is over before it can be heard.
  (void)served.shard.poll_once();
  ASSERT_TRUE(get.done() && put.done());
  EXPECT_EQ(reading.result.code(), Code::kDeadlineExceeded);
  ASSERT_TRUE(writing.result.has_value());
  EXPECT_EQ(writing.result->code(), Code::kIndeterminate);
  served.settle();
}

INSTANTIATE_TEST_SUITE_P(Links, AttemptsTest, testing::Values(0U, 16U * 1024), [](const auto& parameter) {
  return parameter.param > 0 ? "with_windows" : "without_windows";
});

}  // namespace
}  // namespace refract::kv::rpc_client_attempts_test
