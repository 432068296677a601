// SPDX-License-Identifier: Apache-2.0
// A program that is stopped in the middle of what it makes, gets or holds costs others nothing but that, and
// continues where it was.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/objects/object_node.h"
#include "tests/process/load.h"

#include "refract/base/clock.h"
#include "refract/base/units.h"

namespace refract::test::stopped_client_test {
namespace {

class StoppedObjectClient : public testing::TestWithParam<ObjectShape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, StoppedObjectClient, testing::Values(kObjectShapes[0], kObjectShapes[2]),
                         name_of);

constexpr uint64_t kBytes = 8 * kMiB;

// Makes, seals, gets and removes objects without an end, each of 8 MiB; counts. Returns what was wrong.
int work_on(const Node& node, const ObjectShape& shape, Ledger& ledger) {
  ObjectClient opened = open_objects(node, shape);
  Objects& objects = opened.objects;
  const auto held = objects.get("held", Objects::kForever);
  if (!held || number_of(*held) != 1) return 1;
  for (uint64_t i = 0; !ledger.stop.load(); ++i) {
    const std::string id = "worked on " + std::to_string(i);
    auto made = objects.create(id, kBytes);
    if (!made) return 2;
    std::memset(made->body().data(), static_cast<int>(i), kBytes);
    if (made->filled(kBytes / 2) != Code::kOk) return 3;
    if (!made->seal()) return 4;
    const auto got = objects.get(id);
    const auto expected = static_cast<std::byte>(i);
    if (!got || !std::ranges::all_of(got->body(), [&](std::byte byte) { return byte == expected; })) return 5;
    if (!objects.remove(id)) return 6;
    if (number_of(*held) != 1) return 7;
    ledger.clients[0].operations.fetch_add(1);
  }
  return 0;
}

TEST_P(StoppedObjectClient, at_any_moment_holds_nothing_up_and_goes_on) {
  Node node(with_objects("128MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node, {}, {.timeout_ns = kPatience_ns});
  Objects& objects = opened.objects;
  ASSERT_TRUE(put_sealed(objects, "held", 1, kBytes));
  const SharedLedger ledger;
  Process worker = Process::run([&] { return work_on(node, GetParam(), *ledger); });
  for (uint64_t i = 0; i < 30; ++i) {
    const uint64_t before = ledger->clients[0].operations.load();
    ASSERT_TRUE(becomes_true([&] { return ledger->clients[0].operations.load() > before; })) << i;
    // Some microseconds later each time, so that it is met in each step.
    const uint64_t until_ns = system_clock().now_ns() + i * 100 * kMicrosecond_ns;
    while (system_clock().now_ns() < until_ns) continue;
    worker.signal(SIGSTOP);
    const std::string id = "meanwhile " + std::to_string(i);
    ASSERT_TRUE(put_sealed(objects, id, i, kBytes)) << objects.trouble().to_string();
    const auto got = objects.get(id);
    ASSERT_TRUE(got);
    EXPECT_EQ(number_of(*got), i);
    ASSERT_TRUE(objects.remove(id));
    ASSERT_TRUE(worker.is_running());
    worker.signal(SIGCONT);
  }
  ledger->stop.store(true);
  EXPECT_EQ(worker.wait(), 0);
  EXPECT_EQ(leak_after_removing_all(objects), "");
}

}  // namespace
}  // namespace refract::test::stopped_client_test
