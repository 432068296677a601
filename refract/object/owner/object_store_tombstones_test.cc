// SPDX-License-Identifier: Apache-2.0
// Births that are refused, and pulled creations: what an owner finds of them again.
// object_store_crash_test.cc kills owners between any two stores of both.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/object/testing/test_store.h"

namespace refract::object {
namespace {

using refract::test::needed;
using test::id_of;
using test::StoreWorld;
using Tombstones = ObjectStore::Tombstones;

Result<Creation> pull(StoreWorld& world, std::string_view id, uint64_t birth, uint64_t body_bytes = 1000) {
  return world.store().create({.id = id_of(id), .birth = birth, .body_bytes = body_bytes, .is_pulled = true});
}

TEST(TombstonesTest, they_are_found_by_the_next_owner_and_gone_when_removed) {
  StoreWorld world;
  const std::string longest(kIdBytesMax, 'x');
  EXPECT_EQ(world.store().add_tombstone(id_of("a"), 7), Code::kOk);
  EXPECT_EQ(world.store().add_tombstone(id_of(longest), UINT64_MAX), Code::kOk);
  EXPECT_EQ(world.store().add_tombstone(id_of("b"), 8), Code::kOk);
  world.store().remove_tombstone(id_of("b"), 8);
  const Tombstones expected = {{"a", 7}, {longest, UINT64_MAX}};
  for (int owner = 0; owner < 3; ++owner) {
    EXPECT_EQ(world.store().tombstones(), expected);
    EXPECT_TRUE(world.store().has_tombstone(id_of("a"), 7));
    EXPECT_TRUE(world.store().has_tombstone(id_of(longest), UINT64_MAX));
    EXPECT_FALSE(world.store().has_tombstone(id_of("b"), 8));
    EXPECT_EQ(world.damage(), "");
    ASSERT_TRUE(world.restart());
  }
  world.store().remove_tombstone(id_of("a"), 7);
  world.store().remove_tombstone(id_of(longest), UINT64_MAX);
  ASSERT_TRUE(world.restart());
  EXPECT_TRUE(world.store().tombstones().empty());
  EXPECT_EQ(world.table().stats().entries, 0U);
  EXPECT_EQ(world.damage(), "");
}

TEST(TombstonesTest, the_same_one_is_added_and_removed_once) {
  StoreWorld world;
  world.store().remove_tombstone(id_of("a"), 7);
  EXPECT_EQ(world.store().add_tombstone(id_of("a"), 7), Code::kOk);
  EXPECT_EQ(world.store().add_tombstone(id_of("a"), 7), Code::kOk);
  EXPECT_EQ(world.table().stats().entries, 1U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.store().add_tombstone(id_of("a"), 7), Code::kOk) << "an owner before this one has added it";
  EXPECT_EQ(world.table().stats().entries, 1U);
  world.store().remove_tombstone(id_of("a"), 7);
  world.store().remove_tombstone(id_of("a"), 7);
  EXPECT_TRUE(world.store().tombstones().empty());
  EXPECT_EQ(world.damage(), "");
}

TEST(TombstonesTest, an_id_that_is_none_and_birth_0_are_refused) {
  StoreWorld world;
  EXPECT_EQ(world.store().add_tombstone(id_of("a"), 0), Code::kInvalidArgument);
  EXPECT_EQ(world.store().add_tombstone(id_of(""), 7), Code::kInvalidArgument);
  EXPECT_EQ(world.store().add_tombstone(id_of(std::string(kIdBytesMax + 1, 'x')), 7), Code::kInvalidArgument);
  EXPECT_FALSE(world.store().has_tombstone(id_of("a"), 0));
  EXPECT_TRUE(world.store().tombstones().empty());
  EXPECT_EQ(world.table().stats().entries, 0U);
}

TEST(TombstonesTest, births_of_one_id_and_its_object_stand_side_by_side) {
  StoreWorld world;
  ASSERT_TRUE(world.make("a", 9, 1000));
  for (uint64_t birth = 7; birth <= 9; ++birth) {
    EXPECT_EQ(world.store().add_tombstone(id_of("a"), birth), Code::kOk);
  }
  EXPECT_EQ(world.store().tombstones().size(), 3U);
  // Ids of which one begins like the other's key.
  EXPECT_EQ(world.store().add_tombstone(id_of("aa"), 7), Code::kOk);
  world.store().remove_tombstone(id_of("a"), 8);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.store().tombstones(), (Tombstones{{"a", 7}, {"a", 9}, {"aa", 7}}));
  EXPECT_EQ(needed(world.store().find(id_of("a"))).birth, 9U) << "a tombstone alone drops nothing";
  EXPECT_EQ(world.damage(), "");
  EXPECT_TRUE(world.store().erase(id_of("a"), 9));
  ASSERT_TRUE(world.make("a", 10, 1000));
  world.store().remove_tombstone(id_of("a"), 9);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.store().tombstones(), (Tombstones{{"a", 7}, {"aa", 7}}));
  EXPECT_EQ(needed(world.store().find(id_of("a"))).birth, 10U);
}

TEST(TombstonesTest, they_count_as_no_object_and_stand_in_no_list) {
  StoreWorld world;
  ASSERT_TRUE(world.make("a", 9, 1000));
  EXPECT_EQ(world.store().add_tombstone(id_of("b"), 7), Code::kOk);
  EXPECT_EQ(world.accounts().used(), 1000U);
  EXPECT_EQ(world.accounts().objects, 1U);
  uint64_t cursor = 0;
  std::vector<std::string> listed;
  do {
    cursor = world.store().list(
        cursor, [&](const ObjectStore::Listed& one) { listed.push_back(test::text_of(one.id)); });
  } while (cursor != 0);
  EXPECT_EQ(listed, std::vector<std::string>{"a"});
  EXPECT_EQ(world.store().find(id_of("b")).code(), Code::kNotFound);
  EXPECT_EQ(world.store().creation(id_of("b"), 7).code(), Code::kNotFound);
}

// What may go does, and what may not stays: then there is no room, and nothing was changed.
TEST(TombstonesTest, a_full_store_lets_objects_go_for_them_until_none_may_go) {
  StoreWorld world({.chunks = 8, .chunks_max = 8, .limit = 64 * kMiB});
  uint64_t made = 0;
  while (world.accounts().evicted_ever == 0) {
    ASSERT_TRUE(world.make("object " + std::to_string(made), made + 1, 10 * kKiB));
    ++made;
  }
  ASSERT_TRUE(world.make("kept", 1'000'000, 100));
  ASSERT_EQ(world.store().keep(id_of("kept"), true), Code::kOk);
  uint64_t added = 0;
  Code code = Code::kOk;
  while (code == Code::kOk) {
    code = world.store().add_tombstone(id_of("deleted"), added + 1);
    added += code == Code::kOk ? 1 : 0;
  }
  EXPECT_EQ(code, Code::kNoSpace);
  EXPECT_GT(world.accounts().evicted_ever, made / 2);
  EXPECT_FALSE(world.store().has_tombstone(id_of("deleted"), added + 1));
  EXPECT_EQ(world.store().tombstones().size(), added);
  EXPECT_EQ(world.damage(), "");
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.store().tombstones().size(), added);
  EXPECT_TRUE(world.store().find(id_of("kept")));
  EXPECT_EQ(world.damage(), "");
  // Those that are removed give their room back.
  for (uint64_t birth = 1; birth <= added; ++birth) world.store().remove_tombstone(id_of("deleted"), birth);
  EXPECT_EQ(world.damage(), "");
  EXPECT_TRUE(world.make("new", 1'000'001, kMiB));
}

// --- Pulled creations ---

TEST(PulledCreationTest, the_next_owner_is_told_which_ones_were_pulled) {
  StoreWorld world;
  ASSERT_TRUE(pull(world, "pulled", 7));
  ASSERT_TRUE(world.create("own", 8, 1000));
  for (int owner = 0; owner < 2; ++owner) {
    const std::vector<ObjectStore::OpenCreation> open = world.store().creations();
    ASSERT_EQ(open.size(), 2U);
    for (const ObjectStore::OpenCreation& one : open) {
      EXPECT_EQ(one.is_pulled, test::text_of(one.id) == "pulled");
      EXPECT_EQ(one.birth, one.is_pulled ? 7U : 8U);
    }
    ASSERT_TRUE(world.restart());
  }
  EXPECT_EQ(world.store().end_pull(id_of("pulled"), 7), Code::kOk);
  EXPECT_EQ(world.damage(), "");
}

TEST(PulledCreationTest, what_is_pulled_becomes_an_object_like_any) {
  StoreWorld world;
  world.fill(needed(pull(world, "a", 7)));
  const Object object = needed(world.store().seal(id_of("a"), 7));
  ASSERT_TRUE(world.restart());
  const Object found = needed(world.store().find(id_of("a")));
  EXPECT_EQ(found.birth, 7U);
  EXPECT_TRUE(world.has_its_bytes(object.object, 7, found.parts));
  EXPECT_TRUE(needed(pull(world, "a", 7)).is_sealed) << "it is here already";
  EXPECT_EQ(pull(world, "a", 8).code(), Code::kExists);
  EXPECT_EQ(pull(world, "a", 7, 999).code(), Code::kInvalidArgument) << "of other lengths";
}

TEST(PulledCreationTest, a_birth_that_went_may_come_again_from_another_node_and_from_none_else) {
  StoreWorld world;
  ASSERT_TRUE(world.make("evicted", 7, 1000));
  ASSERT_TRUE(world.make("deleted", 8, 1000));
  ASSERT_GT(world.store().evict(2000), 0U);
  ASSERT_TRUE(world.make("deleted again", 9, 1000));
  ASSERT_TRUE(world.store().erase(id_of("deleted again"), 9));
  ASSERT_TRUE(world.create("aborted", 10, 1000));
  ASSERT_EQ(world.store().abort_creation(id_of("aborted"), 10), Code::kOk);
  EXPECT_EQ(world.create("evicted", 7, 1000).code(), Code::kIndeterminate);
  EXPECT_EQ(world.create("deleted again", 9, 1000).code(), Code::kIndeterminate);
  EXPECT_EQ(world.create("aborted", 10, 1000).code(), Code::kNotFound);
  for (const auto& [id, birth] : {std::pair("evicted", 7), {"deleted again", 9}, {"aborted", 10}}) {
    const auto number = static_cast<uint64_t>(birth);
    const Result<Creation> made = pull(world, id, number);
    ASSERT_TRUE(made.has_value()) << id;
    world.fill(*made);
    EXPECT_TRUE(world.store().seal(id_of(id), number)) << id;
  }
  EXPECT_EQ(world.damage(), "");
}

}  // namespace
}  // namespace refract::object
