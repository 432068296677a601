// SPDX-License-Identifier: Apache-2.0
#include "refract/object/transfer/path_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "refract/base/prng.h"
#include "refract/base/units.h"

namespace refract::object {
namespace {

using wire::TransferBy;

constexpr PathMemory::Channel kChannel{.one_sided_bytes_min = 16 * kKiB, .message_bytes = 32 * kKiB};

// A path on which a message costs so much for each byte, and a READ something at its beginning.
struct Path {
  uint64_t read_ns = 100'000;
  double message_ns_a_byte = 1.0;
  double read_ns_a_byte = 0.2;

  [[nodiscard]] uint64_t time(TransferBy by, uint64_t bytes) const {
    const auto size = static_cast<double>(bytes);
    return by == TransferBy::kReads ? read_ns + static_cast<uint64_t>(read_ns_a_byte * size)
                                    : 20'000 + static_cast<uint64_t>(message_ns_a_byte * size);
  }
};

TEST(PathMemory, the_first_pull_goes_by_what_the_channel_says) {
  for (const uint64_t bytes : {uint64_t{1}, 16 * kKiB - 1, 16 * kKiB, 64 * kMiB}) {
    PathMemory path;
    EXPECT_EQ(path.choose(bytes, kChannel), bytes < 16 * kKiB ? TransferBy::kMessages : TransferBy::kReads);
  }
  // A channel that says nothing: what fits one message goes by it.
  const PathMemory::Channel silent{.one_sided_bytes_min = 0, .message_bytes = 1000};
  PathMemory path;
  EXPECT_EQ(path.choose(1000, silent), TransferBy::kMessages);
  EXPECT_EQ(PathMemory().choose(1001, silent), TransferBy::kReads);
}

// At each size alone, and at all in any order: what auto takes in all is within a tenth of the better way.
TEST(PathMemory, auto_is_within_a_tenth_of_the_better_way_wherever_the_two_meet) {
  for (const uint64_t meets_at : {2 * kKiB, 30 * kKiB, 128 * kKiB, 3 * kMiB}) {
    Path way;
    way.read_ns = 20'000 + static_cast<uint64_t>(0.8 * static_cast<double>(meets_at));
    for (uint64_t bytes = kKiB; bytes <= 64 * kMiB; bytes *= 4) {
      PathMemory path;
      uint64_t taken = 0;
      uint64_t best = 0;
      for (int i = 0; i < 4096; ++i) {
        const TransferBy by = path.choose(bytes, kChannel);
        path.learn(by, bytes, way.time(by, bytes));
        if (i < 64) continue;
        taken += way.time(by, bytes);
        best += std::min(way.time(TransferBy::kReads, bytes), way.time(TransferBy::kMessages, bytes));
      }
      EXPECT_LT(taken, best + best / 10) << "meets at " << meets_at << ", size " << bytes;
    }
    PathMemory path;
    Prng prng(meets_at);
    uint64_t taken = 0;
    uint64_t best = 0;
    for (int i = 0; i < 20'000; ++i) {
      const uint64_t bytes = (kKiB << prng.below(16)) + prng.below(1024);
      const TransferBy by = path.choose(bytes, kChannel);
      path.learn(by, bytes, way.time(by, bytes));
      if (i < 2000) continue;
      taken += way.time(by, bytes);
      best += std::min(way.time(TransferBy::kReads, bytes), way.time(TransferBy::kMessages, bytes));
    }
    EXPECT_LT(taken, best + best / 10) << meets_at;
    ASSERT_TRUE(path.switch_bytes().has_value());
    EXPECT_GE(*path.switch_bytes() * 4, meets_at);
    EXPECT_LE(*path.switch_bytes(), meets_at * 4);
  }
}

// Of the first dozen of a size, where the ways differ by a third, two go the worse one.
TEST(PathMemory, few_pulls_of_a_size_pay_for_few_trials) {
  PathMemory path;
  int worse = 0;
  for (int i = 0; i < 64; ++i) {
    const TransferBy by = path.choose(16 * kMiB, kChannel);
    worse += by == TransferBy::kMessages ? 1 : 0;
    path.learn(by, 16 * kMiB, by == TransferBy::kReads ? 9'000'000 : 12'000'000);
    if (i == 11) {
      EXPECT_EQ(worse, 2);
    }
  }
  EXPECT_EQ(worse, 4);
}

// The first pulls of each way meet what is cold, and on a busy machine each third one waits for something
// else: that does not make auto keep to the worse way. Measured by what the ways take without such waits.
TEST(PathMemory, what_is_cold_or_waits_for_something_else_does_not_fix_the_worse_way) {
  constexpr int kSeeds = 60;
  for (const uint64_t meets_at : {2 * kKiB, 30 * kKiB, 300 * kKiB}) {
    Path way;
    way.read_ns = 20'000 + static_cast<uint64_t>(0.8 * static_cast<double>(meets_at));
    for (uint64_t bytes = kKiB; bytes <= 4 * kMiB; bytes *= 4) {
      int bad = 0;
      for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        PathMemory path;
        Prng prng(seed);
        std::array<int, 2> pulls{};
        uint64_t taken = 0;
        uint64_t best = 0;
        for (int i = 0; i < 384; ++i) {
          const TransferBy by = path.choose(bytes, kChannel);
          const uint64_t cold = pulls[by == TransferBy::kReads ? 1 : 0]++ < 2 ? 5 : 1;
          const uint64_t wait = prng.chance(0.3) ? 1 + prng.below(5) : 1;
          path.learn(by, bytes, way.time(by, bytes) * cold * wait);
          if (i < 64) continue;
          taken += way.time(by, bytes);
          best += std::min(way.time(TransferBy::kReads, bytes), way.time(TransferBy::kMessages, bytes));
        }
        bad += taken > best + best / 5 ? 1 : 0;
      }
      EXPECT_LE(bad, kSeeds / 20) << "meets at " << meets_at << ", size " << bytes;
    }
  }
}

// Where a smaller size seems to say the opposite.
TEST(PathMemory, a_size_that_was_tried_itself_is_overruled_by_no_other) {
  PathMemory path;
  for (int i = 0; i < 10; ++i) {
    path.learn(TransferBy::kReads, kKiB, 10'000);
    path.learn(TransferBy::kMessages, kKiB, 50'000);
    path.learn(TransferBy::kReads, 64 * kKiB, 200'000);
    path.learn(TransferBy::kMessages, 64 * kKiB, 100'000);
  }
  int reads = 0;
  for (int i = 0; i < 64; ++i) reads += path.choose(64 * kKiB, kChannel) == TransferBy::kReads ? 1 : 0;
  EXPECT_LE(reads, 2);
}

// 10 ms there and back, 1 GB/s, and a window of 1 MiB: after the first pull, which shows rate and delay, no
// pull of many windows goes by messages, which would take nine times as long. One of two windows is tried.
TEST(PathMemory, messages_that_cannot_fill_a_long_path_are_not_tried) {
  constexpr PathMemory::Channel kWindows{
      .one_sided_bytes_min = 16 * kKiB, .message_bytes = 32 * kKiB, .messages_max = 32};
  constexpr uint64_t kDelay_ns = 10 * kMillisecond_ns;
  for (const uint64_t bytes : {8 * kMiB, 64 * kMiB, 256 * kMiB}) {
    PathMemory path;
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(path.choose(bytes, kWindows), TransferBy::kReads) << i;
      EXPECT_EQ(path.known_way(bytes, kWindows), TransferBy::kReads) << i;
      path.note_round_trip(kDelay_ns);
      path.note_rate(10'000'000, kDelay_ns, true);
      path.learn(TransferBy::kReads, bytes, 2 * kDelay_ns + bytes);
    }
    int messages = 0;
    for (int i = 0; i < 64; ++i) messages += path.choose(2 * kMiB, kWindows) == TransferBy::kMessages ? 1 : 0;
    EXPECT_EQ(messages, 4);
  }
}

// On loopback the window is wide enough.
TEST(PathMemory, messages_are_tried_at_any_size_where_they_fill_the_path) {
  constexpr PathMemory::Channel kWindows{
      .one_sided_bytes_min = 16 * kKiB, .message_bytes = 32 * kKiB, .messages_max = 32};
  PathMemory path;
  path.note_round_trip(60 * kMicrosecond_ns);
  path.note_rate(3'000'000, kMillisecond_ns, true);
  int messages = 0;
  for (int i = 0; i < 64; ++i) messages += path.choose(256 * kMiB, kWindows) == TransferBy::kMessages ? 1 : 0;
  EXPECT_EQ(messages, 4);
}

// Nothing is learned for ever.
TEST(PathMemory, a_path_that_changes_is_learned_anew) {
  PathMemory path;
  Path way;
  const uint64_t bytes = 256 * kKiB;
  const auto pull = [&] {
    const TransferBy by = path.choose(bytes, kChannel);
    path.learn(by, bytes, way.time(by, bytes));
    return by;
  };
  for (int i = 0; i < 200; ++i) (void)pull();
  EXPECT_EQ(pull(), TransferBy::kReads);
  way.read_ns = 10 * kMillisecond_ns;
  int reads = 0;
  for (int i = 0; i < 4000; ++i) reads += pull() == TransferBy::kReads ? 1 : 0;
  EXPECT_LT(reads, 400);
  way.read_ns = 10'000;
  for (int i = 0; i < 40'000; ++i) (void)pull();
  EXPECT_EQ(pull(), TransferBy::kReads);
}

TEST(PathMemory, what_is_under_way_follows_from_rate_and_delay) {
  PathMemory path;
  EXPECT_EQ(path.bytes_under_way(), 0U);
  EXPECT_EQ(path.time_of(kMiB), 0U);
  path.note_round_trip(10 * kMillisecond_ns);
  path.note_rate(10'000'000, 10 * kMillisecond_ns, true);
  EXPECT_EQ(path.bytes_per_s(), 1'000'000'000U);
  EXPECT_EQ(path.bytes_under_way(), 20'000'000U);
  EXPECT_EQ(path.time_of(1'000'000), 11 * kMillisecond_ns);
  // A pull that had too little to ask for says nothing of the path, unless it was quicker.
  path.note_rate(1000, 10 * kMillisecond_ns, false);
  EXPECT_EQ(path.bytes_per_s(), 1'000'000'000U);
  path.note_rate(20'000'000, 10 * kMillisecond_ns, false);
  EXPECT_EQ(path.bytes_per_s(), 2'000'000'000U);
  for (int i = 0; i < 400; ++i) path.note_rate(1'000'000, 10 * kMillisecond_ns, true);
  EXPECT_LT(path.bytes_per_s(), 110'000'000U) << "it has become slower";
  // One answer that waited behind others is no delay of the path.
  path.note_round_trip(kSecond_ns);
  EXPECT_LT(path.round_trip_ns(), 20 * kMillisecond_ns);
}

TEST(PathMemory, sizes_are_powers_of_two) {
  EXPECT_EQ(PathMemory::size_of(0), 0U);
  EXPECT_EQ(PathMemory::size_of(1023), 0U);
  EXPECT_EQ(PathMemory::size_of(2047), 0U);
  EXPECT_EQ(PathMemory::size_of(2048), 1U);
  EXPECT_EQ(PathMemory::size_of(UINT64_MAX), PathMemory::kSizes - 1);
  EXPECT_EQ(PathMemory::bytes_of_size(PathMemory::size_of(4 * kMiB)), 4 * kMiB);
  PathMemory path;
  path.learn(TransferBy::kReads, UINT64_MAX, UINT64_MAX);
  path.learn(TransferBy::kReads, 0, 5);
  EXPECT_FALSE(path.switch_bytes().has_value());
}

}  // namespace
}  // namespace refract::object
