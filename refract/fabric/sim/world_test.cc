// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/sim/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "refract/fabric/sim/test_port.h"

namespace refract::sim {
namespace {

using fabric::Channel;
using fabric::Op;
using fabric::Request;
using runtime::Task;

// Two hosts with a port each, and a channel between them.
struct Pair {
  explicit Pair(const WorldOptions& options) : world(options) { open(); }
  void open() {
    channel = client_port->connect("server");
    EXPECT_TRUE(world.run_until([this] { return !client_port->open.empty() && !server_port->open.empty(); }));
  }

  World world;
  Host& client = world.add_host("client");
  Host& server = world.add_host("server");
  TestPort* client_port = &client.emplace<TestPort>(client);
  TestPort* server_port = &server.emplace<TestPort>(server);
  Channel* channel = nullptr;
};

Task<> count_up(TestPort* port, runtime::Shard* shard, Channel* channel, uint64_t words) {
  for (uint64_t word = 0; word < words;) {
    if (port->send(*channel, word)) ++word;
    co_await shard->sleep_for(word % 3 * 1'000);
  }
}

struct Trace {
  uint64_t hash;
  uint64_t steps;
  uint64_t now_ns;
  bool operator==(const Trace&) const = default;
};

Trace run_once(uint64_t seed) {
  Pair pair({.seed = seed});
  pair.world.spawn(pair.client, count_up(pair.client_port, &pair.client.shard(), pair.channel, 100));
  EXPECT_TRUE(pair.world.run_until_idle());
  EXPECT_EQ(pair.server_port->words.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(pair.server_port->words));
  return {pair.world.trace_hash(), pair.world.step_count(), pair.world.now_ns()};
}

TEST(World, the_same_seed_gives_the_same_run_event_by_event) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Trace first = run_once(seed);
    EXPECT_EQ(first, run_once(seed)) << "seed " << seed;
    hashes.insert(first.hash);
  }
  EXPECT_EQ(hashes.size(), 20u) << "another seed gives another run";
}

Task<> sleep_long(runtime::Shard* shard, uint64_t ns, uint64_t* woke_ns) {
  co_await shard->sleep_for(ns);
  *woke_ns = shard->now_ns();
}

TEST(World, a_day_passes_in_no_time) {
  World world({.seed = 1});
  Host& host = world.add_host("host");
  uint64_t woke_ns = 0;
  world.spawn(host, sleep_long(&host.shard(), 86'400 * kSecond_ns, &woke_ns));
  EXPECT_TRUE(world.run_until_idle());
  EXPECT_EQ(woke_ns, 86'400 * kSecond_ns);
  EXPECT_LT(world.step_count(), 100u);
}

TEST(World, run_for_ends_at_its_time) {
  World world({.seed = 1});
  Host& host = world.add_host("host");
  uint64_t woke_ns = 0;
  world.spawn(host, sleep_long(&host.shard(), 1'000'000, &woke_ns));
  EXPECT_TRUE(world.run_for(999'000));
  EXPECT_EQ(woke_ns, 0u);
  EXPECT_EQ(world.now_ns(), 999'000u);
  EXPECT_TRUE(world.run_for(2'000));
  EXPECT_EQ(woke_ns, 1'000'000u);
}

Task<> never_rest(runtime::Shard* shard) {
  while (true) co_await shard->sleep_for(0);
}

TEST(World, a_livelock_ends_with_its_seed_on_standard_error) {
  World world({.seed = 4242, .steps_max = 10'000});
  Host& host = world.add_host("host");
  world.spawn(host, never_rest(&host.shard()));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(world.run_until_idle());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("seed 4242"), std::string::npos);
}

Task<uint64_t> sleep_and_return(runtime::Shard* shard, uint64_t value) {
  co_await shard->sleep_for(5'000'000);
  co_return value;
}

TEST(World, a_blocking_call_moves_the_world) {
  World world({.seed = 1});
  Host& host = world.add_host("host");
  Host& other = world.add_host("other");
  uint64_t woke_ns = 0;
  world.spawn(other, sleep_long(&other.shard(), 1'000'000, &woke_ns));
  EXPECT_EQ(runtime::block_on(host.shard(), sleep_and_return(&host.shard(), 7)), 7u);
  EXPECT_EQ(world.now_ns(), 5'000'000u);
  EXPECT_EQ(woke_ns, 1'000'000u);
}

TEST(World, wall_clocks_are_stepped_one_by_one) {
  World world({.seed = 1});
  Host& one = world.add_host("one");
  Host& two = world.add_host("two");
  const uint64_t wall_ns = one.clock().wall_ns();
  EXPECT_EQ(two.clock().wall_ns(), wall_ns);
  one.step_wall_clock_ns(-5 * static_cast<int64_t>(kSecond_ns));
  EXPECT_EQ(one.clock().wall_ns(), wall_ns - 5 * kSecond_ns);
  EXPECT_EQ(two.clock().wall_ns(), wall_ns);
  EXPECT_EQ(one.clock().now_ns(), two.clock().now_ns());
}

TEST(World, channels_overtake_each_other_but_never_themselves) {
  bool overtaken = false;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Pair pair({.seed = seed});
    Channel* second = pair.client_port->connect("server");
    ASSERT_TRUE(pair.world.run_until([&] { return pair.server_port->open.size() == 2; }));
    ASSERT_TRUE(pair.world.run_until([&] { return pair.client_port->open.size() == 2; }));
    for (uint64_t word = 0; word < 10; ++word) {
      ASSERT_TRUE(pair.client_port->send(word % 2 == 0 ? *pair.channel : *second, word));
    }
    ASSERT_TRUE(pair.world.run_until_idle());
    const std::deque<uint64_t>& words = pair.server_port->words;
    ASSERT_EQ(words.size(), 10u);
    overtaken = overtaken || !std::ranges::is_sorted(words);
    for (const uint64_t parity : {0u, 1u}) {
      std::vector<uint64_t> own;
      std::ranges::copy_if(words, std::back_inserter(own), [&](uint64_t word) { return word % 2 == parity; });
      EXPECT_TRUE(std::ranges::is_sorted(own)) << "seed " << seed;
    }
  }
  EXPECT_TRUE(overtaken);
}

TEST(World, a_paused_host_does_nothing_until_it_is_resumed) {
  Pair pair({.seed = 3});
  pair.world.pause(pair.server);
  ASSERT_TRUE(pair.client_port->send(*pair.channel, 7));
  EXPECT_TRUE(pair.world.run_for(kSecond_ns));
  EXPECT_TRUE(pair.server_port->words.empty());
  pair.world.resume(pair.server);
  EXPECT_TRUE(pair.world.run_until_idle());
  EXPECT_EQ(pair.server_port->words.size(), 1u);
}

// A word of server memory that the client reads, writes and adds to.
struct Region {
  explicit Region(Host& host) {
    const auto key = host.domain().register_region({.region = 3,
                                                    .base = reinterpret_cast<std::byte*>(words.data()),
                                                    .bytes = sizeof(words),
                                                    .rights = {.read = true, .write = true, .atomic = true}});
    remote = {RemotePointer::at(3, 0), key ? *key : RemoteKey{}};
  }
  std::array<uint64_t, 512> words{};
  fabric::RemoteSpan remote;
};

// Not inside the coroutine: a frame is not aligned for a Request.
runtime::Pending add_one(TestPort* port, Channel* channel, fabric::RemoteSpan remote) {
  return port->begin(*channel, {.remote = remote, .operand = 1, .op = Op::kFetchAdd});
}

Task<> add_often(runtime::Shard* shard, TestPort* port, Channel* channel, fabric::RemoteSpan remote,
                 int count, std::vector<Code>* codes) {
  for (int i = 0; i < count; ++i) {
    runtime::Pending pending = add_one(port, channel, remote);
    const runtime::OpResult result = co_await pending;
    if (result.code == Code::kOverloaded) {
      co_await shard->sleep_for(100);
      --i;
      continue;
    }
    codes->push_back(result.code);
    if (result.code == Code::kUnavailable) co_return;
  }
}

TEST(World, a_paused_hosts_memory_stays_reachable_unless_its_cpu_is_needed) {
  for (const bool needs_target : {false, true}) {
    Pair pair({.seed = 5, .one_sided_needs_target = needs_target});
    Region region(pair.server);
    EXPECT_EQ(pair.channel->capabilities().read_bypasses_target_cpu, !needs_target);
    pair.world.pause(pair.server);
    std::vector<Code> codes;
    pair.world.spawn(pair.client, add_often(&pair.client.shard(), pair.client_port, pair.channel,
                                            region.remote, 10, &codes));
    EXPECT_TRUE(pair.world.run_for(100 * kMillisecond_ns));
    EXPECT_EQ(region.words[0], needs_target ? 0u : 10u);
    pair.world.resume(pair.server);
    EXPECT_TRUE(pair.world.run_until_idle());
    EXPECT_EQ(region.words[0], 10u);
    EXPECT_EQ(codes, std::vector<Code>(10, Code::kOk));
  }
}

TEST(World, a_write_and_a_read_can_be_torn_between_cache_lines_and_only_there) {
  bool torn = false;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    WorldOptions options = {.seed = seed};
    options.link.torn_chance = 1;
    Pair pair(options);
    Region region(pair.server);
    Channel* second = pair.client_port->connect("server");
    ASSERT_TRUE(pair.world.run_until([&] { return pair.client_port->open.size() == 2; }));
    std::array<uint64_t, 64> ones;
    ones.fill(1);
    std::array<uint64_t, 64> read{};
    auto* ones_bytes = reinterpret_cast<std::byte*>(ones.data());
    auto* read_bytes = reinterpret_cast<std::byte*>(read.data());
    const Request write = {.local = {ones_bytes, sizeof(ones)}, .remote = region.remote, .op = Op::kWrite};
    const Request load = {.local = {read_bytes, sizeof(read)}, .remote = region.remote, .op = Op::kRead};
    const runtime::Pending writing = pair.client_port->begin(*pair.channel, write);
    const runtime::Pending reading = pair.client_port->begin(*second, load);
    ASSERT_TRUE(pair.world.run_for(kMillisecond_ns));
    for (size_t line = 0; line < read.size(); line += 8) {
      for (size_t i = 1; i < 8; ++i) ASSERT_EQ(read[line + i], read[line]) << "seed " << seed;
      torn = torn || read[line] != read[0];
    }
    EXPECT_EQ(region.words[63], 1u);
  }
  EXPECT_TRUE(torn);
}

TEST(World, a_cut_that_is_healed_in_time_loses_nothing) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Pair pair({.seed = seed});
    Region region(pair.server);
    std::vector<Code> codes;
    pair.world.spawn(pair.client, add_often(&pair.client.shard(), pair.client_port, pair.channel,
                                            region.remote, 50, &codes));
    pair.world.spawn(pair.client, count_up(pair.client_port, &pair.client.shard(), pair.channel, 50));
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(pair.world.run_for(pair.world.prng().below(50'000)));
      pair.world.cut(pair.client, pair.server);
      ASSERT_TRUE(pair.world.run_for(pair.world.prng().below(1'000'000)));
      pair.world.heal(pair.client, pair.server);
    }
    ASSERT_TRUE(pair.world.run_until_idle());
    EXPECT_EQ(region.words[0], 50u);
    EXPECT_EQ(codes, std::vector<Code>(50, Code::kOk));
    EXPECT_EQ(pair.server_port->words.size(), 50u);
    EXPECT_TRUE(std::ranges::is_sorted(pair.server_port->words)) << "seed " << seed;
    EXPECT_TRUE(pair.client_port->closed.empty());
  }
}

TEST(World, a_cut_closes_both_ends_and_leaves_the_fate_of_requests_unknown) {
  uint64_t executed = 0;
  uint64_t lost = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Pair pair({.seed = seed});
    Region region(pair.server);
    std::vector<Code> codes;
    pair.world.spawn(pair.client, add_often(&pair.client.shard(), pair.client_port, pair.channel,
                                            region.remote, 100, &codes));
    ASSERT_TRUE(pair.world.run_for(100'000 + pair.world.prng().below(50'000)));
    pair.world.cut(pair.client, pair.server);
    ASSERT_TRUE(pair.world.run_until_idle());
    ASSERT_FALSE(codes.empty());
    EXPECT_EQ(codes.back(), Code::kUnavailable);
    EXPECT_EQ(pair.client_port->closed, std::vector<Code>{Code::kUnavailable});
    EXPECT_EQ(pair.server_port->closed, std::vector<Code>{Code::kUnavailable});
    EXPECT_LE(pair.world.now_ns(), 200'000 + 2 * pair.world.options().link.break_ns);
    // All but the last were acknowledged.
    ASSERT_GE(region.words[0], codes.size() - 1);
    (region.words[0] == codes.size() ? executed : lost) += 1;
  }
  EXPECT_GT(executed, 5u);
  EXPECT_GT(lost, 5u);
}

TEST(World, connecting_fails_where_nobody_listens_and_across_a_cut) {
  Pair pair({.seed = 1});
  static_cast<void>(pair.client_port->connect("unused"));
  ASSERT_TRUE(pair.world.run_until_idle());
  EXPECT_EQ(pair.client_port->failed_opens.size(), 1u);
  pair.server.listen(false);
  static_cast<void>(pair.client_port->connect("server"));
  ASSERT_TRUE(pair.world.run_until_idle());
  EXPECT_EQ(pair.client_port->failed_opens.size(), 2u);
  pair.server.listen(true);
  pair.world.cut(pair.client, pair.server);
  static_cast<void>(pair.client_port->connect("server"));
  ASSERT_TRUE(pair.world.run_until_idle());
  EXPECT_EQ(pair.client_port->failed_opens, std::vector<Code>(3, Code::kUnavailable));
  pair.world.heal(pair.client, pair.server);
  static_cast<void>(pair.client_port->connect("server"));
  ASSERT_TRUE(pair.world.run_until_idle());
  EXPECT_EQ(pair.client_port->open.size(), 1u);
}

Task<> stall_once(World* world, Host* host, uint64_t* until_ns) {
  world->stall(*host, 1'000);
  *until_ns = world->now_ns();
  co_return;
}

TEST(World, a_host_stopped_in_the_middle_of_a_task_goes_on_when_it_is_resumed) {
  World world({.seed = 1});
  Host& host = world.add_host("host");
  world.after(500, [&] { world.pause(host); });
  world.after(kSecond_ns, [&] { world.resume(host); });
  uint64_t until_ns = 0;
  world.spawn(host, stall_once(&world, &host, &until_ns));
  EXPECT_EQ(until_ns, kSecond_ns);
}

// What a host said after the moment at which its crash falls, even on a channel that it closed then, was
// never said.
TEST(World, a_crash_takes_back_messages_whose_stores_it_takes_back) {
  uint64_t heard = 0;
  uint64_t unheard = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    VisibleMemory memory({.bytes = 64, .seed = seed});
    Pair pair({.seed = seed});
    pair.server.attach(&memory);
    Writer writer(memory.owner(), &memory);
    bool served = false;
    pair.server_port->on_word = [&](Channel& channel, uint64_t word) {
      writer.publish(Offset{8}, word);
      EXPECT_TRUE(pair.server_port->send(channel, word));
      if (seed % 2 == 0) channel.close();
      served = true;
    };
    ASSERT_TRUE(pair.client_port->send(*pair.channel, 7));
    ASSERT_TRUE(pair.world.run_until([&] { return served; }));
    pair.world.crash(pair.server);
    EXPECT_FALSE(pair.server.alive());
    ASSERT_TRUE(pair.world.run_until_idle());
    const bool stored = writer.load(Offset{8}) == 7;
    if (pair.client_port->words.empty()) {
      ++unheard;
    } else {
      ++heard;
      EXPECT_TRUE(stored) << "seed " << seed;
    }
    EXPECT_TRUE(pair.client_port->open.empty()) << "the client is told of the crash, seed " << seed;
  }
  EXPECT_GT(heard, 5u);
  EXPECT_GT(unheard, 5u);
}

TEST(World, a_machine_that_loses_its_memory_comes_back_empty) {
  VisibleMemory memory({.bytes = 64});
  Pair pair({.seed = 1});
  pair.server.attach(&memory);
  Writer writer(memory.owner(), &memory);
  writer.publish(Offset{8}, 7);
  writer.fence();
  int restarts = 0;
  pair.server.on_restart([&](Host&) { ++restarts; });
  pair.world.crash(pair.server, CrashMemory::kLose);
  EXPECT_EQ(writer.load(Offset{8}), 0u);
  EXPECT_EQ(pair.server.crash_count(), 1u);
  pair.world.restart(pair.server);
  EXPECT_EQ(restarts, 1);
  ASSERT_TRUE(pair.world.run_until_idle());
  EXPECT_EQ(pair.client_port->closed, std::vector<Code>{Code::kUnavailable});
}

// Two hosts that are one process.
TEST(World, what_dies_with_a_host_dies_before_anything_of_it_ends) {
  World world({.seed = 1});
  Host& one = world.add_host("one");
  Host& other = world.add_host("other");
  struct Witness {
    explicit Witness(Host& watched, bool& saw) noexcept : other(watched), was_dead(saw) {}
    Witness(const Witness&) = delete;
    Witness& operator=(const Witness&) = delete;
    ~Witness() { was_dead = !other.alive(); }
    Host& other;
    bool& was_dead;
  };
  bool was_dead = false;
  one.emplace<Witness>(other, was_dead);
  one.on_crash([&](Host&) { world.crash(other); });
  other.on_crash([&](Host&) { world.crash(one); });
  world.crash(one);
  EXPECT_TRUE(was_dead);
  EXPECT_EQ(one.crash_count(), 1U);
  EXPECT_EQ(other.crash_count(), 1U);
  world.restart(one);
  world.restart(other);
  world.crash(other);
  EXPECT_FALSE(one.alive());
}

TEST(World, a_slow_host_answers_late_and_the_others_do_not_wait) {
  Pair pair({.seed = 9});
  pair.server.slow_down(50 * kMillisecond_ns);
  for (uint64_t word = 0; word < 10; ++word) {
    ASSERT_TRUE(pair.client_port->send(*pair.channel, word));
    ASSERT_TRUE(pair.world.run_for(kMillisecond_ns));
  }
  const size_t soon = pair.server_port->words.size();
  EXPECT_LT(soon, 10u);
  ASSERT_TRUE(pair.world.run_until_idle());
  EXPECT_EQ(pair.server_port->words.size(), 10u);
}

TEST(World, a_message_takes_as_long_as_its_bytes_need) {
  WorldOptions options = {.seed = 1};
  options.link = {.delay_ns = 1'000, .jitter_ns = 0, .tail_chance = 0, .bytes_per_us = 1, .torn_chance = 0};
  Pair pair(options);
  const uint64_t begin_ns = pair.world.now_ns();
  ASSERT_TRUE(pair.client_port->send(*pair.channel, 7));
  ASSERT_TRUE(pair.world.run_until([&] { return !pair.server_port->words.empty(); }));
  EXPECT_GE(pair.world.now_ns() - begin_ns, 1'000 + (64 + 8) * 1'000u);
}

// Its owner may still work on the batch in which the last word came.
TEST(World, nothing_follows_the_last_word_of_a_channel) {
  World world({.seed = 1});
  Host& client = world.add_host("client");
  Host& server = world.add_host("server");
  static_cast<void>(server.emplace<TestPort>(server));
  const Reported<Channel*> channel = client.domain().connect("server");
  ASSERT_TRUE(channel.has_value());
  ASSERT_TRUE(world.run_for(kMillisecond_ns));
  std::array<fabric::Completion, 8> completions;
  ASSERT_EQ(client.domain().poll(completions), 1u);
  (*channel)->close();
  ASSERT_EQ(client.domain().poll(completions), 1u);
  ASSERT_EQ(completions[0].op, Op::kClosed);
  uint64_t word = 0;
  const Request request = {
      .token = 7, .local = {reinterpret_cast<std::byte*>(&word), sizeof(word)}, .tail = {}, .op = Op::kSend};
  EXPECT_EQ((*channel)->post({&request, 1}), 1u);
  EXPECT_EQ(client.domain().poll(completions), 0u);
}

}  // namespace
}  // namespace refract::sim
