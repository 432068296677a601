// SPDX-License-Identifier: Apache-2.0
// Claims about messages: sizes, order, back-pressure and what a receiver may rely on.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/turns.h"
#include "refract/fabric/conformance.h"
#include "refract/fabric/conformance/allocation_count.h"

namespace refract::fabric {
namespace {

// A message that convicts itself: its number, then bytes that follow from number and salt, so that a lost,
// doubled, swapped, cut or overwritten one is seen.
class SealedStream {
 public:
  SealedStream(uint64_t salt, size_t bytes_max) : salt_(salt), bytes_max_(bytes_max) {}

  [[nodiscard]] std::vector<std::byte> make(uint64_t number) const {
    Prng prng(number * 31 + salt_);
    // Mostly small, now and then the largest: both the usual path and the wrap of a ring.
    const size_t usual_max = std::min<size_t>(bytes_max_, 256);
    std::vector<std::byte> bytes(prng.below(64) == 0 ? bytes_max_ : 8 + prng.below(usual_max - 7));
    for (size_t at = 8; at < bytes.size(); at += 8) {
      const uint64_t word = prng.next();
      std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, bytes.size() - at));
    }
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
  }

 private:
  uint64_t salt_;
  size_t bytes_max_;
};

Request send_of(std::span<std::byte> head, std::span<std::byte> tail = {}) {
  return {.local = {head.data(), head.size()}, .tail = {tail.data(), tail.size()}, .op = Op::kSend};
}

// Posts messages of `stream` from number `next` on until the channel takes no more.
void post_until_full(Channel& channel, const SealedStream& stream, uint64_t& next, uint64_t end) {
  while (next < end) {
    std::array<std::vector<std::byte>, 8> messages;
    std::array<Request, 8> requests;
    const size_t count = std::min<uint64_t>(requests.size(), end - next);
    for (size_t i = 0; i < count; ++i) {
      messages[i] = stream.make(next + i);
      // Cut at different places, so that head and tail meet at every alignment.
      const size_t cut = (next + i) % (messages[i].size() + 1);
      requests[i] = send_of(std::span(messages[i]).first(cut), std::span(messages[i]).subspan(cut));
    }
    const size_t taken = channel.post(std::span(requests).first(count));
    next += taken;
    if (taken < count) return;
  }
}

}  // namespace

TEST_P(ChannelConformance, tokens_come_back_unchanged_and_once) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const uint64_t tokens[] = {1, 0x8000'0000'0000'0000, ~uint64_t{0}, 0xffff'ffff, 0x1'0000'0000, 42};
  std::vector<std::byte> bytes(16);
  for (const uint64_t token : tokens) {
    Request request = send_of(bytes);
    request.token = token;
    ASSERT_TRUE(post(pair.client, {&request, 1}));
  }
  ASSERT_TRUE(settle([&] { return client_->count(Op::kSend) == std::size(tokens); }));
  quiet();
  EXPECT_EQ(client_->count(Op::kSend), std::size(tokens));
  for (const uint64_t token : tokens) {
    ASSERT_NE(client_->find(token), nullptr) << token;
    EXPECT_EQ(client_->find(token)->completion.code, Code::kOk);
  }
}

TEST_P(ChannelConformance, a_send_without_token_is_silent) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  std::vector<std::byte> bytes(16);
  const Request request = send_of(bytes);
  ASSERT_TRUE(post(pair.client, {&request, 1}));
  ASSERT_TRUE(settle([&] { return server_->count(Op::kReceive) == 1; }));
  quiet();
  EXPECT_EQ(client_->count(Op::kSend), 0u);
}

TEST_P(ChannelConformance, messages_of_every_size_arrive_whole_in_both_directions) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  for (const End& from : {pair.client, pair.server}) {
    Side& receiver = from == pair.client ? *server_ : *client_;
    const size_t largest = from->capabilities().message_bytes_max;
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{63}, size_t{64},
                               size_t{65}, largest - 1, largest}) {
      if (bytes > largest) continue;
      for (const size_t cut : {size_t{0}, bytes / 3, bytes}) {
        std::vector<std::byte> message(bytes);
        for (size_t i = 0; i < bytes; ++i) message[i] = static_cast<std::byte>(mix(bytes * 1024 + i));
        const std::vector<std::byte> expected = message;
        const Request request = send_of(std::span(message).first(cut), std::span(message).subspan(cut));
        ASSERT_TRUE(post(from, {&request, 1}));
        // The bytes of a message may be reused when post returns.
        std::fill(message.begin(), message.end(), std::byte{0xff});
        std::unique_ptr<Event> received;
        ASSERT_TRUE(settle([&] {
          received = receiver.take_message();
          return received != nullptr;
        }));
        EXPECT_TRUE(received->bytes == expected) << bytes << " cut at " << cut;
        EXPECT_EQ(received->completion.channel, from == pair.client ? pair.server : pair.client);
      }
    }
  }
}

TEST_P(ChannelConformance, a_message_over_the_maximum_is_too_large_and_the_channel_goes_on) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const size_t largest = pair.client->capabilities().message_bytes_max;
  std::vector<std::byte> bytes(largest + 1);
  for (const size_t cut : {size_t{0}, size_t{1}, largest, largest + 1}) {
    const Event event =
        perform(pair.client, send_of(std::span(bytes).first(cut), std::span(bytes).subspan(cut)));
    EXPECT_EQ(event.completion.code, Code::kTooLarge) << cut;
  }
  const Event event = perform(pair.client, send_of(std::span(bytes).first(largest)));
  EXPECT_EQ(event.completion.code, Code::kOk);
  ASSERT_TRUE(settle([&] { return server_->count(Op::kReceive) > 0; }));
  quiet();
  EXPECT_EQ(server_->count(Op::kReceive), 1u);
  EXPECT_EQ(server_->find(Op::kReceive)->bytes.size(), largest);
}

// Both ends post as much as the channel takes, all the time; what arrives is checked by number and content.
TEST_P(ChannelConformance, a_flood_in_both_directions_loses_doubles_and_reorders_nothing) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const uint64_t messages_wanted = fixture_->scale(test::turns(100'000, 20'000));
  struct Direction {
    End from;
    Side* to;
    SealedStream stream;
    uint64_t sent = 0;
    uint64_t received = 0;
  };
  std::array<Direction, 2> directions = {
      Direction{pair.client, server_.get(), {1, pair.client->capabilities().message_bytes_max}},
      Direction{pair.server, client_.get(), {2, pair.server->capabilities().message_bytes_max}}};
  const bool arrived = settle([&] {
    bool done = true;
    for (Direction& direction : directions) {
      post_until_full(*direction.from, direction.stream, direction.sent, messages_wanted);
      while (const std::unique_ptr<Event> message = direction.to->take_message()) {
        // Not an EXPECT for each: a broken provider would print 100,000 failures.
        if (message->bytes != direction.stream.make(direction.received)) {
          ADD_FAILURE() << "message " << direction.received << " arrived wrong";
          return true;
        }
        ++direction.received;
      }
      done = done && direction.received == messages_wanted;
    }
    return done;
  });
  EXPECT_TRUE(arrived) << "sent " << directions[0].sent << " and " << directions[1].sent << ", received "
                       << directions[0].received << " and " << directions[1].received;
}

TEST_P(ChannelConformance, room_says_how_many_of_the_largest_messages_are_taken_at_once) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  std::vector<std::byte> largest(pair.client->capabilities().message_bytes_max, std::byte{0x77});
  size_t posted = 0;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(settle([&] { return pair.client->room() > 0; }));
    const size_t room = pair.client->room();
    EXPECT_LE(room, pair.client->capabilities().depth);
    const std::vector<Request> requests(room, send_of(largest));
    ASSERT_EQ(pair.client->post(requests), room);
    posted += room;
  }
  ASSERT_TRUE(settle([&] { return server_->count(Op::kReceive) == posted; }));
}

TEST_P(ChannelConformance, an_accepted_channel_delivers_no_more_than_it_can_answer) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  std::vector<std::byte> largest(pair.server->capabilities().message_bytes_max);
  uint64_t answers = 0;
  uint64_t asked = 0;
  const SealedStream questions(3, 64);
  constexpr uint64_t kQuestions = 2'000;
  // The client does not poll while the server's way back fills up: the server must not be handed questions
  // whose answers do not fit, and must get them once they do.
  for (int round = 0; answers < kQuestions && !HasFailure(); ++round) {
    post_until_full(*pair.client, questions, asked, kQuestions);
    client_->domain().flush();
    fixture_->pump();
    for (int i = 0; i < 20; ++i) {
      server_->poll();
      const size_t delivered = server_->count(Op::kReceive);
      ASSERT_LE(delivered, pair.server->room());
      while (const std::unique_ptr<Event> message = server_->take_message()) {
        ASSERT_TRUE(message->bytes == questions.make(answers)) << "question " << answers;
        const Request answer = send_of(largest);
        ASSERT_EQ(pair.server->post({&answer, 1}), 1u) << "an answer must fit";
        ++answers;
      }
      server_->domain().flush();
      fixture_->pump();
    }
    // Only now the client takes the answers.
    client_->poll();
    std::erase_if(client_->events(), [](const Event& event) { return event.completion.op == Op::kReceive; });
    ASSERT_LT(round, 10'000'000) << "the channel is stuck";
  }
}

TEST_P(ChannelConformance, message_bytes_stay_put_until_the_next_poll) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const SealedStream stream(4, pair.client->capabilities().message_bytes_max);
  uint64_t sent = 0;
  uint64_t received = 0;
  std::array<Completion, 16> completions;
  constexpr uint64_t kMessages = 3'000;
  quiet();
  for (int round = 0; received < kMessages && !HasFailure(); ++round) {
    post_until_full(*pair.client, stream, sent, kMessages);
    client_->poll();
    fixture_->pump();
    const size_t count = server_->domain().poll(completions);
    for (const Completion& completion : std::span(completions).first(count)) server_->note(completion);
    // The client now fills every place that it believes to be free.
    post_until_full(*pair.client, stream, sent, kMessages);
    client_->poll();
    fixture_->pump();
    for (const Completion& completion : std::span(completions).first(count)) {
      if (completion.op != Op::kReceive) continue;
      const std::vector<std::byte> expected = stream.make(received++);
      EXPECT_TRUE(
          std::equal(expected.begin(), expected.end(), completion.bytes.begin(), completion.bytes.end()));
    }
    server_->domain().flush();
    fixture_->pump();
    ASSERT_LT(round, 10'000'000) << "the channel is stuck";
  }
  EXPECT_EQ(received, kMessages);
}

TEST_P(ChannelConformance, a_poll_of_one_at_a_time_loses_nothing) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  const SealedStream stream(5, 64);
  uint64_t sent = 0;
  uint64_t received = 0;
  ASSERT_TRUE(settle([&] {
    post_until_full(*pair.client, stream, sent, 1'000);
    client_->poll(1);
    fixture_->pump();
    server_->poll(1);
    fixture_->pump();
    while (const std::unique_ptr<Event> message = server_->take_message()) {
      EXPECT_TRUE(message->bytes == stream.make(received)) << "message " << received;
      ++received;
    }
    return received == 1'000 || HasFailure();
  }));
}

TEST_P(ChannelConformance, no_call_of_the_data_path_allocates_after_warm_up) {
  serve({.read = true, .write = true, .atomic = true});
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  std::vector<std::byte> message(64);
  std::vector<std::byte> local(256);
  std::array<Completion, 64> completions;
  const Request requests[] = {
      send_of(message),
      {.token = 1, .local = {local.data(), 256}, .remote = at(0), .op = Op::kRead},
      {.token = 2, .local = {local.data(), 64}, .remote = at(512), .op = Op::kWrite},
      {.token = 3, .remote = at(1024), .operand = 1, .op = Op::kFetchAdd},
      {.token = 4, .remote = at(1024), .operand = 1, .op = Op::kCompareSwap},
  };
  const Request answer = send_of(message);
  uint64_t completed = 0;
  uint64_t answered = 0;
  const auto turn_of = [&](const End& end, Side& side, std::span<const Request> posts) {
    (void)end->post(posts);
    side.domain().flush();
    const size_t count = side.domain().poll(completions);
    side.domain().flush();
    for (const Completion& completion : std::span(completions).first(count)) {
      side.note(completion);
      completed += completion.op != Op::kReceive ? 1 : 0;
      answered += completion.op == Op::kReceive ? 1 : 0;
    }
  };
  uint64_t counted = 0;
  // A device answers when it gets to it, and a busy machine's is late: the rounds continue until there was
  // work.
  const auto is_enough = [&] { return completed > 1'000 && answered > 1'000; };
  for (int round = 0; round < 6'000 || (!is_enough() && round < 1'000'000); ++round) {
    if (has_missed_a_channel()) return;
    const uint64_t before = allocation_count();
    turn_of(pair.client, *client_, requests);
    const uint64_t between = allocation_count();
    fixture_->pump();
    const uint64_t after = allocation_count();
    turn_of(pair.server, *server_, {&answer, 1});
    if (round >= 3'000) counted += (between - before) + (allocation_count() - after);
    fixture_->pump();
  }
  EXPECT_EQ(counted, 0u);
  EXPECT_GT(completed, 1'000u) << "the rounds did real work";
  EXPECT_GT(answered, 1'000u);
}

TEST_P(ChannelConformance, prepare_sleep_sees_what_has_arrived) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  std::vector<std::byte> bytes(16);
  const Request request = send_of(bytes);
  for (int round = 0; round < 50; ++round) {
    quiet();
    ASSERT_TRUE(settle([&] { return pair.client->room() > 0; }));
    ASSERT_EQ(pair.client->post({&request, 1}), 1u);
    client_->domain().flush();
    // No thread polls the server now; it must find by itself that it may not sleep.
    bool may_sleep = true;
    for (int i = 0; i < 1'000'000 && may_sleep; ++i) {
      fixture_->pump();
      may_sleep = server_->domain().prepare_sleep();
      server_->domain().woke();
    }
    ASSERT_FALSE(may_sleep);
    ASSERT_TRUE(settle([&] { return server_->count(Op::kReceive) == 1; }));
    server_->events().pop_back();
  }
}

TEST_P(ChannelConformance, a_sleeping_domain_is_woken_each_time) {
  const Pair pair = open();
  ASSERT_NE(pair.client, nullptr);
  std::vector<std::byte> bytes(16);
  const Request request = send_of(bytes);
  for (const End& from : {pair.client, pair.server}) {
    Side& waker = from == pair.client ? *client_ : *server_;
    Side& sleeper = from == pair.client ? *server_ : *client_;
    if (sleeper.domain().wake_descriptors().empty()) GTEST_SKIP() << "this provider's time is virtual";
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (const int fd : sleeper.domain().wake_descriptors()) {
      epoll_event interest = {.events = EPOLLIN | EPOLLET, .data = {.fd = fd}};
      ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &interest), 0);
    }
    for (int round = 0; round < 200; ++round) {
      ASSERT_TRUE(settle([&] {
        if (from->room() == 0) return false;
        if (sleeper.domain().prepare_sleep()) return true;
        sleeper.domain().woke();
        return false;
      }));
      // What woke it before must not count: an edge is spent by being waited for.
      epoll_event event{};
      while (epoll_wait(epoll, &event, 1, 0) > 0) {
      }
      ASSERT_EQ(from->post({&request, 1}), 1u);
      waker.domain().flush();
      fixture_->pump();
      ASSERT_EQ(epoll_wait(epoll, &event, 1, 30'000), 1) << "the wake-up was lost in round " << round;
      sleeper.domain().woke();
      ASSERT_TRUE(settle([&] { return sleeper.take_message() != nullptr; }));
    }
    close(epoll);
  }
}

}  // namespace refract::fabric
