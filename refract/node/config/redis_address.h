// SPDX-License-Identifier: Apache-2.0
// Where a Redis is, as objects.directory says it: redis://HOST:PORT, with a user and the number of a database
// where it needs them: redis://USER@HOST:PORT/3.
#pragma once

#include <string>
#include <string_view>

#include "refract/base/report.h"

namespace refract::node {

struct RedisAddress {
  std::string user;   // Empty: the one that Redis calls default.
  std::string place;  // "10.0.0.9:6379"
  int database = 0;
};

// What is wrong with it; a password within it is never repeated.
[[nodiscard]] Reported<RedisAddress> parse_redis_address(std::string_view text);
// For people and logs: without the user.
[[nodiscard]] std::string to_text(const RedisAddress& address);

}  // namespace refract::node
