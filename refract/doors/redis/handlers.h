// SPDX-License-Identifier: Apache-2.0
// What runs each command. Only the table of commands (commands.cc) and the handlers' own sources include
// this.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/doors/redis/commands.h"
#include "refract/doors/redis/session.h"
#include "refract/doors/redis/words.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

inline constexpr std::string_view kSyntaxError = "ERR syntax error";
// A pattern is matched with each key of a page.
inline constexpr size_t kPatternBytesMax = 1024;
inline constexpr std::string_view kLongPattern = "ERR patterns have at most 1024 bytes";
// Of commands that tell something of each.
inline constexpr size_t kNamesMax = 1024;
inline constexpr std::string_view kManyNames = "ERR at most 1024 names";
inline constexpr std::string_view kLongAnswer = "ERR the values of one command have at most 512 MiB";
inline constexpr std::string_view kNoInteger = "ERR value is not an integer or out of range";
// Of Redis that is spoken here, for programs that look at it.
inline constexpr std::string_view kRedisVersion = "7.0.15";
// Of a command with all its attempts.
inline constexpr uint64_t kDoorTimeout_ns = 30 * kSecond_ns;

// An operation that failed, in Redis's words where it has some. Where it is not known what became of a write,
// the connection breaks.
void fail_with(Pending& command, Code code, const AsyncClient& client);
// The same of one that replies at once, and changes nothing.
[[nodiscard]] std::string error_of(Code code, const AsyncClient& client);

// Whether CLIENT SETNAME and HELLO take it.
[[nodiscard]] bool is_client_name(std::string_view name) noexcept;
inline constexpr std::string_view kWrongClientName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

// Of the connection.
bool ping(Call& call);
bool echo(Call& call);
bool hello(Call& call);
bool auth(Call& call);
bool select(Call& call);
bool quit(Call& call);

// Of the node.
bool info_at_once(Call& call);
runtime::Task<> info(Store& store, Pending& command);
runtime::Task<> dbsize(Store& store, Pending& command);
runtime::Task<> scan(Store& store, Pending& command);

// Of keys.
bool get_at_once(Call& call);
runtime::Task<> get(Store& store, Pending& command);
runtime::Task<> set(Store& store, Pending& command);
runtime::Task<> mget(Store& store, Pending& command);
runtime::Task<> mset(Store& store, Pending& command);
runtime::Task<> del(Store& store, Pending& command);
bool exists_at_once(Call& call);
runtime::Task<> exists(Store& store, Pending& command);
bool strlen_at_once(Call& call);
runtime::Task<> strlen(Store& store, Pending& command);
bool type_at_once(Call& call);
runtime::Task<> type(Store& store, Pending& command);
bool ttl_at_once(Call& call);
runtime::Task<> ttl(Store& store, Pending& command);

}  // namespace refract::doors::redis
