// SPDX-License-Identifier: Apache-2.0
// That copies by several threads are whole, whichever threads help, and are made only where it pays.
#include "refract/memory/copy_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "refract/memory/testing/child_process.h"
#include "refract/memory/testing/staged_clock.h"

namespace refract {
namespace {

using test::many_cores;
using test::StagedClock;
using testing::Le;

constexpr size_t kBytes = CopyTeam::kBytesMin + 12'345;

unsigned no_cores() noexcept {
  return 0;
}
std::vector<std::byte> noise(size_t bytes, uint64_t seed) {
  std::vector<std::byte> made(bytes);
  uint64_t word = seed;
  for (std::byte& byte : made) {
    word = word * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(word >> 56U);
  }
  return made;
}

// A source, and copies of it that must be it and nothing beside it.
class Copies {
 public:
  explicit Copies(size_t bytes = kBytes)
      : source_(noise(bytes, bytes)), target_(bytes + 2, std::byte{0xee}) {}
  [[nodiscard]] bool are_whole(CopyTeam& team, int times) {
    for (int i = 0; i < times; ++i) {
      std::ranges::fill(target_, std::byte{0xee});
      team.copy(target_.data() + 1, source_.data(), source_.size());
      if (!std::equal(source_.begin(), source_.end(), target_.begin() + 1)) return false;
      if (target_.front() != std::byte{0xee} || target_.back() != std::byte{0xee}) return false;
    }
    return true;
  }

 private:
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
};

class CopyTeamOfEitherKind : public testing::TestWithParam<bool> {};

TEST_P(CopyTeamOfEitherKind, copies_whole_values_of_any_length_with_helpers) {
  const StagedClock clock(1'000, 10);
  CopyTeam team({.free_cores = &many_cores, .clock = clock, .past_caches = GetParam()});
  for (const size_t bytes :
       {size_t{1}, CopyTeam::kBytesMin - 1, CopyTeam::kBytesMin, kBytes, 3 * CopyTeam::kBytesMin + 1}) {
    EXPECT_TRUE(Copies(bytes).are_whole(team, 8)) << bytes;
  }
  EXPECT_EQ(team.helpers(), 3U);
  // Helpers may come late, but not always.
  Copies copies;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (team.shared_copies() == 0 && std::chrono::steady_clock::now() < patience) {
    ASSERT_TRUE(copies.are_whole(team, 1));
  }
  EXPECT_GT(team.shared_copies(), 0U);
}

INSTANTIATE_TEST_SUITE_P(PastCaches, CopyTeamOfEitherKind, testing::Bool());

TEST(CopyTeam, serves_several_threads_at_once) {
  const StagedClock clock(1'000, 10);
  CopyTeam team({.free_cores = &many_cores, .clock = clock});
  std::array<bool, 4> are_right{};
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < are_right.size(); ++i) {
      threads.emplace_back(
          [&team, &right = are_right[i], i] { right = Copies(kBytes + i).are_whole(team, 20); });
    }
  }
  EXPECT_THAT(are_right, testing::Each(true));
  EXPECT_THAT(team.helpers(), Le(3U));
}

TEST(CopyTeam, starts_nobody_where_no_core_is_free_or_nobody_is_wanted) {
  const StagedClock clock(1'000, 10);
  CopyTeam busy({.free_cores = &no_cores, .clock = clock});
  EXPECT_TRUE(Copies().are_whole(busy, 4));
  EXPECT_EQ(busy.helpers(), 0U);
  CopyTeam alone({.threads_max = 1, .free_cores = &many_cores});
  EXPECT_TRUE(Copies().are_whole(alone, 4));
  EXPECT_EQ(alone.helpers(), 0U);
  CopyTeam crowd({.threads_max = 1'000, .free_cores = &many_cores});
  EXPECT_TRUE(Copies().are_whole(crowd, 2));
  EXPECT_EQ(crowd.helpers(), CopyTeam::kThreadsMax - 1);
}

TEST(CopyTeam, goes_on_alone_in_a_child_and_leaves_the_parents_helpers_alone) {
  const StagedClock clock(1'000, 10);
  auto team = std::make_unique<CopyTeam>(CopyTeam::Options{.free_cores = &many_cores, .clock = clock});
  ASSERT_TRUE(Copies().are_whole(*team, 4));
  ASSERT_GT(team->helpers(), 0U);
  EXPECT_EQ(test::in_child([&] {
              const bool is_right = Copies().are_whole(*team, 10);
              team.reset();
              return is_right ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(Copies().are_whole(*team, 4));
}

bool settles_on_help(double alone, double together) {
  CopyTrials trials;
  for (unsigned i = 0; i < CopyTrials::kTrials; ++i) {
    const bool is_helped = trials.wants_help();
    EXPECT_EQ(is_helped, i % 2 == 1);
    // One in three is disturbed.
    const double ns = (is_helped ? together : alone) * (i / 2 == 1 ? 7 : 1);
    trials.note(is_helped, static_cast<uint64_t>(ns), 1'000);
  }
  return trials.wants_help();
}

TEST(CopyTrials, want_help_where_it_takes_a_fifth_off) {
  EXPECT_TRUE(settles_on_help(100'000, 40'000));
  EXPECT_TRUE(settles_on_help(100'000, 80'000));
  EXPECT_FALSE(settles_on_help(100'000, 81'000));
  EXPECT_FALSE(settles_on_help(100'000, 300'000));
}

TEST(CopyTrials, are_made_anew_when_things_may_have_changed) {
  CopyTrials trials;
  for (unsigned i = 0; i < CopyTrials::kPeriod; ++i) {
    const bool is_helped = trials.wants_help();
    trials.note(is_helped, is_helped ? 10 : 100, 1);
  }
  EXPECT_FALSE(trials.wants_help());
  for (unsigned i = 0; i < CopyTrials::kTrials; ++i) {
    const bool is_helped = trials.wants_help();
    trials.note(is_helped, is_helped ? 100 : 10, 1);
  }
  EXPECT_FALSE(trials.wants_help()) << "help does not pay any more";
}

TEST(FreeCores, are_fewer_than_those_that_this_thread_may_use) {
  EXPECT_THAT(free_cores(), Le(std::thread::hardware_concurrency()));
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(free_cores(), 0U) << "its only core is at work here";
  EXPECT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace refract
