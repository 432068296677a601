// SPDX-License-Identifier: Apache-2.0
#include "refract/node/config/redis_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "refract/fabric/tcp/socket.h"

namespace refract::node {
namespace {

constexpr std::string_view kScheme = "redis://";
constexpr std::string_view kExpected = "redis://HOST:PORT, redis://USER@HOST:PORT/DATABASE, or none";
constexpr size_t kAddressBytesMax = 512;
// Redis has sixteen databases unless it is told otherwise.
constexpr int kDatabaseMost = 9999;

// Anything else may hide a password, or end a line of a log.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char byte) { return byte > ' ' && byte < '\x7f'; });
}

}  // namespace

Reported<RedisAddress> parse_redis_address(std::string_view text) {
  const auto refuse = [](std::string what) {
    return report(Code::kInvalidArgument, std::move(what), fmt::format("expected {}", kExpected));
  };
  if (text.starts_with("rediss://")) {
    return report(Code::kUnsupported, "connections to Redis are not encrypted, so rediss:// is not known",
                  "use redis:// on a network that only your nodes reach, or a tunnel");
  }
  if (!text.starts_with(kScheme)) return refuse("a directory's address begins with redis://");
  std::string_view rest = text.substr(kScheme.size());
  RedisAddress address;
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    const std::string_view user = rest.substr(0, at);
    if (user.find(':') != std::string_view::npos) {
      return report(
          Code::kInvalidArgument, "the address holds a password, which others would see",
          "write it into a file, name that in objects.directory_secret_file, and leave it out here");
    }
    address.user = user;
    rest.remove_prefix(at + 1);
  }
  if (text.size() > kAddressBytesMax || !is_plain(text)) {
    return refuse(
        fmt::format("an address of more than {} bytes, or with bytes that none has", kAddressBytesMax));
  }
  if (const size_t slash = rest.find('/'); slash != std::string_view::npos) {
    const std::string_view number = rest.substr(slash + 1);
    const auto end = std::from_chars(number.data(), number.data() + number.size(), address.database);
    const bool is_number = end.ec == std::errc() && end.ptr == number.data() + number.size();
    if (!number.empty() && (!is_number || address.database < 0 || address.database > kDatabaseMost)) {
      return refuse(fmt::format("'{}' is no number of a database", number));
    }
    rest = rest.substr(0, slash);
  }
  if (auto split = fabric::tcp::split_address(rest); !split) {
    return report(split.error().code, split.error().what, fmt::format("expected {}", kExpected));
  }
  address.place = rest;
  return address;
}

std::string to_text(const RedisAddress& address) {
  return address.database == 0 ? fmt::format("{}{}", kScheme, address.place)
                               : fmt::format("{}{}/{}", kScheme, address.place, address.database);
}

}  // namespace refract::node
