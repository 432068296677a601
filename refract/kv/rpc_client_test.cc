// SPDX-License-Identifier: Apache-2.0
// The contract of the store, over calls: the client against a real table behind a real server, messages of
// two sizes, virtual time.
#include "refract/kv/rpc_client.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/conformance/allocation_count.h"
#include "refract/kv/test_service.h"

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

TEST_P(RpcClientTest, values_of_every_length_come_back_as_they_were_put) {
  const size_t body = body_bytes_max();
  std::vector<size_t> lengths = {0,    1,         7,        8,    4095,     4096,
                                 4097, 64 * kKiB, kMiB - 1, kMiB, kMiB + 1, 16 * kMiB};
  // Around what fits a put, a reply, a piece of an upload and of a view, and two of them.
  for (const size_t border :
       {body - 24 - 3, body - 24, body - 32, body - 16, body, 2 * (body - 16), 2 * body - 32}) {
    for (size_t length = border - 2; length <= border + 2; ++length) lengths.push_back(length);
  }
  for (const size_t length : lengths) {
    const std::string value = patterned(length, length);
    const Result<uint64_t> version = put("key", value);
    ASSERT_TRUE(version.has_value()) << length << " " << text(version.code());
    const Read read = get("key");
    ASSERT_EQ(read.code, Code::kOk) << length;
    EXPECT_EQ(read.got.version, *version);
    EXPECT_EQ(read.got.value_bytes, length);
    ASSERT_TRUE(read.value == value) << length;
    const Read blocking = get_and_wait("key");
    ASSERT_TRUE(blocking.code == Code::kOk && blocking.value == value) << length;
  }
  EXPECT_TRUE(served.is_sound());
  served.settle();
  EXPECT_EQ(served.service.stat().views, 0u);
  EXPECT_EQ(served.service.stat().uploads, 0u);
}

TEST_P(RpcClientTest, keys_of_every_length_are_accepted_and_kept_apart) {
  const size_t body = body_bytes_max();
  std::vector<size_t> lengths = {1, 2, 255, 256, 257, 4096, 32'768, 65'534, 65'535};
  for (size_t border : {body - 8, body - 16, body - 24}) {
    for (size_t length = border - 2; length <= border + 2; ++length) {
      if (length <= kKeyBytesMax) lengths.push_back(length);
    }
  }
  for (const size_t length : lengths) {
    ASSERT_TRUE(put(patterned(length), std::to_string(length)).has_value()) << length;
  }
  // A long key with a long value goes by both kinds of pieces.
  ASSERT_TRUE(put(patterned(65'000), patterned(3 * body)).has_value());
  for (const size_t length : lengths) {
    EXPECT_EQ(get(patterned(length)).value, std::to_string(length));
    EXPECT_EQ(get_and_wait(patterned(length)).value, std::to_string(length));
    const Result<Got> there = served.wait(peer.client->exists(bytes_of(patterned(length))));
    ASSERT_TRUE(there.has_value());
    EXPECT_EQ(there->value_bytes, std::to_string(length).size());
  }
  EXPECT_EQ(get(patterned(65'000)).value, patterned(3 * body));
  for (const size_t length : lengths) {
    EXPECT_EQ(get(patterned(length)).code, Code::kOk) << "others were erased, not this one";
    EXPECT_TRUE(peer.client->erase_and_wait(bytes_of(patterned(length))).has_value());
    EXPECT_EQ(get(patterned(length)).code, Code::kNotFound) << length;
  }
  EXPECT_TRUE(served.is_sound());
}

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

TEST_P(RpcClientTest, conditions_hold_for_small_and_large_values) {
  for (const size_t length : {size_t{10}, 3 * body_bytes_max()}) {
    const std::string key = "key" + std::to_string(length);
    EXPECT_EQ(put(key, patterned(length), {.if_version = 1}).code(), Code::kNotFound);
    const Result<uint64_t> first = put(key, patterned(length), {.if_absent = true});
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(put(key, patterned(length, 1), {.if_absent = true}).code(), Code::kExists);
    EXPECT_EQ(put(key, patterned(length, 2), {.if_version = *first + 1}).code(), Code::kVersionMismatch);
    EXPECT_EQ(put(key, patterned(length, 3), {.if_absent = true, .if_version = 1}).code(),
              Code::kInvalidArgument);
    EXPECT_EQ(get(key).value, patterned(length)) << "a refused put changes nothing";
    const Result<uint64_t> second = put(key, patterned(length, 4), {.if_version = *first});
    ASSERT_TRUE(second.has_value());
    EXPECT_GT(*second, *first);
    EXPECT_EQ(served.wait(peer.client->erase(bytes_of(key), *first)).code(), Code::kVersionMismatch);
    EXPECT_EQ(served.wait(peer.client->erase(bytes_of(key), *second)), *second);
    EXPECT_EQ(served.wait(peer.client->erase(bytes_of(key))).code(), Code::kNotFound);
  }
}

TEST_P(RpcClientTest, an_entry_is_gone_when_its_time_to_live_has_passed) {
  const uint64_t wall_ns = served.space.clock().wall_ns();
  ASSERT_TRUE(put("short", "value", {.ttl_ns = 10 * kMillisecond_ns}).has_value());
  ASSERT_TRUE(put("long", patterned(3 * body_bytes_max()), {.ttl_ns = 20 * kMillisecond_ns}).has_value());
  ASSERT_TRUE(put("endless", "value", {.ttl_ns = UINT64_MAX}).has_value());
  EXPECT_EQ(get("short").got.expires_wall_ns, wall_ns + 10 * kMillisecond_ns);
  EXPECT_EQ(get("endless").got.expires_wall_ns, 0u);
  served.space.clock().advance_ns(10 * kMillisecond_ns);
  EXPECT_EQ(get("short").code, Code::kNotFound);
  EXPECT_EQ(get("long").code, Code::kOk);
  served.space.clock().advance_ns(10 * kMillisecond_ns);
  EXPECT_EQ(get("long").code, Code::kNotFound);
  EXPECT_EQ(get("endless").code, Code::kOk);
  EXPECT_TRUE(put("short", "again", {.if_absent = true}).has_value());
}

TEST_P(RpcClientTest, a_sink_that_refuses_ends_the_get_with_too_large) {
  class Refusing final : public ValueSink {
   public:
    std::byte* room(uint64_t) override { return nullptr; }
  } refusing;
  ASSERT_TRUE(put("small", "value").has_value());
  ASSERT_TRUE(put("large", patterned(5 * body_bytes_max())).has_value());
  for (const std::string_view key : {"small", "large"}) {
    EXPECT_EQ(served.wait(peer.client->get(bytes_of(key), refusing)).code(), Code::kTooLarge);
    EXPECT_EQ(peer.client->get_and_wait(bytes_of(key), refusing).code(), Code::kTooLarge);
  }
  served.settle();
  EXPECT_EQ(served.service.stat().views, 0u);
}

// Every entry that is there throughout is returned, with its version and size, while the table grows under
// the scan.
TEST_P(RpcClientTest, a_scan_returns_every_entry_while_the_table_grows) {
  std::map<std::string, uint64_t> versions;
  for (int i = 0; i < 500; ++i) {
    const std::string key = "old" + std::to_string(i) + std::string(i % 50 == 0 ? 20'000 : 0, 'x');
    const Result<uint64_t> version = put(key, std::string(static_cast<size_t>(i), 'v'));
    ASSERT_TRUE(version.has_value());
    versions[key] = *version;
  }
  const uint64_t buckets = served.space.table().stats().buckets;
  std::map<std::string, uint64_t> seen;
  uint64_t cursor = 0;
  int added = 0;
  do {
    const Result<RpcClient::Page> page = served.wait(peer.client->scan(cursor, 10));
    ASSERT_TRUE(page.has_value()) << text(page.code());
    for (const RpcClient::ScannedKey& key : page->keys) {
      seen[key.key] = key.version;
      if (key.key.starts_with("old")) {
        EXPECT_EQ(key.value_bytes, std::stoull(key.key.substr(3)));
      }
    }
    cursor = page->next;
    for (int i = 0; i < 40; ++i, ++added) ASSERT_TRUE(put("new" + std::to_string(added), "v").has_value());
  } while (cursor != 0);
  EXPECT_GT(served.space.table().stats().buckets, buckets) << "the table was to grow meanwhile";
  for (const auto& [key, version] : versions) EXPECT_EQ(seen[key], version) << key.substr(0, 10);
  served.settle();
  EXPECT_EQ(served.service.stat().views, 0u);
}

TEST_P(RpcClientTest, multi_put_and_multi_get_give_each_item_its_own_outcome) {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (size_t i = 0; i < 300; ++i) {
    keys.push_back("key" + std::to_string(i) + std::string(i % 30 == 0 ? 40'000 : 0, 'k'));
    values.push_back(patterned(i % 20 == 0 ? 3 * body_bytes_max() : i, i));
  }
  std::vector<RpcClient::PutItem> puts;
  for (size_t i = 0; i < keys.size(); ++i)
    puts.push_back({.key = bytes_of(keys[i]), .value = bytes_of(values[i]), .options = {}});
  puts[17].options.if_version = 1;
  served.wait(peer.client->multi_put(puts));
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(puts[i].result.code(), i == 17 ? Code::kNotFound : Code::kOk) << i;
  }
  std::vector<std::string> got(keys.size());
  std::vector<std::unique_ptr<StringSink>> sinks;
  std::vector<RpcClient::GetItem> gets;
  for (size_t i = 0; i < keys.size(); ++i) {
    sinks.push_back(std::make_unique<StringSink>(got[i]));
    gets.push_back({.key = bytes_of(keys[i]), .sink = sinks.back().get()});
  }
  served.wait(peer.client->multi_get(gets));
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(gets[i].result.code(), i == 17 ? Code::kNotFound : Code::kOk) << i;
    ASSERT_TRUE(i == 17 || got[i] == values[i]) << i;
  }
  served.wait(peer.client->multi_get({}));
  EXPECT_TRUE(served.is_sound());
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

// A model of the table beside it, through mixed operations of all sizes.
TEST_P(RpcClientTest, random_operations_agree_with_a_model) {
  std::map<std::string, std::pair<uint64_t, std::string>> model;
  Prng prng(7);
  for (int step = 0; step < 3000; ++step) {
    const std::string key =
        "key" + std::to_string(prng.below(40)) + std::string(prng.below(8) == 0 ? 3'000 : 0, 'k');
    const auto entry = model.find(key);
    switch (prng.below(4)) {
      case 0: {
        const std::string value = patterned(prng.below(prng.below(10) == 0 ? 20'000 : 200), prng.next());
        const bool if_absent = prng.below(4) == 0;
        const Result<uint64_t> version = put(key, value, {.if_absent = if_absent});
        ASSERT_EQ(version.code(), if_absent && entry != model.end() ? Code::kExists : Code::kOk);
        if (version) model[key] = {*version, value};
        break;
      }
      case 1: {
        const uint64_t if_version = entry != model.end() && prng.below(2) == 0 ? entry->second.first : 0;
        const Result<uint64_t> erased = served.wait(peer.client->erase(bytes_of(key), if_version));
        ASSERT_EQ(erased.code(), entry == model.end() ? Code::kNotFound : Code::kOk);
        model.erase(key);
        break;
      }
      default: {
        const Read read = prng.below(2) == 0 ? get(key) : get_and_wait(key);
        ASSERT_EQ(read.code, entry == model.end() ? Code::kNotFound : Code::kOk);
        if (entry != model.end()) {
          ASSERT_EQ(read.got.version, entry->second.first);
          ASSERT_TRUE(read.value == entry->second.second);
        }
      }
    }
  }
  EXPECT_EQ(served.space.table().stats().entries, model.size());
  EXPECT_TRUE(served.is_sound());
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
