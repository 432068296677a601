// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/outcomes.h"

#include <gtest/gtest.h>

namespace refract::kv {
namespace {

constexpr uint64_t kStart_ns = 1'000;

TEST(Outcomes, give_back_what_was_remembered_and_only_that) {
  Outcomes outcomes(kStart_ns);
  EXPECT_FALSE(outcomes.find({.client = 1, .sequence = 1}).has_value());
  outcomes.remember({.client = 1, .sequence = 1}, uint64_t{77}, kStart_ns);
  outcomes.remember({.client = 1, .sequence = 2}, fail(Code::kExists), kStart_ns);
  EXPECT_EQ(outcomes.find({.client = 1, .sequence = 1})->result(), 77u);
  EXPECT_EQ(outcomes.find({.client = 1, .sequence = 2})->result().code(), Code::kExists);
  EXPECT_FALSE(outcomes.find({.client = 2, .sequence = 1}).has_value());
  EXPECT_FALSE(outcomes.find({.client = 1, .sequence = 1 + Outcomes::kPerClient}).has_value());
  EXPECT_FALSE(outcomes.find({.client = 1, .sequence = 0}).has_value());
}

TEST(Outcomes, do_not_claim_to_know_what_was_before_them) {
  const Outcomes outcomes(kStart_ns);
  EXPECT_FALSE(outcomes.would_know({.client = 1, .sequence = 1}, kStart_ns - 1));
  EXPECT_TRUE(outcomes.would_know({.client = 1, .sequence = 1}, kStart_ns));
}

TEST(Outcomes, know_that_a_later_write_took_an_earlier_ones_place) {
  Outcomes outcomes(kStart_ns);
  const uint64_t later = 3 + Outcomes::kPerClient;
  outcomes.remember({.client = 1, .sequence = 3}, uint64_t{77}, kStart_ns);
  outcomes.remember({.client = 1, .sequence = later}, uint64_t{78}, kStart_ns);
  EXPECT_FALSE(outcomes.find({.client = 1, .sequence = 3}).has_value());
  EXPECT_FALSE(outcomes.would_know({.client = 1, .sequence = 3}, kStart_ns + 5));
  EXPECT_TRUE(outcomes.would_know({.client = 1, .sequence = 4}, kStart_ns + 5));
  // One that comes very late does not push out what is newer.
  outcomes.remember({.client = 1, .sequence = 3}, uint64_t{79}, kStart_ns);
  EXPECT_EQ(outcomes.find({.client = 1, .sequence = later})->version, 78u);
  EXPECT_FALSE(outcomes.would_know({.client = 1, .sequence = 3}, kStart_ns + 5));
}

TEST(Outcomes, keep_what_becomes_of_a_write_that_is_watched) {
  Outcomes outcomes(kStart_ns);
  const RequestId watched{.client = 1, .sequence = 3};
  outcomes.watch({});
  outcomes.watch(watched);
  outcomes.watch(watched);
  EXPECT_TRUE(outcomes.is_open(watched));
  outcomes.remember(watched, uint64_t{77}, kStart_ns);
  outcomes.remember({.client = 1, .sequence = 3 + Outcomes::kPerClient}, uint64_t{78}, kStart_ns);
  EXPECT_FALSE(outcomes.is_open(watched));
  EXPECT_EQ(outcomes.find(watched)->version, 77u);
  outcomes.unwatch(watched);
  EXPECT_EQ(outcomes.find(watched)->version, 77u);
  outcomes.unwatch(watched);
  outcomes.unwatch({});
  EXPECT_FALSE(outcomes.find(watched).has_value());
  EXPECT_EQ(outcomes.watched(), 0u);
}

// Over an older session, behind a write that has taken its place in the memory.
TEST(Outcomes, tell_a_first_attempt_that_may_be_behind_its_repetition) {
  Outcomes outcomes(kStart_ns);
  const RequestId late{.client = 1, .sequence = 3};
  outcomes.remember(late, uint64_t{77}, kStart_ns, 500);
  EXPECT_FALSE(outcomes.may_be_late(late, 400));
  outcomes.remember({.client = 1, .sequence = 3 + Outcomes::kPerClient}, uint64_t{78}, kStart_ns, 500);
  EXPECT_TRUE(outcomes.may_be_late(late, 400));
  EXPECT_FALSE(outcomes.may_be_late(late, 500)) << "of one session, whose writes come in their order";
  EXPECT_FALSE(outcomes.may_be_late({.client = 1, .sequence = 4}, 400));
  EXPECT_FALSE(outcomes.may_be_late({.client = 2, .sequence = 3}, 400));
}

TEST(Outcomes, forget_whole_clients_by_last_use_and_know_it) {
  Outcomes outcomes(kStart_ns);
  for (uint64_t client = 1; client <= Outcomes::kClientsMax; ++client) {
    outcomes.remember({.client = client, .sequence = 1}, client, kStart_ns + client);
  }
  EXPECT_EQ(outcomes.clients(), Outcomes::kClientsMax);
  const uint64_t now_ns = kStart_ns + Outcomes::kClientsMax + 1;
  // The first one writes again, so the second is the one to go.
  outcomes.remember({.client = 1, .sequence = 2}, uint64_t{5}, now_ns);
  outcomes.remember({.client = 5'000, .sequence = 1}, uint64_t{6}, now_ns);
  EXPECT_EQ(outcomes.clients(), Outcomes::kClientsMax);
  EXPECT_TRUE(outcomes.find({.client = 1, .sequence = 1}).has_value());
  EXPECT_FALSE(outcomes.find({.client = 2, .sequence = 1}).has_value());
  EXPECT_FALSE(outcomes.would_know({.client = 2, .sequence = 1}, kStart_ns + 2));
  EXPECT_TRUE(outcomes.would_know({.client = 2, .sequence = 2}, kStart_ns + 3))
      << "sent after all that was forgotten had been executed";
  EXPECT_FALSE(outcomes.find({.client = 5'000, .sequence = 2}).has_value());
  EXPECT_TRUE(outcomes.would_know({.client = 5'000, .sequence = 2}, now_ns));
}

}  // namespace
}  // namespace refract::kv
