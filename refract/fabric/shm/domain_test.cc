// SPDX-License-Identifier: Apache-2.0
// What the conformance suite does not ask: hostile ends, servers that come back, pins, parked connections.
#include "refract/fabric/shm/domain.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <random>

#include "refract/base/testing/needed.h"
#include "refract/fabric/shm/attach.h"
#include "refract/fabric/shm/ring.h"
#include "refract/fabric/shm/test_domains.h"

namespace refract::fabric::shm {
namespace {

using testing::HasSubstr;

TEST_F(DomainTest, a_server_that_comes_back_is_met_on_the_same_channel_with_the_same_pins) {
  Channel* channel = open();
  ASSERT_TRUE(echoes(*channel, 100));
  const int pin = client_->pins(*channel).pin({640}, 7);
  ASSERT_GE(pin, 0);
  for (int crash = 0; crash < 3; ++crash) {
    client_end_.seen.clear();
    std::vector<std::byte> target(64);
    Request read{
        .token = 99, .local = {target.data(), 64}, .remote = {RemotePointer::at(1, 0), {1}}, .op = Op::kRead};
    ASSERT_EQ(channel->post({&read, 1}), 1u);
    node_.kill_server();
    ASSERT_TRUE(settle([&] { return client_end_.find(Op::kClosed, channel) != nullptr; }));
    EXPECT_EQ(client_end_.find(Op::kRead)->code, Code::kUnavailable);
    EXPECT_EQ(client_end_.find(Op::kClosed)->value, 1u) << "it says that it will be back";
    EXPECT_EQ(client_end_.find(Op::kOpened), nullptr);
    read.token = 100;
    ASSERT_EQ(channel->post({&read, 1}), 1u) << "taken, and fails";
    node_.start_server();
    ASSERT_TRUE(settle([&] { return client_end_.find(Op::kOpened, channel) != nullptr; }));
    EXPECT_TRUE(std::ranges::any_of(client_end_.seen, [](const Completion& each) {
      return each.token == 100 && each.code == Code::kUnavailable;
    }));
    EXPECT_TRUE(echoes(*channel, 20'000)) << "both rings begin again";
    PinSet pins;
    node_.server().pins().collect(pins);
    EXPECT_TRUE(pins.contains({640}));
    EXPECT_EQ(pins.size(), 1u);
  }
  client_->pins(*channel).unpin(pin);
  PinSet pins;
  node_.server().pins().collect(pins);
  EXPECT_TRUE(pins.empty());
}

TEST_F(DomainTest, pins_fall_when_their_holder_leaves) {
  Channel* channel = open();
  ASSERT_GE(client_->pins(*channel).pin({640}, 7), 0);
  client_.reset();
  for (int turn = 0; turn < 10; ++turn) node_.meeting().poll();
  std::array<Completion, 8> completions;
  for (int turn = 0; turn < 2'000; ++turn) (void)node_.server().poll(completions);
  PinSet pins;
  node_.server().pins().collect(pins);
  EXPECT_TRUE(pins.empty());
  EXPECT_EQ(node_.server().connections(), 0u);
  client_ = make_client();
  client_end_.domain = client_.get();
}

TEST_F(DomainTest, answers_given_before_a_crash_are_delivered) {
  Channel* channel = open();
  ASSERT_TRUE(echoes(*channel, 10));
  std::vector<std::byte> message(16, std::byte{1});
  Request request{.local = {message.data(), 16}, .tail = {}, .op = Op::kSend};
  ASSERT_EQ(channel->post({&request, 1}), 1u);
  for (int turn = 0; turn < 10; ++turn) server_end_.poll();
  node_.kill_server();
  client_end_.messages.clear();
  ASSERT_TRUE(settle([&] { return client_end_.find(Op::kClosed, channel) != nullptr; }));
  EXPECT_EQ(client_end_.messages.size(), 1u);
}

// More than the rings hold, so that what was waited for is given back to the producer, too.
TEST_F(DomainTest, a_message_comes_once_whether_waited_for_or_polled) {
  Channel* channel = open();
  ASSERT_TRUE(echoes(*channel, 10));
  client_end_.messages.clear();
  uint64_t waited = 0;
  for (uint64_t number = 1, bytes = 0; bytes < 6 * kRingBytes; ++number) {
    std::vector<std::byte> message(8 + number % 3'000);
    std::memcpy(message.data(), &number, sizeof(number));
    bytes += message.size();
    Request request{.local = {message.data(), message.size()}, .tail = {}, .op = Op::kSend};
    ASSERT_EQ(channel->post({&request, 1}), 1u);
    server_end_.messages.clear();
    server_end_.domain = &node_.server();
    for (int turn = 0; turn < 4 && server_end_.messages.empty(); ++turn) server_end_.poll();
    ASSERT_EQ(server_end_.messages.size(), 1u);
    const auto answer = channel->await_message(1);
    if (!answer.empty()) {
      ++waited;
      ASSERT_TRUE(std::ranges::equal(answer, message)) << number;
      if (number < 100) client_end_.poll();  // Later, only the ring itself asks for a turn.
      ASSERT_TRUE(client_end_.messages.empty()) << number << " came twice";
      continue;
    }
    ASSERT_TRUE(settle([&] { return !client_end_.messages.empty(); })) << number;
    ASSERT_EQ(client_end_.messages.size(), 1u);
    ASSERT_EQ(client_end_.messages[0], message) << number;
    client_end_.messages.clear();
  }
  EXPECT_GT(waited, 0u);
  EXPECT_TRUE(channel->await_message(3).empty()) << "nothing is on the way";
}

TEST_F(DomainTest, what_comes_before_a_message_is_left_to_a_poll) {
  Channel* channel = open();
  ASSERT_TRUE(echoes(*channel, 10));
  std::vector<std::byte> served(64, std::byte{9});
  const auto key = node_.server().register_region({.region = 12,
                                                   .base = served.data(),
                                                   .bytes = served.size(),
                                                   .rights = {.read = true, .write = true, .atomic = true}});
  ASSERT_TRUE(key.has_value());
  std::array<std::byte, 8> target{};
  Request read{.token = 5,
               .local = {target.data(), target.size()},
               .remote = {RemotePointer::at(12, 0), *key},
               .op = Op::kRead};
  std::vector<std::byte> message(16, std::byte{1});
  Request send{.local = {message.data(), 16}, .tail = {}, .op = Op::kSend};
  ASSERT_EQ(channel->post({&read, 1}), 1u);
  ASSERT_EQ(channel->post({&send, 1}), 1u);
  server_end_.domain = &node_.server();
  for (int turn = 0; turn < 10; ++turn) server_end_.poll();
  client_end_.seen.clear();
  client_end_.messages.clear();
  EXPECT_TRUE(channel->await_message(3).empty());
  client_end_.poll();
  ASSERT_FALSE(client_end_.seen.empty());
  EXPECT_EQ(client_end_.seen[0].token, 5u);
  EXPECT_EQ(target[0], std::byte{9});
  ASSERT_TRUE(settle([&] { return client_end_.messages.size() == 1; }));
}

TEST_F(DomainTest, a_wait_for_a_message_wakes_a_server_that_sleeps) {
  Channel* channel = open();
  ASSERT_TRUE(echoes(*channel, 10));
  ASSERT_TRUE(settle([&] { return node_.server().prepare_sleep(); }));
  std::vector<std::byte> message(16, std::byte{1});
  Request request{.local = {message.data(), 16}, .tail = {}, .op = Op::kSend};
  ASSERT_EQ(channel->post({&request, 1}), 1u);
  const uint64_t before = client_->counters().doorbells_rung;
  EXPECT_TRUE(channel->await_message(0).empty());
  EXPECT_EQ(client_->counters().doorbells_rung, before + 1);
  node_.server().woke();
}

TEST_F(DomainTest, a_dead_keeper_closes_channels_for_good) {
  Channel* channel = open();
  node_.kill_server();
  node_.end_keeper();
  ASSERT_TRUE(settle([&] {
    return std::ranges::any_of(client_end_.seen, [&](const Completion& each) {
      return each.op == Op::kClosed && each.channel == channel && each.value == 0;
    });
  }));
}

TEST_F(DomainTest, offered_regions_are_read_without_the_server) {
  auto memory = make_memory("region", 8192);
  auto own = map_shared(memory->get(), 8192, true);
  own->data()[4096] = std::byte{77};
  ASSERT_TRUE(finish_seals(memory->get(), true).has_value());
  Channel* early = open();
  EXPECT_EQ(early->local_view().bytes, 0u);
  EXPECT_FALSE(early->refresh_local_view()) << "nothing new";
  ASSERT_TRUE(node_.meeting().offer_region({3, 0, 8192, memory->get(), {55}}).has_value());
  Channel* late = open();
  ASSERT_EQ(late->local_view().bytes, 8192u);
  EXPECT_EQ(late->local_view().base[4096], std::byte{77});
  node_.kill_server();
  client_end_.seen.clear();
  EXPECT_EQ(late->local_view().base[4096], std::byte{77}) << "also while the server is dead";
  node_.start_server();
  ASSERT_TRUE(settle([&] { return client_end_.find(Op::kOpened, late) != nullptr; }));
  // No turn of the server between post and completion: the reader does it itself.
  std::byte target{};
  Request read{
      .token = 5, .local = {&target, 1}, .remote = {RemotePointer::at(3, 4096), {55}}, .op = Op::kRead};
  ASSERT_EQ(late->post({&read, 1}), 1u);
  client_end_.poll();
  EXPECT_EQ(target, std::byte{77});
  // With another key the server is asked, and refuses.
  read.remote.key = {56};
  read.token = 6;
  ASSERT_EQ(late->post({&read, 1}), 1u);
  ASSERT_TRUE(settle([&] {
    return std::ranges::any_of(client_end_.seen, [](const Completion& each) {
      return each.token == 6 && each.code == Code::kAccessDenied;
    });
  }));
}

TEST_F(DomainTest, garbage_in_a_ring_closes_that_connection_and_no_other) {
  Channel* good = open();
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    client_end_.seen.clear();
    Channel* bad = open();
    ASSERT_TRUE(echoes(*bad, 1));
    ConnectionMemory& memory = memory_of(1);
    for (std::byte& byte : memory.requests) byte = static_cast<std::byte>(random());
    ASSERT_TRUE(settle([&] { return client_end_.find(Op::kClosed, bad) != nullptr; })) << "round " << round;
    EXPECT_EQ(client_end_.find(Op::kClosed, bad)->value, 0u);
    EXPECT_TRUE(echoes(*good, 64)) << "the other does not notice";
    mappings_.clear();
  }
  EXPECT_GE(node_.server().counters().bad_frame + node_.server().counters().bad_completion, 190u);
}

TEST_F(DomainTest, a_consumed_position_that_cannot_be_closes_the_connection) {
  Channel* channel = open();
  ASSERT_TRUE(echoes(*channel, 1));
  ConnectionMemory& memory = memory_of(0);
  std::vector<std::byte> message(32 * 1024);
  Request request{.local = {message.data(), message.size()}, .tail = {}, .op = Op::kSend};
  ASSERT_TRUE(settle([&] {
    publish_u64(&memory.client.reply_consumed, uint64_t{1} << 40);
    (void)channel->post({&request, 1});
    return client_end_.find(Op::kClosed, channel) != nullptr;
  }));
  EXPECT_EQ(node_.server().counters().bad_position, 1u);
}

TEST_F(DomainTest, a_client_that_never_takes_its_replies_stalls_only_itself) {
  Channel* good = open();
  auto rude = make_client();
  Channel* const connected = test::needed(rude->connect(node_.path()));
  std::array<Completion, 4> completions;
  ASSERT_TRUE(settle([&] {
    (void)rude->poll(completions);
    return node_.server().counters().opened == 2;
  }));
  std::vector<std::byte> message(8 * 1024);
  Request request{.local = {message.data(), message.size()}, .tail = {}, .op = Op::kSend};
  for (int turn = 0; turn < 500; ++turn) {
    (void)connected->post({&request, 1});
    rude->flush();
    server_end_.poll();
  }
  EXPECT_EQ(connected->post({&request, 1}), 0u) << "back-pressure reaches the rude one";
  EXPECT_TRUE(echoes(*good, 64));
  EXPECT_TRUE(node_.server().prepare_sleep()) << "what is stalled does not keep the server awake";
  node_.server().woke();
  // When the client takes them at last, all continue.
  size_t taken = 0;
  ASSERT_TRUE(settle([&] {
    taken += rude->poll(completions);
    rude->flush();
    return taken > 40;
  })) << taken
      << " " << server_end_.messages.size();
}

TEST_F(DomainTest, a_client_that_shuts_its_doorbell_is_closed_and_no_other) {
  Channel* good = open();
  ClientAttachment rude(node_.path(), {});
  ASSERT_TRUE(rude.begin().has_value());
  ASSERT_TRUE(settle([&] {
    (void)rude.step();
    return rude.complete();
  }));
  announce_u64(&rude.memory().client.ring_incarnation, incarnation(rude.node_page()));
  ASSERT_EQ(::send(rude.doorbell(), "x", 1, MSG_NOSIGNAL), 1);
  const size_t opened = 2;
  ASSERT_TRUE(settle([&] { return node_.server().counters().opened == opened; }));
  ASSERT_EQ(::shutdown(rude.doorbell(), SHUT_RDWR), 0);
  ASSERT_TRUE(settle([&] { return node_.server().counters().closed == 1; }));
  EXPECT_TRUE(echoes(*good, 64));
}

TEST_F(DomainTest, memory_of_the_wrong_kind_is_not_adopted) {
  auto unsealed = Descriptor(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), kConnectionBytes), 0);
  auto small = make_memory("small", 4096);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Descriptor first(ends[0]);
  const Descriptor second(ends[1]);
  for (const int fd : {unsealed.get(), small->get(), first.get(), -1}) {
    EXPECT_FALSE(node_.server().adopt({77, fd, first.get()}).has_value());
  }
  EXPECT_EQ(node_.server().connections(), 0u);
}

TEST_F(DomainTest, idle_connections_are_parked_and_still_heard) {
  std::vector<Channel*> channels;
  for (int i = 0; i < 64; ++i) channels.push_back(open());
  for (int turn = 0; turn < 5'000; ++turn) server_end_.poll();
  const uint64_t rung = client_->counters().doorbells_rung;
  for (Channel* channel : channels) EXPECT_TRUE(echoes(*channel, 64));
  EXPECT_GE(client_->counters().doorbells_rung - rung, 40u) << "they were parked";
  const uint64_t rung_again = client_->counters().doorbells_rung;
  EXPECT_TRUE(echoes(*channels.back(), 64));
  EXPECT_EQ(client_->counters().doorbells_rung, rung_again) << "and the last one is active again";
}

TEST_F(DomainTest, two_thousand_connections_live_side_by_side) {
  MeetingOptions many;
  many.connections_max = 2'000;
  TestNode node(many);
  const auto client = make_client();
  std::vector<Completion> completions(64);
  size_t opened = 0;
  size_t answered = 0;
  std::vector<Channel*> channels;
  const auto turn = [&] {
    node.meeting().poll();
    size_t count = node.server().poll(completions);
    for (const Completion& each : std::span(completions).first(count)) {
      if (each.op != Op::kReceive) continue;
      std::array<std::byte, 8> answer{};
      Request request{.local = {answer.data(), 8}, .tail = {}, .op = Op::kSend};
      EXPECT_EQ(each.channel->post({&request, 1}), 1u);
    }
    node.server().flush();
    count = client->poll(completions);
    for (const Completion& each : std::span(completions).first(count)) {
      if (each.op == Op::kOpened && each.code == Code::kOk) ++opened;
      if (each.op == Op::kReceive) ++answered;
    }
    client->flush();
  };
  for (size_t i = 0; i < 2'000; ++i) {
    auto connected = client->connect(node.path());
    ASSERT_TRUE(connected.has_value()) << connected.error().to_string();
    channels.push_back(*connected);
    for (int turns = 0; turns < 1'000 && opened <= i; ++turns) turn();
    ASSERT_EQ(opened, i + 1) << client->last_refusal().to_string();
  }
  for (Channel* channel : channels) {
    std::array<std::byte, 8> bytes{};
    Request request{.local = {bytes.data(), 8}, .tail = {}, .op = Op::kSend};
    ASSERT_EQ(channel->post({&request, 1}), 1u);
  }
  for (int turns = 0; turns < 20'000 && answered < channels.size(); ++turns) turn();
  EXPECT_EQ(answered, channels.size());
  auto refused = client->connect(node.path());
  ASSERT_TRUE(refused.has_value());
  for (int turns = 0; turns < 1'000 && client->last_refusal().code == Code::kOk; ++turns) turn();
  EXPECT_THAT(client->last_refusal().to_string(), HasSubstr("limit of 2000 connections"));
}

}  // namespace
}  // namespace refract::fabric::shm
