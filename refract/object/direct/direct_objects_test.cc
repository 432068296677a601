// SPDX-License-Identifier: Apache-2.0
// What the direct reader says of objects, over a real table whose owner changes it in the middle of a hold.
// Every interleaving is tried by the owner's tests; these show the outcomes one by one.
#include "refract/object/direct/direct_objects.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/testing/test_space.h"

namespace refract::object {
namespace {

using kv::test::bytes_of;

// Does something at the moment between a record's first look and its second.
class WatchedMemory : public kv::MappedMemory {
 public:
  using kv::MappedMemory::MappedMemory;
  void prefetch(Offset at) const noexcept {
    kv::MappedMemory::prefetch(at);
    if (in_between) std::exchange(in_between, nullptr)();
  }
  mutable std::function<void()> in_between;
};

class DirectObjectsTest : public testing::Test {
 protected:
  void put(std::string_view id, const ObjectRecord& record, KeyKind kind = KeyKind::kSealed) {
    const ObjectKey key(kind, bytes_of(id));
    ASSERT_TRUE(space.table().put(key.bytes(), std::as_bytes(std::span(&record, 1)), {}));
  }
  void remove(std::string_view id) {
    const ObjectKey key(KeyKind::kSealed, bytes_of(id));
    ASSERT_TRUE(space.table().erase(key.bytes(), {}));
  }
  // What the server would see.
  [[nodiscard]] std::vector<uint64_t> pinned() const {
    PinSet seen;
    collect_pins(table, seen);
    seen.seal();
    return {seen.offsets().begin(), seen.offsets().end()};
  }
  [[nodiscard]] static ObjectRecord record_at(uint64_t object_at, uint64_t birth = 7) {
    return {.object_at = object_at, .birth = birth, .body_bytes = 100, .metadata_bytes = 3, .flags = 0};
  }

  kv::test::Space space;
  PinTable table{};
  PinWriter first{&table};
  WidePins pins{first};
  WatchedMemory memory{space.base(), space.bytes(), nullptr};
  DirectObjects<WatchedMemory> objects{memory, pins, space.clock()};
};

TEST_F(DirectObjectsTest, a_held_object_is_pinned_until_it_is_let_go_of) {
  put("a", record_at(kMiB));
  const auto held = objects.hold(bytes_of("a"));
  ASSERT_EQ(held.code, Code::kOk);
  EXPECT_EQ(held.record.birth, 7U);
  EXPECT_EQ(held.record.body_bytes, 100U);
  EXPECT_EQ(pinned(), std::vector<uint64_t>{kMiB});
  objects.let_go(held.pin);
  EXPECT_EQ(pinned(), std::vector<uint64_t>{});
}

TEST_F(DirectObjectsTest, what_is_not_sealed_is_not_found_and_holds_nothing) {
  put("c", record_at(kMiB), KeyKind::kCreation);
  EXPECT_EQ(objects.hold(bytes_of("c")).code, Code::kNotFound);
  ObjectRecord record{};
  EXPECT_EQ(objects.look(bytes_of("c"), record), Code::kNotFound);
  EXPECT_TRUE(pinned().empty());
}

// The owner that removes it has not seen the pin, and may have given the memory back.
TEST_F(DirectObjectsTest, an_object_that_is_removed_in_between_is_not_held) {
  put("a", record_at(kMiB));
  memory.in_between = [&] { remove("a"); };
  EXPECT_EQ(objects.hold(bytes_of("a")).code, Code::kNotFound);
  EXPECT_TRUE(pinned().empty());
}

// Also where the next one lies in the same memory.
TEST_F(DirectObjectsTest, an_object_that_is_replaced_in_between_is_the_next_one) {
  put("a", record_at(kMiB));
  memory.in_between = [&] {
    remove("a");
    put("a", record_at(kMiB, 8));
  };
  const auto held = objects.hold(bytes_of("a"));
  ASSERT_EQ(held.code, Code::kOk);
  EXPECT_EQ(held.record.birth, 8U);
  EXPECT_EQ(pinned(), std::vector<uint64_t>{kMiB});
}

TEST_F(DirectObjectsTest, a_record_that_leads_out_of_the_memory_is_not_followed) {
  const std::map<std::string, ObjectRecord> records = {
      {"behind", record_at(space.bytes())},
      {"across", record_at(space.bytes() - 128)},
      {"nowhere", record_at(0)},
      {"askew", record_at(kMiB + 8)},
      {"long", {.object_at = kMiB, .birth = 1, .body_bytes = UINT64_MAX, .metadata_bytes = 0, .flags = 0}},
      {"talkative",
       {.object_at = kMiB,
        .birth = 1,
        .body_bytes = 0,
        .metadata_bytes = kMetadataBytesMax + 1,
        .flags = 0}}};
  for (const auto& [id, record] : records) {
    put(id, record);
    EXPECT_EQ(objects.hold(bytes_of(id)).code, Code::kCorrupt) << id;
  }
  const ObjectKey key(KeyKind::kSealed, bytes_of("short"));
  ASSERT_TRUE(space.table().put(key.bytes(), bytes_of("no record"), {}));
  EXPECT_EQ(objects.hold(bytes_of("short")).code, Code::kCorrupt);
  EXPECT_TRUE(pinned().empty());
}

TEST_F(DirectObjectsTest, without_a_free_pin_it_says_so) {
  put("a", record_at(kMiB));
  for (size_t i = 0; i < pins.pins_max(); ++i) ASSERT_EQ(objects.hold(bytes_of("a")).code, Code::kOk);
  const auto held = objects.hold(bytes_of("a"));
  EXPECT_EQ(held.code, Code::kOverloaded);
  EXPECT_EQ(pinned().size(), pins.pins_max());
  objects.let_go(3);
  EXPECT_EQ(objects.hold(bytes_of("a")).code, Code::kOk);
}

TEST_F(DirectObjectsTest, a_scan_visits_each_sealed_object) {
  std::map<std::string, uint64_t> expected;
  for (uint64_t i = 0; i < 300; ++i) {
    const std::string id = "object " + std::to_string(i);
    put(id, record_at(kMiB, i + 1));
    put(id, record_at(kMiB, i + 1), KeyKind::kCreation);
    expected[id] = i + 1;
  }
  std::map<std::string, uint64_t> seen;
  uint64_t cursor = 0;
  do {
    const auto page =
        objects.scan(cursor, 16, [&](std::span<const std::byte> id, const ObjectRecord& record) {
          seen[kv::test::text_of(id)] = record.birth;
        });
    ASSERT_EQ(page.code, Code::kOk);
    cursor = page.next;
  } while (cursor != 0);
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace refract::object
