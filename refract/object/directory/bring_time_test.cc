// SPDX-License-Identifier: Apache-2.0
// What follows from what was measured of paths, and what is a guess.
#include "refract/object/directory/bring_time.h"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <vector>

#include "refract/base/units.h"

namespace refract::object {
namespace {

using wire::TransferBy;

constexpr uint64_t kHello_ns = 100'000;
constexpr uint64_t kMessage = 32 * kKiB;

[[nodiscard]] BringTime time_by(const PathMemory& path, uint64_t bytes) {
  return bring_time({.measured = &path, .hello_ns = kHello_ns, .message_bytes = kMessage}, bytes);
}

// Of 1 GB a second and 50 us there and back, as a pull of so many bytes shows it.
[[nodiscard]] PathMemory path_of(std::initializer_list<uint64_t> pulls) {
  PathMemory path;
  for (const uint64_t bytes : pulls) {
    path.note_round_trip(50'000);
    path.note_rate(bytes, bytes, true);
    path.learn(TransferBy::kReads, bytes, bytes + 50'000);
  }
  return path;
}

TEST(BringTime, of_an_unknown_path_the_answer_to_hello_is_all_that_is_known) {
  const PathMemory unknown;
  const BringTime small = time_by(unknown, 1);
  EXPECT_TRUE(small.is_guessed);
  EXPECT_NEAR(static_cast<double>(small.ns), kHello_ns, 100);
  // Eight messages a round trip, as a pull begins.
  const BringTime large = time_by(unknown, 80 * kMessage);
  EXPECT_TRUE(large.is_guessed);
  EXPECT_NEAR(static_cast<double>(large.ns), 11 * kHello_ns, 100);
  const BringTime far = bring_time(
      {.measured = &unknown, .hello_ns = 100 * kHello_ns, .message_bytes = kMessage}, 80 * kMessage);
  EXPECT_NEAR(static_cast<double>(far.ns), 1100 * kHello_ns, 100);
}

TEST(BringTime, a_size_that_was_pulled_takes_as_long_again) {
  PathMemory path;
  path.note_round_trip(50'000);
  path.note_rate(4 * kMiB, 40'000'000, true);
  path.learn(TransferBy::kReads, 4 * kMiB, 50'000'000);
  EXPECT_EQ(time_by(path, 4 * kMiB).ns, 50'000'000U) << "and not what the rate says";
  EXPECT_EQ(time_by(path, 6 * kMiB).ns, 75'000'000U);
  EXPECT_FALSE(time_by(path, 6 * kMiB).is_guessed);
  // By the way that was quicker.
  path.learn(TransferBy::kMessages, 4 * kMiB, 20'000'000);
  EXPECT_EQ(time_by(path, 4 * kMiB).ns, 20'000'000U);
}

TEST(BringTime, other_sizes_follow_from_round_trip_and_rate) {
  const PathMemory path = path_of({4 * kMiB});
  for (const uint64_t bytes : {uint64_t{1}, 64 * kKiB, 1024 * kMiB}) {
    const BringTime time = time_by(path, bytes);
    EXPECT_FALSE(time.is_guessed) << bytes;
    EXPECT_NEAR(static_cast<double>(time.ns), 50'000 + static_cast<double>(bytes),
                1e-2 * static_cast<double>(bytes) + 1000)
        << bytes;
  }
}

// 100 bytes in a round trip are no rate of two megabytes a second.
TEST(BringTime, a_pull_within_a_round_trip_says_nothing_of_larger_ones) {
  PathMemory path;
  path.note_round_trip(50'000);
  path.note_rate(100, 50'000, false);
  path.learn(TransferBy::kMessages, 100, 50'000);
  EXPECT_FALSE(time_by(path, 200).is_guessed);
  const BringTime large = time_by(path, 80 * kMessage);
  EXPECT_TRUE(large.is_guessed);
  EXPECT_NEAR(static_cast<double>(large.ns), 11 * 50'000, 100) << "by the measured round trip";
}

class BringEstimateTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<BringEstimate::Holder> from(std::initializer_list<MemberIndex> members) const {
    std::vector<BringEstimate::Holder> holders;
    for (const MemberIndex member : members) {
      holders.push_back(
          {.member = member,
           .path = {.measured = &paths[member], .hello_ns = kHello_ns, .message_bytes = kMessage}});
    }
    return holders;
  }
  // All but the last are alike, and that one is not known.
  std::array<PathMemory, 6> paths{path_of({kMiB}), path_of({kMiB}), path_of({kMiB}),
                                  path_of({kMiB}), path_of({kMiB}), {}};
  const uint64_t one_ns = time_by(paths[0], kMiB).ns;
  BringEstimate estimate;
};

TEST_F(BringEstimateTest, what_one_holder_brings_comes_one_behind_the_other) {
  for (int i = 0; i < 3; ++i) estimate.add(kMiB, from({1}));
  EXPECT_NEAR(static_cast<double>(estimate.time_ns()), 3.0 * static_cast<double>(one_ns), 10);
  EXPECT_EQ(estimate.missing(), 3U);
  EXPECT_EQ(estimate.missing_bytes(), 3 * kMiB);
  EXPECT_FALSE(estimate.is_guessed());
}

TEST_F(BringEstimateTest, different_holders_bring_theirs_at_the_same_time) {
  estimate.add(kMiB, from({0}));
  estimate.add(kMiB, from({1}));
  EXPECT_NEAR(static_cast<double>(estimate.time_ns()), static_cast<double>(one_ns), 10);
  // What both have comes from the one that is free.
  estimate.add(kMiB, from({0}));
  estimate.add(kMiB, from({0, 1}));
  EXPECT_NEAR(static_cast<double>(estimate.time_ns()), 2.0 * static_cast<double>(one_ns), 10);
}

TEST_F(BringEstimateTest, a_large_one_comes_from_four_holders_at_most) {
  const uint64_t bytes = 64 * kMiB;
  const auto alone_ns = static_cast<double>(time_by(paths[0], bytes).ns);
  estimate.add(bytes, from({0, 1, 2, 3, 4}));
  EXPECT_NEAR(static_cast<double>(estimate.time_ns()), alone_ns / 4, 10);
  BringEstimate small;
  small.add(kMiB, from({0, 1, 2}));
  EXPECT_NEAR(static_cast<double>(small.time_ns()), static_cast<double>(one_ns), 10);
}

TEST_F(BringEstimateTest, what_no_holder_is_reached_for_is_counted_and_takes_no_time) {
  estimate.add(5, {});
  estimate.add(kMiB, from({0}));
  EXPECT_EQ(estimate.missing(), 2U);
  EXPECT_EQ(estimate.unreachable(), 1U);
  EXPECT_EQ(estimate.missing_bytes(), kMiB + 5);
  EXPECT_NEAR(static_cast<double>(estimate.time_ns()), static_cast<double>(one_ns), 10);
}

TEST_F(BringEstimateTest, one_guess_makes_all_a_guess_and_lengths_have_no_end) {
  estimate.add(kMiB, from({0}));
  EXPECT_FALSE(estimate.is_guessed());
  for (int i = 0; i < 100; ++i) estimate.add(UINT64_MAX, from({0, 5}));
  EXPECT_TRUE(estimate.is_guessed());
  EXPECT_EQ(estimate.missing_bytes(), UINT64_MAX);
  EXPECT_GT(estimate.time_ns(), uint64_t{1} << 60);
}

}  // namespace
}  // namespace refract::object
