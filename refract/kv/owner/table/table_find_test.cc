// SPDX-License-Identifier: Apache-2.0
// Many finds at once say of each key what one find says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "refract/kv/owner/table/table.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::Space;

void expect_the_same(Table& table, const std::vector<std::string>& keys) {
  std::vector<Table::Sought> many(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) table.seek(bytes_of(keys[i]), many[i]);
  table.find(many);
  for (size_t i = 0; i < keys.size(); ++i) {
    const Result<Table::Entry> one = table.find(bytes_of(keys[i]));
    ASSERT_EQ(many[i].code, one.code()) << keys[i];
    ASSERT_EQ(many[i].key.hash, table.hash(bytes_of(keys[i])));
    if (!one) continue;
    ASSERT_EQ(many[i].version, one->version) << keys[i];
    ASSERT_EQ(many[i].expires_wall_ns, one->expires_wall_ns) << keys[i];
    ASSERT_EQ(many[i].value.data(), one->value.data()) << keys[i];
    ASSERT_EQ(many[i].value.size(), one->value.size()) << keys[i];
  }
}

std::string any_key(std::mt19937_64& random) {
  std::string key = std::to_string(random() % 3'000);
  // Of all lengths that the compare tells apart.
  return std::string(random() % 4 == 0 ? key.size() % 3 * 15 : 0, 'k') + key;
}

TEST(TableFind, many_at_once_find_what_one_finds) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Space space({.chunks = 32, .chunks_max = 32, .hash_seed = seed});
    Table& table = space.table();
    space.clock().set_wall_offset_ns(1'000);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 400; ++round) {
      for (int i = 0; i < 8; ++i) {
        const std::string key = any_key(random);
        if (random() % 8 == 0) {
          (void)table.erase(bytes_of(key), 0);
          continue;
        }
        const PutOptions options{
            .expires_wall_ns = random() % 5 == 0 ? 900 + random() % 200 : 0,
            .request = random() % 5 == 0 ? RequestId{.client = 7, .sequence = random()} : RequestId{}};
        const std::string value(random() % 50 == 0 ? 4'090 + random() % 12 : random() % 70, 'v');
        ASSERT_TRUE(table.put(bytes_of(key), bytes_of(value), options).has_value());
      }
      std::vector<std::string> keys(1 + random() % 40);
      std::ranges::generate(keys, [&] { return any_key(random); });
      ASSERT_NO_FATAL_FAILURE(expect_the_same(table, keys)) << "seed " << seed << ", round " << round;
    }
    EXPECT_GT(table.stats().overflow_lines, 0u) << "no key stood behind a first line";
  }
}

TEST(TableFind, keys_behind_the_first_line_and_of_a_crowd_are_found_too) {
  Space space;
  Table& table = space.table();
  const test::LongBucket bucket(table);
  std::vector<std::string> keys = bucket.staying;
  keys.insert(keys.end(), bucket.leaving.begin(), bucket.leaving.end());
  keys.emplace_back("absent");
  expect_the_same(table, keys);
  const std::vector<std::string> crowd = test::keys_of_bucket(table, 3, 1 << 10, 150);
  for (const std::string& key : crowd) {
    ASSERT_TRUE(table.put(bytes_of(key), bytes_of(key), {}).has_value());
  }
  ASSERT_NE(table.crowds(), nullptr);
  keys.insert(keys.end(), crowd.begin(), crowd.end());
  expect_the_same(table, keys);
}

// An identity stands where a key does without one, and its sender chooses it.
TEST(TableFind, an_identity_that_looks_like_a_key_is_none) {
  Space space;
  Table& table = space.table();
  const std::string key = "a key of 16 byte";
  const uint64_t hash = table.hash(bytes_of(key));
  RequestId look_alike{.client = 1, .sequence = 1};
  std::string name(sizeof(look_alike), '\0');
  for (;; ++look_alike.sequence) {
    std::memcpy(name.data(), &look_alike, sizeof(look_alike));
    const uint64_t other = table.hash(bytes_of(name));
    if (Slot::fingerprint_of(other) == Slot::fingerprint_of(hash) && (other ^ hash) % 16 == 0) break;
  }
  ASSERT_TRUE(table.put(bytes_of(key), bytes_of("v"), {.request = look_alike}).has_value());
  Table::Sought one;
  table.seek(bytes_of(name), one);
  table.find({&one, 1});
  EXPECT_EQ(one.code, Code::kNotFound);
}

// What eviction keeps is what was used, also by one call for many.
TEST(TableFind, many_at_once_count_as_uses) {
  Space space;
  Table& table = space.table();
  SlotUses uses(EvictionPolicy::kLeastOftenUsed);
  table.evict_by(nullptr, &uses);
  ASSERT_TRUE(table.put(bytes_of("used"), bytes_of("v"), {}).has_value());
  ASSERT_TRUE(table.put(bytes_of("idle"), bytes_of("v"), {}).has_value());
  Table::Sought one;
  for (int i = 0; i < 64; ++i) {
    table.seek(bytes_of("used"), one);
    table.find({&one, 1});
    ASSERT_EQ(one.code, Code::kOk);
  }
  EXPECT_LT(uses.idleness(one.slot_at),
            uses.idleness(table.standing(table.hashed(bytes_of("idle"))).slot_at));
  table.evict_by(nullptr, nullptr);
}

}  // namespace
}  // namespace refract::kv
