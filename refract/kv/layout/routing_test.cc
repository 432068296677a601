// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/layout/routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "refract/base/hash.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

constexpr KeyRouting by_hash(uint32_t shards) {
  return {.shards = shards};
}
constexpr KeyRouting by_slot(uint32_t shards) {
  return {.shards = shards, .copies = 1};
}

TEST(Routing, one_shard_owns_every_key) {
  for (const uint64_t hash : {uint64_t{0}, uint64_t{1} << 47, ~uint64_t{0}}) {
    EXPECT_EQ(by_hash(1).shard_of(test::bytes_of("foo"), hash), 0u);
    EXPECT_EQ(by_slot(1).shard_of(test::bytes_of("foo"), hash), 0u);
  }
}

TEST(Routing, is_what_clients_of_other_versions_compute) {
  const auto shard_of = [](uint64_t hash, uint32_t shards) {
    return by_hash(shards).shard_of(test::bytes_of("foo"), hash);
  };
  EXPECT_EQ(shard_of(0, 4), 0u);
  EXPECT_EQ(shard_of(0x0000'4000'0000'0000, 4), 1u);
  EXPECT_EQ(shard_of(0x0000'3fff'ffff'ffff, 4), 0u);
  EXPECT_EQ(shard_of(~uint64_t{0}, 256), 255u);
  EXPECT_EQ(shard_of(0xffff'0000'0000'ffff, 3), 0u) << "fingerprint and low index bits have no say";
}

// Slots of CLUSTER KEYSLOT: "bar" 5061, "foo" 12182, "hello" 866.
TEST(Routing, by_slot_is_what_clients_of_other_versions_compute) {
  const auto shard_of = [](const char* key, uint32_t shards) {
    return by_slot(shards).shard_of(test::bytes_of(key), ~uint64_t{0});
  };
  EXPECT_EQ(shard_of("bar", 2), 0u);
  EXPECT_EQ(shard_of("foo", 2), 1u);
  EXPECT_EQ(shard_of("bar", 4), 1u);
  EXPECT_EQ(shard_of("foo", 4), 2u);
  EXPECT_EQ(shard_of("hello", 256), 13u);
  EXPECT_EQ(shard_of("foo", 256), 190u);
}

// Ranges follow each other from the first slot to the last: so each slot is in one shard, none lies between
// two, and for every number of shards that a node may have each of them has slots, as many as another but for
// one.
TEST(Routing, a_slot_lies_in_one_shard_and_each_shard_has_its_share_of_them) {
  for (uint32_t shards = 1; shards <= 256; ++shards) {
    std::vector<uint32_t> slots(shards);
    uint32_t before = 0;
    for (uint32_t slot = 0; slot < cluster::kSlots; ++slot) {
      const uint32_t shard = KeyRouting::shard_of_slot(slot, shards);
      ASSERT_LT(shard, shards) << slot;
      ASSERT_TRUE(shard == before || shard == before + 1) << slot << " of " << shards;
      before = shard;
      ++slots[shard];
    }
    const auto [least, most] = std::ranges::minmax(slots);
    ASSERT_GE(least, cluster::kSlots / shards) << shards;
    ASSERT_LE(most, cluster::kSlots / shards + 1) << shards;
  }
}

TEST(Routing, keys_with_one_tag_share_a_shard_whatever_their_hashes) {
  for (uint32_t shards = 1; shards <= 256; ++shards) {
    const uint32_t owner = by_slot(shards).shard_of(test::bytes_of("42"), 0);
    for (const char* key : {"order:{42}", "item:{42}", "{42}", "{42}:photo"}) {
      ASSERT_EQ(by_slot(shards).shard_of(test::bytes_of(key), ~uint64_t{0}), owner) << key << " " << shards;
    }
  }
  EXPECT_NE(by_slot(256).shard_of(test::bytes_of("order:42"), 0),
            by_slot(256).shard_of(test::bytes_of("item:42"), 0))
      << "without braces there is no tag";
}

TEST(Routing, keys_spread_evenly_over_shards_and_over_the_buckets_of_each) {
  constexpr uint32_t kShards = 3;
  constexpr uint64_t kBuckets = 16;
  constexpr size_t kKeys = 48'000;
  for (const KeyRouting& routing : {by_hash(kShards), by_slot(kShards)}) {
    std::vector<size_t> per_shard(kShards);
    std::vector<size_t> per_bucket(kBuckets);
    for (size_t i = 0; i < kKeys; ++i) {
      const std::string key = "key" + std::to_string(i);
      const uint64_t hash = hash_key(test::bytes_of(key), 42);
      const uint32_t shard = routing.shard_of(test::bytes_of(key), hash);
      ASSERT_LT(shard, kShards);
      ++per_shard[shard];
      if (shard == 1) ++per_bucket[bucket_index(hash, kBuckets)];
    }
    for (const size_t keys : per_shard) EXPECT_NEAR(static_cast<double>(keys), 16'000, 800);
    for (const size_t keys : per_bucket) EXPECT_NEAR(static_cast<double>(keys), 1'000, 200);
  }
}

class RoutedKeys : public testing::TestWithParam<uint32_t> {};

TEST_P(RoutedKeys, a_shard_serves_its_own_and_names_the_reason_for_refusing_others) {
  const KeyRouting routing{.shards = 3, .copies = GetParam()};
  test::Served served({.shard_index = 1, .shard_count = routing.shards, .copies = routing.copies});
  const test::Served::Peer peer = served.connect();
  size_t own = 0;
  for (size_t i = 0; i < 60; ++i) {
    const std::string key = "key" + std::to_string(i);
    const auto bytes = test::bytes_of(key);
    const bool is_own = routing.shard_of(bytes, served.space.table().hash(bytes)) == 1;
    own += is_own ? 1 : 0;
    const Code wanted = is_own ? Code::kOk : Code::kWrongShard;
    EXPECT_EQ(peer.client->put_and_wait(bytes, test::bytes_of("value")).code(), wanted);
    std::string value;
    StringSink sink(value);
    EXPECT_EQ(peer.client->get_and_wait(bytes, sink).code(), wanted);
    EXPECT_EQ(served.wait(peer.client->exists(bytes)).code(), wanted);
    const std::string large = test::patterned(10'000);
    EXPECT_EQ(peer.client->put_and_wait(bytes, test::bytes_of(large)).code(), wanted);
    if (i % 2 == 0) {
      EXPECT_EQ(peer.client->erase_and_wait(bytes).code(), wanted);
    }
  }
  EXPECT_GT(own, 0u);
  EXPECT_LT(own, 60u);
  EXPECT_GT(served.space.table().stats().entries, 0u);
}

// Of many keys in a call each is looked at by itself.
TEST_P(RoutedKeys, of_many_in_a_call_the_others_alone_are_refused) {
  const KeyRouting routing{.shards = 3, .copies = GetParam()};
  test::Served served({.shard_index = 2, .shard_count = routing.shards, .copies = routing.copies});
  const test::Served::Peer peer = served.connect();
  std::vector<std::string> keys;
  for (size_t i = 0; i < 40; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<RpcClient::PutItem> puts;
  for (const std::string& key : keys) {
    puts.push_back({.key = test::bytes_of(key), .value = test::bytes_of(key), .options = {}});
  }
  served.wait(peer.client->multi_put(puts));
  std::vector<std::string> values(keys.size());
  std::vector<StringSink> sinks(values.begin(), values.end());
  std::vector<RpcClient::GetItem> gets;
  for (size_t i = 0; i < keys.size(); ++i) gets.push_back({.key = puts[i].key, .sink = &sinks[i]});
  served.wait(peer.client->multi_get(gets));
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto bytes = test::bytes_of(keys[i]);
    const bool is_own = routing.shard_of(bytes, served.space.table().hash(bytes)) == 2;
    EXPECT_EQ(puts[i].result.code(), is_own ? Code::kOk : Code::kWrongShard) << keys[i];
    EXPECT_EQ(gets[i].result.code(), is_own ? Code::kOk : Code::kWrongShard) << keys[i];
    EXPECT_EQ(values[i], is_own ? keys[i] : "");
  }
}

INSTANTIATE_TEST_SUITE_P(ByHashAndBySlot, RoutedKeys, testing::Values(0, 1));

}  // namespace
}  // namespace refract::kv
