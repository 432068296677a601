// SPDX-License-Identifier: Apache-2.0
// Claims about the life of channels: opening, closing, losing the peer, and many at once.
#include <algorithm>
#include <cstring>
#include <vector>

#include "refract/fabric/conformance.h"

namespace refract::fabric {
namespace {

Request send_of(std::span<std::byte> bytes) {
  return {.local = {bytes.data(), bytes.size()}, .tail = {}, .op = Op::kSend};
}

// Of everything that came out for `channel`: each token once, and kClosed once and last.
void expect_proper_end(const Side& side, std::vector<Event>& events, const Channel* channel,
                       const std::vector<uint64_t>& tokens) {
  EXPECT_EQ(side.count(Op::kClosed, channel), 1u);
  const auto last = std::find_if(events.rbegin(), events.rend(), [channel](const Event& event) {
    return event.completion.channel == channel;
  });
  ASSERT_NE(last, events.rend());
  EXPECT_EQ(last->completion.op, Op::kClosed);
  for (const uint64_t token : tokens) {
    const auto count = std::count_if(events.begin(), events.end(), [token](const Event& event) {
      return event.completion.op <= Op::kSend && event.completion.token == token;
    });
    EXPECT_EQ(count, 1) << "token " << token;
    const Event* event = side.find(token);
    if (event == nullptr) continue;
    const Code code = event->completion.code;
    // A request that was done before the end may say so.
    EXPECT_TRUE(code == Code::kUnavailable || code == Code::kOk) << text(code);
  }
}

}  // namespace

TEST_P(ChannelConformance, a_channel_opens_at_both_ends_and_belongs_to_its_owner) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  EXPECT_EQ(pair.client->context, nullptr);
  EXPECT_EQ(pair.server->context, nullptr);
  int word = 0;
  pair.client->context = &word;
  std::vector<std::byte> bytes(16);
  EXPECT_EQ(perform(pair.client, send_of(bytes)).completion.code, Code::kOk);
  EXPECT_EQ(pair.client->context, &word);
  EXPECT_GT(pair.client->capabilities().depth, 0u);
  EXPECT_GE(pair.client->capabilities().message_bytes_max, 64u);
  EXPECT_TRUE(settle([&] { return pair.client->room() > 0; }));
  EXPECT_FALSE(client_->domain().provider().empty());
}

TEST_P(ChannelConformance, connecting_to_nobody_fails_with_a_reason) {
  const Reported<Channel*> channel = fixture_->client().connect(fixture_->unused_address());
  if (!channel) {
    EXPECT_NE(channel.error().code, Code::kOk);
    EXPECT_FALSE(channel.error().what.empty());
    return;
  }
  ASSERT_TRUE(settle([&] { return client_->find(Op::kOpened, *channel) != nullptr; }));
  EXPECT_EQ(client_->find(Op::kOpened, *channel)->completion.code, Code::kUnavailable);
  quiet();
  EXPECT_EQ(client_->count(Op::kClosed), 0u) << "what never opened does not close";
}

TEST_P(ChannelConformance, closing_ends_every_request_and_then_the_channel_at_both_ends) {
  serve({.read = true});
  for (const bool flush_first : {false, true}) {
    for (const bool server_closes : {false, true}) {
      const Pair pair = open();
      ASSERT_NE(pair.client, nullptr);
      std::vector<std::byte> local(512);
      std::vector<uint64_t> tokens;
      ASSERT_TRUE(settle([&] { return pair.client->room() > 0; }));
      for (size_t i = 0; i < 8; ++i) {
        Request request = send_of(std::span(local).first(32));
        if (i % 2 == 0) {
          request = {.local = {local.data() + 64 * (i / 2), 64}, .remote = at(64 * i), .op = Op::kRead};
        }
        request.token = next_token_++;
        if (pair.client->post({&request, 1}) == 0) break;
        tokens.push_back(request.token);
      }
      ASSERT_FALSE(tokens.empty());
      if (flush_first) client_->domain().flush();
      (server_closes ? pair.server : pair.client)->close();
      (server_closes ? pair.server : pair.client)->close();  // Idempotent.
      ASSERT_TRUE(settle([&] {
        return client_->find(Op::kClosed, pair.client) != nullptr &&
               server_->find(Op::kClosed, pair.server) != nullptr;
      }));
      quiet();
      expect_proper_end(*client_, client_->events(), pair.client, tokens);
      expect_proper_end(*server_, server_->events(), pair.server, {});
      client_->events().clear();  // The next channel may get the same address.
      server_->events().clear();
    }
  }
}

TEST_P(ChannelConformance, posting_after_close_completes_as_unavailable_before_closed) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  ASSERT_TRUE(settle([&] { return pair.client->room() >= 4; }));
  pair.client->close();
  std::vector<std::byte> bytes(32);
  std::vector<Request> requests(4, send_of(bytes));
  std::vector<uint64_t> tokens;
  tokens.reserve(requests.size());
  for (Request& request : requests) tokens.push_back(request.token = next_token_++);
  ASSERT_EQ(pair.client->post(requests), requests.size());
  ASSERT_TRUE(settle([&] { return client_->find(Op::kClosed, pair.client) != nullptr; }));
  expect_proper_end(*client_, client_->events(), pair.client, tokens);
  for (const uint64_t token : tokens) {
    ASSERT_NE(client_->find(token), nullptr);
    EXPECT_EQ(client_->find(token)->completion.code, Code::kUnavailable);
  }
  ASSERT_TRUE(settle([&] { return server_->find(Op::kClosed, pair.server) != nullptr; }));
  EXPECT_EQ(server_->count(Op::kReceive), 0u) << "nothing of it reached the peer";
}

TEST_P(ChannelConformance, a_channel_closed_before_it_opened_still_ends) {
  const Reported<Channel*> channel = fixture_->connect();
  ASSERT_TRUE(channel.has_value()) << channel.error().to_string();
  (*channel)->close();
  ASSERT_TRUE(settle([&] {
    const Event* opened = client_->find(Op::kOpened, *channel);
    if (opened == nullptr) return false;
    return opened->completion.code != Code::kOk || client_->find(Op::kClosed, *channel) != nullptr;
  }));
  quiet();
  EXPECT_EQ(server_->count(Op::kOpened), server_->count(Op::kClosed))
      << "the peer is not left with half a channel";
}

TEST_P(ChannelConformance, many_channels_do_not_mix_and_go_on_when_others_close) {
  const size_t count = fixture_->channels_max();
  std::vector<Pair> pairs;
  for (size_t i = 0; i < count; ++i) {
    pairs.push_back(open());
    ASSERT_NE(pairs.back().client, nullptr);
  }
  const auto exchange = [&](size_t from) {
    for (size_t i = from; i < count; ++i) {
      uint64_t number = i;
      const Request request = send_of(std::as_writable_bytes(std::span(&number, 1)));
      ASSERT_TRUE(post(pairs[i].client, {&request, 1}));
    }
    ASSERT_TRUE(settle([&] { return server_->count(Op::kReceive) == count - from; }));
    while (const std::unique_ptr<Event> message = server_->take_message()) {
      uint64_t number = 0;
      ASSERT_EQ(message->bytes.size(), sizeof(number));
      std::memcpy(&number, message->bytes.data(), sizeof(number));
      EXPECT_EQ(message->completion.channel, pairs[number].server);
    }
  };
  exchange(0);
  const size_t half = count / 2;
  for (size_t i = 0; i < half; ++i) (i % 2 == 0 ? pairs[i].client : pairs[i].server)->close();
  ASSERT_TRUE(
      settle([&] { return client_->count(Op::kClosed) == half && server_->count(Op::kClosed) == half; }));
  exchange(half);
}

TEST_P(ChannelConformance, a_dead_server_ends_every_request_and_every_channel) {
  serve({.read = true});
  const Pair one = open();
  const Pair two = open();
  ASSERT_TRUE(one.client != nullptr && two.client != nullptr);
  std::vector<std::byte> local(64);
  std::vector<uint64_t> tokens;
  for (int i = 0; i < 4; ++i) {
    const Request request = {
        .token = next_token_++, .local = {local.data(), 64}, .remote = at(0), .op = Op::kRead};
    if (one.client->post({&request, 1}) == 0) break;
    tokens.push_back(request.token);
  }
  client_->domain().flush();
  if (!fixture_->kill_server()) GTEST_SKIP() << "this fixture cannot kill its server";
  server_alive_ = false;
  ASSERT_TRUE(settle([&] { return client_->count(Op::kClosed) == 2; }));
  quiet();
  expect_proper_end(*client_, client_->events(), one.client, tokens);
  expect_proper_end(*client_, client_->events(), two.client, {});
}

}  // namespace refract::fabric
