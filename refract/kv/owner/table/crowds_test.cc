// SPDX-License-Identifier: Apache-2.0
// Keys that were chosen to fall into one bucket: whatever their number, the table does with them what a map
// would, tells no other thing to readers, and recovers. Method: random owners against a model, crashes
// between any two stores of a split, scans that must miss nothing.
#include "refract/kv/owner/table/crowds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "refract/base/prng.h"
#include "refract/base/testing/keys_of_hash.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/owner/table/table.h"
#include "refract/kv/testing/test_service.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::crowds_test {
namespace {

using refract::test::KeysOfHash;
using test::bytes_of;
using test::Space;
using test::text_of;

constexpr uint64_t kSeed = 42;  // Of test::Space.
constexpr int kManyBits = 30;   // More than any table here has buckets.

// Keys of one bucket; every third has another fingerprint than the rest.
std::string crowded(uint64_t number, uint64_t bucket = 5) {
  static const KeysOfHash keys(kSeed);
  return keys(((number % 3 == 0 ? number % 251 : 7) << 56) | (number << kManyBits) | bucket);
}

uint64_t put(Space& space, std::string_view key, std::string_view value, const PutOptions& options = {}) {
  const auto version = space.table().put(bytes_of(key), bytes_of(value), options);
  EXPECT_TRUE(version.has_value()) << text(version.code());
  return version.value_or(0);
}

void expect_sound(Space& space) {
  const auto damage = space.table().validate();
  EXPECT_FALSE(damage.has_value()) << damage->what << " at " << damage->at.value;
}

void expect_same(Space& space, const std::map<std::string, std::string>& model, uint64_t keys) {
  ASSERT_EQ(space.table().stats().entries, model.size());
  for (uint64_t i = 0; i < keys; ++i) {
    const std::string key = crowded(i);
    const auto entry = space.table().find(bytes_of(key));
    const auto expected = model.find(key);
    ASSERT_EQ(entry.has_value(), expected != model.end()) << i;
    if (!entry) continue;
    ASSERT_EQ(text_of(entry->value), expected->second);
  }
}

TEST(Crowds, seven_thousand_and_more_keys_of_a_bucket_are_an_ordinary_sight) {
  constexpr uint64_t kKeys = 20'000;
  Space space({.chunks = 20, .chunks_max = 20});
  std::map<std::string, std::string> model;
  for (uint64_t i = 0; i < kKeys; ++i) {
    put(space, crowded(i), "value " + std::to_string(i));
    model[crowded(i)] = "value " + std::to_string(i);
  }
  ASSERT_NE(space.table().crowds(), nullptr);
  EXPECT_EQ(space.table().crowds()->count(), 1U);
  EXPECT_EQ(space.table().crowds()->entries(), kKeys);
  expect_sound(space);
  expect_same(space, model, kKeys);
  space.restart();
  EXPECT_EQ(space.table().crowds()->entries(), kKeys);
  expect_sound(space);
  expect_same(space, model, kKeys);
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(space.table().erase(bytes_of(crowded(i)), 0)) << i;
  EXPECT_EQ(space.table().stats().entries, 0U);
  for (int i = 0; i < 30; ++i) {
    put(space, crowded(0), "again");
    ASSERT_TRUE(space.table().erase(bytes_of(crowded(0)), 0));
  }
  EXPECT_EQ(space.table().crowds()->count(), 0U) << "what is crowded no longer costs nothing";
  EXPECT_EQ(space.table().stats().overflow_lines, 0U) << "every line has come back";
  expect_sound(space);
}

// Fills and empties the bucket again and again, across the limit where it becomes crowded; others beside it
// make the table grow.
TEST(Crowds, a_table_with_them_does_what_a_map_does) {
  constexpr uint64_t kKeys = 600;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Space space({.chunks = 16, .chunks_max = 16});
    Prng prng(seed);
    std::map<std::string, std::string> model;
    for (int step = 0; step < 12'000; ++step) {
      const uint64_t most = step / 2'000 % 2 == 0 ? kKeys : 40;
      const std::string key = crowded(prng.below(kKeys));
      if (prng.below(kKeys) < most && prng.chance(0.7)) {
        const std::string value(prng.below(60), static_cast<char>('a' + step % 26));
        put(space, key, value);
        model[key] = value;
      } else {
        ASSERT_EQ(space.table().erase(bytes_of(key), 0).has_value(), model.erase(key) == 1);
      }
      if (step % 3'000 == 2'999) {
        expect_sound(space);
        space.restart();
      }
    }
    expect_sound(space);
    expect_same(space, model, kKeys);
  }
}

TEST(Crowds, a_bucket_that_is_split_is_two_afterwards_each_as_crowded_as_it_is) {
  Space space({.chunks = 16, .chunks_max = 16});
  const KeysOfHash keys(kSeed);
  // Half of them differ in the bit that the first doubling looks at, some in the next one's.
  std::vector<std::string> all;
  for (uint64_t i = 0; i < 300; ++i) {
    all.push_back(keys((uint64_t{9} << 56) | (i << 32) | 3 | (i % 2) << 4 | uint64_t{i % 16 == 0} << 5));
  }
  for (const std::string& key : all) put(space, key, key);
  ASSERT_GT(space.table().stats().splits, 16U);
  expect_sound(space);
  for (const std::string& key : all) EXPECT_EQ(text_of(space.table().find(bytes_of(key))->value), key);
  EXPECT_EQ(space.table().crowds()->count(), 2U);
}

TEST(Crowds, what_expires_in_them_is_swept_in_steps) {
  Space space({.chunks = 16, .chunks_max = 16});
  for (uint64_t i = 0; i < 3'000; ++i) {
    put(space, crowded(i), "v", {.expires_wall_ns = i % 2 == 0 ? space.clock().wall_ns() + 5 : 0});
  }
  space.clock().advance_ns(10);
  size_t swept = 0;
  int steps = 0;
  for (; space.table().stats().expiring_entries > 0 && steps < 1'000; ++steps) {
    const size_t now = space.table().sweep(20);
    EXPECT_LE(now, (20 + 2 * kLinesPerPiece) * kSlotsPerBucket) << "a step has a bound";
    swept += now;
  }
  EXPECT_EQ(swept, 1'500U);
  EXPECT_GT(steps, 10);
  expect_sound(space);
}

// Its own lines go in steps, too.
TEST(Crowds, a_long_empty_end_of_a_chain_is_unlinked_in_steps) {
  Space space({.chunks = 16, .chunks_max = 16});
  for (uint64_t i = 0; i < 7'000; ++i) put(space, crowded(i), "v");
  const uint64_t lines = space.table().stats().overflow_lines;
  for (uint64_t i = 60; i < 6'999; ++i) ASSERT_TRUE(space.table().erase(bytes_of(crowded(i)), 0));
  EXPECT_EQ(space.table().stats().overflow_lines, lines) << "the last line still has an entry";
  ASSERT_TRUE(space.table().erase(bytes_of(crowded(6'999)), 0));
  EXPECT_GT(space.table().stats().overflow_lines, lines / 2);
  for (int i = 0; i < 20; ++i) put(space, "honest " + std::to_string(i), "v");
  EXPECT_LE(space.table().stats().overflow_lines, 10U);
  expect_sound(space);
}

// An insertion in an ordinary bucket splits the crowded one. The owner dies behind each of its stores.
TEST(Crowds, a_split_that_a_crash_interrupts_is_finished) {
  class Recorder final : public StoreLog {
   public:
    void stored(Offset at, std::span<const std::byte> bytes) noexcept override {
      if (list != nullptr) list->emplace_back(at.value, std::vector(bytes.begin(), bytes.end()));
    }
    std::vector<std::pair<uint64_t, std::vector<std::byte>>>* list = nullptr;
  } recorder;
  Space space({.chunks = 5, .chunks_max = 5}, &recorder);
  const KeysOfHash keys(kSeed);
  // The first bucket to be split, from 16 to 17 of them.
  std::vector<std::string> all;
  for (uint64_t i = 0; i < 83; ++i) all.push_back(keys((i << 32) | (i % 3 == 0 ? 16 : 0)));
  all.push_back("one more");
  for (const std::string& key : all) put(space, key, key);
  ASSERT_EQ(space.table().stats().buckets, 16U);
  ASSERT_EQ(space.table().crowds()->count(), 1U);
  const std::vector<std::byte> before(space.base(), space.base() + space.bytes());
  std::vector<std::pair<uint64_t, std::vector<std::byte>>> stores;
  recorder.list = &stores;
  put(space, "the last", "the last");
  recorder.list = nullptr;
  ASSERT_GT(space.table().stats().buckets, 16U);
  ASSERT_GT(stores.size(), 56U) << "28 entries move, each in two stores";
  std::vector<std::byte> image = before;
  for (size_t done = 0; done <= stores.size(); ++done) {
    std::ranges::copy(image, space.base());
    ASSERT_TRUE(space.try_restart().has_value()) << "after " << done << " stores";
    expect_sound(space);
    for (const std::string& key : all) {
      const auto entry = space.table().find(bytes_of(key));
      ASSERT_TRUE(entry.has_value()) << "after " << done << " stores";
      EXPECT_EQ(text_of(entry->value), key);
    }
    if (done == stores.size()) break;
    std::ranges::copy(stores[done].second, image.begin() + static_cast<ptrdiff_t>(stores[done].first));
  }
}

// Readers look at a few lines and then say that they do not know; they never say that an entry is not there.
TEST(Crowds, a_reader_finds_the_first_lines_entries_and_leaves_the_rest_to_the_owner) {
  Space space;
  for (uint64_t i = 0; i < 200; ++i) put(space, crowded(i), "v");
  MappedMemory memory(space.base(), space.bytes(), nullptr);
  DirectReader reader(memory, space.clock());
  const auto look = [&](const std::string& key) {
    return reader.look(bytes_of(key), reader.hash(bytes_of(key))).code;
  };
  constexpr uint64_t kWalked = kLinesWalked * kSlotsPerBucket;
  for (uint64_t i = 0; i < 200; ++i)
    EXPECT_EQ(look(crowded(i)), i < kWalked ? Code::kOk : Code::kInvalidated);
  EXPECT_EQ(look(crowded(777)), Code::kInvalidated);
  const auto page = reader.scan(0, 1, [](auto...) {});
  EXPECT_NE(page.code, Code::kOk);
}

class CrowdedScan : public testing::Test {
 protected:
  void put(const std::string& key) {
    ASSERT_TRUE(peer.client->put_and_wait(bytes_of(key), bytes_of("v")).has_value());
  }
  void erase(const std::string& key) { ASSERT_TRUE(peer.client->erase_and_wait(bytes_of(key)).has_value()); }
  Result<RpcClient::Page> page_at(uint64_t cursor, size_t keys_min) {
    return runtime::block_on(served.shard, peer.client->scan(cursor, keys_min));
  }
  // Every key that a scan gives, in how many pages; `between` runs between two of them.
  struct Listing {
    std::map<std::string, int> seen;
    int pages = 0;
  };
  Listing scan(size_t keys_min, const std::function<void()>& between = [] {}) {
    Listing listing;
    uint64_t cursor = 0;
    do {
      const auto page = page_at(cursor, keys_min);
      EXPECT_TRUE(page.has_value()) << text(page.code());
      if (!page) return listing;
      for (const auto& entry : page->keys) ++listing.seen[entry.key];
      cursor = page->next;
      between();
    } while (cursor != 0 && ++listing.pages < 10'000);
    EXPECT_EQ(cursor, 0U) << "the scan never ends";
    return listing;
  }

  test::Served served;
  test::Served::Peer peer = served.connect();
};

TEST_F(CrowdedScan, gives_each_key_once_in_pages_of_a_few_lines) {
  constexpr uint64_t kKeys = 3'000;
  for (uint64_t i = 0; i < kKeys; ++i) put(crowded(i));
  for (int i = 0; i < 50; ++i) put("honest " + std::to_string(i));
  for (const size_t keys_min : {size_t{1}, size_t{100}, size_t{100'000}}) {
    const Listing listing = scan(keys_min);
    EXPECT_EQ(listing.seen.size(), kKeys + 50);
    for (const auto& [key, times] : listing.seen) ASSERT_EQ(times, 1);
    EXPECT_GE(listing.pages, keys_min == 100 ? 20 : 1) << "no page has the whole bucket";
  }
}

TEST_F(CrowdedScan, misses_none_that_is_there_throughout_while_others_come_and_go) {
  Prng prng(3);
  std::set<std::string> stay;
  uint64_t next = 0;
  std::vector<std::string> others;
  for (; next < 1'500; ++next) {
    put(crowded(next));
    if (next % 2 == 0) stay.insert(crowded(next));
    if (next % 2 != 0) others.push_back(crowded(next));
  }
  const uint64_t splits = served.space.table().stats().splits;
  uint64_t honest = 0;
  const auto change = [&] {
    for (int i = 0; i < 20; ++i) {
      const size_t which = prng.below(others.size());
      erase(others[which]);
      others[which] = crowded(next++);
      put(others[which]);
      put("honest " + std::to_string(honest++));
    }
  };
  const Listing listing = scan(1, change);
  for (const std::string& key : stay) EXPECT_TRUE(listing.seen.contains(key));
  EXPECT_GT(served.space.table().stats().splits, splits);
}

// A bucket that others empty and fill between two pages has the same order for entries that stay, so that a
// scan continues where it was; no client can keep it in one bucket.
TEST_F(CrowdedScan, ends_although_its_bucket_is_emptied_and_filled_between_pages) {
  constexpr uint64_t kKeys = 500;
  for (uint64_t i = 0; i < kKeys; ++i) put(crowded(i));
  const auto change = [&] {
    for (uint64_t i = 10; i < kKeys; ++i) erase(crowded(i));
    ASSERT_EQ(served.space.table().crowds()->count(), 0U);
    for (uint64_t i = 10; i < kKeys; ++i) put(crowded(i));
    ASSERT_EQ(served.space.table().crowds()->count(), 1U);
  };
  const Listing listing = scan(1, change);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(listing.seen.contains(crowded(i)));
  EXPECT_LT(listing.pages, 40);
}

TEST(CrowdCursor, is_told_from_those_of_another_bucket_and_of_another_process) {
  Space space;
  for (uint64_t i = 0; i < 4'000; ++i) put(space, crowded(i), "v");
  const Crowds& crowds = *space.table().crowds();
  const uint64_t pieces = space.table().crowd_of(5)->lines().size() / kLinesPerPiece + 1;
  for (uint64_t piece = 0; piece < pieces; ++piece) {
    const uint64_t bits = crowds.piece_bits(5, piece);
    EXPECT_LE(bits, kCursorPieceMask);
    EXPECT_EQ(crowds.piece_of(5, bits), piece);
    EXPECT_EQ(bits == 0, piece == 0);
  }
  const uint64_t last = crowds.piece_bits(5, pieces - 1);
  EXPECT_EQ(crowds.piece_of(6, last), std::nullopt);
  space.restart();
  EXPECT_EQ(space.table().crowds()->piece_of(5, last), std::nullopt);
}

}  // namespace
}  // namespace refract::kv::crowds_test
