// SPDX-License-Identifier: Apache-2.0
// A node with objects uses no processor time while nothing is asked of it, whatever it has: objects that are
// held, creations, subscribers. As process/idle_test.cc measures it.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/objects/object_node.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr uint64_t kWindow_ms = 2'000;
constexpr uint64_t kWakeUpsMax = 15;
constexpr uint64_t kCpuMax_ns = 10 * kMillisecond_ns * kWindow_ms / 1'000;
constexpr int kWindowsMax = 15;

// Empty: in one window it took nothing. Else what it took in the last one.
std::string trouble_of(const Node& node) {
  std::string trouble;
  const auto use = [&node] {
    const ProcessUse keeper = use_of(node.keeper());
    const ProcessUse server = use_of(node.server());
    return ProcessUse{.cpu_ns = keeper.cpu_ns + server.cpu_ns, .wake_ups = keeper.wake_ups + server.wake_ups};
  };
  for (int window = 0; window < kWindowsMax; ++window) {
    const ProcessUse before = use();
    sleep_ms(kWindow_ms);
    const ProcessUse after = use();
    const uint64_t cpu_ns = after.cpu_ns - before.cpu_ns;
    const uint64_t wake_ups = after.wake_ups - before.wake_ups;
    if (cpu_ns <= kCpuMax_ns && wake_ups <= kWakeUpsMax) return {};
    trouble = fmt::format("{} us of processor time and {} wake-ups in {} ms", cpu_ns / kMicrosecond_ns,
                          wake_ups, kWindow_ms);
  }
  return trouble;
}

TEST(IdleObjects, take_no_processor_time) {
  Node node(with_objects("256MiB", {.shards = 2}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  ObjectClient far = open_objects(node, {.is_tcp = true});
  Objects& objects = opened.objects;
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(put_sealed(objects, "object" + std::to_string(i), i, 100'000));
    ASSERT_TRUE(far.objects.get("object" + std::to_string(i)));
  }
  ASSERT_TRUE(put_sealed(objects, "large", 1, 20 * kMiB));
  EXPECT_EQ(trouble_of(node), "");

  auto held = objects.get("object1");
  ASSERT_TRUE(held);
  auto made = objects.create("made", kMiB);
  auto far_made = far.objects.create("made far", kMiB);
  ASSERT_TRUE(made && far_made);
  auto subscription = objects.subscribe();
  ASSERT_TRUE(subscription);
  EXPECT_TRUE(subscription->next(1'000));
  EXPECT_EQ(trouble_of(node), "") << "with a handle, creations and a subscription";
  // One that is removed and held is looked at every now and then, ever more seldom.
  ASSERT_TRUE(objects.remove("object1"));
  EXPECT_EQ(trouble_of(node), "") << "with one that is removed and held";
}

}  // namespace
}  // namespace refract::test
