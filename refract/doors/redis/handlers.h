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
#include "refract/kv/functions/functions.h"
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
inline constexpr std::string_view kLongString =
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
inline constexpr std::string_view kNoFloat = "ERR value is not a valid float";
// Of Redis that is spoken here, for programs that look at it.
inline constexpr std::string_view kRedisVersion = "7.0.15";
// Of a command with all its attempts.
inline constexpr uint64_t kDoorTimeout_ns = 30 * kSecond_ns;

// A key that was looked for, for what INFO tells.
inline void count_read(Store& store, bool is_hit) noexcept {
  (is_hit ? store.counts.hits : store.counts.misses).fetch_add(1, std::memory_order_relaxed);
}

// What a row of kv::functions has refused, in Redis's words.
[[nodiscard]] std::string_view refusal_text(kv::functions::Refusal refusal) noexcept;
// What TTL, PTTL, EXPIRETIME and PEXPIRETIME answer: by the command's name, in letters of any case.
[[nodiscard]] int64_t ttl_answer(std::string_view name, bool is_there, uint64_t expires_wall_ns,
                                 uint64_t now_ns) noexcept;

// What is wrong with the number of a database; empty: it is the one that there is.
[[nodiscard]] std::string wrong_database(std::string_view word);

// An operation that failed, in Redis's words where it has some. Where it is not known what became of a write,
// the connection breaks.
void fail_with(Pending& command, Code code, const AsyncClient& client);
// The same of several changes at one moment, which have limits of their own.
void fail_batch(Pending& command, Code code, const AsyncClient& client);
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
runtime::Task<> flush(Store& store, Pending& command);

// Of keys.
bool get_at_once(Call& call);
runtime::Task<> get(Store& store, Pending& command);
// Key by key, or shard by shard: not at one moment. exec/handlers.h has the others.
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

// Of strings.
runtime::Task<> set(Store& store, Pending& command);
runtime::Task<> getset(Store& store, Pending& command);
runtime::Task<> getdel(Store& store, Pending& command);
runtime::Task<> getex(Store& store, Pending& command);
runtime::Task<> lcs(Store& store, Pending& command);
bool getrange_at_once(Call& call);
runtime::Task<> getrange(Store& store, Pending& command);

// Of times to live, and of keys as such.
runtime::Task<> keys(Store& store, Pending& command);
runtime::Task<> randomkey(Store& store, Pending& command);

}  // namespace refract::doors::redis
