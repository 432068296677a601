// SPDX-License-Identifier: Apache-2.0
// What the client does beyond the contract's claims (conformance.h): against a real table behind a real
// server, over messages of two sizes and windows, in virtual time.
#include "refract/kv/calls/rpc_client.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/conformance/allocation_count.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::patterned;
using test::Served;
using test::ServedOptions;

class RpcClientTest : public testing::TestWithParam<fabric::LoopbackOptions> {
 protected:
  [[nodiscard]] static size_t body_bytes_max() { return GetParam().message_bytes_max - 16; }

  [[nodiscard]] Result<uint64_t> put(std::string_view key, std::string_view value,
                                     const RpcPutOptions& options = {}) {
    return served.wait(peer.client->put(bytes_of(key), bytes_of(value), options));
  }
  struct Read {
    Code code = Code::kOk;
    Got got;
    std::string value;
  };
  [[nodiscard]] Read get(std::string_view key) {
    Read read;
    StringSink sink(read.value);
    const Result<Got> got = served.wait(peer.client->get(bytes_of(key), sink));
    read.code = got.code();
    if (got) read.got = *got;
    return read;
  }
  // The same by the blocking forms.
  [[nodiscard]] Read get_and_wait(std::string_view key) {
    Read read;
    StringSink sink(read.value);
    const Result<Got> got = peer.client->get_and_wait(bytes_of(key), sink);
    read.code = got.code();
    if (got) read.got = *got;
    return read;
  }

  Served served{ServedOptions{.link = GetParam()}};
  Served::Peer peer = served.connect();
};

TEST_P(RpcClientTest, lengths_beyond_the_contract_are_refused_without_a_message) {
  const uint64_t calls = peer.session->counts().calls;
  const std::string long_key(65'536, 'k');
  EXPECT_EQ(put("", "value").code(), Code::kInvalidArgument);
  EXPECT_EQ(put(long_key, "value").code(), Code::kTooLarge);
  EXPECT_EQ(get("").code, Code::kInvalidArgument);
  EXPECT_EQ(get(long_key).code, Code::kTooLarge);
  EXPECT_EQ(get_and_wait(long_key).code, Code::kTooLarge);
  EXPECT_EQ(served.wait(peer.client->erase(bytes_of(""))).code(), Code::kInvalidArgument);
  EXPECT_EQ(served.wait(peer.client->exists(bytes_of(long_key))).code(), Code::kTooLarge);
  // Never looked at: only its length is.
  const std::span<const std::byte> huge{bytes_of("x").data(), kValueBytesMax + 1};
  EXPECT_EQ(peer.client->put_and_wait(bytes_of("k"), huge).code(), Code::kTooLarge);
  EXPECT_EQ(peer.session->counts().calls, calls);
}

TEST_P(RpcClientTest, stat_counts_what_was_served_and_ping_brings_the_wall_clock) {
  ASSERT_TRUE(put("a", "1").has_value());
  ASSERT_TRUE(put("b", "22", {.ttl_ns = kSecond_ns}).has_value());
  EXPECT_EQ(get("a").code, Code::kOk);
  EXPECT_EQ(get("c").code, Code::kNotFound);
  const Result<wire::PingReply> ping = served.wait(peer.client->ping(77));
  ASSERT_TRUE(ping.has_value());
  EXPECT_EQ(ping->wall_ns, served.space.clock().wall_ns());
  const Served::Peer second = served.connect();
  const Result<wire::StatReply> stat = served.wait(second.client->stat());
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->connections, 2u);
  EXPECT_EQ(stat->entries, 2u);
  EXPECT_EQ(stat->expiring_entries, 1u);
  EXPECT_EQ(stat->ops[static_cast<size_t>(wire::Method::kPut)], 2u);
  EXPECT_EQ(stat->ops[static_cast<size_t>(wire::Method::kGet)], 2u);
  EXPECT_EQ(stat->ops[static_cast<size_t>(wire::Method::kPing)], 1u);
  EXPECT_EQ(stat->bytes_total, served.space.heap().stats().bytes_total);
  EXPECT_EQ(stat->buckets, served.space.table().stats().buckets);
}

// A write whose channel ends before the answer comes may have happened; a read has no such doubt.
TEST_P(RpcClientTest, a_closed_channel_leaves_reads_unavailable_and_writes_indeterminate) {
  Result<uint64_t> written = 0;
  Result<Got> got = Got{};
  Result<uint64_t> large = 0;
  std::string value;
  const std::string long_value = patterned(10 * body_bytes_max());
  StringSink sink(value);
  RpcClient& client = *peer.client;
  const auto write = [](RpcClient& by, std::string_view key, std::string_view bytes,
                        Result<uint64_t>& result) -> runtime::Task<> {
    result = co_await by.put(bytes_of(key), bytes_of(bytes));
  };
  const auto read = [](RpcClient& by, ValueSink& to, Result<Got>& result) -> runtime::Task<> {
    result = co_await by.get(bytes_of("key"), to);
  };
  served.shard.spawn(write(client, "key", "value", written));
  served.shard.spawn(read(client, sink, got));
  served.shard.spawn(write(client, "large", long_value, large));
  peer.session->close();
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  EXPECT_EQ(written.code(), Code::kIndeterminate);
  EXPECT_EQ(got.code(), Code::kUnavailable);
  EXPECT_EQ(large.code(), Code::kUnavailable) << "it was never committed";
  EXPECT_EQ(put("later", "value").code(), Code::kUnavailable) << "it was never sent";
  EXPECT_EQ(peer.client->put_and_wait(bytes_of("later"), bytes_of("value")).code(), Code::kUnavailable);
}

TEST_P(RpcClientTest, a_client_that_vanishes_in_the_middle_of_large_operations_leaves_nothing_behind) {
  const std::string large = patterned(2 * kMiB);
  ASSERT_TRUE(put("large", large).has_value());
  const Heap::Stats before = served.space.heap().stats();
  int ended_early = 0;
  for (int turns = 1; turns < 40; ++turns) {
    Served::Peer other = served.connect();
    std::string value;
    StringSink sink(value);
    auto writing = other.client->put(bytes_of("other"), bytes_of(large));
    auto reading = other.client->get(bytes_of("large"), sink);
    writing.start();
    reading.start();
    for (int i = 0; i < turns; ++i) (void)served.shard.poll_once();
    ended_early += !writing.done() && !reading.done() ? 1 : 0;
    // What has been written to its end stays.
    const bool is_written = writing.done();
    writing = {};
    reading = {};
    other = {};
    ASSERT_TRUE(served.run_until([&] { return served.server.session_count() == 1; }));
    if (is_written) {
      ASSERT_TRUE(served.wait(peer.client->erase(bytes_of("other"))).has_value());
    }
  }
  EXPECT_GT(ended_early, 1);
  served.space.heap().reclaim();
  const Heap::Stats& after = served.space.heap().stats();
  EXPECT_EQ(after.buffers_live, before.buffers_live);
  EXPECT_EQ(after.bytes_live, before.bytes_live);
  EXPECT_EQ(served.pins.sessions.count(), 0u);
  EXPECT_EQ(get("other").code, Code::kNotFound);
  EXPECT_TRUE(served.is_sound());
}

// One that is dropped while the answer that opens something is on its way: a session has sixteen places.
TEST_P(RpcClientTest, operations_that_are_dropped_at_any_moment_keep_no_place_of_their_session) {
  const std::string large = patterned(2 * kMiB);
  ASSERT_TRUE(put("large", large).has_value());
  const auto open = [&] {
    const Result<wire::StatReply> stat = served.wait(peer.client->stat());
    return stat ? stat->uploads + stat->views : UINT64_MAX;
  };
  const auto list = [](RpcClient& by) -> runtime::Task<> { (void)co_await by.scan(0, 1 << 20); };
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(put(std::to_string(i) + std::string(200, 'k'), "value").has_value());
  }
  for (int turns = 0; turns < 60; ++turns) {
    std::string value;
    StringSink sink(value);
    auto writing = peer.client->put(bytes_of("other"), bytes_of(large));
    auto reading = peer.client->get(bytes_of("large"), sink);
    auto scanning = list(*peer.client);
    if (turns % 3 == 0) writing.start();
    if (turns % 3 == 1) reading.start();
    if (turns % 3 == 2) scanning.start();
    for (int i = 0; i < turns / 3; ++i) (void)served.shard.poll_once();
    // One-sided requests use the caller's memory: their session ends with it.
    if (peer.session->state() != rpc::Session::State::kOpen) peer = served.connect();
  }
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  EXPECT_EQ(open(), 0u);
  EXPECT_EQ(get("large").value, large);
}

TEST_P(RpcClientTest, many_long_operations_share_a_session_that_holds_only_some_of_them) {
  const std::string large = patterned(6 * body_bytes_max());
  std::vector<std::string> keys;
  for (int i = 0; i < 16; ++i) keys.push_back(std::to_string(i) + std::string(40'000, 'k'));
  std::vector<RpcClient::PutItem> puts;
  for (const std::string& key : keys)
    puts.push_back({.key = bytes_of(key), .value = bytes_of(large), .options = {}});
  served.wait(peer.client->multi_put(puts));
  std::vector<std::string> values(keys.size());
  std::vector<std::unique_ptr<StringSink>> sinks;
  std::vector<RpcClient::GetItem> gets;
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(puts[i].result.code(), Code::kOk);
    sinks.push_back(std::make_unique<StringSink>(values[i]));
    gets.push_back({.key = bytes_of(keys[i]), .sink = sinks.back().get()});
  }
  served.wait(peer.client->multi_get(gets));
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(gets[i].result.code(), Code::kOk);
    EXPECT_TRUE(values[i] == large);
  }
}

TEST_P(RpcClientTest, a_blocking_put_allocates_nothing_after_warm_up) {
  const std::string value(64, 'v');
  const auto put_all = [&] {
    for (int round = 0; round < 300; ++round) {
      const char key[2] = {'k', static_cast<char>('a' + round % 16)};
      ASSERT_TRUE(peer.client->put_and_wait(bytes_of({key, 2}), bytes_of(value)).has_value());
    }
  };
  put_all();
  const uint64_t before = allocation_count();
  put_all();
  EXPECT_EQ(allocation_count(), before);
}

INSTANTIATE_TEST_SUITE_P(Links, RpcClientTest,
                         testing::Values(fabric::LoopbackOptions{.depth = 32, .message_bytes_max = 1024},
                                         fabric::LoopbackOptions{.depth = 32, .message_bytes_max = 32 * 1024},
                                         fabric::LoopbackOptions{.depth = 32,
                                                                 .message_bytes_max = 32 * 1024,
                                                                 .one_sided_bytes_min = 64 * 1024}),
                         [](const auto& parameter) {
                           const fabric::LoopbackOptions& link = parameter.param;
                           return std::to_string(link.message_bytes_max) +
                                  (link.one_sided_bytes_min > 0 ? "_with_windows" : "");
                         });

}  // namespace
}  // namespace refract::kv
