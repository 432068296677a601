// SPDX-License-Identifier: Apache-2.0
#include "refract/object/owner/object_store.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "refract/base/testing/needed.h"
#include "refract/object/testing/test_store.h"

namespace refract::object {
namespace {

using refract::test::needed;
using test::id_of;
using test::StoreWorld;

TEST(ObjectStoreTest, an_object_is_found_from_its_seal_to_its_end) {
  StoreWorld world;
  const Creation made = needed(world.create("a", 7, 1000, 20));
  EXPECT_EQ(made.object.value % kBodyAlignment, 0U);
  EXPECT_FALSE(made.is_sealed);
  EXPECT_EQ(world.store().find(id_of("a")).code(), Code::kNotFound);
  world.fill(made);
  const Object sealed = needed(world.store().seal(id_of("a"), 7));
  EXPECT_EQ(sealed.object.value, made.object.value);
  const Object found = needed(world.store().find(id_of("a")));
  EXPECT_EQ(found.birth, 7U);
  EXPECT_EQ(found.parts.body_bytes, 1000U);
  EXPECT_EQ(found.parts.metadata_bytes, 20U);
  EXPECT_TRUE(world.has_its_bytes(found.object, 7, found.parts));
  EXPECT_EQ(world.accounts().sealed_bytes, 1020U);
  EXPECT_EQ(world.store().erase(id_of("a"), 8).code(), Code::kVersionMismatch);
  EXPECT_EQ(needed(world.store().erase(id_of("a"), 7)), 0U);
  EXPECT_EQ(world.store().find(id_of("a")).code(), Code::kNotFound);
  EXPECT_EQ(world.accounts().used(), 0U);
  EXPECT_EQ(world.damage(), "");
}

TEST(ObjectStoreTest, a_call_that_comes_again_hears_what_the_first_one_heard) {
  StoreWorld world;
  const Creation made = needed(world.create("a", 7, 100));
  EXPECT_EQ(needed(world.create("a", 7, 100)).object.value, made.object.value);
  EXPECT_EQ(world.create("a", 7, 101).code(), Code::kInvalidArgument);
  EXPECT_EQ(world.create("a", 8, 100).code(), Code::kExists);
  EXPECT_EQ(world.store().seal(id_of("a"), 8).code(), Code::kNotFound);
  ASSERT_TRUE(world.store().seal(id_of("a"), 7));
  EXPECT_EQ(needed(world.store().seal(id_of("a"), 7)).object.value, made.object.value);
  EXPECT_TRUE(needed(world.create("a", 7, 100)).is_sealed);
  EXPECT_EQ(world.create("a", 8, 100).code(), Code::kExists);
  EXPECT_EQ(world.store().seal(id_of("a"), 8).code(), Code::kExists);
  EXPECT_EQ(world.store().end_creation(id_of("a"), 7), Code::kNotFound);
  EXPECT_EQ(world.store().abort_creation(id_of("a"), 8), Code::kExists);
  ASSERT_TRUE(world.store().erase(id_of("a"), 0));
  EXPECT_EQ(world.create("a", 7, 100).code(), Code::kIndeterminate);
  EXPECT_EQ(world.store().seal(id_of("a"), 7).code(), Code::kIndeterminate);
  EXPECT_EQ(world.store().erase(id_of("a"), 7).code(), Code::kNotFound);
  ASSERT_TRUE(world.make("a", 9, 100));
  EXPECT_EQ(world.store().seal(id_of("a"), 7).code(), Code::kIndeterminate);
  EXPECT_EQ(world.create("a", 7, 100).code(), Code::kIndeterminate);
  EXPECT_EQ(world.damage(), "");
}

TEST(ObjectStoreTest, a_creation_that_was_given_up_may_come_again_and_an_aborted_one_may_not) {
  StoreWorld world;
  ASSERT_TRUE(world.create("a", 7, 5000));
  EXPECT_EQ(world.store().end_creation(id_of("a"), 8), Code::kExists);
  EXPECT_EQ(world.store().end_creation(id_of("a"), 7), Code::kOk);
  EXPECT_EQ(world.store().end_creation(id_of("a"), 7), Code::kNotFound);
  EXPECT_EQ(world.store().seal(id_of("a"), 7).code(), Code::kNotFound);
  EXPECT_EQ(world.accounts().used(), 0U);
  ASSERT_TRUE(world.create("a", 7, 5000));
  EXPECT_EQ(world.store().abort_creation(id_of("a"), 7), Code::kOk);
  EXPECT_EQ(world.create("a", 7, 5000).code(), Code::kNotFound);
  // Before it has come, too.
  EXPECT_EQ(world.store().abort_creation(id_of("a"), 9), Code::kNotFound);
  EXPECT_EQ(world.create("a", 9, 5000).code(), Code::kNotFound);
  EXPECT_TRUE(world.create("a", 10, 5000));
}

// A client that ends its creation again, of which a copy comes back from another node: READs are under
// way into that room.
TEST(ObjectStoreTest, what_is_pulled_is_ended_by_its_puller_alone) {
  StoreWorld world;
  ASSERT_TRUE(world.store().create({.id = id_of("a"), .birth = 7, .body_bytes = 1000, .is_pulled = true}));
  EXPECT_EQ(world.store().abort_creation(id_of("a"), 7), Code::kNotFound);
  EXPECT_EQ(world.store().end_creation(id_of("a"), 7), Code::kNotFound);
  EXPECT_EQ(world.create("a", 7, 1000).code(), Code::kNotFound) << "it was aborted";
  EXPECT_EQ(world.create("a", 6, 1000).code(), Code::kExists);
  EXPECT_EQ(world.accounts().creations, 1U);
  EXPECT_EQ(world.store().end_pull(id_of("a"), 7), Code::kOk);
  EXPECT_EQ(world.accounts().creations, 0U);
  ASSERT_TRUE(world.create("a", 8, 1000));
  const ObjectStore::NewObject again{.id = id_of("a"), .birth = 8, .body_bytes = 1000, .is_pulled = true};
  EXPECT_EQ(world.store().create(again).code(), Code::kExists);
  EXPECT_EQ(world.store().end_pull(id_of("a"), 8), Code::kNotFound);
  EXPECT_EQ(world.store().end_creation(id_of("a"), 8), Code::kOk);
}

TEST(ObjectStoreTest, lengths_are_compared_one_by_one) {
  StoreWorld world({.limit = 4 * kMiB});
  EXPECT_EQ(world.create("a", 1, UINT64_MAX - 100).code(), Code::kTooLarge);
  EXPECT_EQ(world.create("a", 1, UINT64_MAX).code(), Code::kTooLarge);
  EXPECT_EQ(world.create("a", 1, 4 * kMiB + 1).code(), Code::kTooLarge);
  EXPECT_EQ(world.create("a", 1, 4 * kMiB, 1).code(), Code::kTooLarge);
  EXPECT_EQ(world.create("a", 1, 0, kMetadataBytesMax + 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(world.create("a", 0, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(world.create("", 1, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(world.create(std::string(256, 'x'), 1, 0).code(), Code::kInvalidArgument);
  EXPECT_TRUE(world.make(std::string(255, 'x'), 1, 0));
  EXPECT_TRUE(world.make("b", 1, 4 * kMiB - kMetadataBytesMax, kMetadataBytesMax));
  EXPECT_EQ(world.accounts().used(), 4 * kMiB);
}

TEST(ObjectStoreTest, what_departs_while_it_is_held_keeps_its_memory) {
  StoreWorld world;
  const Object first = needed(world.make("a", 7, 100 * kKiB));
  world.readers.hold(first.object);
  world.readers.hold(first.object);
  EXPECT_EQ(needed(world.store().erase(id_of("a"), 0)), 2U);
  EXPECT_EQ(world.accounts().departed_bytes, 100 * kKiB);
  std::set<uint64_t> places;
  for (int i = 0; i < 60; ++i) {
    places.insert(needed(world.make("other " + std::to_string(i), 9, 100 * kKiB)).object.value);
  }
  EXPECT_FALSE(places.contains(first.object.value));
  EXPECT_TRUE(world.has_its_bytes(first.object, 7, first.parts));
  world.readers.let_go(first.object);
  EXPECT_EQ(world.store().release_departed(), 1U);
  world.readers.let_go(first.object);
  EXPECT_EQ(world.store().release_departed(), 0U);
  EXPECT_EQ(world.accounts().departed_bytes, 0U);
  EXPECT_EQ(needed(world.make("next", 9, 100 * kKiB)).object.value, first.object.value);
  EXPECT_EQ(world.damage(), "");
}

TEST(ObjectStoreTest, a_restart_finds_all_that_there_was) {
  StoreWorld world({.chunks = 64});
  for (uint64_t i = 1; i <= 500; ++i) {
    ASSERT_TRUE(world.make("object " + std::to_string(i), i, i * 10, static_cast<uint32_t>(i % 7)));
  }
  ASSERT_TRUE(world.create("open", 1000, 5000));
  ASSERT_EQ(world.store().keep(id_of("object 3"), true), Code::kOk);
  const Object held = needed(world.store().find(id_of("object 9")));
  world.readers.hold(held.object);
  ASSERT_TRUE(world.store().erase(id_of("object 9"), 0));
  const ObjectAccounts before = world.accounts();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.damage(), "");
  EXPECT_EQ(world.accounts().sealed_bytes, before.sealed_bytes);
  EXPECT_EQ(world.accounts().creation_bytes, before.creation_bytes);
  EXPECT_EQ(world.accounts().departed_bytes, before.departed_bytes);
  EXPECT_EQ(world.accounts().kept_bytes, before.kept_bytes);
  for (uint64_t i = 1; i <= 500; ++i) {
    const Result<Object> found = world.store().find(id_of("object " + std::to_string(i)));
    ASSERT_EQ(found.has_value(), i != 9);
    if (!found) continue;
    EXPECT_EQ(found->is_kept, i == 3);
    EXPECT_TRUE(world.has_its_bytes(found->object, i, found->parts));
  }
  ASSERT_EQ(world.store().creations().size(), 1U);
  EXPECT_EQ(world.store().creations()[0].birth, 1000U);
  EXPECT_TRUE(world.store().seal(id_of("open"), 1000));
  // Only a reader has held it: with the next restart it is gone.
  world.readers.let_go(held.object);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.accounts().departed, 0U);
}

// Least recently used first: by calls, by what readers wrote down, and by what is held.
TEST(ObjectStoreTest, what_was_not_used_for_longest_goes_first) {
  StoreWorld world({.limit = 10 * kKiB});
  std::map<int, Object> made;
  for (int i = 0; i < 10; ++i)
    made[i] = needed(world.make(std::to_string(i), static_cast<uint64_t>(i) + 1, kKiB));
  ASSERT_TRUE(world.store().find(id_of("0")));
  world.readers.use(made[1].object);
  world.readers.use({made[2].object.value + 64});  // Of nothing.
  world.readers.hold(made[3].object);
  ASSERT_EQ(world.store().keep(id_of("4"), true), Code::kOk);
  const auto is_there = [&](int i) {
    uint64_t cursor = 0;
    bool is_listed = false;
    do {
      cursor = world.store().list(cursor, [&](const ObjectStore::Listed& listed) {
        is_listed = is_listed || test::text_of(listed.id) == std::to_string(i);
      });
    } while (cursor != 0);
    return is_listed;
  };
  std::vector<int> order;
  std::set<int> left;
  for (int i = 0; i < 10; ++i) left.insert(i);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(world.make("next " + std::to_string(i), 100, kKiB));
    ASSERT_EQ(world.store().keep(id_of("next " + std::to_string(i)), true), Code::kOk);
    for (const int old : std::set<int>(left)) {
      if (is_there(old)) continue;
      order.push_back(old);
      left.erase(old);
    }
  }
  EXPECT_EQ(order, (std::vector<int>{2, 5, 6, 7, 8, 9, 0, 1}));
  EXPECT_EQ(world.create("more", 200, kKiB).code(), Code::kNoSpace);
  EXPECT_EQ(world.damage(), "");
}

// A header and the id beside it, the record, a slot of the table. Of the shortest bodies, since buffers of
// long ones are rounded up by a share.
TEST(ObjectStoreTest, what_lies_beside_a_body_is_at_most_256_bytes) {
  StoreWorld world;
  constexpr uint64_t kObjects = 2'000;
  const auto used = [&] {
    return world.heap().stats().bytes_live + world.table().stats().buckets * kLineBytes;
  };
  for (const uint64_t body_bytes : {uint64_t{0}, uint64_t{64}, uint64_t{128}}) {
    const uint64_t before = used();
    for (uint64_t i = 0; i < kObjects; ++i) {
      ASSERT_TRUE(
          world.put(std::to_string(body_bytes) + " of twenty bytes" + std::to_string(i), i + 1, body_bytes));
    }
    const uint64_t beside = (used() - before) / kObjects - body_bytes;
    EXPECT_LE(beside, 256U) << body_bytes;
    EXPECT_GE(beside, 64U) << "else something is not counted";
  }
}

}  // namespace
}  // namespace refract::object
