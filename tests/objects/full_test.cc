// SPDX-License-Identifier: Apache-2.0
// A store that is full: what goes, what stays, and what a program that gets nothing is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/objects/object_node.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr MakeOptions kNoWaiting = {.room_timeout_ms = 0};

std::string id_of(uint64_t number) {
  return "object" + std::to_string(number);
}

TEST(FullObjects, what_was_used_least_goes_and_what_is_held_or_kept_stays) {
  Node node(with_objects("64MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  Objects& objects = opened.objects;
  for (uint64_t i = 0; i < 16; ++i) ASSERT_TRUE(put_sealed(objects, id_of(i), i, 4 * kMiB));
  EXPECT_EQ(objects.stat().value().used, 64 * kMiB);
  const auto held = objects.get(id_of(0));
  ASSERT_TRUE(held);
  ASSERT_EQ(objects.keep(id_of(1)), Code::kOk);
  ASSERT_TRUE(objects.get(id_of(2))) << "read last, and not held any more";
  for (uint64_t i = 16; i < 28; ++i) ASSERT_TRUE(put_sealed(objects, id_of(i), i, 4 * kMiB)) << i;

  EXPECT_TRUE(objects.contains(id_of(0)).value()) << "held";
  EXPECT_TRUE(objects.contains(id_of(1)).value()) << "kept";
  EXPECT_TRUE(objects.contains(id_of(2)).value()) << "used after those that are gone";
  for (uint64_t i = 3; i < 15; ++i) EXPECT_FALSE(objects.contains(id_of(i)).value()) << i;
  for (uint64_t i = 15; i < 28; ++i) EXPECT_TRUE(objects.contains(id_of(i)).value()) << i;
  EXPECT_EQ(number_of(*held), 0U);
  const auto stat = objects.stat();
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->evicted_ever, 12U);
  EXPECT_EQ(stat->used, 64 * kMiB);
}

TEST(FullObjects, no_space_names_the_bytes_that_are_held_kept_and_being_made) {
  Node node(with_objects("64MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  Objects& objects = opened.objects;
  ASSERT_TRUE(put_sealed(objects, "held", 1, 20 * kMiB));
  const auto held = objects.get("held");
  ASSERT_TRUE(held);
  ASSERT_TRUE(put_sealed(objects, "kept", 2, 18 * kMiB));
  ASSERT_EQ(objects.keep("kept"), Code::kOk);
  auto made = objects.create("made", 16 * kMiB);
  ASSERT_TRUE(made);
  ASSERT_TRUE(put_sealed(objects, "loose", 3, 5 * kMiB));

  const auto refused = objects.create("more", 11 * kMiB, 0, kNoWaiting);
  ASSERT_EQ(refused.code(), Code::kNoSpace) << text(refused.code());
  const std::string what = objects.trouble().what;
  EXPECT_NE(what.find(std::to_string(11 * kMiB) + " bytes"), std::string::npos) << what;
  EXPECT_NE(what.find(std::to_string(20 * kMiB) + " are held"), std::string::npos) << what;
  EXPECT_NE(what.find(std::to_string(18 * kMiB) + " are kept"), std::string::npos) << what;
  EXPECT_NE(what.find(std::to_string(16 * kMiB) + " are of objects that are being made"), std::string::npos)
      << what;
  // Exactly what is left besides.
  EXPECT_TRUE(put_sealed(objects, "fits", 4, 10 * kMiB));
  EXPECT_FALSE(objects.contains("loose").value());
  EXPECT_EQ(objects.create("larger than all", 64 * kMiB + 1).code(), Code::kTooLarge);
  EXPECT_EQ(objects.create("with its metadata", 64 * kMiB, 1).code(), Code::kTooLarge);
}

// A handle that is let go sends no message; what waits is given the room all the same.
TEST(FullObjects, a_create_waits_for_room_that_a_reader_lets_go) {
  Node node(with_objects("64MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  ASSERT_TRUE(put_sealed(opened.objects, "large", 1, 60 * kMiB));
  auto held = opened.objects.get("large");
  ASSERT_TRUE(held);
  EXPECT_EQ(put_sealed(opened.objects, "small", 1, kMiB).code(), Code::kOk);
  Process maker = Process::run([&] {
    ObjectClient making = open_objects(node);
    return making.objects.create("other", 60 * kMiB, 0, {.room_timeout_ms = 100'000}).code() == Code::kOk ? 0
                                                                                                          : 1;
  });
  // It is at the node by then, or comes later: both have to end well.
  sleep_ms(200);
  EXPECT_TRUE(maker.is_running());
  *held = Object();
  EXPECT_EQ(maker.wait(), 0);
}

TEST(FullObjects, what_is_removed_while_it_is_held_keeps_its_bytes_until_the_last_handle_goes) {
  Node node(with_objects("64MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  Objects& objects = opened.objects;
  const auto birth = put_sealed(objects, "object", 1, 30 * kMiB);
  ASSERT_TRUE(birth);
  auto one = objects.get("object");
  auto other = objects.get("object");
  ASSERT_TRUE(one && other);
  EXPECT_EQ(objects.remove("object", *birth + 1).code(), Code::kVersionMismatch);
  EXPECT_EQ(objects.remove("object", *birth).value_or(0), 2U);
  EXPECT_EQ(objects.get("object").code(), Code::kNotFound);
  EXPECT_EQ(objects.remove("object").code(), Code::kNotFound);
  // The id is free at once.
  ASSERT_TRUE(put_sealed(objects, "object", 2, 30 * kMiB));
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(objects.remove("object"));
    ASSERT_TRUE(put_sealed(objects, "object", i + 3, 30 * kMiB));
    EXPECT_EQ(number_of(*one), 1U);
  }
  EXPECT_EQ(objects.stat().value().removed_bytes, 30 * kMiB);
  *one = Object();
  EXPECT_EQ(objects.stat().value().removed_bytes, 30 * kMiB);
  *other = Object();
  EXPECT_EQ(leak_after_removing_all(objects), "");
}

TEST(FullObjects, evict_gives_back_what_was_asked_for_and_no_more_than_can_go) {
  Node node(with_objects("64MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  Objects& objects = opened.objects;
  for (uint64_t i = 0; i < 1'000; ++i) ASSERT_TRUE(put_sealed(objects, id_of(i), i, 10'000));
  EXPECT_EQ(objects.evict(100'000).value_or(0), 100'000U);
  EXPECT_EQ(objects.stat().value().objects, 990U);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_FALSE(objects.contains(id_of(i)).value()) << "the oldest: " << i;
  const auto held = objects.get(id_of(999));
  ASSERT_TRUE(held);
  ASSERT_EQ(objects.keep(id_of(998)), Code::kOk);
  EXPECT_EQ(objects.evict(UINT64_MAX).value_or(0), 988U * 10'000);
  EXPECT_EQ(objects.stat().value().objects, 2U);
  EXPECT_EQ(number_of(*held), 999U);
}

// Objects of 0 bytes count nothing and take memory all the same.
TEST(FullObjects, empty_ones_fill_the_memory_and_can_all_be_removed) {
  Node node(with_objects("2MiB"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  Objects& objects = opened.objects;
  constexpr uint64_t kMany = 20'000;
  std::vector<std::string> ids;
  for (uint64_t i = 0; i < kMany; ++i) ids.push_back(id_of(i));
  std::vector<PutObject> puts;
  for (const std::string& id : ids) puts.push_back({.id = id, .body = {}});
  objects.put_many(puts);
  EXPECT_TRUE(std::ranges::all_of(puts, [](const PutObject& one) { return one.result.has_value(); }));
  EXPECT_EQ(objects.stat().value().used, 0U);
  EXPECT_EQ(objects.stat().value().objects, kMany);
  EXPECT_EQ(leak_after_removing_all(objects), "");
}

}  // namespace
}  // namespace refract::test
