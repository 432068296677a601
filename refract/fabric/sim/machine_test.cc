// SPDX-License-Identifier: Apache-2.0
// What hardware costs, to the nanosecond: the network is quiet here, so every moment can be worked out.
#include "refract/fabric/sim/machine.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "refract/fabric/sim/test_port.h"

namespace refract::sim {
namespace {

using fabric::Op;
using runtime::Task;

constexpr uint64_t kDelay_ns = 500;
// A byte takes a nanosecond.
MachineOptions port() {
  return {.bytes_per_us = 1'000,
          .message_header_bytes = 60,
          .one_sided_header_bytes = 80,
          .packet_bytes_max = 1024,
          .one_sided_request_bytes = 16};
}

WorldOptions quiet_world() {
  return {.seed = 1,
          .link = {.delay_ns = kDelay_ns,
                   .jitter_ns = 0,
                   .tail_chance = 0,
                   .tail_ns = 0,
                   .bytes_per_us = 0,
                   .torn_chance = 0},
          .short_post_chance = 0,
          .poll_ns = 0};
}

MachineOptions with_cores(uint32_t cores, Work work) {
  MachineOptions options = port();
  options.cores = cores;
  options.work = [work](const Arrival&) { return work; };
  return options;
}

// A server with a region, and as many clients, each with a channel to it.
struct Star {
  explicit Star(const MachineOptions& server_machine, size_t clients = 1) : world(quiet_world()) {
    server.install(server_machine);
    key = server.domain()
              .register_region({.region = 1,
                                .base = memory.data(),
                                .bytes = memory.size(),
                                .rights = {.read = true, .write = true, .atomic = true}})
              .value();
    for (size_t i = 0; i < clients; ++i) {
      Host& host = world.add_host("client" + std::to_string(i));
      host.install(port());
      hosts.push_back(&host);
      ports.push_back(&host.emplace<TestPort>(host));
      static_cast<void>(ports.back()->connect("server"));
    }
    server_port->on_word = [this](fabric::Channel&, uint64_t) { heard_ns.push_back(world.now_ns()); };
    EXPECT_TRUE(world.run_until([this] { return server_port->open.size() == ports.size(); }));
    EXPECT_TRUE(world.run_until_idle());
    start_ns = world.now_ns();
  }

  World world;
  alignas(64) std::array<std::byte, 4096> memory{};
  Host& server = world.add_host("server");
  TestPort* server_port = &server.emplace<TestPort>(server);
  RemoteKey key;
  std::vector<Host*> hosts;
  std::vector<TestPort*> ports;
  std::vector<uint64_t> heard_ns;  // When the server got each message.
  std::vector<uint64_t> done_ns;   // When each one-sided request was done.
  uint64_t start_ns = 0;
};

Task<> perform(Star* star, size_t client, Op op, size_t bytes) {
  std::array<std::byte, 4096> local{};
  TestPort& client_port = *star->ports[client];
  // Made by a function: a coroutine's frame is not aligned enough for a request.
  runtime::Pending pending = [&] {
    fabric::Request request;
    request.op = op;
    request.local = {local.data(), bytes};
    request.remote = {.address = RemotePointer::at(1, 0), .key = star->key};
    return client_port.begin(*client_port.open.front(), request);
  }();
  const runtime::OpResult result = co_await pending;
  EXPECT_EQ(result.code, Code::kOk);
  star->done_ns.push_back(star->world.now_ns() - star->start_ns);
}

TEST(Machine, a_read_takes_both_ways_its_request_and_the_bytes_of_its_answer) {
  Star star(port());
  star.world.spawn(*star.hosts[0], perform(&star, 0, Op::kRead, 512));
  ASSERT_TRUE(star.world.run_until_idle());
  ASSERT_EQ(star.done_ns.size(), 1u);
  EXPECT_EQ(star.done_ns[0], (80 + 16) + kDelay_ns + (80 + 512) + kDelay_ns);
  EXPECT_EQ(star.server.machine()->facts().sent_bytes, 80u + 512u);
  EXPECT_EQ(star.server.machine()->facts().received_bytes, 60u + 80u + 16u) << "with the opening before";
}

TEST(Machine, a_write_carries_its_bytes_on_the_way_there) {
  Star star(port());
  star.world.spawn(*star.hosts[0], perform(&star, 0, Op::kWrite, 2048));
  ASSERT_TRUE(star.world.run_until_idle());
  ASSERT_EQ(star.done_ns.size(), 1u);
  EXPECT_EQ(star.done_ns[0], (2 * 80 + 16 + 2048) + kDelay_ns + 80 + kDelay_ns) << "in two packets";
}

TEST(Machine, answers_leave_one_after_the_other_through_the_port) {
  Star star(port(), 8);
  for (size_t i = 0; i < 8; ++i) star.world.spawn(*star.hosts[i], perform(&star, i, Op::kRead, 920));
  ASSERT_TRUE(star.world.run_until_idle());
  ASSERT_EQ(star.done_ns.size(), 8u);
  // The requests of eight hosts come in one after the other, too, but are the shorter part.
  EXPECT_EQ(star.done_ns.front(), 96 + kDelay_ns + 1'000 + kDelay_ns);
  EXPECT_EQ(star.done_ns.back(), star.done_ns.front() + 7 * 1'000);
}

TEST(Machine, requests_from_many_hosts_come_in_one_after_the_other) {
  Star star(port(), 4);
  for (size_t i = 0; i < 4; ++i) star.world.spawn(*star.hosts[i], perform(&star, i, Op::kWrite, 904));
  ASSERT_TRUE(star.world.run_until_idle());
  ASSERT_EQ(star.done_ns.size(), 4u);
  EXPECT_EQ(star.done_ns.back(), star.done_ns.front() + 3 * 1'000);
}

TEST(Machine, a_network_card_begins_so_many_one_sided_requests_a_second) {
  MachineOptions slow_card = port();
  slow_card.one_sided_gap_ns = 5'000;
  Star star(slow_card, 3);
  for (size_t i = 0; i < 3; ++i) star.world.spawn(*star.hosts[i], perform(&star, i, Op::kRead, 8));
  ASSERT_TRUE(star.world.run_until_idle());
  ASSERT_EQ(star.done_ns.size(), 3u);
  EXPECT_EQ(star.done_ns[1], star.done_ns[0] + 5'000);
  EXPECT_EQ(star.done_ns[2], star.done_ns[0] + 10'000);
}

TEST(Machine, messages_wait_for_a_free_core_in_the_order_they_came) {
  Star star(with_cores(2, {.core_ns = 3'000}), 5);
  for (size_t i = 0; i < 5; ++i) {
    star.ports[i]->send(*star.ports[i]->open.front(), i);
    star.hosts[i]->domain().flush();
  }
  ASSERT_TRUE(star.world.run_until_idle());
  ASSERT_EQ(star.heard_ns.size(), 5u);
  // 68 bytes each: they come in 68 ns apart, and five of them keep two cores busy for three rounds.
  const uint64_t first = star.start_ns + 68 + kDelay_ns;
  const std::vector<uint64_t> expected = {first + 3'000, first + 68 + 3'000, first + 6'000,
                                          first + 68 + 6'000, first + 9'000};
  EXPECT_EQ(star.heard_ns, expected);
  EXPECT_EQ(star.server.machine()->facts().core_busy_ns, 15'000u);
}

TEST(Machine, parts_of_one_machine_share_its_port_and_card_but_not_their_cores) {
  MachineOptions options = with_cores(1, {.core_ns = 3'000});
  options.one_sided_gap_ns = 5'000;
  Machine first(options);
  Machine second(options, &first);
  const uint64_t sent_ns = first.transmit(0, 1'000);
  EXPECT_EQ(second.transmit(0, 1'000), 2 * sent_ns);
  const uint64_t received_ns = first.receive(10'000, 1'000);
  EXPECT_GT(second.receive(10'000, 1'000), received_ns);
  EXPECT_EQ(first.facts().sent_bytes, 2'000u);
  EXPECT_EQ(first.serve(0, {}), 3'000u);
  EXPECT_EQ(second.serve(0, {}), 3'000u);
  EXPECT_EQ(first.serve(20'000, {.op = Op::kRead, .message = {}}), 23'000u);
  EXPECT_EQ(second.serve(20'000, {.op = Op::kRead, .message = {}}), 28'000u);
}

TEST(Machine, a_delay_keeps_no_core_busy) {
  Star star(with_cores(1, {.core_ns = 100, .delay_ns = 10'000}), 3);
  for (size_t i = 0; i < 3; ++i) {
    star.ports[i]->send(*star.ports[i]->open.front(), i);
    star.hosts[i]->domain().flush();
  }
  ASSERT_TRUE(star.world.run_until_idle());
  ASSERT_EQ(star.heard_ns.size(), 3u);
  EXPECT_EQ(star.heard_ns.back(), star.heard_ns.front() + 2 * 100);
}

TEST(Machine, cores_serve_one_sided_requests_where_no_hardware_does) {
  Star star(with_cores(1, {.core_ns = 4'000}), 2);
  for (size_t i = 0; i < 2; ++i) star.world.spawn(*star.hosts[i], perform(&star, i, Op::kRead, 8));
  ASSERT_TRUE(star.world.run_until_idle());
  ASSERT_EQ(star.done_ns.size(), 2u);
  EXPECT_EQ(star.done_ns[0], 96 + kDelay_ns + 4'000 + 88 + kDelay_ns);
  EXPECT_EQ(star.done_ns[1], star.done_ns[0] + 4'000);
}

TEST(Machine, a_channels_messages_stay_in_order_and_its_end_comes_behind_them) {
  MachineOptions uneven = port();
  uneven.cores = 4;
  uneven.work = [](const Arrival& arrival) {
    uint64_t word = 0;
    std::memcpy(&word, arrival.message.data(), sizeof(word));
    return Work{.core_ns = word == 0 ? 50'000U : 10U};
  };
  Star star(uneven);
  star.server_port->on_word = nullptr;
  fabric::Channel& channel = *star.ports[0]->open.front();
  for (uint64_t word = 0; word < 4; ++word) star.ports[0]->send(channel, word);
  channel.close();
  ASSERT_TRUE(star.world.run_until_idle());
  EXPECT_EQ(star.server_port->words, (std::deque<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(star.server_port->closed.size(), 1u);
}

TEST(Machine, a_crash_takes_what_waits_for_a_core_along) {
  Star star(with_cores(1, {.core_ns = 1'000'000}), 3);
  for (size_t i = 0; i < 3; ++i) {
    star.ports[i]->send(*star.ports[i]->open.front(), i);
    star.hosts[i]->domain().flush();
  }
  ASSERT_TRUE(star.world.run_for(1'500'000));
  star.world.crash(star.server);
  ASSERT_TRUE(star.world.run_until_idle());
  EXPECT_EQ(star.heard_ns.size(), 1u);
  for (const TestPort* client : star.ports) EXPECT_EQ(client->closed.size(), 1u);
}

}  // namespace
}  // namespace refract::sim
