// SPDX-License-Identifier: Apache-2.0
// Where a Redis is: what is taken, and what is refused in words that repeat no password.
#include "refract/node/config/redis_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace refract::node {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string refusal(std::string_view text) {
  const auto address = parse_redis_address(text);
  return address ? "taken" : address.error().to_line();
}

TEST(RedisAddress, has_a_host_and_a_port_and_perhaps_a_user_and_a_database) {
  const auto plain = parse_redis_address("redis://10.0.0.9:6379");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->place, "10.0.0.9:6379");
  EXPECT_EQ(plain->user, "");
  EXPECT_EQ(plain->database, 0);
  EXPECT_EQ(to_text(*plain), "redis://10.0.0.9:6379");
  const auto full = parse_redis_address("redis://refract@[::1]:7000/12");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->place, "[::1]:7000");
  EXPECT_EQ(full->user, "refract");
  EXPECT_EQ(full->database, 12);
  EXPECT_EQ(to_text(*full), "redis://[::1]:7000/12") << "a log names no user";
  EXPECT_TRUE(parse_redis_address("redis://directory.example:6379/"));
}

TEST(RedisAddress, that_is_none_is_refused_in_words) {
  EXPECT_THAT(refusal("10.0.0.9:6379"), HasSubstr("begins with redis://"));
  EXPECT_THAT(refusal("http://10.0.0.9:6379"), HasSubstr("expected redis://HOST:PORT"));
  EXPECT_THAT(refusal("rediss://10.0.0.9:6379"), HasSubstr("not encrypted"));
  EXPECT_THAT(refusal("redis://10.0.0.9"), HasSubstr("expected redis://HOST:PORT"));
  EXPECT_THAT(refusal("redis://"), HasSubstr("expected redis://HOST:PORT"));
  EXPECT_THAT(refusal("redis://h:1/x"), HasSubstr("'x' is no number of a database"));
  EXPECT_THAT(refusal("redis://h:1/-1"), HasSubstr("'-1' is no number of a database"));
  EXPECT_THAT(refusal("redis://h:1/99999999999"), HasSubstr("no number of a database"));
  EXPECT_THAT(refusal("redis://h\n:1"), HasSubstr("bytes that none has"));
  EXPECT_THAT(refusal("redis://" + std::string(600, 'h') + ":1"), HasSubstr("more than 512 bytes"));
  for (const std::string text :
       {"redis://:hunter2@h:1", "redis://me:hunter2@h:1/3", "redis://me:hun@ter2@h:1"}) {
    EXPECT_THAT(refusal(text), HasSubstr("name that in objects.directory_secret_file"));
    EXPECT_THAT(refusal(text), Not(HasSubstr("ter2")));
  }
}

}  // namespace
}  // namespace refract::node
