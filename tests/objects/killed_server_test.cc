// SPDX-License-Identifier: Apache-2.0
// A server that is killed loses no object, no creation and no byte of either.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/objects/object_load.h"
#include "tests/objects/object_node.h"
#include "tests/process/sealed.h"

#include "refract/base/prng.h"
#include "refract/base/units.h"

namespace refract::test {
namespace {

class KilledObjectServer : public testing::TestWithParam<ObjectShape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, KilledObjectServer, testing::ValuesIn(kObjectShapes), name_of);

int kills_wanted() {
  const char* const set = std::getenv("REFRACT_OBJECT_KILLS");
  return set == nullptr ? 60 : std::max(1, std::atoi(set));
}

void kill_server(const Node& node) {
  const pid_t server = node.server();
  send_signal(server, SIGKILL);
  ASSERT_GT(node.next_server(server), 0);
}

void fill(NewObject& made, std::string_view with, uint64_t begin, uint64_t end) {
  std::memcpy(made.body().data() + begin, with.data() + begin, end - begin);
}

// A creation is the owner's before it has a byte, and while the owner has some of them.
TEST_P(KilledObjectServer, between_create_and_seal_loses_no_creation) {
  constexpr uint64_t kBytes = 24 * kMiB;
  Node node(with_objects("256MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node, GetParam());
  for (int moment = 0; moment < 4; ++moment) {
    const std::string id = "object" + std::to_string(moment);
    const std::string body = sealed_value(id, 5, kBytes);
    auto made = opened.objects.create(id, kBytes, 3);
    ASSERT_TRUE(made) << text(made.code());
    std::memcpy(made->metadata().data(), "abc", 3);
    if (moment == 0) kill_server(node);
    fill(*made, body, 0, kBytes / 2);
    if (moment > 1) {
      EXPECT_EQ(made->filled(kBytes / 2), Code::kOk);
    }
    if (moment == 1 || moment == 2) kill_server(node);
    fill(*made, body, kBytes / 2, kBytes);
    if (moment == 3) {
      kill_server(node);
      kill_server(node);
    }
    const auto sealed = made->seal();
    ASSERT_TRUE(sealed) << moment << ": " << text(sealed.code()) << ", "
                        << opened.objects.trouble().to_string();
    EXPECT_EQ(number_of(*sealed), 5U);
    const auto got = opened.objects.get(id);
    ASSERT_TRUE(got) << moment;
    EXPECT_EQ(number_of(*got), 5U);
    EXPECT_EQ(std::memcmp(got->metadata().data(), "abc", 3), 0);
  }
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
}

// Seals of 24 MiB take some milliseconds, in which the server dies.
TEST_P(KilledObjectServer, in_the_middle_of_a_seal_tells_what_became_of_it) {
  constexpr uint64_t kBytes = 24 * kMiB;
  Node node(with_objects("256MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node, GetParam());
  Prng prng(3);
  for (int round = 0; round < std::min(kills_wanted(), 20); ++round) {
    const std::string id = "object" + std::to_string(round % 4);
    const uint64_t pause_us = prng.below(15'000);
    Process killer = Process::run([&] {
      const pid_t server = node.server();
      ::usleep(static_cast<useconds_t>(pause_us));
      send_signal(server, SIGKILL);
      return 0;
    });
    const auto birth = put_sealed(opened.objects, id, static_cast<uint64_t>(round) + 1, kBytes);
    ASSERT_EQ(killer.wait(), 0);
    ASSERT_TRUE(birth) << round << ": " << text(birth.code()) << ", " << opened.objects.trouble().to_string();
    const auto got = opened.objects.get(id);
    ASSERT_TRUE(got) << round << ": " << text(got.code());
    EXPECT_EQ(got->birth(), *birth);
    EXPECT_EQ(number_of(*got), static_cast<uint64_t>(round) + 1);
    const auto removed = opened.objects.remove(id, *birth);
    ASSERT_TRUE(removed || removed.code() == Code::kIndeterminate) << round << ": " << text(removed.code());
    EXPECT_EQ(opened.objects.get(id).code(), Code::kNotFound);
  }
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
}

// Programs make objects of all sizes in all ways, read and remove them; each knows what must be there.
TEST_P(KilledObjectServer, at_any_moment_loses_no_object_and_leaks_nothing) {
  constexpr int kMakers = 3;
  Node node(with_objects("512MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  const SharedObjectLedger ledger;
  std::vector<Process> makers;
  for (int maker = 0; maker < kMakers; ++maker) {
    makers.push_back(Process::run([&, maker] { return run_object_load(node, GetParam(), *ledger, maker); }));
  }
  Prng prng(1);
  for (int i = 0; i < kills_wanted(); ++i) {
    const uint64_t goal = ledger.operations() + 5 + prng.below(100);
    ASSERT_TRUE(becomes_true([&] { return ledger.operations() >= goal || !makers[0].is_running(); }))
        << node.errors();
    ::usleep(static_cast<useconds_t>(prng.below(20'000)));
    ASSERT_NO_FATAL_FAILURE(kill_server(node));
  }
  ledger->stop.store(true);
  for (Process& maker : makers) EXPECT_EQ(maker.wait(), 0);

  ObjectClient opened = open_objects(node, GetParam());
  for (int maker = 0; maker < kMakers; ++maker) {
    EXPECT_EQ(differences_of(opened.objects, *ledger, maker), "");
  }
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
  EXPECT_EQ(node.stop(), 0);
}

// A handle holds its object through the death of the server, also without a name.
TEST_P(KilledObjectServer, does_not_touch_what_is_held) {
  if (GetParam().is_tcp) return;  // There a handle is a copy.
  Node node(with_objects("64MiB", GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  ObjectClient opened = open_objects(node, GetParam());
  ASSERT_TRUE(put_sealed(opened.objects, "object", 1, 20 * kMiB));
  auto held = opened.objects.get("object");
  ASSERT_TRUE(held);
  EXPECT_EQ(opened.objects.remove("object").value_or(0), 1U) << "this handle";
  for (uint64_t i = 0; i < 12; ++i) {
    if (i % 4 == 1) {
      ASSERT_NO_FATAL_FAILURE(kill_server(node));
    }
    ASSERT_TRUE(put_sealed(opened.objects, "other" + std::to_string(i), i, 15 * kMiB)) << i;
    EXPECT_EQ(number_of(*held), 1U) << i;
  }
  const auto stat = opened.objects.stat();
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->removed, 1U);
  EXPECT_EQ(stat->removed_bytes, 20 * kMiB);
  *held = Object();
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
}

}  // namespace
}  // namespace refract::test
