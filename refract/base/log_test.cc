// SPDX-License-Identifier: Apache-2.0
#include "refract/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace refract {
namespace {

using testing::MatchesRegex;

constexpr const char* kTime =
    "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-"
    "9]Z ";

class Log : public testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
  // What was logged since the test began.
  static std::string logged() { return testing::internal::GetCapturedStderr(); }
};

TEST_F(Log, writes_time_level_and_text_as_one_line) {
  log_info("listening on {} port {}", "localhost", 7400);
  EXPECT_THAT(logged(), MatchesRegex(std::string(kTime) + "info listening on localhost port 7400\n"));
}

TEST_F(Log, is_silent_above_its_level) {
  log_debug("not seen");
  set_log_level(LogLevel::kError);
  log_warn("not seen");
  log_info("not seen");
  log_error("seen {}", 1);
  set_log_level(LogLevel::kDebug);
  log_debug("seen {}", 2);
  const std::string text = logged();
  EXPECT_EQ(text.find("not seen"), std::string::npos) << text;
  EXPECT_NE(text.find("error seen 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("debug seen 2\n"), std::string::npos) << text;
}

TEST_F(Log, cannot_be_forged_by_a_value_with_a_newline) {
  log_warn("bad key {}", "a\n2026-01-01T00:00:00.000000Z error all is lost\r\x1b[31m");
  const std::string text = logged();
  EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
  EXPECT_NE(text.find("bad key a\\x0a2026"), std::string::npos) << text;
  EXPECT_NE(text.find("lost\\x0d\\x1b[31m\n"), std::string::npos) << text;
}

TEST_F(Log, takes_a_report_of_several_lines_apart) {
  set_log_level(LogLevel::kInfo);
  log_lines(LogLevel::kError, "the log is damaged:\n  at one place\n\n  at a\x1b[2J second\n");
  log_lines(LogLevel::kDebug, "not\nseen");
  const std::string text = logged();
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;
  EXPECT_NE(text.find("error the log is damaged:\n"), std::string::npos) << text;
  EXPECT_NE(text.find("error at one place\n"), std::string::npos) << text;
  EXPECT_NE(text.find("error at a\\x1b[2J second\n"), std::string::npos) << text;
}

TEST_F(Log, cuts_a_line_that_no_pipe_takes_in_one_piece) {
  log_info("{}", std::string(100'000, 'x'));
  const std::string text = logged();
  EXPECT_EQ(text.size(), 4096u);
  EXPECT_TRUE(text.ends_with("x...\n"));
}

TEST_F(Log, preserves_errno) {
  errno = EAGAIN;
  log_info("something {}", 1);
  EXPECT_EQ(errno, EAGAIN);
  static_cast<void>(logged());
}

TEST_F(Log, keeps_the_lines_of_threads_apart) {
  std::vector<std::thread> threads;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    threads.emplace_back([letter] {
      for (int line = 0; line < 200; ++line) log_info("{}", std::string(500, letter));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream stream(logged());
  int lines = 0;
  for (std::string line; std::getline(stream, line); ++lines) {
    const std::string message = line.substr(line.rfind(' ') + 1);
    ASSERT_EQ(message, std::string(500, message.front()));
  }
  EXPECT_EQ(lines, 800);
}

TEST(LogLevel, has_a_text_that_reads_back) {
  for (const LogLevel level : {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug}) {
    EXPECT_EQ(*log_level_from_text(text(level)), level);
  }
  EXPECT_EQ(log_level_from_text("loud").code(), Code::kInvalidArgument);
  EXPECT_EQ(log_level_from_text("").code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace refract
