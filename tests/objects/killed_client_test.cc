// SPDX-License-Identifier: Apache-2.0
// What a program that is killed was making, and what it held, comes back.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/objects/object_node.h"
#include "tests/process/load.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

class KilledObjectClient : public testing::TestWithParam<ObjectShape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, KilledObjectClient, testing::ValuesIn(kObjectShapes), name_of);

// A process that does its work, says so, and waits for its end.
Process begin(const SharedLedger& ledger, const std::function<bool()>& work) {
  return Process::run([&] {
    ledger->clients[0].operations.store(work() ? 1 : 2);
    for (;;) sleep_ms(1'000);
    return 0;
  });
}
bool has_done_it(const SharedLedger& ledger) {
  return becomes_true([&] { return ledger.operations() != 0; }) && ledger.operations() == 1;
}

TEST_P(KilledObjectClient, leaves_no_creation_and_no_id_behind) {
  Node node(with_objects("64MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  const SharedLedger ledger;
  Process maker = begin(ledger, [&] {
    ObjectClient making = open_objects(node, GetParam());
    std::vector<NewObject> made;
    for (int i = 0; i < 20; ++i) {
      auto one = making.objects.create("object" + std::to_string(i), 3 * kMiB);
      if (!one) return false;
      std::memset(one->body().data(), i, 2 * kMiB);
      if (i % 2 == 0 && one->filled(2 * kMiB) != Code::kOk) return false;
      made.push_back(std::move(*one));
    }
    ledger->clients[0].operations.store(1);
    for (;;) sleep_ms(1'000);
    return true;
  });
  ASSERT_TRUE(has_done_it(ledger));
  const auto during = opened.objects.stat();
  ASSERT_TRUE(during);
  EXPECT_EQ(during->creations, 20U);
  EXPECT_EQ(during->creation_bytes, 60 * kMiB);
  EXPECT_EQ(opened.objects.get("object0").code(), Code::kNotFound) << "it is not sealed";
  EXPECT_EQ(put_sealed(opened.objects, "object0", 1, 100).code(), Code::kExists);
  maker.kill_now();
  // The ids are free again, and all of the room.
  ASSERT_TRUE(becomes_true([&] { return opened.objects.stat().value().creations == 0; }));
  EXPECT_EQ(opened.objects.stat().value().used, 0U);
  EXPECT_TRUE(put_sealed(opened.objects, "object0", 1, 60 * kMiB));
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
}

// Also where the server dies with it: nothing claims what the next server finds.
TEST_P(KilledObjectClient, and_the_server_with_it_leave_no_creation_behind) {
  Node node(with_objects("64MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  const SharedLedger ledger;
  Process maker = begin(ledger, [&] {
    ObjectClient making = open_objects(node, GetParam());
    auto one = making.objects.create("object", 30 * kMiB);
    if (!one) return false;
    ledger->clients[0].operations.store(1);
    for (;;) sleep_ms(1'000);
    return true;
  });
  ASSERT_TRUE(has_done_it(ledger));
  const pid_t server = node.server();
  send_signal(server, SIGKILL);
  maker.kill_now();
  ASSERT_GT(node.next_server(server), 0);
  ASSERT_TRUE(becomes_true([&] {
    const auto stat = opened.objects.stat();
    return stat && stat->creations == 0;
  }));
  EXPECT_TRUE(put_sealed(opened.objects, "object", 1, 60 * kMiB));
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
}

TEST_P(KilledObjectClient, gives_back_what_it_held) {
  Node node(with_objects("64MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node);
  constexpr uint64_t kObjects = 1'000;
  for (uint64_t i = 0; i < kObjects; ++i) {
    ASSERT_TRUE(put_sealed(opened.objects, "object" + std::to_string(i), i, 20'000));
  }
  const SharedLedger ledger;
  Process holder = begin(ledger, [&] {
    ObjectClient holding = open_objects(node, GetParam());
    std::vector<Object> held;
    for (uint64_t i = 0; i < kObjects; ++i) {
      auto one = holding.objects.get("object" + std::to_string(i));
      if (!one || number_of(*one) != i) return false;
      held.push_back(std::move(*one));
    }
    ledger->clients[0].operations.store(1);
    for (;;) sleep_ms(1'000);
    return true;
  });
  ASSERT_TRUE(has_done_it(ledger));
  const uint64_t held = GetParam().is_tcp ? 0 : kObjects;
  EXPECT_EQ(opened.objects.stat().value().held, held);
  for (uint64_t i = 0; i < kObjects; i += 2) {
    EXPECT_EQ(opened.objects.remove("object" + std::to_string(i)).value_or(99), held == 0 ? 0 : 1);
  }
  EXPECT_EQ(opened.objects.stat().value().removed, held / 2);
  holder.kill_now();
  ASSERT_TRUE(becomes_true([&] {
    const auto stat = opened.objects.stat();
    return stat && stat->held == 0 && stat->removed == 0;
  }));
  EXPECT_EQ(opened.objects.stat().value().used, kObjects / 2 * 20'000);
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
}

}  // namespace
}  // namespace refract::test
