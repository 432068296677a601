// SPDX-License-Identifier: Apache-2.0
#include "apps/progress/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace refract::progress {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// Time stands still until a test moves it, so every line below is exact.
class ProgressLines : public testing::Test {
 protected:
  Progress make(Style style) {
    return {clock_, [this](std::string_view text) { written_.emplace_back(text); }, style, "loading status",
            "records"};
  }
  void pass(uint64_t ns) { clock_.advance_ns(ns); }

  ManualClock clock_;
  std::vector<std::string> written_;
};

constexpr Style kTerminal = {.terminal = true, .silent = false, .columns = 120};
constexpr Style kPlain = {.terminal = false, .silent = false, .columns = 80};
constexpr Style kSilent = {.terminal = true, .silent = true, .columns = 80};
constexpr std::string_view kWiped = "\r\x1b[K";

TEST_F(ProgressLines, a_terminal_shows_share_rate_and_time_left) {
  Progress progress = make(kTerminal);
  progress.set_total({.count = {}, .bytes = 4 * kMiB});
  pass(kSecond_ns);
  progress.update({.count = 2'000, .bytes = kMiB});
  EXPECT_THAT(written_,
              ElementsAre(std::string(kWiped) + "loading status  25 % [#####...............]  2,000 records  "
                                                "1.0 MiB  2,000/s  3 s left"));
}

TEST_F(ProgressLines, a_terminal_is_redrawn_ten_times_a_second_however_often_update_is_called) {
  Progress progress = make(kTerminal);
  for (uint64_t step = 1; step <= 1'000; ++step) {
    pass(kMillisecond_ns);
    progress.update({.count = step, .bytes = 0});
  }
  EXPECT_THAT(written_, SizeIs(10));
}

TEST_F(ProgressLines, elsewhere_a_plain_line_comes_every_five_seconds) {
  Progress progress = make(kPlain);
  progress.set_total({.count = 100, .bytes = {}});
  for (uint64_t second = 1; second <= 10; ++second) {
    pass(kSecond_ns);
    progress.update({.count = second, .bytes = 0});
  }
  EXPECT_THAT(written_, ElementsAre("loading status   5 %  5 records  1.0/s  1 min 35 s left\n",
                                    "loading status  10 %  10 records  1.0/s  1 min 30 s left\n"));
}

TEST_F(ProgressLines, without_a_total_neither_share_nor_time_left_is_claimed) {
  Progress progress = make(kTerminal);
  pass(kSecond_ns);
  progress.update({.count = 5, .bytes = 10});
  EXPECT_THAT(written_, ElementsAre(std::string(kWiped) + "loading status  5 records  10 B  5.0/s"));
}

TEST_F(ProgressLines, silence_is_kept_but_for_messages) {
  Progress progress = make(kSilent);
  pass(60 * kSecond_ns);
  progress.update({.count = 5, .bytes = 10});
  progress.finish({.count = 5, .bytes = 10});
  EXPECT_THAT(written_, IsEmpty());
  progress.message("a.csv:3: the key is empty");
  EXPECT_THAT(written_, ElementsAre("a.csv:3: the key is empty\n"));
}

TEST_F(ProgressLines, a_message_stands_above_the_line_that_is_redrawn) {
  Progress progress = make(kTerminal);
  pass(kSecond_ns);
  progress.update({.count = 5, .bytes = 10});
  progress.message("bad");
  ASSERT_THAT(written_, SizeIs(3));
  EXPECT_EQ(written_[1], std::string(kWiped) + "bad\n");
  EXPECT_EQ(written_[2], written_[0]);
}

TEST_F(ProgressLines, a_line_never_reaches_the_last_column) {
  for (size_t columns = 0; columns < 90; ++columns) {
    written_.clear();
    Progress progress = make({.terminal = true, .silent = false, .columns = columns});
    progress.set_total({.count = 1'000'000, .bytes = {}});
    pass(kSecond_ns);
    progress.update({.count = 123'456, .bytes = 7});
    ASSERT_THAT(written_, SizeIs(1));
    EXPECT_LT(written_[0].size() - kWiped.size(), std::max<size_t>(columns, 2));
  }
}

TEST_F(ProgressLines, a_letter_of_several_bytes_is_not_cut_in_two) {
  Progress progress(
      clock_, [this](std::string_view text) { written_.emplace_back(text); },
      {.terminal = true, .silent = false, .columns = 3}, "\u00e4\u00f6\u00fc", "records");
  pass(kSecond_ns);
  progress.update({});
  EXPECT_THAT(written_, ElementsAre(std::string(kWiped) + "\u00e4\u00f6"));
}

TEST_F(ProgressLines, the_rate_follows_a_change_within_seconds) {
  Progress progress = make(kTerminal);
  uint64_t count = 0;
  const auto run = [&](uint64_t tenths, uint64_t each) {
    for (uint64_t i = 0; i < tenths; ++i) {
      pass(Progress::kRedraw_ns);
      progress.update({.count = count += each, .bytes = 0});
    }
  };
  run(300, 1'000);
  EXPECT_THAT(written_.back(), HasSubstr("10,000/s"));
  run(300, 10);
  EXPECT_THAT(written_.back(), HasSubstr("  10"));
  EXPECT_THAT(written_.back(), Not(HasSubstr(",000/s")));
}

TEST_F(ProgressLines, a_stall_is_called_a_stall) {
  Progress progress = make(kPlain);
  progress.set_total({.count = {}, .bytes = 100});
  pass(Progress::kPlain_ns);
  progress.update({.count = 0, .bytes = 0});
  EXPECT_THAT(written_.back(), HasSubstr("stalled"));
}

TEST_F(ProgressLines, the_share_is_never_a_hundred_before_the_end_and_never_more) {
  Progress progress = make(kTerminal);
  progress.set_total({.count = {}, .bytes = 1'000});
  pass(kSecond_ns);
  progress.update({.count = 1, .bytes = 999});
  EXPECT_THAT(written_.back(), HasSubstr(" 99 % "));
  pass(kSecond_ns);
  progress.update({.count = 1, .bytes = 5'000});
  EXPECT_THAT(written_.back(), HasSubstr(" 100 % [####################]"));
}

TEST_F(ProgressLines, an_empty_total_divides_nothing_by_nothing) {
  Progress progress = make(kTerminal);
  progress.set_total({.count = {}, .bytes = 0});
  pass(kSecond_ns);
  progress.update({});
  EXPECT_THAT(written_.back(), HasSubstr("100 %"));
  EXPECT_THAT(written_.back(), Not(HasSubstr("nan")));
}

TEST_F(ProgressLines, the_last_line_gives_the_whole_time_and_the_mean_rate) {
  Progress progress = make(kTerminal);
  pass(2 * kSecond_ns);
  progress.update({.count = 10, .bytes = 0});
  pass(2 * kSecond_ns);
  progress.finish({.count = 1'000'000, .bytes = 64 * kMiB});
  EXPECT_EQ(written_.back(),
            std::string(kWiped) + "loading status  done: 1,000,000 records  64.0 MiB in 4 s, 250,000/s\n");
}

TEST_F(ProgressLines, finishing_in_no_time_shows_no_infinite_rate) {
  Progress progress = make(kPlain);
  progress.finish({.count = 3, .bytes = 0});
  EXPECT_EQ(written_.back(), "loading status  done: 3 records in 0.0 s, 3.0/s\n");
}

TEST(ProgressTexts, figures_read_as_people_write_them) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1'000), "1,000");
  EXPECT_EQ(count_text(18'446'744'073'709'551'615ULL), "18,446,744,073,709,551,615");
  EXPECT_EQ(bytes_text(1'023), "1023 B");
  EXPECT_EQ(bytes_text(1'536), "1.5 KiB");
  EXPECT_EQ(bytes_text(kMiB - 1), "1.0 MiB");
  EXPECT_EQ(bytes_text(5'000 * kGiB * 1'024), "5000.0 TiB");
  EXPECT_EQ(duration_text(0.44), "0.4 s");
  EXPECT_EQ(duration_text(59.4), "59 s");
  EXPECT_EQ(duration_text(187), "3 min 07 s");
  EXPECT_EQ(duration_text(3'725), "1 h 02 min");
}

TEST(ProgressStyle, what_is_no_terminal_gets_plain_lines) {
  EXPECT_FALSE(style_of(-1).terminal);
}

}  // namespace
}  // namespace refract::progress
