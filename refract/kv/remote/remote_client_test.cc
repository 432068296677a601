// SPDX-License-Identifier: Apache-2.0
// What reading from afar costs, and when it asks the owner: on the simulator, with round trips and READs
// counted by the decorator. That it keeps the contract is shown by conformance_stores_test.cc, and under
// writers, crashes and cuts by tests/campaign.
#include "refract/kv/remote/remote_client.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refract/fabric/conformance/allocation_count.h"
#include "refract/fabric/wrap/count.h"
#include "refract/fabric/wrap/wrapped_domain.h"
#include "refract/kv/testing/test_service.h"
#include "refract/kv/testing/test_sim_service.h"

namespace refract::kv {
namespace {

using fabric::Op;
using test::bytes_of;
using test::patterned;

// One client of a table on another host, and all that it posts.
class RemoteClientTest : public testing::Test {
 protected:
  explicit RemoteClientTest(const sim::WorldOptions& options = {.seed = 7,
                                                                .message_bytes_max = 16 * 1024,
                                                                .short_post_chance = 0},
                            bool hides_half = false)
      : world(options), node(world, 16, 1, hides_half) {
    const Reported<fabric::Channel*> channel = counted.connect("server");
    REFRACT_CHECK(channel.has_value());
    session = std::make_unique<rpc::Session>(**channel, host.shard());
    REFRACT_CHECK(world.run_until([&] { return session->state() == rpc::Session::State::kOpen; }));
    rpc = std::make_unique<RpcClient>(*session, host.shard());
    remote = std::make_unique<RemoteClient>(*rpc, host.shard(), RemoteClientOptions{});
  }

  struct Read {
    Code code = Code::kOk;
    Got got;
    std::string value;
  };
  [[nodiscard]] Read get(std::string_view key, uint64_t deadline_ns = 0) {
    Read read;
    StringSink sink(read.value);
    const Result<Got> got = wait(remote->get(bytes_of(key), sink, deadline_ns));
    read.code = got.code();
    if (got) read.got = *got;
    return read;
  }
  template <typename T>
  [[nodiscard]] T wait(runtime::Task<T> task) {
    return runtime::block_on(host.shard(), std::move(task));
  }
  uint64_t put(std::string_view key, std::string_view value, const RpcPutOptions& options = {}) {
    const Result<uint64_t> version = wait(rpc->put(bytes_of(key), bytes_of(value), options));
    EXPECT_TRUE(version.has_value());
    return version ? *version : 0;
  }
  // The regions, the root, and the directory's only word.
  void warm_up() {
    ASSERT_EQ(wait(remote->attach()), Code::kOk);
    (void)get("absent key");
    counted.reset_counts();
  }
  // What was posted since the last time.
  struct Cost {
    uint64_t round_trips;
    uint64_t doorbells;
    uint64_t reads;
    uint64_t messages;
    bool operator==(const Cost&) const = default;
  };
  [[nodiscard]] Cost cost() {
    const fabric::FabricCounts& counts = counted.counts();
    const Cost cost{.round_trips = counts.round_trips,
                    .doorbells = counts.doorbells,
                    .reads = counts.requests_of(Op::kRead),
                    .messages = counts.requests_of(Op::kSend)};
    counted.reset_counts();
    return cost;
  }
  [[nodiscard]] uint64_t called(WhyCalled why) const {
    return remote->counts().called[static_cast<size_t>(why)];
  }
  // Of several keys at once.
  struct Many {
    explicit Many(const std::vector<std::string>& keys) : values(keys.size()), items(keys.size()) {
      for (size_t i = 0; i < keys.size(); ++i) {
        sinks.emplace_back(values[i]);
        items[i].key = bytes_of(keys[i]);
        items[i].sink = &sinks[i];
      }
    }
    std::vector<std::string> values;
    std::deque<StringSink> sinks;
    std::vector<RpcClient::GetItem> items;
  };

 public:
  sim::World world;
  test::SimNode node;
  sim::Host& host = world.add_host("client");
  fabric::CountDomain counted{host.domain()};
  fabric::Dispatcher dispatcher{counted, host.shard()};
  std::unique_ptr<rpc::Session> session;
  std::unique_ptr<RpcClient> rpc;
  std::unique_ptr<RemoteClient> remote;
};

TEST_F(RemoteClientTest, a_cached_get_is_one_round_trip_of_three_reads_and_an_uncached_one_two_of_six) {
  const uint64_t version = put("key", "value");
  warm_up();
  const Read first = get("key");
  EXPECT_EQ(first.value, "value");
  EXPECT_EQ(first.got.version, version);
  EXPECT_EQ(cost(), (Cost{.round_trips = 2, .doorbells = 2, .reads = 6, .messages = 0}));
  EXPECT_EQ(get("key").value, "value");
  EXPECT_EQ(cost(), (Cost{.round_trips = 1, .doorbells = 1, .reads = 3, .messages = 0}));
  EXPECT_EQ(remote->locations().counts().hits, 1u);
  EXPECT_EQ(remote->locations().counts().stale, 0u);
  EXPECT_EQ(remote->counts().all_called(), 0u);
}

TEST_F(RemoteClientTest, a_miss_takes_one_round_trip) {
  warm_up();
  EXPECT_EQ(get("key").code, Code::kNotFound);
  EXPECT_EQ(cost(), (Cost{.round_trips = 1, .doorbells = 1, .reads = 2, .messages = 0}));
}

TEST_F(RemoteClientTest, an_entry_that_was_written_again_is_found_where_its_slot_says) {
  put("key", "value");
  warm_up();
  (void)get("key");
  const uint64_t version = put("key", patterned(3'000));
  (void)cost();
  const Read read = get("key");
  EXPECT_EQ(read.value, patterned(3'000));
  EXPECT_EQ(read.got.version, version);
  EXPECT_EQ(cost(), (Cost{.round_trips = 2, .doorbells = 2, .reads = 7, .messages = 0}));
  EXPECT_EQ(remote->locations().counts().stale, 1u);
  EXPECT_EQ(get("key").value, patterned(3'000));
  EXPECT_EQ(cost().round_trips, 1u);
  EXPECT_EQ(remote->counts().all_called(), 0u);
}

TEST_F(RemoteClientTest, an_erased_entry_is_a_miss_and_one_put_anew_is_found) {
  put("key", "value");
  warm_up();
  EXPECT_EQ(get("key").value, "value");
  ASSERT_TRUE(wait(rpc->erase(bytes_of("key"))).has_value());
  EXPECT_EQ(get("key").code, Code::kNotFound);
  put("key", "again");
  EXPECT_EQ(get("key").value, "again");
  EXPECT_EQ(remote->counts().all_called(), 0u);
}

TEST_F(RemoteClientTest, sixteen_cached_gets_are_one_doorbell_and_forty_eight_reads) {
  std::vector<std::string> keys(16);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = fmt::format("key {}", i);
  for (const std::string& key : keys) put(key, key + key);
  warm_up();
  for (const size_t round_trips : {2U, 1U}) {
    Many many(keys);
    wait(remote->multi_get(many.items));
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_TRUE(many.items[i].result.has_value());
      EXPECT_EQ(many.values[i], keys[i] + keys[i]);
    }
    const Cost now = cost();
    EXPECT_EQ(now.doorbells, round_trips);
    EXPECT_EQ(now.reads, round_trips == 2 ? 96 : 48);
    EXPECT_EQ(now.messages, 0u);
  }
}

TEST_F(RemoteClientTest, a_stopped_owner_still_answers) {
  put("key", "value");
  warm_up();
  world.pause(node.host);
  EXPECT_EQ(get("key").value, "value");
  EXPECT_EQ(get("key").value, "value");
  EXPECT_EQ(wait(remote->exists(bytes_of("key")))->value_bytes, 5u);
  EXPECT_EQ(get("absent").code, Code::kNotFound);
  world.resume(node.host);
  EXPECT_EQ(cost().messages, 0u);
}

TEST_F(RemoteClientTest, exists_reads_no_more_than_the_key) {
  const uint64_t version = put("key", patterned(10'000));
  warm_up();
  (void)wait(remote->exists(bytes_of("key")));
  counted.reset_counts();
  const Result<Got> got = wait(remote->exists(bytes_of("key")));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->version, version);
  EXPECT_EQ(got->value_bytes, 10'000u);
  EXPECT_LT(counted.counts().bytes_received, 100u);
  EXPECT_EQ(cost().round_trips, 1u);
}

TEST_F(RemoteClientTest, a_table_that_grew_and_chains_of_lines_are_read_without_the_owner) {
  warm_up();
  const auto key_of = [](int number) { return fmt::format("key {}", number); };
  for (int i = 0; i < 3'000; ++i) put(key_of(i), fmt::format("value {}", i));
  EXPECT_GT(node.process->table.stats().splits, 100u);
  for (int i = 0; i < 3'000; ++i) {
    ASSERT_EQ(get(key_of(i)).value, fmt::format("value {}", i));
    if (i % 3 == 0) {
      ASSERT_EQ(get(key_of(i + 3'000)).code, Code::kNotFound);
    }
  }
  EXPECT_EQ(remote->counts().all_called(), 0u);
}

// It was behind the first line when that was READ, and is in it when the line behind is.
TEST_F(RemoteClientTest, an_entry_that_comes_forward_between_two_round_trips_is_found) {
  Table& table = node.process->table;
  const test::LongBucket keys(table);
  warm_up();
  const std::string& key = keys.coming.front();
  std::string value;
  StringSink sink(value);
  runtime::Task<Result<Got>> getting = remote->get(bytes_of(key), sink);
  getting.start();
  ASSERT_TRUE(world.run_until([&] { return counted.counts().doorbells == 2; }));
  ASSERT_TRUE(table.put(bytes_of("one more"), bytes_of("v"), {}).has_value());
  ASSERT_EQ(table.stats().buckets, 18U);
  node.process->writer.fence();
  ASSERT_TRUE(world.run_until([&] { return getting.done(); }));
  EXPECT_EQ(value, "here");
  EXPECT_EQ(remote->counts().retries, 1U);
  EXPECT_EQ(remote->counts().all_called(), 0U);
}

TEST_F(RemoteClientTest, long_entries_and_empty_keys_are_left_to_calls) {
  put("long", patterned(100'000));
  put("short", "");
  warm_up();
  EXPECT_EQ(get("long").value, patterned(100'000));
  EXPECT_EQ(called(WhyCalled::kLarge), 1u);
  EXPECT_EQ(get("short").code, Code::kOk);
  EXPECT_EQ(get("").code, Code::kInvalidArgument);
  const std::vector<std::string> keys = {"short", "", "long", "absent", "long"};
  Many many(keys);
  wait(remote->multi_get(many.items));
  EXPECT_TRUE(many.items[0].result.has_value());
  EXPECT_EQ(many.items[1].result.code(), Code::kInvalidArgument);
  EXPECT_EQ(many.values[2], patterned(100'000));
  EXPECT_EQ(many.items[3].result.code(), Code::kNotFound);
  EXPECT_EQ(many.values[4], patterned(100'000));
  EXPECT_EQ(called(WhyCalled::kLarge), 3u);
}

TEST_F(RemoteClientTest, a_sink_without_room_is_told_so) {
  class NoRoom final : public ValueSink {
   public:
    [[nodiscard]] std::byte* room(uint64_t) override { return nullptr; }
  };
  put("key", "value");
  NoRoom sink;
  EXPECT_EQ(wait(remote->get(bytes_of("key"), sink)).code(), Code::kTooLarge);
  EXPECT_EQ(remote->counts().gets, 1u);
}

TEST_F(RemoteClientTest, the_owners_clock_is_asked_only_where_an_entry_is_about_to_expire) {
  put("later", "value", {.ttl_ns = 20 * kSecond_ns});
  put("soon", "value", {.ttl_ns = 200 * kMillisecond_ns});
  warm_up();
  const Read later = get("later");
  EXPECT_EQ(later.value, "value");
  EXPECT_GT(later.got.expires_wall_ns, node.host.clock().wall_ns());
  EXPECT_EQ(remote->counts().all_called(), 0u);
  EXPECT_EQ(get("soon").value, "value");
  EXPECT_EQ(called(WhyCalled::kExpires), 1u);
  ASSERT_TRUE(world.run_for(5 * kSecond_ns));
  EXPECT_EQ(get("soon").code, Code::kNotFound);
  ASSERT_TRUE(world.run_for(20 * kSecond_ns));
  EXPECT_EQ(get("later").code, Code::kNotFound);
  EXPECT_EQ(called(WhyCalled::kExpires), 1u);
}

TEST_F(RemoteClientTest, what_expires_while_the_answer_is_on_its_way_is_not_taken_for_absent) {
  remote = std::make_unique<RemoteClient>(*rpc, host.shard(), RemoteClientOptions{.clock_error_ns = 0});
  put("key", "value", {.ttl_ns = 100 * kMillisecond_ns});
  warm_up();
  EXPECT_EQ(get("key").value, "value");
  EXPECT_EQ(remote->counts().all_called(), 0u);
  // READ in time; the answer comes when the time is over.
  ASSERT_TRUE(world.run_for(99 * kMillisecond_ns));
  world.link(host, node.host).delay_ns = 3 * kMillisecond_ns;
  EXPECT_EQ(get("key").code, Code::kNotFound);
  EXPECT_EQ(called(WhyCalled::kExpires), 1u);
}

TEST_F(RemoteClientTest, a_get_that_is_cut_off_ends_with_its_deadline_and_disturbs_no_later_one) {
  put("key", "value");
  put("other", "another value");
  warm_up();
  EXPECT_EQ(get("key").value, "value");
  world.cut(host, node.host);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(get("key", host.shard().refresh_now() + 50'000).code, Code::kDeadlineExceeded);
  }
  world.heal(host, node.host);
  // While what was late still comes in.
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(get("other").value, "another value");
    EXPECT_EQ(get("key").value, "value");
  }
  EXPECT_EQ(session->state(), rpc::Session::State::kOpen);
}

TEST_F(RemoteClientTest, reads_that_nobody_waits_for_end_with_the_session_at_the_latest) {
  put("key", "value");
  warm_up();
  world.cut(host, node.host);
  for (int i = 0; i < 8; ++i) {
    EXPECT_NE(get("key", host.shard().refresh_now() + 1'000).code, Code::kOk);
  }
  EXPECT_NE(session->state(), rpc::Session::State::kOpen);
  world.heal(host, node.host);
  ASSERT_TRUE(world.run_until_idle());
  // Nothing lands in memory that is gone, as the address sanitizer would say.
  remote.reset();
}

TEST_F(RemoteClientTest, a_dropped_get_leaves_its_reads_a_place_to_land) {
  put("key", patterned(4'000));
  warm_up();
  {
    std::string value;
    StringSink sink(value);
    runtime::Task<Result<Got>> task = remote->get(bytes_of("key"), sink);
    task.start();
    (void)host.shard().poll_once();
  }
  put("other", "value");
  EXPECT_EQ(get("other").value, "value");
  EXPECT_EQ(get("key").value, patterned(4'000));
}

TEST_F(RemoteClientTest, a_closed_session_is_no_answer) {
  put("key", "value");
  warm_up();
  session->close();
  EXPECT_EQ(get("key").code, Code::kUnavailable);
  EXPECT_EQ(called(WhyCalled::kClosed), 1u);
}

TEST_F(RemoteClientTest, nothing_allocates_after_warm_up) {
  std::vector<std::string> keys(16);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = fmt::format("key {}", i);
  for (const std::string& key : keys) put(key, patterned(300));
  warm_up();
  Many many(keys);
  for (int i = 0; i < 3; ++i) wait(remote->multi_get(many.items));
  for (const std::string& key : keys) (void)get(key);
  // The simulator's own is not counted: it is at rest while the client looks.
  std::string value(300, ' ');
  StringSink sink(value);
  (void)wait(remote->get(bytes_of(keys[0]), sink));
  const uint64_t before = allocation_count();
  for (int i = 0; i < 100; ++i) {
    (void)wait(remote->get(bytes_of(keys[0]), sink));
    wait(remote->multi_get(many.items));
  }
  EXPECT_EQ(allocation_count(), before);
}

class GrowingRemoteClientTest : public RemoteClientTest {
 protected:
  GrowingRemoteClientTest()
      : RemoteClientTest({.seed = 8, .message_bytes_max = 16 * 1024, .short_post_chance = 0}, true) {}
};

TEST_F(GrowingRemoteClientTest, a_region_that_came_later_is_asked_for_when_an_entry_lies_there) {
  for (int i = 0; i < 160; ++i) put(fmt::format("key {}", i), patterned(50'000, 1));
  warm_up();
  const uint64_t asked = remote->counts().region_asks;
  const auto read_all = [this] {
    for (int i = 0; i < 160; ++i) {
      ASSERT_EQ(get(fmt::format("key {}", i)).value, patterned(50'000, 1)) << i;
    }
  };
  read_all();
  // Without success: the owner does not tell.
  EXPECT_GT(called(WhyCalled::kRefused), 10u);
  EXPECT_LT(called(WhyCalled::kRefused), 150u);
  EXPECT_EQ(remote->counts().region_asks, asked + called(WhyCalled::kRefused));
  node.process->tell_rest();
  const uint64_t refused = called(WhyCalled::kRefused);
  const uint64_t asked_in_vain = remote->counts().region_asks;
  read_all();
  EXPECT_EQ(called(WhyCalled::kRefused), refused);
  EXPECT_EQ(remote->counts().region_asks, asked_in_vain + 1);
}

class BusyOwnerTest : public RemoteClientTest {
 protected:
  BusyOwnerTest()
      : RemoteClientTest({.seed = 9, .message_bytes_max = 16 * 1024, .one_sided_needs_target = true}) {}
};

TEST_F(BusyOwnerTest, where_reads_need_the_owner_it_is_called_and_tells_no_key) {
  put("key", "value");
  EXPECT_EQ(wait(remote->attach()), Code::kUnsupported);
  EXPECT_EQ(get("key").value, "value");
  EXPECT_EQ(cost().reads, 0u);
  EXPECT_EQ(called(WhyCalled::kNotAttached), 1u);
  const wire::RegionsRequest request{.first = 0};
  const runtime::OpResult reply =
      session->call_and_wait({.method = wire::kRegionsMethod, .head = std::as_bytes(std::span(&request, 1))},
                             host.shard().refresh_now() + kSecond_ns);
  EXPECT_EQ(reply.code, Code::kUnsupported);
}

// Holds back all READs of a batch but the first until something has happened behind that. As a rule broken on
// purpose, the last goes with the first: an entry's stamp is READ again in front of its slot.
class Holding final : public fabric::WrappedDomain {
 public:
  explicit Holding(fabric::Domain& inner) noexcept : WrappedDomain(inner) {}
  bool stamp_first = false;
  std::function<void()> meanwhile;  // Once, for the next batch; null: nothing is held back.

 protected:
  [[nodiscard]] size_t do_post(fabric::WrappedChannel& channel,
                               std::span<const fabric::Request> requests) noexcept override {
    if (meanwhile == nullptr || requests.back().op != Op::kRead) {
      return WrappedDomain::do_post(channel, requests);
    }
    left_ = WrappedDomain::do_post(channel, requests.first(1));
    held_.assign(requests.begin() + 1, requests.end());
    if (stamp_first) {
      left_ += WrappedDomain::do_post(channel, requests.last(1));
      held_.pop_back();
    }
    EXPECT_EQ(left_, stamp_first ? 2U : 1U);
    channel_ = &channel;
    return requests.size();
  }
  [[nodiscard]] size_t take(std::span<fabric::Completion> completions) noexcept override {
    const size_t count = WrappedDomain::take(completions);
    if (meanwhile == nullptr || channel_ == nullptr) return count;
    left_ -= count;
    if (left_ > 0) return count;
    std::exchange(meanwhile, nullptr)();
    EXPECT_EQ(WrappedDomain::do_post(*channel_, held_), held_.size());
    return count;
  }

 private:
  std::vector<fabric::Request> held_;
  fabric::WrappedChannel* channel_ = nullptr;
  size_t left_ = 0;
};

// The entry's buffer, which it has left, is taken for it again between the READs of buffer and slot, 65,536
// stamps later.
TEST(RemoteClientStamps, sixteen_bits_that_come_back_deceive_who_does_not_confirm_behind_the_slot) {
  enum class Rule : uint8_t { kKept, kNoStamp, kStampFirst };
  for (const Rule rule : {Rule::kKept, Rule::kNoStamp, Rule::kStampFirst}) {
    sim::World world({.seed = 3, .message_bytes_max = 16 * 1024, .short_post_chance = 0});
    test::SimNode node(world);
    sim::Host& host = world.add_host("client");
    Holding domain(host.domain());
    const fabric::Dispatcher dispatcher(domain, host.shard());
    const Reported<fabric::Channel*> channel = domain.connect("server");
    ASSERT_TRUE(channel.has_value());
    rpc::Session session(**channel, host.shard());
    ASSERT_TRUE(world.run_until([&] { return session.state() == rpc::Session::State::kOpen; }));
    RpcClient rpc(session, host.shard());
    RemoteClient remote(rpc, host.shard(), {.confirms_stamps = rule != Rule::kNoStamp});
    std::string value;
    StringSink sink(value);
    const auto get = [&] {
      EXPECT_TRUE(runtime::block_on(host.shard(), remote.get(bytes_of("key"), sink)).has_value());
      return value;
    };
    Table& table = node.process->table;
    Heap& heap = node.process->heap;
    const Table::HashedKey key{.bytes = bytes_of("key"), .hash = table.hash(bytes_of("key"))};
    const Result<uint64_t> first = table.put(key, bytes_of("first"), {});
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(get(), "first");
    ASSERT_TRUE(table.put(key, bytes_of("other"), {}).has_value());
    node.host.memory()->fenced();
    domain.stamp_first = rule == Rule::kStampFirst;
    domain.meanwhile = [&] {
      heap.reclaim();
      while ((heap.next_stamp() + 1 - *first) % 65'536 != 0) {
      }
      EXPECT_TRUE(table.put(key, bytes_of("third"), {}).has_value());
      node.host.memory()->fenced();
    };
    EXPECT_EQ(get(), rule == Rule::kKept ? "third" : "first");
  }
}

}  // namespace
}  // namespace refract::kv
