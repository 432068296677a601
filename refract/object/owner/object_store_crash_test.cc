// SPDX-License-Identifier: Apache-2.0
// An owner that is killed between any two stores, and another one that finds what it has left, and is killed
// between any two of its own.
//
// Method: the stores of a step are recorded, by aligned words; then for each number of them a memory is made
// that has just these, and an owner recovers it. Each id is then as it was before the step or as it is
// behind it; each object that a reader holds has its bytes, and keeps them when room is taken; each account
// is the sum over records, and nothing in use lacks one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/base/testing/turns.h"
#include "refract/fabric/sim/interleavings.h"
#include "refract/object/layout/object_key.h"
#include "refract/object/testing/test_store.h"

namespace refract::object::object_store_crash_test {
namespace {

using refract::test::needed;
using test::id_of;
using test::StoreWorld;

class Recorder final : public StoreLog {
 public:
  void stored(Offset at, std::span<const std::byte> bytes) noexcept override {
    if (list != nullptr) list->stored(at, bytes);
  }
  sim::StoreList* list = nullptr;
};

// What is to be found of each id, and of each place that has no id any more.
using Contents = std::map<std::string, std::string>;

Contents contents_of(StoreWorld& world) {
  Contents contents;
  for (const auto& [id, object] : world.objects()) {
    contents[id] = "sealed " + std::to_string(object.birth) + (object.is_kept ? " kept" : "");
  }
  for (const ObjectStore::OpenCreation& open : world.store().creations()) {
    contents["creation of " + test::text_of(open.id)] =
        std::to_string(open.birth) + (open.is_pulled ? " pulled" : "");
  }
  for (const auto& [id, birth] : world.store().tombstones()) {
    contents["tombstone of " + id + " " + std::to_string(birth)] = "there";
  }
  return contents;
}

class CrashTest : public testing::Test {
 protected:
  explicit CrashTest(uint64_t limit = 2 * kMiB)
      : options{.chunks = 10, .chunks_max = 10, .limit = limit},
        world(options, &recorder),
        found(options, &its_own) {}

  void hold(std::string_view id) {
    const Object object = needed(world.store().find(id_of(id)));
    held.push_back(object);
    world.readers.hold(object.object);
  }

  // By a record: else its memory is free, whether or not another object has it already.
  bool is_named(const Object& object) {
    if (found.table().find(ObjectKey::departed(object.object.value).bytes())) return true;
    const auto objects = found.objects();
    return std::ranges::any_of(objects, [&](const auto& one) {
      return one.second.object == object.object && one.second.birth == object.birth;
    });
  }

  // Everything that must be so when an owner has recovered.
  void expect_sound(const Contents& before, const Contents& after) {
    ASSERT_EQ(found.damage(), "");
    const Contents contents = contents_of(found);
    std::set<std::string> ids;
    for (const Contents* some : {&before, &after, &contents}) {
      for (const auto& [id, state] : *some) ids.insert(id);
    }
    const auto state_in = [](const Contents& some, const std::string& id) {
      const auto at = some.find(id);
      return at == some.end() ? std::string("nothing") : at->second;
    };
    for (const std::string& id : ids) {
      const std::string state = state_in(contents, id);
      EXPECT_TRUE(state == state_in(before, id) || state == state_in(after, id)) << id << ": " << state;
      // One of both, and never both.
      EXPECT_FALSE(contents.contains(id) && contents.contains("creation of " + id)) << id;
    }
    for (const auto& [id, object] : found.objects()) {
      EXPECT_TRUE(found.has_its_bytes(object.object, object.birth, object.parts)) << id;
    }
    for (int i = 0; i < 40; ++i) {
      const auto made = found.create("room " + std::to_string(i), 5000, 10 * kKiB);
      if (made) found.fill(*made);
    }
    for (const Object& object : held) {
      EXPECT_TRUE(is_named(object)) << object.birth;
      EXPECT_TRUE(found.has_its_bytes(object.object, object.birth, object.parts)) << object.birth;
    }
    EXPECT_EQ(found.damage(), "");
    found.empty();
    EXPECT_EQ(found.accounts().used(), 0U);
    EXPECT_EQ(found.damage(), "");
  }

  // The memory has `image`, then so many of the stores of each list.
  struct Killed {
    const std::vector<sim::Store>& stores;
    size_t count = 0;
  };
  void recover(const std::vector<std::byte>& image, std::span<const Killed> kills, const Contents& before,
               const Contents& after) {
    found.load(image);
    for (const Killed& killed : kills) {
      for (size_t i = 0; i < killed.count; ++i) {
        std::memcpy(found.base() + killed.stores[i].at.value, &killed.stores[i].word, 8);
      }
    }
    found.readers.let_go_of_all();
    for (const Object& object : held) found.readers.hold(object.object);
    sim::StoreList list(found.base());
    its_own.list = &list;
    ASSERT_TRUE(found.restart());
    its_own.list = nullptr;
    expect_sound(before, after);
    if (kills.size() > 1) return;
    const std::vector<sim::Store> stores = list.stores();
    recoveries += stores.empty() ? 0 : 1;
    for (size_t count = 1; count < stores.size() && !HasFailure(); count += refract::test::kStride) {
      SCOPED_TRACE("killed again behind store " + std::to_string(count));
      recover(image, std::array{kills[0], Killed{stores, count}}, before, after);
    }
  }

  // Returns in how many ways it was interrupted.
  size_t interrupt(const std::function<void()>& step) {
    const std::vector<std::byte> image(world.base(), world.base() + world.bytes());
    const Contents before = contents_of(world);
    sim::StoreList list(world.base());
    recorder.list = &list;
    step();
    recorder.list = nullptr;
    const std::vector<sim::Store> stores = list.stores();
    const Contents after = contents_of(world);
    for (size_t count = 0; count <= stores.size() && !HasFailure(); ++count) {
      SCOPED_TRACE("killed behind store " + std::to_string(count) + " of " + std::to_string(stores.size()));
      recover(image, std::array{Killed{stores, count}}, before, after);
    }
    return stores.size();
  }

  test::StoreOptions options;
  Recorder recorder;
  StoreWorld world;
  Recorder its_own;
  StoreWorld found;
  std::vector<Object> held;
  size_t recoveries = 0;  // That had something to finish.
};

// Of a chunk of its own, which goes back as a whole.
TEST_F(CrashTest, from_creation_to_deletion) {
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.create("a", 1, kMiB + 100 * kKiB)); }), 8U);
  world.fill(needed(world.create("a", 1, kMiB + 100 * kKiB)));
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.store().seal(id_of("a"), 1)); }), 4U);
  EXPECT_GT(interrupt([&] { ASSERT_EQ(world.store().keep(id_of("a"), true), Code::kOk); }), 3U);
  EXPECT_GT(interrupt([&] { ASSERT_EQ(world.store().keep(id_of("a"), false), Code::kOk); }), 3U);
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.store().erase(id_of("a"), 0)); }), 6U);
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.create("a", 2, kMiB + 100 * kKiB)); }), 8U);
  EXPECT_GT(interrupt([&] { ASSERT_EQ(world.store().end_creation(id_of("a"), 2), Code::kOk); }), 0U);
  EXPECT_GT(recoveries, 0U);
}

TEST_F(CrashTest, what_is_put_as_a_whole) {
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.put("a", 1, 1000, 50)); }), 8U);
  EXPECT_EQ(contents_of(world)["a"], "sealed 1");
  EXPECT_EQ(world.table().stats().entries, 1U) << "one record";
  // Again, and by another birth.
  EXPECT_EQ(interrupt([&] { ASSERT_TRUE(world.put("a", 1, 1000, 50)); }), 0U);
  EXPECT_EQ(interrupt([&] { ASSERT_EQ(world.put("a", 2, 1000).code(), Code::kExists); }), 0U);
  // What was begun as a creation.
  ASSERT_TRUE(world.create("b", 3, 500));
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.put("b", 3, 500)); }), 4U);
  EXPECT_EQ(contents_of(world)["b"], "sealed 3");
  EXPECT_EQ(world.accounts().creations, 0U);
}

// Each word of its body is a moment to be killed at: it is short.
TEST_F(CrashTest, what_is_put_as_a_whole_where_another_goes_for_it) {
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(world.make("old " + std::to_string(i), 10 + i, 100 * kKiB));
  ASSERT_TRUE(world.make("rest", 9, 47 * kKiB));
  hold("old 0");
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.put("new", 1, 2 * kKiB)); }), 256U);
  EXPECT_EQ(world.accounts().evicted_ever, 1U);
}

TEST_F(CrashTest, a_deletion_of_what_is_held_and_its_end) {
  ASSERT_TRUE(world.make("a", 1, 20 * kKiB));
  ASSERT_TRUE(world.make("b", 2, 20 * kKiB));
  hold("a");
  EXPECT_GT(interrupt([&] { EXPECT_EQ(needed(world.store().erase(id_of("a"), 0)), 1U); }), 6U);
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.create("a", 3, 20 * kKiB)); }), 8U);
  world.readers.let_go_of_all();
  held.clear();
  EXPECT_GT(interrupt([&] { EXPECT_EQ(world.store().release_departed(), 0U); }), 0U);
}

// As a delete on all nodes does it: the tombstone, then the object, and at last the tombstone goes.
TEST_F(CrashTest, a_tombstone_that_comes_and_goes) {
  ASSERT_TRUE(world.make("a", 1, 1000));
  EXPECT_GT(interrupt([&] { ASSERT_EQ(world.store().add_tombstone(id_of("a"), 1), Code::kOk); }), 3U);
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.store().erase(id_of("a"), 1)); }), 3U);
  EXPECT_GT(interrupt([&] { ASSERT_EQ(world.store().add_tombstone(id_of("a"), 2), Code::kOk); }), 3U);
  EXPECT_EQ(interrupt([&] { ASSERT_EQ(world.store().add_tombstone(id_of("a"), 2), Code::kOk); }), 0U);
  EXPECT_GT(interrupt([&] { world.store().remove_tombstone(id_of("a"), 1); }), 0U);
  EXPECT_GT(interrupt([&] { world.store().remove_tombstone(id_of("a"), 2); }), 0U);
}

TEST_F(CrashTest, a_pulled_creation) {
  const ObjectStore::NewObject pulled{.id = id_of("a"), .birth = 1, .body_bytes = 1000, .is_pulled = true};
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.store().create(pulled)); }), 3U);
  EXPECT_EQ(contents_of(world)["creation of a"], "1 pulled");
  world.fill(needed(world.store().create(pulled)));
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.store().seal(id_of("a"), 1)); }), 3U);
}

TEST_F(CrashTest, an_eviction_of_several_for_the_limit) {
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(world.make("old " + std::to_string(i), 10 + i, 100 * kKiB));
  hold("old 1");
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.create("new", 1, 450 * kKiB)); }), 20U);
  EXPECT_EQ(world.accounts().evicted_ever, 5U);
  EXPECT_GT(interrupt([&] { EXPECT_GE(world.store().evict(250 * kKiB), 250 * kKiB); }), 10U);
}

// One that is pinned when its id has gone already.
TEST_F(CrashTest, an_eviction_of_what_is_held_in_between) {
  ASSERT_TRUE(world.make("a", 1, 100 * kKiB));
  const Object b = needed(world.make("b", 2, 100 * kKiB));
  interrupt([&] {
    int looks = 0;
    world.readers.at_look = [&] {
      if (++looks == 2) held.push_back(b);
      if (looks == 2) world.readers.hold(b.object);
    };
    EXPECT_EQ(world.store().evict(200 * kKiB), 100 * kKiB);
    world.readers.at_look = nullptr;
    EXPECT_EQ(world.accounts().departed_bytes, 100 * kKiB);
  });
}

class FullCrashTest : public CrashTest {
 protected:
  FullCrashTest() : CrashTest(64 * kMiB) {}
};

// The limit has room, the heap has no run.
TEST_F(FullCrashTest, a_window_that_objects_and_records_leave) {
  std::vector<std::string> ids;
  while (world.accounts().evicted_ever == 0) {
    ids.push_back("object " + std::to_string(ids.size()));
    ASSERT_TRUE(world.make(ids.back(), ids.size(), 250 * kKiB));
  }
  hold(ids.back());
  const uint64_t evicted = world.accounts().evicted_ever;
  EXPECT_GT(interrupt([&] { ASSERT_TRUE(world.create("large", 1000, kMiB + 300 * kKiB)); }), 20U);
  EXPECT_GT(world.accounts().evicted_ever, evicted);
}

TEST_F(CrashTest, records_while_the_table_grows) {
  for (uint64_t i = 0; i < 83; ++i) ASSERT_TRUE(world.make("object " + std::to_string(i), 10 + i, 100));
  const uint64_t buckets = world.table().stats().buckets;
  for (uint64_t i = 0; i < 3; ++i) {
    const std::string id = "new " + std::to_string(i);
    interrupt([&] { ASSERT_TRUE(world.create(id, i + 1, 100)); });
    world.fill(needed(world.create(id, i + 1, 100)));
    interrupt([&] { ASSERT_TRUE(world.store().seal(id_of(id), i + 1)); });
  }
  EXPECT_GT(world.table().stats().buckets, buckets);
  interrupt([&] { ASSERT_TRUE(world.store().erase(id_of("new 1"), 0)); });
}

}  // namespace
}  // namespace refract::object::object_store_crash_test
