// SPDX-License-Identifier: Apache-2.0
// Gets that go together: by attempts that are begun among replies, and by multi_get.
#include "refract/kv/calls/call_batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "refract/fabric/conformance/allocation_count.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv::call_batcher_test {
namespace {

using runtime::Task;
using test::bytes_of;
using test::patterned;
using test::Served;
using test::ServedOptions;

constexpr size_t kMessageBytesMax = 8 * 1024;

// A client that asks for one key after the other.
struct Lane {
  std::vector<std::string> keys;
  std::vector<Result<Got>> results;
  std::vector<std::string> values;
  size_t settled = 0;  // By attempts alone.
  Lane* ends = nullptr;
  Task<> task = {};
};

Task<> run(RpcClient& client, Lane& lane) {
  for (const std::string& key : lane.keys) {
    std::string value;
    StringSink sink(value);
    RpcClient::GetAttempt attempt(client, bytes_of(key), sink);
    std::optional<Result<Got>> got;
    if (attempt.is_sent()) {
      got = co_await attempt;
      lane.settled += got ? 1 : 0;
      if (!got) got = co_await attempt.finish();
    } else {
      got = co_await client.get(bytes_of(key), sink);
    }
    lane.results.push_back(*got);
    lane.values.push_back(value);
    if (lane.ends != nullptr) lane.ends->task = {};
  }
}

class GatherTest : public testing::TestWithParam<uint32_t> {
 protected:
  [[nodiscard]] static ServedOptions options() {
    return {.link = {.depth = 64, .message_bytes_max = kMessageBytesMax, .one_sided_bytes_min = GetParam()}};
  }
  void put(std::string_view key, std::string_view value) {
    ASSERT_TRUE(peer.client->put_and_wait(bytes_of(key), bytes_of(value)).has_value());
  }
  [[nodiscard]] std::vector<std::unique_ptr<Lane>> lanes(size_t count, const std::vector<std::string>& keys) {
    std::vector<std::unique_ptr<Lane>> all;
    for (size_t i = 0; i < count; ++i) {
      all.push_back(std::make_unique<Lane>());
      all.back()->keys = keys;
    }
    return all;
  }
  void run_all(std::vector<std::unique_ptr<Lane>>& all) {
    for (const auto& lane : all) {
      lane->task = run(*peer.client, *lane);
      lane->task.start();
    }
    ASSERT_TRUE(served.run_until(
        [&] { return std::ranges::all_of(all, [](const auto& lane) { return lane->task.done(); }); }));
  }
  [[nodiscard]] uint64_t calls() const { return peer.session->counts().calls; }

  Served served{options()};
  Served::Peer peer = served.connect();
};

TEST_P(GatherTest, gets_begun_among_replies_share_calls_and_each_has_its_own_outcome) {
  put("a", "first");
  put("b", "");
  put("c", patterned(100));
  auto all = lanes(40, {"a", "none", "b", "c", "a"});
  const uint64_t before = calls();
  const uint64_t gets_before = served.service.stat().ops[static_cast<size_t>(wire::Method::kGet)];
  run_all(all);
  for (const auto& lane : all) {
    EXPECT_EQ(lane->settled, 5u);
    EXPECT_EQ(lane->results[1].code(), Code::kNotFound);
    EXPECT_EQ(lane->values, (std::vector<std::string>{"first", "", "", patterned(100), "first"}));
    EXPECT_EQ(lane->results[0]->version, lane->results[4]->version);
    EXPECT_GT(lane->results[3]->version, lane->results[2]->version);
    EXPECT_EQ(lane->results[3]->value_bytes, 100u);
  }
  // The first of each lane goes alone: nothing had come before.
  EXPECT_EQ(calls() - before, 40u + 4 * 3u);
  EXPECT_EQ(served.service.stat().ops[static_cast<size_t>(wire::Method::kGet)] - gets_before, 200u);
}

TEST_P(GatherTest, a_lone_lane_sends_what_it_always_sent) {
  put("a", "first");
  auto all = lanes(1, {"a", "a", "a"});
  const uint64_t before = calls();
  run_all(all);
  EXPECT_EQ(all[0]->settled, 3u);
  EXPECT_EQ(calls() - before, 3u);
}

TEST_P(GatherTest, where_messages_are_stores_a_call_takes_half_of_what_is_under_way) {
  ServedOptions cheap = options();
  cheap.link.messages_are_stores = true;
  Served near(cheap);
  Served::Peer client = near.connect();
  ASSERT_TRUE(client.client->put_and_wait(bytes_of("a"), bytes_of("first")).has_value());
  const auto calls_of = [&](size_t count) {
    const uint64_t before = client.session->counts().calls;
    auto all = lanes(count, {"a", "a", "a"});
    for (const auto& lane : all) {
      lane->task = run(*client.client, *lane);
      lane->task.start();
    }
    EXPECT_TRUE(near.run_until(
        [&] { return std::ranges::all_of(all, [](const auto& lane) { return lane->task.done(); }); }));
    for (const auto& lane : all) EXPECT_EQ(lane->settled, 3u);
    return client.session->counts().calls - before;
  };
  // Each lane's first goes alone; then two calls a round. Of three, a call would take one.
  EXPECT_EQ(calls_of(16), 16u + 2 * 2u);
  EXPECT_EQ(calls_of(4), 4u + 2 * 2u);
  EXPECT_EQ(calls_of(3), 3 * 3u);
  // A call takes no more than it can.
  EXPECT_EQ(calls_of(64), 64u + 2 * 4u);
}

TEST_P(GatherTest, values_and_keys_that_fit_no_shared_call_are_got_all_the_same) {
  const std::string large = patterned(3 * kMessageBytesMax);
  const std::string half = patterned(kMessageBytesMax / 2);
  const std::string long_key(3'000, 'k');
  put("small", "value");
  put("large", large);
  put("half", half);
  put(long_key, "long");
  auto all = lanes(20, {"small", "large", "small", "half", long_key, "small"});
  run_all(all);
  for (const auto& lane : all) {
    EXPECT_EQ(lane->values[0], "value");
    EXPECT_TRUE(lane->values[1] == large);
    EXPECT_EQ(lane->values[2], "value");
    EXPECT_TRUE(lane->values[3] == half);
    EXPECT_EQ(lane->values[4], "long");
    EXPECT_EQ(lane->values[5], "value");
  }
  served.settle();
  EXPECT_EQ(served.service.stat().views, 0u);
}

TEST_P(GatherTest, where_values_are_large_gets_go_alone_and_together_again_later) {
  put("half", patterned(kMessageBytesMax / 2));
  auto large = lanes(16, std::vector<std::string>(10, "half"));
  uint64_t before = calls();
  run_all(large);
  // Those of the first shared call went twice.
  EXPECT_LE(calls() - before, 16u * 11 + 1);
  put("small", "value");
  auto small = lanes(16, std::vector<std::string>(100, "small"));
  before = calls();
  run_all(small);
  EXPECT_LT(calls() - before, 16u * 100 / 4);
}

TEST_P(GatherTest, whoever_ends_among_others_leaves_them_their_answers) {
  put("a", "first");
  auto all = lanes(16, {"a", "a", "a"});
  // The first one's second answer ends the second, whose answer stands behind it in the same reply.
  all[0]->ends = all[1].get();
  for (const auto& lane : all) {
    lane->task = run(*peer.client, *lane);
    lane->task.start();
  }
  ASSERT_TRUE(served.run_until([&] {
    return std::ranges::all_of(all,
                               [](const auto& lane) { return !lane->task.valid() || lane->task.done(); });
  }));
  EXPECT_FALSE(all[1]->task.valid());
  for (size_t i = 2; i < all.size(); ++i) EXPECT_EQ(all[i]->settled, 3u);
}

TEST_P(GatherTest, one_that_is_dropped_before_its_call_leaves_is_not_asked_for) {
  put("a", "first");
  std::vector<std::unique_ptr<Lane>> all;
  for (size_t i = 0; i < 8; ++i) {
    const std::string key = "key " + std::to_string(i);
    put(key, key);
    all.push_back(std::make_unique<Lane>());
    all.back()->keys = {"a", key};
  }
  // The first and the fifth have begun their second get when they are ended, and nothing of it has left.
  all[1]->ends = all[0].get();
  all[7]->ends = all[4].get();
  const uint64_t before = served.service.stat().ops[static_cast<size_t>(wire::Method::kGet)];
  for (const auto& lane : all) {
    lane->task = run(*peer.client, *lane);
    lane->task.start();
  }
  ASSERT_TRUE(served.run_until([&] {
    return std::ranges::all_of(all,
                               [](const auto& lane) { return !lane->task.valid() || lane->task.done(); });
  }));
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || i == 4) {
      EXPECT_FALSE(all[i]->task.valid());
    } else {
      EXPECT_EQ(all[i]->values.back(), all[i]->keys.back());
    }
  }
  EXPECT_EQ(served.service.stat().ops[static_cast<size_t>(wire::Method::kGet)] - before, 8u + 6);
}

TEST_P(GatherTest, a_call_whose_gets_have_all_been_dropped_gives_its_credit_back_with_its_late_reply) {
  put("a", "first");
  auto all = lanes(8, {"a", "a"});
  for (const auto& lane : all) {
    lane->task = run(*peer.client, *lane);
    lane->task.start();
  }
  ASSERT_TRUE(served.run_until([&] { return all.back()->settled == 1; }));
  const uint64_t late = peer.session->counts().late_replies;
  for (const auto& lane : all) lane->task = {};
  served.settle();
  EXPECT_EQ(peer.session->counts().late_replies, late + 1);
  auto others = lanes(8, {"a", "a"});
  run_all(others);
  for (const auto& lane : others) EXPECT_EQ(lane->settled, 2u);
}

TEST_P(GatherTest, a_connection_that_is_lost_leaves_each_to_its_finish) {
  put("a", "first");
  auto all = lanes(8, {"a", "a"});
  for (const auto& lane : all) {
    lane->task = run(*peer.client, *lane);
    lane->task.start();
  }
  ASSERT_TRUE(served.run_until([&] { return all.back()->settled == 1; }));
  peer.session->close();
  ASSERT_TRUE(served.run_until(
      [&] { return std::ranges::all_of(all, [](const auto& lane) { return lane->task.done(); }); }));
  for (const auto& lane : all) EXPECT_EQ(lane->results[1].code(), Code::kUnavailable);
}

TEST_P(GatherTest, answers_that_come_too_late_are_none) {
  put("a", "first");
  Served::Peer other = served.connect({.timeout_ns = kMillisecond_ns});
  auto all = lanes(8, {"a", "a"});
  for (const auto& lane : all) {
    lane->task = run(*other.client, *lane);
    lane->task.start();
  }
  ASSERT_TRUE(served.run_until([&] { return all.back()->settled == 1; }));
  served.space.clock().set_now_ns(served.space.clock().now_ns() + kSecond_ns);
  (void)served.shard.poll_once();
  for (const auto& lane : all) {
    ASSERT_TRUE(lane->task.done());
    const Code code = lane->results[1].code();
    EXPECT_TRUE(code == Code::kDeadlineExceeded || code == Code::kOk);
  }
  served.settle();
}

TEST_P(GatherTest, more_than_there_are_credits_for_all_have_their_turn) {
  put("a", "first");
  auto all = lanes(300, {"a", "a", "a", "a"});
  run_all(all);
  for (const auto& lane : all) {
    for (const std::string& value : lane->values) EXPECT_EQ(value, "first");
  }
}

TEST_P(GatherTest, an_owner_that_does_not_know_such_calls_is_asked_one_by_one) {
  ServedOptions old = options();
  old.methods_end = static_cast<uint16_t>(wire::Method::kGetMany);
  Served older(old);
  Served::Peer client = older.connect();
  ASSERT_TRUE(client.client->put_and_wait(bytes_of("a"), bytes_of("first")).has_value());
  auto all = lanes(16, {"a", "none", "a", "a"});
  for (const auto& lane : all) {
    lane->task = run(*client.client, *lane);
    lane->task.start();
  }
  ASSERT_TRUE(older.run_until(
      [&] { return std::ranges::all_of(all, [](const auto& lane) { return lane->task.done(); }); }));
  for (const auto& lane : all)
    EXPECT_EQ(lane->values, (std::vector<std::string>{"first", "", "first", "first"}));

  // It has been noticed, and is not tried again.
  std::vector<std::string> values(20);
  std::vector<StringSink> sinks(values.begin(), values.end());
  std::vector<RpcClient::GetItem> items(20);
  for (size_t i = 0; i < items.size(); ++i) items[i] = {.key = bytes_of("a"), .sink = &sinks[i]};
  const uint64_t before = client.session->counts().calls;
  runtime::block_on(older.shard, client.client->multi_get(items));
  EXPECT_EQ(client.session->counts().calls - before, 20u);
  for (const std::string& value : values) EXPECT_EQ(value, "first");
}

TEST_P(GatherTest, many_at_once_are_few_calls) {
  const std::string large = patterned(2 * kMessageBytesMax);
  const std::string long_key(3'000, 'k');
  put("small", "value");
  put("large", large);
  put(long_key, "long");
  std::vector<std::string> keys(100, "small");
  keys[17] = "large";
  keys[40] = "none";
  keys[41] = "";
  keys[70] = long_key;
  std::vector<std::string> values(keys.size());
  std::vector<StringSink> sinks(values.begin(), values.end());
  std::vector<RpcClient::GetItem> items(keys.size());
  for (size_t i = 0; i < items.size(); ++i) items[i] = {.key = bytes_of(keys[i]), .sink = &sinks[i]};
  const uint64_t before = calls();
  served.wait(peer.client->multi_get(items));
  for (size_t i = 0; i < items.size(); ++i) {
    if (keys[i] == "none") {
      EXPECT_EQ(items[i].result.code(), Code::kNotFound);
    } else if (keys[i].empty()) {
      EXPECT_EQ(items[i].result.code(), Code::kInvalidArgument);
    } else {
      ASSERT_TRUE(items[i].result.has_value()) << i;
      EXPECT_TRUE(values[i] == (i == 17 ? large : i == 70 ? "long" : "value")) << i;
    }
  }
  // Seven calls of many, one for the long key, and those of the large value.
  EXPECT_LE(calls() - before, 7u + 1 + 5);
}

TEST_P(GatherTest, a_key_of_another_shard_is_refused_alone) {
  ServedOptions one_of_two = options();
  one_of_two.shard_count = 2;
  Served half(one_of_two);
  Served::Peer client = half.connect();
  std::vector<std::string> keys;
  for (int i = 0; i < 40; ++i) keys.push_back("key " + std::to_string(i));
  size_t ours = 0;
  std::vector<bool> is_ours;
  for (const std::string& key : keys) {
    const auto put = client.client->put_and_wait(bytes_of(key), bytes_of(key));
    is_ours.push_back(put.has_value());
    ours += put.has_value() ? 1 : 0;
  }
  ASSERT_GT(ours, 0u);
  ASSERT_LT(ours, keys.size());
  std::vector<std::string> values(keys.size());
  std::vector<StringSink> sinks(values.begin(), values.end());
  std::vector<RpcClient::GetItem> items(keys.size());
  for (size_t i = 0; i < items.size(); ++i) items[i] = {.key = bytes_of(keys[i]), .sink = &sinks[i]};
  half.wait(client.client->multi_get(items));
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(items[i].result.code(), is_ours[i] ? Code::kOk : Code::kWrongShard);
    EXPECT_EQ(values[i], is_ours[i] ? keys[i] : "");
  }
}

// A client that puts and gets in turns: each its own key, the round's number for a value.
struct Writer {
  std::string key;
  size_t value_bytes = 0;
  size_t rounds = 10;
  uint64_t ttl_ns = 0;
  std::vector<uint64_t> versions = {};
  std::vector<Code> codes = {};
  size_t settled = 0;
  size_t wrong = 0;
};

Task<> write_and_read(RpcClient& client, Writer& writer) {
  for (size_t round = 0; round < writer.rounds; ++round) {
    std::string value = std::to_string(round);
    value.resize(std::max(value.size(), writer.value_bytes), 'v');
    std::optional<Result<uint64_t>> version;
    {
      const RpcClient::PutAttempt::Write write{
          .key = bytes_of(writer.key), .value = bytes_of(value), .ttl_ns = writer.ttl_ns};
      RpcClient::PutAttempt attempt(client, write);
      if (attempt.is_sent()) version = co_await attempt;
      writer.settled += version ? 1 : 0;
    }
    if (!version) version = co_await client.put(bytes_of(writer.key), bytes_of(value));
    writer.codes.push_back(version->code());
    if (!*version) continue;
    writer.versions.push_back(**version);
    std::string got;
    StringSink sink(got);
    const Result<Got> read = co_await client.get(bytes_of(writer.key), sink);
    writer.wrong += read && read->version == **version && got == value ? 0 : 1;
  }
}

class GatherPutsTest : public GatherTest {
 protected:
  [[nodiscard]] static std::vector<Writer> writers(size_t count) {
    std::vector<Writer> all(count);
    for (size_t i = 0; i < count; ++i) all[i].key = "key " + std::to_string(i);
    return all;
  }
  static void run_writers(Served& node, Served::Peer& client, std::vector<Writer>& all) {
    for (Writer& writer : all) node.shard.spawn(write_and_read(*client.client, writer));
    ASSERT_TRUE(node.run_until([&] { return node.shard.gate().count() == 0; }));
  }
  void run_writers(std::vector<Writer>& all) { run_writers(served, peer, all); }
};

TEST_P(GatherPutsTest, puts_begun_among_replies_share_calls_and_each_has_its_version) {
  auto all = writers(40);
  const uint64_t before = calls();
  run_writers(all);
  for (const Writer& writer : all) {
    EXPECT_EQ(writer.settled, 10u);
    EXPECT_EQ(writer.wrong, 0u);
    EXPECT_TRUE(std::ranges::is_sorted(writer.versions));
  }
  // The first of each, then its gets, go alone.
  EXPECT_LE(calls() - before, 40u + 400 + 9 * 4);
  EXPECT_EQ(served.service.stat().ops[static_cast<size_t>(wire::Method::kPut)], 400u);
}

TEST_P(GatherPutsTest, values_of_all_lengths_arrive_whole) {
  auto all = writers(30);
  constexpr size_t kLengths[] = {0, 1, 1'000, 2'048, 2'049, 5'000, 3 * kMessageBytesMax};
  for (size_t i = 0; i < all.size(); ++i) all[i].value_bytes = kLengths[i % std::size(kLengths)];
  run_writers(all);
  for (const Writer& writer : all) {
    EXPECT_EQ(writer.versions.size(), 10u);
    EXPECT_EQ(writer.wrong, 0u);
  }
}

TEST_P(GatherPutsTest, each_has_its_own_time_to_live) {
  auto all = writers(20);
  for (size_t i = 0; i < all.size(); i += 2) all[i].ttl_ns = 10 * kSecond_ns;
  run_writers(all);
  EXPECT_EQ(served.service.stat().expiring_entries, 10u);
}

TEST_P(GatherPutsTest, an_owner_that_does_not_know_such_calls_executes_each_once) {
  ServedOptions old = options();
  old.methods_end = static_cast<uint16_t>(wire::Method::kGetMany);
  Served older(old);
  Served::Peer client = older.connect();
  auto all = writers(20);
  run_writers(older, client, all);
  for (const Writer& writer : all) EXPECT_EQ(writer.wrong, 0u);
  EXPECT_EQ(older.service.stat().ops[static_cast<size_t>(wire::Method::kPut)], 200u);
}

TEST_P(GatherPutsTest, without_room_each_is_told_and_what_was_there_stays) {
  ServedOptions small = options();
  small.chunks = small.chunks_max = 8;
  Served full(small);
  Served::Peer client = full.connect();
  std::vector<Code> codes;
  // Each writer's keys are new ones, until nothing fits.
  const auto fill = [](RpcClient& rpc, size_t lane, std::vector<Code>& told) -> Task<> {
    const std::string value = patterned(2'000);
    for (size_t i = 0; i < 2'000; ++i) {
      const std::string key = std::to_string(lane) + "/" + std::to_string(i);
      std::optional<Result<uint64_t>> version;
      {
        RpcClient::PutAttempt attempt(rpc, {.key = bytes_of(key), .value = bytes_of(value)});
        if (attempt.is_sent()) version = co_await attempt;
      }
      if (!version) version = co_await rpc.put(bytes_of(key), bytes_of(value));
      told.push_back(version->code());
    }
  };
  for (size_t lane = 0; lane < 20; ++lane) full.shard.spawn(fill(*client.client, lane, codes));
  ASSERT_TRUE(full.run_until([&] { return full.shard.gate().count() == 0; }));
  size_t kept = 0;
  for (const Code code : codes) {
    ASSERT_TRUE(code == Code::kOk || code == Code::kNoSpace) << static_cast<int>(code);
    kept += code == Code::kOk ? 1 : 0;
  }
  EXPECT_LT(kept, codes.size());
  EXPECT_EQ(full.service.stat().entries, kept);
  EXPECT_TRUE(full.is_sound());
}

TEST_P(GatherPutsTest, a_lost_connection_leaves_in_doubt_what_was_sent) {
  auto all = writers(8);
  for (Writer& writer : all) writer.rounds = 2;
  const auto put_twice = [](RpcClient& client, Writer& writer) -> Task<> {
    for (int round = 0; round < 2; ++round) {
      RpcClient::PutAttempt attempt(client, {.key = bytes_of(writer.key), .value = bytes_of("value")});
      EXPECT_TRUE(attempt.is_sent());
      const std::optional<Result<uint64_t>> version = co_await attempt;
      EXPECT_TRUE(version.has_value());
      if (version) writer.codes.push_back(version->code());
    }
  };
  for (Writer& writer : all) served.shard.spawn(put_twice(*peer.client, writer));
  ASSERT_TRUE(served.run_until([&] { return all.back().codes.size() == 1; }));
  peer.session->close();
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  for (const Writer& writer : all) {
    EXPECT_EQ(writer.codes, (std::vector<Code>{Code::kOk, Code::kIndeterminate}));
  }
}

TEST_P(GatherPutsTest, many_at_once_are_few_calls_and_conditions_hold) {
  const std::string large = patterned(2 * kMessageBytesMax);
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back("key " + std::to_string(i));
  put(keys[50], "there");
  std::vector<RpcClient::PutItem> items(keys.size());
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].key = bytes_of(keys[i]);
    items[i].value = bytes_of("value");
  }
  items[17].value = bytes_of(large);
  items[40].key = {};
  items[50].options.if_absent = true;
  items[60].options.attempt.request = {.client = 7, .sequence = 1};
  const uint64_t before = calls();
  served.wait(peer.client->multi_put(items));
  for (size_t i = 0; i < items.size(); ++i) {
    const Code expected = i == 40 ? Code::kInvalidArgument : i == 50 ? Code::kExists : Code::kOk;
    EXPECT_EQ(items[i].result.code(), expected) << i;
  }
  // Seven calls of many, two of one, and those of the large value.
  EXPECT_LE(calls() - before, 7u + 2 + 6);
  std::string value;
  StringSink sink(value);
  ASSERT_TRUE(peer.client->get_and_wait(bytes_of(keys[17]), sink).has_value());
  EXPECT_TRUE(value == large);
  ASSERT_TRUE(peer.client->get_and_wait(bytes_of(keys[99]), sink).has_value());
  EXPECT_EQ(value, "value");
}

INSTANTIATE_TEST_SUITE_P(Links, GatherPutsTest, testing::Values(0U, 4U * 1024), [](const auto& parameter) {
  return parameter.param > 0 ? "with_windows" : "without_windows";
});

Task<> ask(RpcClient& client, std::string_view key, std::string& value, size_t rounds) {
  StringSink sink(value);
  for (size_t i = 0; i < rounds; ++i) {
    RpcClient::GetAttempt attempt(client, bytes_of(key), sink);
    EXPECT_TRUE(attempt.is_sent());
    (void)co_await attempt;
  }
}

TEST_P(GatherTest, nothing_is_allocated_once_warm) {
  put("a", "first");
  std::vector<std::string> values(32, std::string(16, ' '));
  const auto once = [&](size_t rounds) {
    for (std::string& value : values) served.shard.spawn(ask(*peer.client, "a", value, rounds));
    ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  };
  once(300);
  const uint64_t allocations = allocation_count();
  once(300);
  EXPECT_EQ(allocation_count(), allocations);
}

INSTANTIATE_TEST_SUITE_P(Links, GatherTest, testing::Values(0U, 4U * 1024), [](const auto& parameter) {
  return parameter.param > 0 ? "with_windows" : "without_windows";
});

}  // namespace
}  // namespace refract::kv::call_batcher_test
