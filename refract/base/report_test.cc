// SPDX-License-Identifier: Apache-2.0
#include "refract/base/report.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace refract {
namespace {

Reported<int> open_port(int port) {
  if (port > 65535)
    return report(Code::kInvalidArgument, "port 70000 is above 65535", "choose a smaller one");
  return port;
}

TEST(Report, reads_as_what_was_wrong_and_then_what_to_do) {
  const Reported<int> opened = open_port(70000);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
  EXPECT_EQ(opened.error().to_string(), "port 70000 is above 65535\n  choose a smaller one");
}

TEST(Report, is_one_line_where_nothing_can_be_done) {
  EXPECT_EQ((Report{Code::kSystem, "the disk is gone", ""}).to_string(), "the disk is gone");
}

TEST(Report, is_handed_on_whole) {
  const auto outer = [](int port) -> Reported<> {
    Reported<int> inner = open_port(port);
    if (!inner) return report(std::move(inner.error()));
    return {};
  };
  EXPECT_TRUE(outer(80));
  EXPECT_EQ(outer(70000).error().next, "choose a smaller one");
}

TEST(Report, names_errno_values) {
  EXPECT_EQ(errno_text(EACCES), "Permission denied");
  EXPECT_EQ(errno_text(EADDRINUSE), "Address already in use");
}

}  // namespace
}  // namespace refract
