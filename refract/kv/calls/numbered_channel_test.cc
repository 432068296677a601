// SPDX-License-Identifier: Apache-2.0
// The calls of numbered writes against a peer that answers as the test says: what it is sent, and what
// becomes of answers that make sense, make none, or never come.
#include "refract/kv/calls/numbered_channel.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/units.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/rpc/server.h"

namespace refract::kv::numbered_channel_test {
namespace {

using wire::NumberedMethod;
using wire::OperationKind;

std::span<const std::byte> raw(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}
template <typename Struct>
std::string packed(const Struct& one) {
  return {reinterpret_cast<const char*>(&one), sizeof(one)};
}

class ScriptedPeer final : public rpc::Service {
 public:
  void handle(std::span<const rpc::IncomingCall> calls) noexcept override {
    for (const rpc::IncomingCall& call : calls) {
      method = call.header.method;
      payload.assign(reinterpret_cast<const char*>(call.payload.data()), call.payload.size());
      if (answers) server->reply(call.from, code, raw(answer));
    }
  }

  rpc::Server* server = nullptr;
  bool answers = true;
  Code code = Code::kOk;
  std::string answer;
  uint16_t method = 0;
  std::string payload;
};

struct Heard final : NumberedChannel::Listener {
  void session_came(uint32_t place, const wire::SessionReply& reply) noexcept override {
    places.push_back(place);
    session = reply;
  }
  bool answers_came(uint32_t place, std::span<const wire::TakenAnswer> came) noexcept override {
    places.push_back(place);
    answers.assign(came.begin(), came.end());
    return takes;
  }
  void call_was_refused(uint32_t place, Code refused) noexcept override {
    places.push_back(place);
    code = refused;
  }
  void answers_were_lost() noexcept override { ++losses; }

  std::vector<uint32_t> places;
  wire::SessionReply session{};
  std::vector<wire::TakenAnswer> answers;
  Code code = Code::kOk;
  int losses = 0;
  bool takes = true;
};

class NumberedChannelTest : public testing::Test {
 protected:
  NumberedChannelTest() {
    peer.server = &server_;
    const Reported<fabric::Channel*> channel = client_domain_.connect("server");
    EXPECT_TRUE(channel.has_value());
    session = std::make_unique<rpc::Session>(**channel, shard);
    calls = std::make_unique<NumberedChannel>(*session);
    calls->listen(&heard);
    EXPECT_TRUE(run_until([&] { return session->state() == rpc::Session::State::kOpen; }));
  }
  ~NumberedChannelTest() override {
    calls->listen(nullptr);
    session->close();
    EXPECT_TRUE(run_until([&] { return session->state() == rpc::Session::State::kClosed; }));
  }

  template <typename Done>
  [[nodiscard]] bool run_until(Done done) {
    return shard.run_until(done, shard.refresh_now() + 30 * kSecond_ns);
  }
  [[nodiscard]] bool send_one(uint32_t place) {
    body.clear();
    wire::Operation put{};
    put.kind = static_cast<uint8_t>(OperationKind::kPut);
    put.key_bytes = 1;
    body.add(put, raw("k"), {});
    return calls->send(place, body);
  }

  fabric::LoopbackHub hub_;
  fabric::LoopbackDomain client_domain_{hub_, "client", {.depth = 16, .message_bytes_max = 1'024}};
  fabric::LoopbackDomain server_domain_{hub_, "server", {.depth = 16, .message_bytes_max = 1'024}};
  runtime::Shard shard{system_clock()};
  ScriptedPeer peer;
  rpc::Server server_{peer, shard};
  fabric::Dispatcher client_{client_domain_, shard};
  fabric::Dispatcher serving_{server_domain_, shard, &server_};
  Heard heard;
  std::unique_ptr<rpc::Session> session;
  std::unique_ptr<NumberedChannel> calls;
  wire::OperationsBody body;
};

TEST_F(NumberedChannelTest, a_body_is_what_the_owner_takes_apart) {
  const std::array acknowledged{wire::Acknowledged::of(7, 3), wire::Acknowledged::of(wire::kNumberMax, 9)};
  wire::Operation put{};
  put.number = 12;
  put.tag = 4;
  put.value_bytes = 5;
  put.key_bytes = 3;
  put.kind = static_cast<uint8_t>(OperationKind::kPut);
  wire::Operation asking{};
  asking.number = 11;
  peer.answers = false;
  // Twice: its memory is used again.
  for (const bool may_wait : {false, true}) {
    body.clear();
    if (may_wait) body.may_wait();
    for (const wire::Acknowledged& one : acknowledged) body.acknowledge(one.number(), one.place());
    body.add(put, raw("key"), raw("value"));
    if (!may_wait) body.add(asking, {}, {});
    ASSERT_TRUE(calls->send(5, body));
    peer.payload.clear();
    ASSERT_TRUE(run_until([&] { return !peer.payload.empty(); }));
    EXPECT_EQ(peer.method, static_cast<uint16_t>(NumberedMethod::kOperations));
    std::span<const std::byte> bytes = raw(peer.payload);
    const auto request = wire::take_operations_request(bytes);
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->operations, may_wait ? 1 : 2);
    EXPECT_EQ(request->flags, may_wait ? wire::OperationsRequest::kMayWait : 0);
    ASSERT_EQ(request->acknowledged, acknowledged.size());
    for (const wire::Acknowledged& one : acknowledged) {
      EXPECT_EQ(wire::take<wire::Acknowledged>(bytes)->bits, one.bits);
    }
    const auto first = wire::take_operation(bytes);
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(first->operation.number, put.number);
    EXPECT_EQ(std::memcmp(first->key.data(), "key", 3), 0);
    EXPECT_EQ(std::memcmp(first->value.data(), "value", 5), 0);
    if (!may_wait) {
      const auto second = wire::take_operation(bytes);
      ASSERT_TRUE(second.has_value());
      EXPECT_EQ(second->operation.number, asking.number);
    }
    EXPECT_TRUE(bytes.empty());
  }
}

TEST_F(NumberedChannelTest, answers_and_refusals_are_told_with_the_callers_number) {
  peer.answer = packed(wire::SessionReply{.id = 8, .secret = {}, .functions = 3, .reserved = 0});
  ASSERT_TRUE(calls->begin_session(40));
  ASSERT_TRUE(run_until([&] { return heard.session.id == 8; }));
  EXPECT_EQ(peer.method, static_cast<uint16_t>(NumberedMethod::kSessionBegin));
  wire::OperationAnswer answer{};
  answer.bytes = 2;
  answer.place = 6;
  peer.answer = packed(answer) + "ab";
  ASSERT_TRUE(send_one(41));
  ASSERT_TRUE(run_until([&] { return heard.answers.size() == 1; }));
  EXPECT_EQ(heard.answers[0].answer.place, 6);
  EXPECT_EQ(heard.answers[0].bytes.size(), 2U);
  peer.code = Code::kInvalidated;
  ASSERT_TRUE(calls->resume_session(42, {.id = 8, .secret = {}}));
  ASSERT_TRUE(run_until([&] { return heard.code != Code::kOk; }));
  EXPECT_EQ(heard.code, Code::kInvalidated);
  EXPECT_EQ(peer.payload, packed(wire::SessionRequest{.id = 8, .secret = {}}));
  EXPECT_EQ(heard.places, (std::vector<uint32_t>{40, 41, 42}));
  EXPECT_EQ(heard.losses, 0);
}

// Of a peer that makes no sense nothing more is believed.
class Senseless : public NumberedChannelTest, public testing::WithParamInterface<int> {};
TEST_P(Senseless, an_answer_without_sense_ends_the_session) {
  const bool is_of_session = GetParam() < 3;
  wire::SessionReply reply{.id = 8, .secret = {}, .functions = 3, .reserved = 0};
  if (GetParam() == 0) reply.id = 0;
  if (GetParam() == 1) reply.reserved = 1;
  wire::OperationAnswer answer{};
  if (GetParam() == 3) answer.bytes = 1;
  peer.answer = is_of_session ? packed(reply) : packed(answer);
  if (GetParam() == 2) peer.answer += "more";
  if (GetParam() == 4) heard.takes = false;
  if (GetParam() == 5) {
    for (size_t i = 0; i < wire::kOperationsPerCall; ++i) peer.answer += packed(answer);
  }
  ASSERT_TRUE(is_of_session ? calls->begin_session(1) : send_one(1));
  ASSERT_TRUE(run_until([&] { return session->state() == rpc::Session::State::kClosed; }));
  EXPECT_GT(heard.losses, 0);
  EXPECT_EQ(heard.session.id, 0U);
}
INSTANTIATE_TEST_SUITE_P(Each, Senseless, testing::Range(0, 6));

TEST_F(NumberedChannelTest, what_the_end_of_a_session_leaves_unanswered_is_lost) {
  peer.answers = false;
  ASSERT_TRUE(send_one(1));
  ASSERT_TRUE(send_one(2));
  session->close();
  ASSERT_TRUE(run_until([&] { return heard.losses == 2; }));
  EXPECT_FALSE(send_one(3)) << "not now";
  EXPECT_TRUE(heard.places.empty());
}

TEST_F(NumberedChannelTest, nothing_is_told_where_nothing_listens_any_more) {
  ASSERT_TRUE(send_one(1));
  calls->listen(nullptr);
  const auto hears_of_late = [&] { return session->counts().late_replies == 1; };
  ASSERT_TRUE(run_until(hears_of_late));
  EXPECT_TRUE(heard.places.empty());
  EXPECT_EQ(heard.losses, 0);
}

}  // namespace
}  // namespace refract::kv::numbered_channel_test
