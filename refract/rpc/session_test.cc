// SPDX-License-Identifier: Apache-2.0
// Sessions and servers together, over the smallest provider, on one shard.
#include "refract/rpc/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "refract/fabric/conformance/allocation_count.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/rpc/server.h"

namespace refract::rpc {
namespace {

using fabric::Channel;
using fabric::Dispatcher;
using fabric::LoopbackDomain;
using runtime::OpResult;
using runtime::Shard;
using runtime::Task;

constexpr uint16_t kEcho = 1;
constexpr uint16_t kHold = 2;  // Is answered when the test says so.
constexpr uint16_t kRefuse = 3;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class EchoService final : public Service {
 public:
  void handle(std::span<const IncomingCall> calls) noexcept override {
    largest_batch = std::max(largest_batch, calls.size());
    for (const IncomingCall& call : calls) {
      if (keep_order) order.push_back(text_of(call.payload));
      switch (call.header.method) {
        case kEcho:
          server->reply(call.from, Code::kOk, call.payload);
          break;
        case kHold:
          held.push_back(call.from);
          break;
        default:
          server->reply(call.from, Code::kUnsupported);
      }
    }
  }
  void session_opened(SessionId session) noexcept override { opened.push_back(session); }
  void session_closed(SessionId session) noexcept override { closed.push_back(session); }

  void answer_held(const std::string& text) {
    for (const Responder& responder : held) server->reply(responder, Code::kOk, {}, bytes_of(text));
    held.clear();
  }

  Server* server = nullptr;
  std::vector<Responder> held;
  std::vector<std::string> order;
  std::vector<SessionId> opened;
  std::vector<SessionId> closed;
  size_t largest_batch = 0;
  bool keep_order = false;
};

class SessionTest : public testing::Test {
 protected:
  SessionTest() { service_.server = &server_; }

  std::unique_ptr<Session> connect(uint32_t credits = 8) {
    const Reported<Channel*> channel = client_domain_.connect("server");
    EXPECT_TRUE(channel.has_value());
    return std::make_unique<Session>(**channel, shard_, SessionOptions{.credits = credits});
  }

  std::unique_ptr<Session> connected(uint32_t credits = 8) {
    auto session = connect(credits);
    const size_t before = service_.opened.size();
    EXPECT_TRUE(run_until(
        [&] { return session->state() == Session::State::kOpen && service_.opened.size() > before; }));
    return session;
  }

  template <typename Done>
  [[nodiscard]] bool run_until(Done done) {
    return shard_.run_until(done, shard_.refresh_now() + 30 * kSecond_ns);
  }

  void turns(int count) {
    for (int i = 0; i < count; ++i) (void)shard_.poll_once();
  }

  // Ends what `session` has open, so that it may be destroyed with calls behind it.
  void finish(Session& session) {
    session.close();
    EXPECT_TRUE(run_until([&] { return session.state() == Session::State::kClosed; }));
  }

  fabric::LoopbackHub hub_;
  LoopbackDomain client_domain_{hub_, "client", {.depth = 16, .message_bytes_max = 256}};
  LoopbackDomain server_domain_{hub_, "server", {.depth = 16, .message_bytes_max = 256}};
  Shard shard_{system_clock()};
  EchoService service_;
  Server server_{service_, shard_, {.calls_max = 12}};
  Dispatcher client_{client_domain_, shard_};
  Dispatcher serving_{server_domain_, shard_, &server_};
};

Task<> echo(Session& session, std::string text, uint64_t deadline_ns, std::vector<std::string>* replies,
            std::vector<Code>* codes) {
  const OpResult reply =
      co_await session.call({.method = kEcho, .head = bytes_of(text), .tail = {}}, deadline_ns);
  codes->push_back(reply.code);
  if (reply.code == Code::kOk) replies->push_back(text_of(reply.bytes));
}

Task<> hold(Session& session, uint64_t deadline_ns, std::vector<OpResult>* results) {
  OpResult reply = co_await session.call({.method = kHold}, deadline_ns);
  reply.bytes = {};
  results->push_back(reply);
}

TEST_F(SessionTest, a_call_returns_head_and_tail_as_one_payload) {
  const auto session = connected();
  const std::string head = "head ";
  const std::string tail = "and tail";
  const OpResult reply =
      session->call_and_wait({.method = kEcho, .head = bytes_of(head), .tail = bytes_of(tail)}, kForever_ns);
  EXPECT_EQ(reply.code, Code::kOk);
  EXPECT_EQ(text_of(reply.bytes), "head and tail");
  EXPECT_EQ(session->call_and_wait({.method = kRefuse}, kForever_ns).code, Code::kUnsupported);
}

TEST_F(SessionTest, callers_beyond_the_credits_wait_in_the_order_they_came) {
  const auto session = connected(/*credits=*/3);
  service_.keep_order = true;
  std::vector<std::string> replies;
  std::vector<Code> codes;
  std::vector<std::string> expected;
  for (int i = 0; i < 500; ++i) {
    expected.push_back(std::to_string(i));
    shard_.spawn(echo(*session, expected.back(), kForever_ns, &replies, &codes));
  }
  ASSERT_TRUE(run_until([&] { return codes.size() == 500; }));
  EXPECT_EQ(service_.order, expected);
  EXPECT_EQ(replies, expected);
  EXPECT_LE(service_.largest_batch, 3u);
  EXPECT_EQ(session->counts().waits, 497u);
}

TEST_F(SessionTest, more_credits_than_the_channel_is_deep_still_bring_every_call_through) {
  const auto session = connected(/*credits=*/12);
  const auto other = connected(/*credits=*/12);
  std::vector<std::string> replies;
  std::vector<Code> codes;
  for (int i = 0; i < 1'000; ++i) {
    shard_.spawn(echo(i % 2 == 0 ? *session : *other, std::string(200, 'x'), kForever_ns, &replies, &codes));
  }
  ASSERT_TRUE(run_until([&] { return replies.size() == 1'000; }));
  EXPECT_GT(service_.largest_batch, 8u) << "the service sees whole batches";
}

TEST_F(SessionTest, calls_begun_before_the_channel_opens_are_sent_when_it_does) {
  const auto session = connect();
  std::vector<std::string> replies;
  std::vector<Code> codes;
  shard_.spawn(echo(*session, "early", kForever_ns, &replies, &codes));
  EXPECT_EQ(session->state(), Session::State::kOpening);
  ASSERT_TRUE(run_until([&] { return codes.size() == 1; }));
  EXPECT_EQ(replies, std::vector<std::string>{"early"});
}

TEST_F(SessionTest, no_call_allocates_after_warm_up) {
  const auto session = connected();
  const std::string text(100, 'x');
  struct Body {
    static Task<> many(Session& session, std::span<const std::byte> payload, int count) {
      for (int i = 0; i < count; ++i) {
        const OpResult reply =
            co_await session.call({.method = kEcho, .head = payload, .tail = payload}, kForever_ns);
        EXPECT_EQ(reply.bytes.size(), 200u);
      }
    }
  };
  uint64_t counted = 0;
  for (int round = 0; round < 2; ++round) {
    // The first round warms up: frame pool, operation table, the server's scratch.
    const uint64_t before = allocation_count();
    for (int i = 0; i < 500; ++i) {
      const OpResult reply =
          session->call_and_wait({.method = kEcho, .head = bytes_of(text), .tail = {}}, kForever_ns);
      ASSERT_EQ(reply.bytes.size(), 100u);
    }
    runtime::block_on(shard_, Body::many(*session, bytes_of(text), 500));
    counted = allocation_count() - before;
  }
  EXPECT_EQ(counted, 0u);
}

TEST_F(SessionTest, a_call_that_was_never_sent_is_unavailable_or_too_late) {
  const auto session = connected(/*credits=*/1);
  std::vector<OpResult> results;
  shard_.spawn(hold(*session, kForever_ns, &results));
  shard_.spawn(hold(*session, shard_.refresh_now() + kMillisecond_ns, &results));
  ASSERT_TRUE(run_until([&] { return results.size() == 1; }));
  EXPECT_EQ(results[0].code, Code::kDeadlineExceeded) << "it waited for a credit";
  EXPECT_EQ(session->call_and_wait({.method = kHold}, shard_.refresh_now() + kMillisecond_ns).code,
            Code::kDeadlineExceeded);
  shard_.spawn(hold(*session, kForever_ns, &results));
  session->close();
  ASSERT_TRUE(run_until([&] { return results.size() == 3; }));
  EXPECT_EQ(results[1].code, Code::kIndeterminate) << "it was with the server";
  EXPECT_EQ(results[2].code, Code::kUnavailable) << "it waited for a credit";
  EXPECT_EQ(session->call_and_wait({.method = kEcho}, kForever_ns).code, Code::kUnavailable);
  EXPECT_EQ(service_.order.size(), 0u);
}

TEST_F(SessionTest, a_timeout_counts_from_the_call) {
  const auto session = connected(/*credits=*/1);
  EXPECT_EQ(session->call_and_wait_within({.method = kEcho}, kForever_ns).code, Code::kOk);
  const uint64_t begun_ns = shard_.refresh_now();
  EXPECT_EQ(session->call_and_wait_within({.method = kHold}, kMillisecond_ns).code, Code::kIndeterminate);
  EXPECT_GE(shard_.refresh_now() - begun_ns, kMillisecond_ns);
  EXPECT_EQ(session->call_and_wait_within({.method = kEcho}, kMillisecond_ns).code, Code::kDeadlineExceeded)
      << "the server still holds the only credit";
  service_.answer_held("late");
  EXPECT_EQ(session->call_and_wait_within({.method = kEcho}, kForever_ns).code, Code::kOk);
}

TEST_F(SessionTest, a_late_reply_is_recognised_and_gives_its_credit_back) {
  const auto session = connected(/*credits=*/2);
  std::vector<OpResult> results;
  shard_.spawn(hold(*session, shard_.refresh_now() + kMillisecond_ns, &results));
  const OpResult waited = session->call_and_wait({.method = kHold}, shard_.refresh_now() + kMillisecond_ns);
  EXPECT_EQ(waited.code, Code::kIndeterminate);
  ASSERT_TRUE(run_until([&] { return results.size() == 1 && service_.held.size() == 2; }));
  EXPECT_EQ(results[0].code, Code::kIndeterminate);
  EXPECT_EQ(session->start({.method = kEcho}), 0u) << "the server still holds both credits";
  service_.answer_held("late");
  ASSERT_TRUE(run_until([&] { return session->counts().late_replies == 2; }));
  EXPECT_EQ(session->call_and_wait({.method = kEcho}, kForever_ns).code, Code::kOk);
}

// The credits of late replies go to what closes, before those who wait for one.
TEST_F(SessionTest, what_late_replies_have_opened_is_closed) {
  class Closer final : public LateReplies {
   public:
    std::optional<Call> close_late(uint16_t method, const OpResult& reply) noexcept override {
      opened.push_back(std::to_string(method) + " " + text_of(reply.bytes));
      if (method != kHold) return std::nullopt;
      return Call{.method = kEcho, .head = bytes_of(opened.back())};
    }
    std::vector<std::string> opened;
  };
  Closer closer;
  const auto session = connected(/*credits=*/2);
  session->close_late_by(&closer);
  service_.keep_order = true;
  std::vector<std::string> replies;
  std::vector<Code> codes;
  for (int i = 0; i < 2; ++i) (void)session->finish(session->start({.method = kHold}));
  shard_.spawn(echo(*session, "waiting", kForever_ns, &replies, &codes));
  ASSERT_TRUE(run_until([&] { return service_.held.size() == 2; }));
  service_.answer_held("open");
  ASSERT_TRUE(run_until([&] { return codes.size() == 1 && closer.opened.size() == 4; }));
  EXPECT_EQ(closer.opened, (std::vector<std::string>{"2 open", "2 open", "1 2 open", "1 2 open"}));
  EXPECT_EQ(service_.order, (std::vector<std::string>{"", "", "2 open", "2 open", "waiting"}));
  // Refusals open nothing, and the end of the channel does not either.
  (void)session->finish(session->start({.method = kRefuse}));
  (void)session->finish(session->start({.method = kHold}));
  ASSERT_TRUE(run_until([&] { return service_.held.size() == 1; }));
  finish(*session);
  EXPECT_EQ(closer.opened.size(), 4u);
}

TEST_F(SessionTest, a_dropped_caller_leaves_the_line_and_the_others_go_on) {
  const auto session = connected(/*credits=*/1);
  std::vector<OpResult> results;
  std::vector<std::string> replies;
  std::vector<Code> codes;
  {
    Task<> sent = hold(*session, kForever_ns, &results);
    sent.start();
    Task<> waiting = hold(*session, kForever_ns, &results);
    waiting.start();
    shard_.spawn(echo(*session, "third", kForever_ns, &replies, &codes));
    ASSERT_TRUE(run_until([&] { return service_.held.size() == 1; }));
  }
  service_.answer_held("for no call");
  ASSERT_TRUE(run_until([&] { return codes.size() == 1; }));
  EXPECT_EQ(replies, std::vector<std::string>{"third"});
  EXPECT_TRUE(results.empty());
  EXPECT_EQ(session->counts().late_replies, 1u);
}

TEST_F(SessionTest, what_does_not_fit_a_message_is_too_large_and_not_sent) {
  const auto session = connected();
  const std::string large(256 - 16 + 1, 'x');
  const std::string fits(256 - 16, 'x');
  EXPECT_EQ(session->call_and_wait({.method = kEcho, .head = bytes_of(large), .tail = {}}, kForever_ns).code,
            Code::kTooLarge);
  EXPECT_EQ(
      session->call_and_wait({.method = kEcho, .head = bytes_of("y"), .tail = bytes_of(fits)}, kForever_ns)
          .code,
      Code::kTooLarge);
  EXPECT_EQ(session->call_and_wait({.method = kEcho, .head = {}, .tail = bytes_of(fits)}, kForever_ns).code,
            Code::kOk);
  EXPECT_EQ(session->counts().calls, 1u);
}

TEST_F(SessionTest, the_end_of_the_server_makes_sent_calls_indeterminate) {
  const auto session = connected();
  std::vector<OpResult> results;
  shard_.spawn(hold(*session, kForever_ns, &results));
  ASSERT_TRUE(run_until([&] { return service_.held.size() == 1; }));
  server_.close_session(service_.opened[0]);
  ASSERT_TRUE(run_until([&] { return results.size() == 1 && service_.closed.size() == 1; }));
  EXPECT_EQ(results[0].code, Code::kIndeterminate);
  service_.answer_held("to no call");
  EXPECT_EQ(server_.counts().dropped_replies, 1u);
  EXPECT_EQ(server_.session_count(), 0u);
}

}  // namespace
}  // namespace refract::rpc
