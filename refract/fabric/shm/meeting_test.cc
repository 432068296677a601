// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/meeting.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <random>

#include "refract/base/testing/needed.h"
#include "refract/fabric/shm/attach.h"
#include "refract/fabric/shm/connection_memory.h"
#include "refract/fabric/shm/listen.h"
#include "refract/fabric/shm/test_node.h"
#include "refract/fabric/shm/wire.h"

namespace refract::fabric::shm {
namespace {

using testing::HasSubstr;

std::unique_ptr<Meeting> meet(MeetingOptions options) {
  auto opened = Meeting::open(std::move(options));
  EXPECT_TRUE(opened.has_value()) << opened.error().to_string();
  return opened ? std::move(*opened) : nullptr;
}

// A client that speaks the protocol by hand.
class RawClient {
 public:
  explicit RawClient(const std::string& path) : socket_(test::needed(connect_to(path))) {}
  template <typename Message>
  bool send(const Message& message) {
    return send_message(socket_.get(), std::as_bytes(std::span(&message, 1)));
  }
  bool say_hello() { return send(Hello{head_of(MessageKind::kHello), 1, 1, 0}); }
  ReceivedMessage receive() { return receive_message(socket_.get(), message_, descriptors_); }
  // Polls the meeting until something comes, with a bound that only a hang reaches.
  ReceivedMessage await(Meeting& meeting) {
    for (int turn = 0; turn < 1000; ++turn) {
      meeting.poll();
      const ReceivedMessage received = receive();
      if (received.outcome != ReceivedMessage::Outcome::kNothing) return received;
    }
    return {};
  }
  [[nodiscard]] uint16_t kind() const {
    MessageHead head{};
    std::memcpy(&head, message_.data(), sizeof(head));
    return head.kind;
  }
  [[nodiscard]] std::string text() const {
    Refused refused{};
    std::memcpy(&refused, message_.data(), sizeof(refused));
    return refused.text;
  }
  [[nodiscard]] Descriptor& descriptor(size_t index) { return descriptors_[index]; }
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  Descriptor socket_;
  std::array<std::byte, sizeof(Regions)> message_{};
  std::array<Descriptor, kDescriptorsMax> descriptors_;
};

class MeetingTest : public testing::Test {
 protected:
  MeetingOptions options() {
    MeetingOptions options;
    options.path = directory_.socket();
    options.clock = &clock_;
    return options;
  }
  MeetingFolder directory_;
  ManualClock clock_;
};

TEST_F(MeetingTest, the_socket_is_for_its_user_alone_and_goes_with_the_meeting) {
  struct stat status{};
  {
    const auto meeting = meet(options());
    ASSERT_EQ(::stat(directory_.socket().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
  }
  EXPECT_NE(::stat(directory_.socket().c_str(), &status), 0);
}

TEST_F(MeetingTest, a_missing_directory_is_made_for_its_user_alone) {
  MeetingOptions there = options();
  const std::string directory = directory_.path() + "/new";
  there.path = directory + "/node.sock";
  struct stat status{};
  {
    const auto meeting = meet(there);
    ASSERT_EQ(::stat(directory.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
  }
  ::rmdir(directory.c_str());
}

TEST_F(MeetingTest, a_live_socket_is_in_use_and_a_dead_one_is_replaced) {
  auto first = meet(options());
  const auto second = Meeting::open(options());
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kInUse);
  EXPECT_THAT(second.error().to_string(), HasSubstr("choose another path"));
  EXPECT_TRUE(connect_to(directory_.socket()).has_value()) << "the first still serves";
  first.reset();
  // What a killed process leaves: a bound socket file that no process listens on.
  {
    const auto left = listen_at(directory_.socket(), 0600);
  }
  EXPECT_NE(meet(options()), nullptr);
}

TEST_F(MeetingTest, paths_that_cannot_be_are_explained) {
  MeetingOptions wrong = options();
  wrong.path = directory_.path() + "/" + std::string(200, 'x');
  const auto long_path = Meeting::open(wrong);
  ASSERT_FALSE(long_path.has_value());
  EXPECT_THAT(long_path.error().to_string(), HasSubstr("shorter path"));
  const Descriptor file(::open(directory_.socket().c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  const auto occupied = Meeting::open(options());
  ASSERT_FALSE(occupied.has_value());
  EXPECT_THAT(occupied.error().to_string(), HasSubstr("is not a socket"));
}

TEST_F(MeetingTest, garbage_and_messages_out_of_turn_cost_only_their_sender) {
  const auto meeting = meet(options());
  RawClient good(directory_.socket());
  ASSERT_TRUE(good.say_hello());
  ASSERT_EQ(good.await(*meeting).descriptor_count, 3u);
  std::minstd_rand random(1);
  uint64_t sent = 0;
  for (const size_t bytes : std::initializer_list<size_t>{1, 7, 8, 15, 16, 17, 40, 256, 1000}) {
    RawClient bad(directory_.socket());
    std::vector<std::byte> garbage(bytes);
    for (std::byte& byte : garbage) byte = static_cast<std::byte>(random());
    ASSERT_TRUE(send_message(bad.fd(), garbage));
    EXPECT_EQ(bad.await(*meeting).outcome, ReceivedMessage::Outcome::kEnded);
    ++sent;
  }
  RawClient early(directory_.socket());
  ASSERT_TRUE(early.send(GetRegions{head_of(MessageKind::kGetRegions), 0, 0}));
  EXPECT_EQ(early.await(*meeting).outcome, ReceivedMessage::Outcome::kEnded);
  RawClient twice(directory_.socket());
  ASSERT_TRUE(twice.say_hello());
  ASSERT_EQ(twice.await(*meeting).descriptor_count, 3u);
  ASSERT_TRUE(twice.say_hello());
  EXPECT_EQ(twice.await(*meeting).outcome, ReceivedMessage::Outcome::kEnded);
  EXPECT_EQ(meeting->counters().malformed, sent + 2);
  ASSERT_EQ(meeting->attachments().size(), 1u);
  EXPECT_EQ(meeting->attachments()[0].process, static_cast<uint32_t>(::getpid()));
  EXPECT_EQ(meeting->attachments()[0].user, ::getuid());
  ASSERT_TRUE(good.send(GetRegions{head_of(MessageKind::kGetRegions), 0, 0}))
      << "the good one is still served";
  meeting->poll();
  meeting->server_changed();
  EXPECT_EQ(good.await(*meeting).outcome, ReceivedMessage::Outcome::kMessage);
}

TEST_F(MeetingTest, an_unknown_version_is_refused_with_both_sides_versions) {
  const auto meeting = meet(options());
  RawClient client(directory_.socket());
  ASSERT_TRUE(client.send(Hello{head_of(MessageKind::kHello), 7, 9, 0}));
  ASSERT_EQ(client.await(*meeting).outcome, ReceivedMessage::Outcome::kMessage);
  EXPECT_EQ(client.kind(), static_cast<uint16_t>(MessageKind::kRefused));
  EXPECT_THAT(client.text(), HasSubstr("the client 7 to 9"));
}

TEST_F(MeetingTest, silent_clients_are_dropped_at_their_deadline) {
  const auto meeting = meet(options());
  RawClient silent(directory_.socket());
  meeting->poll();
  EXPECT_EQ(silent.receive().outcome, ReceivedMessage::Outcome::kNothing);
  clock_.advance_ns(3 * kSecond_ns);
  EXPECT_EQ(silent.await(*meeting).outcome, ReceivedMessage::Outcome::kMessage);
  EXPECT_EQ(silent.await(*meeting).outcome, ReceivedMessage::Outcome::kEnded);
  EXPECT_EQ(meeting->counters().handshake_timeouts, 1u);
}

TEST_F(MeetingTest, the_deadline_wakes_a_keeper_that_sleeps_on_the_descriptor) {
  MeetingOptions quick = options();
  quick.clock = &system_clock();
  quick.handshake_deadline_ns = 20 * kMillisecond_ns;
  const auto meeting = meet(quick);
  const RawClient silent(directory_.socket());
  pollfd wait{.fd = meeting->epoll_descriptor(), .events = POLLIN, .revents = 0};
  for (int wakes = 0; wakes < 10 && meeting->counters().handshake_timeouts == 0; ++wakes) {
    ASSERT_EQ(::poll(&wait, 1, 10'000), 1) << "the deadline never came";
    meeting->poll();
  }
  EXPECT_EQ(meeting->counters().handshake_timeouts, 1u);
}

TEST_F(MeetingTest, connections_over_the_limit_are_refused_in_words) {
  MeetingOptions small = options();
  small.connections_max = 2;
  const auto meeting = meet(small);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(directory_.socket()));
    ASSERT_TRUE(clients.back()->say_hello());
    ASSERT_EQ(clients.back()->await(*meeting).outcome, ReceivedMessage::Outcome::kMessage);
  }
  EXPECT_THAT(clients.back()->text(), HasSubstr("limit of 2 connections"));
  clients.erase(clients.begin());
  meeting->poll();
  RawClient next(directory_.socket());
  ASSERT_TRUE(next.say_hello());
  EXPECT_EQ(next.await(*meeting).descriptor_count, 3u) << "a place came free";
}

TEST_F(MeetingTest, nobody_is_let_in_before_there_is_something_to_read) {
  bool is_ready = false;
  MeetingOptions waiting = options();
  waiting.admits = [&]() -> Reported<> {
    if (is_ready) return {};
    return report(Code::kUnavailable, "not yet", "try again later");
  };
  const auto meeting = meet(waiting);
  RawClient early(directory_.socket());
  ASSERT_TRUE(early.say_hello());
  EXPECT_EQ(early.await(*meeting).descriptor_count, 0u) << "no memory for one who is refused";
  EXPECT_THAT(early.text(), HasSubstr("not yet"));
  EXPECT_EQ(meeting->counters().refused_early, 1u);
  is_ready = true;
  RawClient next(directory_.socket());
  ASSERT_TRUE(next.say_hello());
  EXPECT_EQ(next.await(*meeting).descriptor_count, 3u);
}

TEST_F(MeetingTest, a_crowd_of_silent_connections_does_not_keep_others_out) {
  const auto meeting = meet(options());
  std::vector<Descriptor> crowd;
  for (int i = 0; i < 2'000; ++i) {
    auto connected = connect_to(directory_.socket());
    if (connected) crowd.push_back(std::move(*connected));
    if (i % 16 == 0) meeting->poll();
  }
  EXPECT_GT(crowd.size(), 1'500u);
  RawClient good(directory_.socket());
  ASSERT_TRUE(good.say_hello());
  EXPECT_EQ(good.await(*meeting).descriptor_count, 3u);
}

TEST_F(MeetingTest, a_client_that_asks_and_never_reads_is_dropped) {
  const auto meeting = meet(options());
  const auto memory = make_memory("region", 4096);
  for (uint16_t region = 0; region < 200; ++region) {
    ASSERT_TRUE(
        meeting->offer_region({region, uint64_t{region} * 4096, 4096, memory->get(), {7}}).has_value());
  }
  RawClient greedy(directory_.socket());
  ASSERT_TRUE(greedy.say_hello());
  meeting->poll();
  for (int i = 0; i < 50; ++i) {
    if (!greedy.send(GetRegions{head_of(MessageKind::kGetRegions), 0, 0})) break;
    meeting->poll();
  }
  EXPECT_EQ(meeting->counters().flooded, 1u);
  EXPECT_TRUE(meeting->attachments().empty());
}

TEST_F(MeetingTest, clients_cannot_resize_their_memory_nor_write_the_node_page) {
  const auto meeting = meet(options());
  RawClient client(directory_.socket());
  ASSERT_TRUE(client.say_hello());
  ASSERT_EQ(client.await(*meeting).descriptor_count, 3u);
  const int page = client.descriptor(0).get();
  const int memory = client.descriptor(1).get();
  EXPECT_EQ(::ftruncate(memory, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(memory, 1 << 24), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0), MAP_FAILED);
  EXPECT_EQ(::write(page, "x", 1), -1);
  auto mapping = map_shared(page, 4096, false);
  ASSERT_TRUE(mapping.has_value());
  EXPECT_NE(::mprotect(mapping->data(), 4096, PROT_READ | PROT_WRITE), 0);
}

TEST_F(MeetingTest, a_seal_alone_keeps_writers_out_where_reopening_is_refused) {
  auto memory = make_memory("sealed", 4096);
  ASSERT_TRUE(memory.has_value());
  const auto own = map_shared(memory->get(), 4096, true);
  ASSERT_TRUE(finish_seals(memory->get(), true).has_value());
  // The descriptor is read-write, as a process that may not reopen its own would have to hand out.
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory->get(), 0), MAP_FAILED);
  EXPECT_EQ(::pwrite(memory->get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  own->data()[0] = std::byte{1};
  EXPECT_TRUE(map_shared(memory->get(), 4096, false).has_value());
}

TEST_F(MeetingTest, regions_over_one_message_reach_clients_old_and_new) {
  const auto meeting = meet(options());
  const auto memory = make_memory("region", 4096);
  const auto offer = [&](uint64_t row) {
    return meeting->offer_region({static_cast<uint16_t>(row), row * 4096, 4096, memory->get(), {row + 1}});
  };
  for (uint64_t row = 0; row < 130; ++row) ASSERT_TRUE(offer(row).has_value());
  ClientAttachment client(directory_.socket(), {});
  ASSERT_TRUE(client.begin().has_value());
  for (int turn = 0; turn < 100 && !client.complete(); ++turn) {
    meeting->poll();
    ASSERT_NE(client.step(), ClientAttachment::Progress::kEnded) << client.failure().to_string();
  }
  ASSERT_TRUE(client.complete());
  EXPECT_EQ(client.regions().size(), 130u);
  for (uint64_t row = 130; row < kRegionsMax; ++row) ASSERT_TRUE(offer(row).has_value());
  EXPECT_FALSE(offer(kRegionsMax).has_value());
  ASSERT_TRUE(client.ask_for_regions());
  meeting->poll();
  EXPECT_EQ(client.step(), ClientAttachment::Progress::kSomething);
  EXPECT_EQ(client.regions().size(), kRegionsMax);
  EXPECT_EQ(client.mapped_bytes(), kRegionsMax * 4096);
  EXPECT_EQ(client.find(RemotePointer::at(248, 4000), {249}, 96), client.space() + 248 * 4096 + 4000);
  EXPECT_EQ(client.find(RemotePointer::at(248, 4000), {249}, 97), nullptr);
  EXPECT_EQ(client.find(RemotePointer::at(248, 0), {248}, 8), nullptr) << "another region's key";
}

TEST_F(MeetingTest, shards_of_one_node_say_which_they_are_and_that_they_belong_together) {
  MeetingOptions first = options();
  first.identity = {7, 8};
  first.shard_count = 2;
  first.tcp_port = 7'400;
  MeetingOptions second = first;
  second.path = shard_socket_path(first.path, 1);
  second.shard_index = 1;
  EXPECT_EQ(second.path, first.path + ".1");
  EXPECT_EQ(shard_socket_path(first.path, 0), first.path);
  const auto one = meet(first);
  const auto other = meet(second);
  for (Meeting* meeting : {one.get(), other.get()}) {
    EXPECT_EQ(meeting->node_page().identity[0], 7U);
    EXPECT_EQ(meeting->node_page().identity[1], 8U);
    EXPECT_EQ(meeting->node_page().shard_count, 2U);
    EXPECT_EQ(meeting->node_page().tcp_port, 7'400U);
  }
  EXPECT_EQ(one->node_page().shard_index, 0U);
  EXPECT_EQ(other->node_page().shard_index, 1U);
}

TEST_F(MeetingTest, attaching_to_something_that_is_no_node_is_an_error_in_words) {
  const Descriptor socket = test::needed(listen_at(directory_.socket(), 0600));
  ClientAttachment client(directory_.socket(), {});
  ASSERT_TRUE(client.begin().has_value());
  const Descriptor accepted(::accept(socket.get(), nullptr, nullptr));
  ASSERT_TRUE(send_message(accepted.get(), std::as_bytes(std::span("SSH-2.0-OpenSSH"))));
  EXPECT_EQ(client.step(), ClientAttachment::Progress::kEnded);
  EXPECT_THAT(client.failure().to_string(), HasSubstr("is no node of Refract"));
}

}  // namespace
}  // namespace refract::fabric::shm
