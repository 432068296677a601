// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/layout/routing.h"

#include <gtest/gtest.h>

#include <vector>

#include "refract/base/hash.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

TEST(Routing, one_shard_owns_every_key) {
  for (const uint64_t hash : {uint64_t{0}, uint64_t{1} << 47, ~uint64_t{0}}) EXPECT_EQ(shard_of(hash, 1), 0u);
}

TEST(Routing, is_what_clients_of_other_versions_compute) {
  EXPECT_EQ(shard_of(0, 4), 0u);
  EXPECT_EQ(shard_of(0x0000'4000'0000'0000, 4), 1u);
  EXPECT_EQ(shard_of(0x0000'3fff'ffff'ffff, 4), 0u);
  EXPECT_EQ(shard_of(~uint64_t{0}, 256), 255u);
  EXPECT_EQ(shard_of(0xffff'0000'0000'ffff, 3), 0u) << "fingerprint and low index bits have no say";
}

TEST(Routing, keys_spread_evenly_over_shards_and_over_the_buckets_of_each) {
  constexpr uint32_t kShards = 3;
  constexpr uint64_t kBuckets = 16;
  constexpr size_t kKeys = 48'000;
  std::vector<size_t> per_shard(kShards);
  std::vector<size_t> per_bucket(kBuckets);
  for (size_t i = 0; i < kKeys; ++i) {
    const uint64_t hash = hash_key(test::bytes_of("key" + std::to_string(i)), 42);
    const uint32_t shard = shard_of(hash, kShards);
    ASSERT_LT(shard, kShards);
    ++per_shard[shard];
    if (shard == 1) ++per_bucket[bucket_index(hash, kBuckets)];
  }
  for (const size_t keys : per_shard) EXPECT_NEAR(static_cast<double>(keys), 16'000, 800);
  for (const size_t keys : per_bucket) EXPECT_NEAR(static_cast<double>(keys), 1'000, 200);
}

TEST(Routing, a_shard_serves_its_own_keys_and_names_the_reason_for_refusing_others) {
  test::Served served({.shard_index = 1, .shard_count = 3});
  const test::Served::Peer peer = served.connect();
  size_t own = 0;
  for (size_t i = 0; i < 60; ++i) {
    const std::string key = "key" + std::to_string(i);
    const bool is_own = shard_of(served.space.table().hash(test::bytes_of(key)), 3) == 1;
    own += is_own ? 1 : 0;
    const Code wanted = is_own ? Code::kOk : Code::kWrongShard;
    EXPECT_EQ(peer.client->put_and_wait(test::bytes_of(key), test::bytes_of("value")).code(), wanted);
    std::string value;
    StringSink sink(value);
    EXPECT_EQ(peer.client->get_and_wait(test::bytes_of(key), sink).code(), wanted);
    EXPECT_EQ(served.wait(peer.client->exists(test::bytes_of(key))).code(), wanted);
    const std::string large = test::patterned(10'000);
    EXPECT_EQ(peer.client->put_and_wait(test::bytes_of(key), test::bytes_of(large)).code(), wanted);
    if (i % 2 == 0) {
      EXPECT_EQ(peer.client->erase_and_wait(test::bytes_of(key)).code(), wanted);
    }
  }
  EXPECT_GT(own, 0u);
  EXPECT_LT(own, 60u);
  EXPECT_GT(served.space.table().stats().entries, 0u);
}

}  // namespace
}  // namespace refract::kv
