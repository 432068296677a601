// SPDX-License-Identifier: Apache-2.0
// What the TCP provider promises beyond the contract: reconnecting, shards, large transfers, few system
// calls, idle connections that cost little.
#include "refract/fabric/tcp/domain.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/test_peer.h"

namespace refract::fabric::tcp {
namespace {

constexpr uint16_t kRegion = 9;

// A region of the server with a pattern, and room at the client.
struct Memory {
  Memory(Ends& ends, size_t bytes, Rights rights = {.read = true, .write = true, .atomic = true})
      : region(bytes), local(bytes) {
    for (size_t i = 0; i < bytes; ++i) region[i] = static_cast<std::byte>(mix(i / 8) >> (i % 8 * 8));
    const auto made = ends.node.server().register_region(
        {.region = kRegion, .base = region.data(), .bytes = bytes, .rights = rights});
    EXPECT_TRUE(made.has_value());
    key = made.value_or(RemoteKey{});
  }
  [[nodiscard]] Request request(Op op, uint64_t offset, uint64_t bytes, uint64_t token) {
    return {.token = token,
            .local = {local.data() + offset, bytes},
            .remote = {RemotePointer::at(kRegion, offset), key},
            .op = op};
  }

  std::vector<std::byte> region;
  std::vector<std::byte> local;
  RemoteKey key;
};

TEST(TcpDomain, a_channel_comes_back_when_the_server_was_started_again) {
  Ends ends;
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(ends.client_domain->facts(*channel).incarnation, 1u);
  for (uint64_t incarnation = 2; incarnation < 6; ++incarnation) {
    ends.client->events.clear();
    ends.server.reset();
    ends.node.kill_server();
    ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kClosed) == 1; }));
    EXPECT_EQ(ends.client->last(Op::kClosed)->value, 1u);
    EXPECT_TRUE(channel->reconnects());
    const Request message = send_of("not delivered", 5);
    EXPECT_EQ(channel->post({&message, 1}), 1u);
    ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kSend) == 1; }));
    EXPECT_EQ(ends.client->last(Op::kSend)->code, Code::kUnavailable);

    ends.node.start_server();
    ends.server = std::make_unique<End>(ends.node.server());
    ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kOpened) == 1; }));
    EXPECT_FALSE(channel->reconnects());
    EXPECT_EQ(ends.client_domain->facts(*channel).incarnation, incarnation);
    const Request again = send_of("heard");
    EXPECT_EQ(channel->post({&again, 1}), 1u);
    ASSERT_TRUE(ends.settle([&] { return ends.server->count(Op::kReceive) == 1; }));
  }
}

TEST(TcpDomain, what_was_outstanding_fails_once_before_a_reconnect) {
  Ends ends;
  Memory memory(ends, 64 * 1024);
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  for (uint64_t token = 1; token <= 8; ++token) {
    const Request read = memory.request(Op::kRead, 0, 32 * 1024, token);
    ASSERT_EQ(channel->post({&read, 1}), 1u);
  }
  ends.client_domain->flush();
  ends.server.reset();
  ends.node.kill_server();
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kClosed) == 1; }));
  EXPECT_EQ(ends.client->count(Op::kRead), 8u);
  EXPECT_EQ(ends.client->events.back().completion.op, Op::kClosed);
}

TEST(TcpDomain, another_node_at_the_address_is_not_taken_for_the_old_one) {
  Ends ends;
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  ends.server.reset();
  ends.node.kill_server();
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kClosed) == 1; }));
  ends.node.facts().identity = {3, 4};
  ends.node.start_server();
  ends.server = std::make_unique<End>(ends.node.server());
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kClosed) == 2; }));
  EXPECT_EQ(ends.client->last(Op::kClosed)->value, 0u);
  EXPECT_NE(ends.client_domain->last_refusal().what.find("another node"), std::string::npos);
}

TEST(TcpDomain, a_client_that_may_not_wait_for_ever_gives_up) {
  Ends ends({}, {.reconnect_for_ns = 20 * kMillisecond_ns});
  ASSERT_NE(ends.open(), nullptr);
  ends.server.reset();
  ends.node.kill_server();
  ends.node.stop_listening();
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kClosed) == 2; }));
  EXPECT_EQ(ends.client->last(Op::kClosed)->value, 0u);
  EXPECT_EQ(ends.client_domain->last_refusal().code, Code::kUnavailable);
}

TEST(TcpDomain, closing_while_reconnecting_ends_it) {
  Ends ends;
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  ends.server.reset();
  ends.node.kill_server();
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kClosed) == 1; }));
  channel->close();
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kClosed) == 2; }));
  EXPECT_EQ(ends.client->last(Op::kClosed)->value, 0u);
}

TEST(TcpDomain, a_goodbye_of_the_server_ends_the_channel_for_good) {
  Ends ends;
  ASSERT_NE(ends.open(), nullptr);
  ends.accepted_channel->close();
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kClosed) == 1; }));
  EXPECT_EQ(ends.client->last(Op::kClosed)->value, 0u);
  EXPECT_EQ(ends.client_domain->counters().lost, 0u);
}

TEST(TcpDomain, each_shard_gets_the_clients_that_name_it) {
  Ends ends({.shards = 3});
  std::vector<std::unique_ptr<End>> servers;
  for (uint32_t i = 0; i < 3; ++i) servers.push_back(std::make_unique<End>(ends.node.server(i)));
  for (uint32_t i = 0; i < 3; ++i) {
    const auto channel = ends.client_domain->connect(ends.node.address() + "/" + std::to_string(i));
    ASSERT_TRUE(channel.has_value());
    ASSERT_TRUE(ends.settle([&] {
      servers[i]->turn();
      return ends.client->count(Op::kOpened, *channel) == 1 && ends.node.server(i).connections() == 1;
    }));
    const NodeFacts& facts = ends.client_domain->facts(**channel);
    EXPECT_EQ(facts.shard_index, i);
    EXPECT_EQ(facts.shard_count, 3u);
    EXPECT_EQ(facts.socket_path, "/tmp/node.sock");
    EXPECT_EQ(facts.hash_seed, 77u);
  }
  const auto beyond = ends.client_domain->connect(ends.node.address() + "/3");
  ASSERT_TRUE(beyond.has_value());
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kOpened, *beyond) == 1; }));
  EXPECT_EQ(ends.client->last(Op::kOpened)->code, Code::kInvalidArgument);
}

// The shards' threads poll while the first one lets clients in: hand_over is what crosses.
TEST(TcpDomain, clients_are_handed_to_shards_that_run) {
  constexpr uint32_t kShards = 3;
  constexpr size_t kClients = 30;
  Ends ends({.shards = kShards});
  std::atomic<bool> stop = false;
  std::atomic<size_t> answered = 0;
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < kShards; ++i) {
    threads.emplace_back([&, i] {
      runtime::Shard shard(system_clock());
      End end(ends.node.server(i));
      while (!stop) {
        end.turn();
        for (const Received& each : end.events) {
          if (each.completion.op != Op::kReceive) continue;
          const Request answer = send_of(each.bytes);
          answered += each.completion.channel->post({&answer, 1});
        }
        end.events.clear();
        std::this_thread::yield();
      }
    });
  }
  std::vector<Channel*> channels;
  for (size_t i = 0; i < kClients; ++i) {
    const auto channel =
        ends.client_domain->connect(ends.node.address() + "/" + std::to_string(1 + i % (kShards - 1)));
    ASSERT_TRUE(channel.has_value());
    channels.push_back(*channel);
  }
  EXPECT_TRUE(ends.settle([&] { return ends.client->count(Op::kOpened) == kClients; }));
  for (Channel* channel : channels) {
    const Request message = send_of("to a thread");
    EXPECT_EQ(channel->post({&message, 1}), 1u);
  }
  EXPECT_TRUE(ends.settle([&] { return ends.client->count(Op::kReceive) == kClients; }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, kClients);
}

TEST(TcpDomain, large_reads_and_writes_arrive_whole) {
  Ends ends;
  constexpr size_t kBytes = 9 * 1024 * 1024 + 5;
  Memory memory(ends, kBytes);
  const std::vector<std::byte> before = memory.region;
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  uint64_t token = 1;
  // Lengths round every bound: copied or gathered, padded or not, one receive or many.
  for (const size_t bytes : {size_t{4095}, size_t{4096}, size_t{4097}, size_t{65'535}, size_t{65'541},
                             size_t{1'048'576}, size_t{1'048'583}, kBytes}) {
    std::ranges::fill(memory.local, std::byte{0});
    const Request read = memory.request(Op::kRead, 0, bytes, token);
    ASSERT_EQ(channel->post({&read, 1}), 1u);
    ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kRead) == token; }));
    EXPECT_EQ(ends.client->last(Op::kRead)->code, Code::kOk);
    EXPECT_TRUE(
        std::equal(before.begin(), before.begin() + static_cast<ptrdiff_t>(bytes), memory.local.begin()))
        << bytes;
    EXPECT_TRUE(std::all_of(memory.local.begin() + static_cast<ptrdiff_t>(bytes), memory.local.end(),
                            [](std::byte each) { return each == std::byte{0}; }))
        << bytes;
    std::ranges::fill(memory.region, std::byte{0});
    const Request write = memory.request(Op::kWrite, 0, bytes, token);
    ASSERT_EQ(channel->post({&write, 1}), 1u);
    ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kWrite) == token; }));
    EXPECT_EQ(ends.client->last(Op::kWrite)->code, Code::kOk);
    EXPECT_TRUE(
        std::equal(before.begin(), before.begin() + static_cast<ptrdiff_t>(bytes), memory.region.begin()))
        << bytes;
    memory.region = before;
    // The region's place moved with the assignment only if it had to grow, which it had not.
    ++token;
  }
}

// READ, then WRITE to the same bytes, then a message: the READ must not see the WRITE, though its bytes are
// gathered late, and the message must come behind both.
TEST(TcpDomain, a_write_behind_a_large_read_does_not_show_in_it) {
  Ends ends;
  constexpr size_t kBytes = 6 * 1024 * 1024;
  Memory memory(ends, kBytes);
  const std::vector<std::byte> before = memory.region;
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  std::vector<std::byte> other(kBytes, std::byte{0x5a});
  const Request requests[] = {
      memory.request(Op::kRead, 0, kBytes, 1),
      {.token = 2,
       .local = {other.data(), kBytes},
       .remote = {RemotePointer::at(kRegion, 0), memory.key},
       .op = Op::kWrite},
      {.token = 3, .remote = {RemotePointer::at(kRegion, 0), memory.key}, .operand = 1, .op = Op::kFetchAdd},
      send_of("behind")};
  ASSERT_EQ(channel->post(requests), 4u);
  ASSERT_TRUE(ends.settle([&] { return ends.server->count(Op::kReceive) == 1; }));
  EXPECT_EQ(memory.region[kBytes - 1], std::byte{0x5a}) << "the message came before the WRITE";
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kFetchAdd) == 1; }));
  EXPECT_TRUE(memory.local == before);
  EXPECT_EQ(ends.client->last(Op::kFetchAdd)->value, 0x5a5a'5a5a'5a5a'5a5a);
}

TEST(TcpDomain, a_region_revoked_in_the_middle_of_a_read_is_not_touched_again) {
  Ends ends;
  constexpr size_t kBytes = 32 * 1024 * 1024;
  Memory memory(ends, kBytes);
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  const Request read = memory.request(Op::kRead, 0, kBytes, 1);
  ASSERT_EQ(channel->post({&read, 1}), 1u);
  ends.client_domain->flush();
  // The client takes nothing, so the socket is full long before the end.
  ASSERT_TRUE(settle_with([&] { ends.server->turn(); },
                          [&] { return ends.node.server().counters().bytes_sent > 100'000; }));
  for (int i = 0; i < 100; ++i) ends.server->turn();
  ASSERT_LT(ends.node.server().counters().bytes_sent, kBytes);
  ends.node.server().revoke_region(kRegion);
  std::ranges::fill(memory.region, std::byte{0xee});
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kRead) == 1; }));
  EXPECT_EQ(ends.client->last(Op::kRead)->code, Code::kAccessDenied);
  // One byte in 256 was 0xee before.
  EXPECT_LT(std::ranges::count(memory.local, std::byte{0xee}), static_cast<ptrdiff_t>(kBytes / 64))
      << "bytes of after the revocation went out";
  const Request message = send_of("the channel works");
  ASSERT_EQ(channel->post({&message, 1}), 1u);
  EXPECT_TRUE(ends.settle([&] { return ends.server->count(Op::kReceive) == 1; }));
}

TEST(TcpDomain, a_region_revoked_in_the_middle_of_a_write_is_not_touched_again) {
  Ends ends;
  constexpr size_t kBytes = 32 * 1024 * 1024;
  Memory memory(ends, kBytes);
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  std::ranges::fill(memory.local, std::byte{0x11});
  const Request write = memory.request(Op::kWrite, 0, kBytes, 1);
  ASSERT_EQ(channel->post({&write, 1}), 1u);
  ASSERT_TRUE(ends.settle([&] { return ends.node.server().counters().bytes_received > 100'000; }));
  ends.node.server().revoke_region(kRegion);
  const std::vector<std::byte> now = memory.region;
  ASSERT_NE(now.back(), std::byte{0x11}) << "the WRITE was over too soon for this test";
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kWrite) == 1; }));
  EXPECT_EQ(ends.client->last(Op::kWrite)->code, Code::kAccessDenied);
  EXPECT_TRUE(memory.region == now);
}

TEST(TcpDomain, a_turn_of_64_messages_is_one_system_call_at_each_end) {
  Ends ends;
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  const std::string text(64, 'x');
  const std::vector<Request> messages(64, send_of(text));
  const uint64_t sends = ends.client_domain->counters().sends;
  const uint64_t receives = ends.node.server().counters().receives;
  for (size_t round = 1; round <= 10; ++round) {
    ASSERT_EQ(channel->post(messages), 64u);
    ends.client_domain->flush();
    ASSERT_TRUE(settle_with([&] { ends.server->turn(); },
                            [&] { return ends.server->count(Op::kReceive) == 64 * round; }));
  }
  EXPECT_EQ(ends.client_domain->counters().sends - sends, 10u);
  EXPECT_EQ(ends.node.server().counters().receives - receives, 10u);
}

TEST(TcpDomain, a_large_value_is_received_in_few_calls) {
  Ends ends;
  constexpr size_t kBytes = 4 * 1024 * 1024;
  Memory memory(ends, kBytes);
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  const uint64_t sends = ends.node.server().counters().sends;
  const Request read = memory.request(Op::kRead, 0, kBytes, 1);
  ASSERT_EQ(channel->post({&read, 1}), 1u);
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kRead) == 1; }));
  // The kernel decides how much it takes at once; what may not happen is a call for each block.
  EXPECT_LT(ends.node.server().counters().sends - sends, 64u);
}

TEST(TcpDomain, idle_connections_hold_no_buffers) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const size_t count = std::min<size_t>(1'000, files.rlim_cur / 2 - 200);
  Ends ends;
  std::vector<Channel*> channels;
  for (size_t i = 0; i < count; ++i) {
    channels.push_back(ends.open());
    ASSERT_NE(channels.back(), nullptr);
    ends.client->events.clear();
    ends.server->events.clear();
  }
  // Each has been used, so that what it took then would show.
  for (Channel* channel : channels) {
    const Request message = send_of("used");
    ASSERT_EQ(channel->post({&message, 1}), 1u);
  }
  ASSERT_TRUE(ends.settle([&] { return ends.server->count(Op::kReceive) == count; }));
  ends.server->events.clear();
  ends.turn();
  EXPECT_EQ(ends.node.server().pending_bytes(), 0u);
  EXPECT_EQ(ends.client_domain->pending_bytes(), 0u);
  EXPECT_EQ(ends.node.server().connections(), count);
}

TEST(TcpDomain, one_among_many_idle_connections_is_answered) {
  Ends ends;
  std::vector<Channel*> channels;
  for (size_t i = 0; i < 200; ++i) {
    channels.push_back(ends.open());
    ASSERT_NE(channels.back(), nullptr);
  }
  for (size_t round = 0; round < 50; ++round) {
    const Request message = send_of("one of many");
    ASSERT_EQ(channels[round * 37 % channels.size()]->post({&message, 1}), 1u);
    ASSERT_TRUE(ends.settle([&] { return ends.server->count(Op::kReceive) == round + 1; }));
    // All go quiet, as if the shard slept in between.
    for (int i = 0; i < 1'100; ++i) ends.turn();
  }
}

// While it spins, a domain does not have its busy connections watched; before it sleeps it must.
TEST(TcpDomain, after_a_long_spin_a_sleep_misses_nothing) {
  Ends ends;
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  const int server_wakes = ends.node.server().wake_descriptors().front();
  const auto is_readable = [](int fd, int wait_ms) {
    pollfd watched{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&watched, 1, wait_ms) == 1;
  };
  const Request message = send_of("busy");
  size_t sent = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 700; ++i) {
      if (i % 16 == 0) sent += channel->post({&message, 1});
      ends.turn();
    }
    ASSERT_TRUE(ends.settle([&] { return ends.server->count(Op::kReceive) == sent; }));
    if (round % 2 == 0) {
      // It comes before the announcement.
      sent += channel->post({&message, 1});
      ends.client_domain->flush();
      bool may_sleep = true;
      for (int i = 0; i < 100'000 && may_sleep; ++i) may_sleep = ends.node.server().prepare_sleep();
      EXPECT_FALSE(may_sleep);
    } else {
      ASSERT_TRUE(
          settle_with([&] { ends.server->turn(); }, [&] { return ends.node.server().prepare_sleep(); }));
      ASSERT_FALSE(is_readable(server_wakes, 0));
      sent += channel->post({&message, 1});
      ends.client_domain->flush();
      EXPECT_TRUE(is_readable(server_wakes, 30'000));
    }
    ends.node.server().woke();
    ASSERT_TRUE(ends.settle([&] { return ends.server->count(Op::kReceive) == sent; }));
  }
}

TEST(TcpDomain, people_are_told_who_the_peer_is) {
  Ends ends;
  Channel* channel = ends.open();
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(ends.client_domain->peer_of(*channel), ends.node.address());
  EXPECT_TRUE(ServerDomain::peer_of(*ends.accepted_channel).starts_with("127.0.0.1:"));
  EXPECT_GT(ends.client_domain->round_trip_ns(*channel), 0u);
}

TEST(TcpDomain, a_name_is_looked_up_and_each_of_its_addresses_tried) {
  Ends ends;
  const std::string port = ends.node.address().substr(ends.node.address().rfind(':'));
  // Where localhost is ::1, too, no process listens there.
  const auto channel = ends.client_domain->connect("localhost" + port);
  ASSERT_TRUE(channel.has_value()) << channel.error().to_string();
  ASSERT_TRUE(ends.settle([&] { return ends.client->count(Op::kOpened) == 1; }));
  EXPECT_EQ(ends.client->last(Op::kOpened)->code, Code::kOk)
      << ends.client_domain->last_refusal().to_string();
}

TEST(TcpDomain, a_node_that_does_not_answer_is_unavailable_when_the_time_is_up) {
  const auto listening = listen("127.0.0.1:0");
  ASSERT_TRUE(listening.has_value());
  const auto domain = test::needed(ClientDomain::create({.connect_timeout_ns = 50 * kMillisecond_ns}));
  End client(*domain);
  const auto channel = domain->connect(test::needed(bound_address(listening->get())));
  ASSERT_TRUE(channel.has_value());
  ASSERT_TRUE(settle_with([&] { client.turn(); }, [&] { return client.count(Op::kOpened) == 1; }));
  EXPECT_EQ(client.last(Op::kOpened)->code, Code::kUnavailable);
  EXPECT_NE(domain->last_refusal().what.find("did not answer"), std::string::npos);
}

}  // namespace
}  // namespace refract::fabric::tcp
