// SPDX-License-Identifier: Apache-2.0
// Records and headers whose bytes are wrong: an owner names them, and follows none.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/object/layout/object_key.h"
#include "refract/object/testing/test_store.h"

namespace refract::object {
namespace {

using refract::test::needed;
using test::id_of;
using test::StoreWorld;

class DamageTest : public testing::Test {
 protected:
  DamageTest() {
    a = needed(world.make("a", 7, 1000, 10));
    b = needed(world.make("b", 8, 100 * kKiB));
    open = needed(world.create("open", 9, 500));
    record_a = {
        .object_at = a.object.value, .birth = 7, .body_bytes = 1000, .metadata_bytes = 10, .flags = 0};
  }

  void put(const ObjectKey& key, const ObjectRecord& record) {
    ASSERT_TRUE(world.table().put(key.bytes(), std::as_bytes(std::span(&record, 1)), {}));
  }
  template <typename T>
  void write(Offset at, T value) {
    std::memcpy(world.base() + at.value, &value, sizeof(value));
  }
  // An owner that starts says so, and what it says has a place and a reason.
  void expect_corrupt(std::string_view what) {
    EXPECT_EQ(world.restart().code(), Code::kCorrupt) << what;
    const auto damage = world.store().damage();
    ASSERT_TRUE(damage.has_value()) << what;
    EXPECT_EQ(std::string_view(damage->what), what);
    EXPECT_TRUE(world.heap().is_inside(damage->at, 64));
  }

  StoreWorld world;
  Object a;
  Object b;
  Creation open;
  ObjectRecord record_a{};
  const ObjectKey key_a{KeyKind::kSealed, id_of("a")};
};

TEST_F(DamageTest, a_record_that_contradicts_its_object_is_named) {
  const std::string disagree = "a record and its object's header disagree";
  const std::string nowhere = "a record names no place of an object";
  struct Case {
    std::function<void(ObjectRecord&)> change;
    std::string what;
  };
  const std::vector<Case> cases = {
      {[](ObjectRecord& record) { record.birth = 8; }, disagree},
      {[](ObjectRecord& record) { record.body_bytes = 999; }, disagree},
      {[](ObjectRecord& record) { record.body_bytes = UINT64_MAX - 100; }, disagree},
      {[](ObjectRecord& record) { record.metadata_bytes = 11; }, disagree},
      {[](ObjectRecord& record) { record.flags = 2; }, "a record has flags that it cannot have"},
      {[](ObjectRecord& record) { record.object_at = 0; }, nowhere},
      {[](ObjectRecord& record) { record.object_at += 16; }, nowhere},
      {[](ObjectRecord& record) { record.object_at = UINT64_MAX - 63; }, nowhere},
      {[&](ObjectRecord& record) { record.object_at = world.bytes(); }, nowhere},
      {[](ObjectRecord& record) { record.object_at += 64; }, disagree},
      {[&](ObjectRecord& record) { record = {b.object.value, 8, 100 * kKiB, 0, 0}; },
       "a record has another id than its object"},
  };
  for (const Case& one : cases) {
    ObjectRecord changed = record_a;
    one.change(changed);
    put(key_a, changed);
    expect_corrupt(one.what);
    // Nothing was followed, so that the right record makes all right.
    put(key_a, record_a);
    ASSERT_TRUE(world.restart()) << one.what;
    ASSERT_EQ(world.damage(), "");
    EXPECT_TRUE(world.has_its_bytes(a.object, 7, a.parts));
  }
}

TEST_F(DamageTest, a_header_that_is_none_is_named) {
  const auto header = world.writer().view<ObjectHeader>(a.object);
  const std::string disagree = "a record and its object's header disagree";
  write(a.object.plus(offsetof(ObjectHeader, mark)), uint64_t{0});
  expect_corrupt(disagree);
  write(a.object, header);
  write(a.object.plus(offsetof(ObjectHeader, id_bytes)), uint16_t{0});
  expect_corrupt("an object has impossible lengths");
  write(a.object.plus(offsetof(ObjectHeader, id_bytes)), uint16_t{256});
  expect_corrupt("an object has impossible lengths");
  write(a.object.plus(offsetof(ObjectHeader, id_bytes)), uint16_t{2});
  expect_corrupt("a record has another id than its object");
  write(a.object, header);
  // Both say so, and it is not possible.
  for (const uint64_t body_bytes : {UINT64_MAX - 100, world.bytes(), world.bytes() - a.object.value}) {
    write(a.object.plus(offsetof(ObjectHeader, body_bytes)), body_bytes);
    ObjectRecord changed = record_a;
    changed.body_bytes = body_bytes;
    put(key_a, changed);
    expect_corrupt("an object has impossible lengths");
  }
  write(a.object, header);
  put(key_a, record_a);
  EXPECT_TRUE(world.restart());
  EXPECT_EQ(world.damage(), "");
}

TEST_F(DamageTest, objects_that_share_memory_are_named) {
  // A whole object inside of another's body.
  const Offset inside = b.object.plus(4096);
  ObjectHeader header = world.writer().view<ObjectHeader>(a.object);
  header.birth = 10;
  header.body_bytes = 0;
  header.metadata_bytes = 0;
  header.id_bytes = 1;
  write(inside, header);
  write(inside.plus(sizeof(header)), 'z');
  put(ObjectKey(KeyKind::kSealed, id_of("z")), {inside.value, 10, 0, 0, 0});
  EXPECT_EQ(world.restart().code(), Code::kCorrupt);
  const auto damage = world.store().damage();
  ASSERT_TRUE(damage.has_value());
  EXPECT_EQ(std::string_view(damage->what), "an object's memory is another's, or none");
}

TEST_F(DamageTest, what_is_no_record_is_named) {
  ASSERT_TRUE(world.table().put(key_a.bytes(), id_of("short"), {}));
  expect_corrupt("a record has another length");
  put(key_a, record_a);
  ASSERT_TRUE(world.table().put(id_of("xyz"), std::as_bytes(std::span(&record_a, 1)), {}));
  expect_corrupt("a record is of no kind");
  ASSERT_TRUE(world.table().erase(id_of("xyz"), 0));
  ASSERT_TRUE(world.table().put(id_of("o"), std::as_bytes(std::span(&record_a, 1)), {}));
  expect_corrupt("an id is too long or missing");
  ASSERT_TRUE(world.table().erase(id_of("o"), 0));
  ASSERT_TRUE(world.table().put(id_of("d1234567"), std::as_bytes(std::span(&record_a, 1)), {}));
  expect_corrupt("a departed object has another's key");
  ASSERT_TRUE(world.table().erase(id_of("d1234567"), 0));
  put(ObjectKey::departed(b.object.value), record_a);
  expect_corrupt("a departed object has another's key");
  ASSERT_TRUE(world.table().erase(ObjectKey::departed(b.object.value).bytes(), 0));
  EXPECT_TRUE(world.restart());
}

TEST_F(DamageTest, a_tombstone_that_contradicts_its_key_is_named) {
  const ObjectKey key = ObjectKey::tombstone(id_of("a"), 7);
  const ObjectRecord sound{.object_at = 0, .birth = 7, .body_bytes = 0, .metadata_bytes = 0, .flags = 0};
  const std::string disagree = "a tombstone and its key disagree";
  const std::vector<std::function<void(ObjectRecord&)>> changes = {
      [](ObjectRecord& record) { record.birth = 8; },
      [](ObjectRecord& record) { record.birth = 0; },
      [&](ObjectRecord& record) { record.object_at = a.object.value; },
      [](ObjectRecord& record) { record.body_bytes = 1; },
      [](ObjectRecord& record) { record.metadata_bytes = 1; },
      [](ObjectRecord& record) { record.flags = ObjectRecord::kKept; },
  };
  for (const auto& change : changes) {
    ObjectRecord changed = sound;
    change(changed);
    put(key, changed);
    expect_corrupt(disagree);
    put(key, sound);
    ASSERT_TRUE(world.restart());
    ASSERT_EQ(world.damage(), "");
    EXPECT_EQ(world.store().tombstones(), (ObjectStore::Tombstones{{"a", 7}}));
    EXPECT_TRUE(world.has_its_bytes(a.object, 7, a.parts));
  }
  put(ObjectKey::tombstone(id_of("a"), 0), {0, 0, 0, 0, 0});
  expect_corrupt(disagree);
  ASSERT_TRUE(world.table().erase(ObjectKey::tombstone(id_of("a"), 0).bytes(), 0));
  for (const std::string& none : {std::string("t"), std::string("t1234567"), std::string("t12345678"),
                                  "t12345678" + std::string(kIdBytesMax + 1, 'x')}) {
    ASSERT_TRUE(world.table().put(id_of(none), std::as_bytes(std::span(&sound, 1)), {}));
    expect_corrupt("an id is too long or missing");
    ASSERT_TRUE(world.table().erase(id_of(none), 0));
  }
  EXPECT_TRUE(world.restart());
  EXPECT_EQ(world.damage(), "");
}

// Of two records of one object, the one that an interrupted owner had not come to yet goes.
TEST_F(DamageTest, what_an_interrupted_owner_leaves_is_no_damage) {
  const ObjectKey creation_a(KeyKind::kCreation, id_of("a"));
  put(creation_a, record_a);
  put(ObjectKey::departed(b.object.value), {b.object.value, 8, 100 * kKiB, 0, 0});
  put(ObjectKey::departed(open.object.value), {open.object.value, 9, 500, 0, 0});
  world.readers.hold(open.object);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.damage(), "");
  EXPECT_EQ(world.accounts().creations, 0U);
  EXPECT_EQ(world.accounts().departed, 1U);
  EXPECT_EQ(world.accounts().objects, 2U);
  EXPECT_EQ(world.store().creation(id_of("open"), 9).code(), Code::kNotFound);
  world.readers.let_go_of_all();
  EXPECT_EQ(world.store().release_departed(), 0U);
  EXPECT_EQ(world.accounts().used(), 1010U + 100 * kKiB);
}

// Any byte of a record or a header, changed to anything: an owner starts, or says what is wrong.
TEST_F(DamageTest, any_byte_may_be_wrong) {
  Prng prng(1);
  const std::vector<std::byte> image(world.base(), world.base() + world.bytes());
  const Offset record = needed(world.table().find(key_a.bytes())).buffer;
  uint64_t corrupt = 0;
  for (int i = 0; i < 400; ++i) {
    const Offset at = prng.below(2) == 0 ? record.plus(16 + prng.below(34)) : a.object.plus(prng.below(64));
    world.base()[at.value] ^= static_cast<std::byte>(1 + prng.below(255));
    if (!world.restart()) {
      ++corrupt;
    } else {
      EXPECT_EQ(world.damage(), "");
      EXPECT_TRUE(world.make("new", 100, 1000));
    }
    world.load(image);
  }
  EXPECT_GT(corrupt, 200U);
  EXPECT_LT(corrupt, 400U);
}

}  // namespace
}  // namespace refract::object
