// SPDX-License-Identifier: Apache-2.0
// What a server does with peers that misbehave or do not listen: the peer here posts its messages by hand.
#include "refract/rpc/server.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/conformance/loopback_domain.h"

namespace refract::rpc {
namespace {

using fabric::Channel;
using fabric::Completion;
using fabric::LoopbackDomain;
using fabric::Op;
using runtime::Shard;

class HoldingService final : public Service {
 public:
  void handle(std::span<const IncomingCall> calls) noexcept override {
    for (const IncomingCall& call : calls) held.push_back(call.from);
  }
  std::vector<Responder> held;
};

class ServerTest : public testing::Test {
 protected:
  Channel* connect() {
    const Reported<Channel*> channel = client_.connect("server");
    EXPECT_TRUE(channel.has_value());
    turn();
    turn();
    return *channel;
  }

  // One turn of server and clients; what the clients receive is counted.
  void turn() {
    (void)shard_.poll_once();
    Completion completions[64];
    const size_t count = client_.poll(completions);
    for (const Completion& completion : std::span(completions).first(count)) {
      if (completion.op == Op::kReceive) {
        received.push_back({completion.bytes.begin(), completion.bytes.end()});
      }
      closed_count += completion.op == Op::kClosed ? 1 : 0;
    }
    client_.flush();
  }

  void send(Channel& channel, std::vector<std::byte> bytes) {
    const fabric::Request request = {.local = {bytes.data(), bytes.size()}, .tail = {}, .op = Op::kSend};
    ASSERT_EQ(channel.post({&request, 1}), 1u);
    client_.flush();
  }

  static std::vector<std::byte> call_of(uint64_t id, uint32_t bytes = 0, uint16_t code = 0) {
    const MessageHeader header = {.id = id, .method = 1, .code = code, .bytes = bytes};
    std::vector<std::byte> message(sizeof(header) + bytes);
    std::memcpy(message.data(), &header, sizeof(header));
    return message;
  }

  fabric::LoopbackHub hub_;
  LoopbackDomain client_{hub_, "client", {.depth = 8, .message_bytes_max = 128}};
  LoopbackDomain server_domain_{hub_, "server", {.depth = 4, .message_bytes_max = 128}};
  Shard shard_{system_clock()};
  HoldingService service_;
  Server server_{service_, shard_, {.sessions_max = 2, .calls_max = 6, .outbox_retry_ns = 1'000}};
  fabric::Dispatcher dispatcher_{server_domain_, shard_, &server_};
  std::vector<std::vector<std::byte>> received;
  int closed_count = 0;
};

TEST_F(ServerTest, a_malformed_header_ends_its_session_and_no_other) {
  const std::vector<std::vector<std::byte>> malformed = {
      {}, std::vector<std::byte>(15), call_of(1, 0, /*code=*/1), [] {
        std::vector<std::byte> longer = call_of(1, 8);
        longer.pop_back();
        return longer;
      }()};
  Channel* good = connect();
  uint64_t closed = 0;
  for (const std::vector<std::byte>& message : malformed) {
    Channel* bad = connect();
    ASSERT_EQ(server_.session_count(), 2u);
    send(*bad, message);
    send(*bad, call_of(9));  // Behind it, and not to be handled any more.
    for (int i = 0; i < 10; ++i) turn();
    EXPECT_EQ(server_.counts().closed_malformed, ++closed);
    EXPECT_EQ(server_.session_count(), 1u);
  }
  EXPECT_EQ(closed_count, 4);
  EXPECT_TRUE(service_.held.empty());
  send(*good, call_of(7));
  turn();
  ASSERT_EQ(service_.held.size(), 1u);
  EXPECT_EQ(service_.held[0].id, 7u);
}

TEST_F(ServerTest, a_peer_with_more_calls_than_granted_is_closed) {
  Channel* channel = connect();
  for (uint64_t i = 0; i < 6; ++i) send(*channel, call_of(i));
  for (int i = 0; i < 5; ++i) turn();
  EXPECT_EQ(service_.held.size(), 6u);
  EXPECT_EQ(server_.session_count(), 1u);
  send(*channel, call_of(6));
  for (int i = 0; i < 5; ++i) turn();
  EXPECT_EQ(server_.counts().closed_overrun, 1u);
  EXPECT_EQ(server_.session_count(), 0u);
  for (const Responder& responder : service_.held) server_.reply(responder, Code::kOk);
  EXPECT_EQ(server_.counts().dropped_replies, 6u);
}

TEST_F(ServerTest, sessions_beyond_the_limit_are_refused) {
  (void)connect();
  (void)connect();
  (void)connect();
  for (int i = 0; i < 5; ++i) turn();
  EXPECT_EQ(server_.counts().refused_sessions, 1u);
  EXPECT_EQ(server_.session_count(), 2u);
  EXPECT_EQ(closed_count, 1);
}

TEST_F(ServerTest, replies_that_find_the_channel_full_wait_and_arrive_in_order) {
  Channel* channel = connect();
  const std::vector<std::byte> tail(100, std::byte{0x42});
  constexpr size_t kRounds = 20;
  for (size_t round = 0; round < kRounds; ++round) {
    for (uint64_t i = 0; i < 6; ++i) send(*channel, call_of(round * 6 + i));
    while (service_.held.size() < 6) turn();
    // All at once, into a channel that takes four.
    for (const Responder& responder : service_.held) server_.reply(responder, Code::kOk, {}, tail);
    service_.held.clear();
    while (received.size() < (round + 1) * 6) turn();
  }
  EXPECT_EQ(server_.counts().replies, kRounds * 6);
  EXPECT_EQ(server_.counts().deferred_replies, kRounds * 2);
  for (uint64_t i = 0; i < received.size(); ++i) {
    uint64_t id = 0;
    std::memcpy(&id, received[i].data(), sizeof(id));
    EXPECT_EQ(id, i);
    EXPECT_EQ(received[i].size(), 116u);
  }
}

TEST_F(ServerTest, the_outbox_of_a_peer_that_never_listens_is_bounded_and_ends_with_its_session) {
  Channel* channel = connect();
  // The peer asks and asks, and never polls.
  for (uint64_t i = 0; i < 100; ++i) {
    const std::vector<std::byte> bytes = call_of(i);
    const fabric::Request request = {
        .local = {const_cast<std::byte*>(bytes.data()), bytes.size()}, .tail = {}, .op = Op::kSend};
    (void)channel->post({&request, 1});
    client_.flush();
    (void)shard_.poll_once();
    if (service_.held.size() == 6) {
      for (const Responder& responder : service_.held) server_.reply(responder, Code::kOk);
      service_.held.clear();
    }
  }
  EXPECT_LE(server_.counts().deferred_replies, 6u);
  EXPECT_EQ(server_.session_count(), 1u);
  channel->close();
  while (closed_count == 0) turn();
  turn();
  EXPECT_EQ(server_.session_count(), 0u);
}

TEST_F(ServerTest, a_reply_that_fits_no_message_becomes_too_large) {
  Channel* channel = connect();
  send(*channel, call_of(1));
  turn();
  ASSERT_EQ(service_.held.size(), 1u);
  const std::vector<std::byte> head(64);
  const std::vector<std::byte> tail(64);
  server_.reply(service_.held[0], Code::kOk, head, tail);
  while (received.empty()) turn();
  MessageHeader header{};
  std::memcpy(&header, received[0].data(), sizeof(header));
  EXPECT_EQ(code_from_wire(header.code), Code::kTooLarge);
  EXPECT_EQ(header.bytes, 0u);
}

TEST_F(ServerTest, sessions_take_turns_within_a_batch_and_keep_their_own_order) {
  Channel* busy = connect();
  Channel* quiet = connect();
  for (uint64_t i = 0; i < 4; ++i) send(*busy, call_of(i));
  send(*quiet, call_of(10));
  send(*quiet, call_of(11));
  while (service_.held.size() < 6) turn();
  std::vector<uint64_t> ids;
  for (const Responder& from : service_.held) ids.push_back(from.id);
  const std::vector<uint64_t> in_turn = {0, 10, 1, 11, 2, 3};
  const std::vector<uint64_t> other_first = {10, 0, 11, 1, 2, 3};  // Which one the domain polled first.
  EXPECT_TRUE(ids == in_turn || ids == other_first);
}

TEST_F(ServerTest, a_session_can_be_looked_at_while_it_lasts) {
  struct NotingTap final : ReplyTap {
    void replied(const Responder& to, Code code, size_t bytes) noexcept override {
      id = to.id;
      replied_code = code;
      reply_bytes = bytes;
    }
    uint64_t id = 0;
    Code replied_code = Code::kOk;
    size_t reply_bytes = 0;
  } tap;
  EXPECT_EQ(server_.session_places(), 0u);
  Channel* channel = connect();
  ASSERT_TRUE(server_.session_at(0).has_value());
  const Server::SessionFacts fresh = *server_.session_at(0);
  EXPECT_EQ(fresh.calls + fresh.unanswered + fresh.received_bytes + fresh.sent_bytes, 0u);
  EXPECT_EQ(fresh.active_ns, fresh.opened_ns);
  server_.set_reply_tap(&tap);
  send(*channel, call_of(5, 40));
  send(*channel, call_of(6));
  while (service_.held.size() < 2) turn();
  EXPECT_EQ(server_.session_at(0)->unanswered, 2u);
  server_.reply(service_.held[0], Code::kNotFound, std::vector<std::byte>(8));
  EXPECT_EQ(tap.id, 5u);
  EXPECT_EQ(tap.replied_code, Code::kNotFound);
  EXPECT_EQ(tap.reply_bytes, 24u);
  server_.set_reply_tap(nullptr);
  server_.reply(service_.held[1], Code::kOk);
  EXPECT_EQ(tap.id, 5u);
  const Server::SessionFacts used = *server_.session_at(0);
  EXPECT_EQ(used.calls, 2u);
  EXPECT_EQ(used.received_bytes, 56u + 16u);
  EXPECT_EQ(used.sent_bytes, 24u + 16u);
  EXPECT_EQ(used.unanswered, 0u);
  EXPECT_GE(used.active_ns, used.opened_ns);
  channel->close();
  while (closed_count == 0) turn();
  turn();
  EXPECT_FALSE(server_.session_at(0).has_value());
  EXPECT_FALSE(server_.session_at(1).has_value());
  (void)connect();
  EXPECT_NE(server_.session_at(0)->id, used.id);
  EXPECT_EQ(server_.session_at(0)->calls, 0u);
}

TEST_F(ServerTest, random_messages_close_sessions_and_nothing_else) {
  Prng prng(7);
  for (int round = 0; round < 3'000; ++round) {
    const int before = closed_count;
    Channel* channel = connect();
    for (uint64_t i = prng.below(4); i > 0; --i) {
      std::vector<std::byte> bytes(prng.below(128));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.next());
      if (bytes.size() >= 16 && prng.chance(0.5)) {
        const std::vector<std::byte> header = call_of(prng.next(), static_cast<uint32_t>(bytes.size() - 16));
        std::memcpy(bytes.data(), header.data(), 16);
      }
      send(*channel, bytes);
    }
    turn();
    for (const Responder& responder : service_.held) server_.reply(responder, Code::kUnsupported);
    service_.held.clear();
    if (closed_count == before) channel->close();
    while (closed_count == before) turn();
    turn();
  }
  EXPECT_EQ(server_.session_count(), 0u);
  EXPECT_GT(server_.counts().closed_malformed, 100u);
}

}  // namespace
}  // namespace refract::rpc
