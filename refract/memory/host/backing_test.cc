// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/host/backing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace refract {
namespace {

using testing::HasSubstr;

TEST(Backing, every_uri_comes_back_as_it_was) {
  for (const char* uri : {"memfd:", "hugetlb:", "file:/var/lib/refract", "file:/"}) {
    const Reported<Backing> backing = parse_backing(uri);
    ASSERT_TRUE(backing) << uri;
    EXPECT_EQ(to_uri(*backing), uri);
  }
}

TEST(Backing, slashes_at_the_end_do_not_matter) {
  EXPECT_EQ(*parse_backing("file:/a//"), *parse_backing("file:/a"));
  EXPECT_EQ(region_path(*parse_backing("file:/a/"), 7), "/a/region-007");
  EXPECT_EQ(region_path(*parse_backing("file:/"), 65535), "/region-65535");
  EXPECT_EQ(region_path({.kind = BackingKind::kFile, .folder = "/a", .shard = 12}, 7), "/a/region-007.12");
}

TEST(Backing, errors_name_what_was_wrong) {
  const auto error = [](std::string_view uri) {
    const Reported<Backing> backing = parse_backing(uri);
    return backing ? "parsed" : backing.error().to_string();
  };
  EXPECT_THAT(error(""), HasSubstr("colon is missing"));
  EXPECT_THAT(error("memfd"), HasSubstr("'memfd' is no backing: a colon is missing"));
  EXPECT_THAT(error("memfd:x"), HasSubstr("nothing may follow memfd:"));
  EXPECT_THAT(error("shm:/x"), HasSubstr("there is no backing 'shm:'"));
  EXPECT_THAT(error("file:here"), HasSubstr("absolute path"));
  EXPECT_THAT(error("file:"), HasSubstr("absolute path"));
  EXPECT_THAT(error(std::string_view("file:/a\0b", 9)), HasSubstr("zero byte"));
}

TEST(Backing, pages_are_large_only_where_they_are) {
  EXPECT_EQ(page_bytes({BackingKind::kMemfd, {}}), 4096U);
  EXPECT_EQ(page_bytes({BackingKind::kHugetlb, {}}), 2U << 20);
  EXPECT_EQ(page_bytes({BackingKind::kFile, "/a"}), 4096U);
}

}  // namespace
}  // namespace refract
