// SPDX-License-Identifier: Apache-2.0
#include "refract/documents/toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refract/documents/json.h"

namespace refract::documents {
namespace {

using ::testing::StartsWith;

TEST(Toml, a_file_is_an_object_with_lines) {
  const Reported<Value> read = parse_toml(
      "# comment\nname = \"x\"\n[a.b]\nsize = 3\nreal = 1.5\n"
      "[[row]]\nis = true\n[[row]]\nwhen = 1979-05-27\n",
      "file.toml");
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json_line(*read),
            R"({"a":{"b":{"real":1.5,"size":3}},"name":"x","row":[{"is":true},{"when":null}]})");
  EXPECT_EQ(read->find("name")->line(), 2u);
  EXPECT_EQ(read->find("a")->find("b")->line(), 3u);
  EXPECT_EQ(read->find("a")->find("b")->find("size")->line(), 4u);
  EXPECT_TRUE(read->find("a")->find("b")->find("size")->is_integer());
  EXPECT_EQ(read->find("row")->elements()[1].line(), 8u);
}

TEST(Toml, an_error_names_the_file_and_the_line) {
  const Reported<Value> read = parse_toml("a = 1\nb = \n", "file.toml");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().what, StartsWith("file.toml:2: not TOML: "));
  // What the library asserts and ours must survive.
  EXPECT_FALSE(parse_toml("[[[", "file.toml"));
  EXPECT_FALSE(parse_toml("a = " + std::string(100'000, '['), "file.toml"));
}

}  // namespace
}  // namespace refract::documents
