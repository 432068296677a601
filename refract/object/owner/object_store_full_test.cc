// SPDX-License-Identifier: Apache-2.0
// What a store does that is full: of bytes, of memory, or of what cannot go.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/object/testing/test_store.h"

namespace refract::object {
namespace {

using refract::test::needed;
using test::id_of;
using test::StoreWorld;

std::string numbered(uint64_t number) {
  return "object " + std::to_string(number);
}

// Nothing but records and headers, until the memory is at its end.
TEST(FullStoreTest, all_can_be_deleted_where_no_record_finds_room) {
  StoreWorld world({.chunks = 8, .chunks_max = 8});
  uint64_t made = 0;
  // A creation does not go for another.
  while (world.create(numbered(made), made + 1, 0)) ++made;
  EXPECT_EQ(world.create("more", 1'000'000, 0).code(), Code::kNoSpace);
  EXPECT_FALSE(world.store().shortage().is_under_way);
  ASSERT_GT(made, 1000U);
  EXPECT_EQ(world.damage(), "");
  // The first ones need a record more, for which there may be no room until one of them is given up.
  std::vector<uint64_t> sealed;
  for (uint64_t i = 0; i < made; ++i) {
    const Result<Object> object = world.store().seal(id_of(numbered(i)), i + 1);
    if (object) {
      sealed.push_back(i);
    } else {
      ASSERT_EQ(object.code(), Code::kNoSpace);
      ASSERT_EQ(world.store().end_creation(id_of(numbered(i)), i + 1), Code::kOk);
    }
  }
  EXPECT_GT(sealed.size(), made / 2);
  EXPECT_EQ(world.damage(), "");
  for (const uint64_t i : sealed) {
    if (!world.store().find(id_of(numbered(i)))) continue;  // It went for another's record.
    ASSERT_EQ(world.store().erase(id_of(numbered(i)), i + 1).code(), Code::kOk) << i;
  }
  EXPECT_EQ(world.accounts().used(), 0U);
  EXPECT_EQ(world.accounts().objects, 0U);
  EXPECT_EQ(world.damage(), "");
}

TEST(FullStoreTest, kept_ones_fill_it_and_each_can_be_deleted_after_a_restart_too) {
  StoreWorld world({.chunks = 8, .chunks_max = 8});
  uint64_t made = 0;
  const auto add_kept = [&] {
    return world.make(numbered(made), made + 1, 0).has_value() &&
           world.store().keep(id_of(numbered(made)), true) == Code::kOk;
  };
  while (add_kept()) ++made;
  ASSERT_GT(made, 1000U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.damage(), "");
  EXPECT_EQ(world.store().evict(1), 0U);
  for (uint64_t i = 0; i < made; ++i) {
    ASSERT_EQ(world.store().erase(id_of(numbered(i)), i + 1).code(), Code::kOk) << i;
  }
  world.empty();
  EXPECT_EQ(world.damage(), "");
  EXPECT_TRUE(world.make("large", 1, kMiB));
}

// The first deletion of what is held takes the buffer that is kept for it; a second one changes nothing.
TEST(FullStoreTest, a_deletion_without_room_for_its_record_changes_nothing) {
  StoreWorld world({.chunks = 6, .chunks_max = 6});
  uint64_t made = 0;
  const auto add_kept = [&] {
    return world.make(numbered(made), made + 1, 0).has_value() &&
           world.store().keep(id_of(numbered(made)), true) == Code::kOk;
  };
  while (add_kept()) ++made;
  std::vector<Offset> held;
  for (uint64_t i = 0; i < made; ++i) {
    held.push_back(needed(world.store().find(id_of(numbered(i)))).object);
    world.readers.hold(held.back());
  }
  uint64_t refused = 0;
  uint64_t deleted = 0;
  for (uint64_t i = 0; i < made; ++i) {
    const Code code = world.store().erase(id_of(numbered(i)), i + 1).code();
    const bool is_there = world.store().find(id_of(numbered(i))).has_value();
    EXPECT_EQ(is_there, code == Code::kNoSpace);
    ++(code == Code::kOk ? deleted : refused);
    ASSERT_TRUE(code == Code::kOk || code == Code::kNoSpace);
  }
  EXPECT_GT(deleted, 0U);
  EXPECT_EQ(world.accounts().departed, deleted);
  EXPECT_GE(world.accounts().objects, refused);
  EXPECT_EQ(world.damage(), "");
  for (const Offset object : held) world.readers.let_go(object);
  world.empty();
  EXPECT_EQ(world.accounts().used(), 0U);
  EXPECT_EQ(world.damage(), "");
}

TEST(FullStoreTest, nothing_goes_for_what_finds_no_room_all_the_same) {
  StoreWorld world({.chunks = 64, .limit = 10 * kMiB});
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(world.make(numbered(i), i + 1, kMiB));
  for (uint64_t i = 0; i < 6; ++i) world.readers.hold(needed(world.store().find(id_of(numbered(i)))).object);
  EXPECT_EQ(world.create("large", 100, 5 * kMiB).code(), Code::kNoSpace);
  EXPECT_EQ(world.accounts().evicted_ever, 0U);
  EXPECT_TRUE(world.create("fits", 101, 4 * kMiB));
  EXPECT_EQ(world.accounts().evicted_ever, 4U);
  EXPECT_EQ(world.damage(), "");
}

// Enough of the limit, and no run.
TEST(FullStoreTest, a_window_is_made_of_what_may_go_and_of_nothing_else) {
  StoreWorld world({.chunks = 18, .chunks_max = 18, .limit = 64 * kMiB});
  std::vector<Object> made;
  while (world.accounts().evicted_ever == 0) {
    made.push_back(needed(world.make(numbered(made.size()), made.size() + 1, 240 * kKiB)));
  }
  const uint64_t evicted = world.accounts().evicted_ever;
  // One kept in each second chunk: no run of two chunks.
  std::set<uint64_t> kept_chunks;
  for (uint64_t i = 0; i < made.size(); ++i) {
    const uint64_t chunk = made[i].object.value / kChunkBytes;
    if (chunk % 2 == 0 || kept_chunks.contains(chunk) || !world.store().find(id_of(numbered(i)))) continue;
    ASSERT_EQ(world.store().keep(id_of(numbered(i)), true), Code::kOk);
    kept_chunks.insert(chunk);
  }
  const uint64_t kept = world.accounts().kept_bytes;
  EXPECT_EQ(world.create("two chunks", 1000, kMiB + 500 * kKiB).code(), Code::kNoSpace);
  EXPECT_EQ(world.accounts().evicted_ever, evicted);
  // One of them may go.
  for (uint64_t i = 0; i < made.size(); ++i) {
    if (made[i].object.value / kChunkBytes != *std::next(kept_chunks.begin(), 2)) continue;
    const Code code = world.store().keep(id_of(numbered(i)), false);
    ASSERT_TRUE(code == Code::kOk || code == Code::kNotFound);
  }
  EXPECT_TRUE(world.make("two chunks", 1000, kMiB + 500 * kKiB));
  EXPECT_LE(world.accounts().evicted_ever - evicted, 14U);
  EXPECT_EQ(world.accounts().kept_bytes, kept - 240 * kKiB);
  EXPECT_EQ(world.damage(), "");
}

// Readers that pin what is no object of the store: inside of one, records, nothing at all.
TEST(FullStoreTest, pins_of_what_is_no_object_keep_no_object) {
  StoreWorld world({.chunks = 18, .chunks_max = 18, .limit = 64 * kMiB});
  std::vector<Object> made;
  while (world.accounts().evicted_ever == 0) {
    made.push_back(needed(world.make(numbered(made.size()), made.size() + 1, 240 * kKiB)));
    world.readers.hold(made.back().object.plus(64));
  }
  world.readers.hold({UINT64_MAX});
  world.readers.hold({8});
  EXPECT_TRUE(world.make("large", 1000, 6 * kMiB));
  EXPECT_EQ(world.damage(), "");
}

TEST(FullStoreTest, small_objects_leave_a_window_in_steps) {
  StoreWorld world({.chunks = 18, .chunks_max = 18, .limit = 64 * kMiB});
  uint64_t made = 0;
  while (world.accounts().evicted_ever == 0) {
    const Result<Object> object = world.make(numbered(made), made + 1, 100);
    ASSERT_TRUE(object || world.store().shortage().is_under_way);
    if (!object) break;
    ++made;
  }
  uint64_t steps = 0;
  while (true) {
    const uint64_t before = world.accounts().evicted_ever;
    const Code code = world.create("large", 10'000'000, 3 * kMiB).code();
    EXPECT_LE(world.accounts().evicted_ever - before, ObjectStore::kEvictedAtOnce);
    if (code == Code::kOk) break;
    ASSERT_EQ(code, Code::kNoSpace);
    ASSERT_TRUE(world.store().shortage().is_under_way);
    ASSERT_LT(++steps, 1000U);
    EXPECT_EQ(world.damage(), "");
  }
  EXPECT_GT(steps, 3U);
  EXPECT_EQ(world.damage(), "");
  // What others have left half done is no harm.
  EXPECT_EQ(world.create("larger", 10'000'001, 9 * kMiB).code(), Code::kNoSpace);
  ASSERT_TRUE(world.make("small", 10'000'002, 100));
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.damage(), "");
  world.empty();
  EXPECT_TRUE(world.make("all", 10'000'003, 10 * kMiB));
}

class Growth final : public kv::GrowthSource {
 public:
  [[nodiscard]] bool can_grow(uint64_t) const noexcept override { return can; }
  void want(uint64_t) noexcept override {}
  bool can = true;
};

TEST(FullStoreTest, memory_that_can_come_is_asked_for_before_anything_goes) {
  Growth growth;
  StoreWorld world({.chunks = 10, .chunks_max = 40, .limit = 64 * kMiB, .growth = &growth});
  Code code = Code::kOk;
  uint64_t made = 0;
  while (true) {
    code = world.make(numbered(made), made + 1, 300 * kKiB).code();
    if (code != Code::kOk) break;
    ++made;
  }
  EXPECT_EQ(code, Code::kNoSpace);
  EXPECT_GE(world.store().shortage().wanted_bytes, 300 * kKiB);
  EXPECT_EQ(world.accounts().evicted_ever, 0U);
  EXPECT_EQ(world.damage(), "");
  world.add_chunks(8);
  EXPECT_TRUE(world.make(numbered(made), made + 1, 300 * kKiB));
  EXPECT_EQ(world.store().shortage().wanted_bytes, 0U);
  growth.can = false;
  for (uint64_t i = 0; i < 60; ++i)
    ASSERT_TRUE(world.make("later " + std::to_string(i), 1000 + i, 300 * kKiB));
  EXPECT_GT(world.accounts().evicted_ever, 0U);
  EXPECT_EQ(world.damage(), "");
}

TEST(FullStoreTest, an_eviction_is_bounded_and_counts_what_came_back) {
  StoreWorld world({.chunks = 64, .limit = 32 * kMiB});
  for (uint64_t i = 0; i < 3000; ++i) ASSERT_TRUE(world.make(numbered(i), i + 1, i < 1500 ? 0 : 100));
  EXPECT_EQ(world.store().evict(1), 0U);
  EXPECT_TRUE(world.store().shortage().is_under_way);
  EXPECT_EQ(world.accounts().evicted_ever, ObjectStore::kEvictedAtOnce);
  EXPECT_EQ(world.store().evict(250), 300U);
  EXPECT_FALSE(world.store().shortage().is_under_way);
  EXPECT_EQ(world.accounts().evicted_ever, 1503U);
  // Pinned when its id has gone already: it frees nothing, and others go instead.
  const Object next = needed(world.store().find(id_of(numbered(1503))));
  for (uint64_t i = 1504; i < 3000; ++i) ASSERT_TRUE(world.store().find(id_of(numbered(i))));
  int looks = 0;
  world.readers.at_look = [&] {
    if (++looks == 2) world.readers.hold(next.object);
  };
  EXPECT_EQ(world.store().evict(100), 100U);
  world.readers.at_look = nullptr;
  EXPECT_EQ(world.accounts().departed_bytes, 100U);
  EXPECT_EQ(world.damage(), "");
  EXPECT_EQ(world.store().evict(UINT64_MAX), 102'400U);
  EXPECT_EQ(world.store().evict(UINT64_MAX), 47'100U);
  EXPECT_EQ(world.accounts().objects, 0U);
  EXPECT_EQ(world.accounts().used(), 100U);
}

}  // namespace
}  // namespace refract::object
