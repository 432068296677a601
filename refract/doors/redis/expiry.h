// SPDX-License-Identifier: Apache-2.0
// Times to live as Redis's commands name them: their options, their numbers, and what is wrong with them.
//
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {

enum class Expiry : uint8_t { kNone, kSeconds, kMilliseconds, kMomentSeconds, kMomentMilliseconds, kKept };

// What EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT take, by their names in lower letters.
[[nodiscard]] Expiry expiry_of(std::string_view name) noexcept;

// The options of SET and of GETEX.
struct StringOptions {
  bool if_absent = false;   // NX
  bool if_present = false;  // XX
  bool wants_old = false;   // GET
  bool persists = false;    // PERSIST
  Expiry expiry = Expiry::kNone;
  std::string_view time = {};  // Of an expiry that has one.
  bool is_wrong = false;       // It is no syntax.
};
enum class OptionsOf : uint8_t { kSet, kGetEx };
// Of the words behind the command's fixed ones. Of an option that is there twice the last counts.
[[nodiscard]] StringOptions string_options_of(Words words, OptionsOf command);

struct Moment {
  uint64_t wall_ns = 0;  // Store time, a whole millisecond; 1: it is over.
  std::string wrong{};   // Not empty: what is wrong. In Redis's words.
};
// Of SET, GETEX, SETEX and PSETEX, for which a time is positive. `name`: the command's, in lower letters.
[[nodiscard]] Moment positive_moment_of(std::string_view time, Expiry expiry, std::string_view name,
                                        uint64_t now_ns);
// Of EXPIRE and its like, for which it is any.
[[nodiscard]] Moment moment_of(std::string_view time, Expiry expiry, std::string_view name, uint64_t now_ns);

// The conditions of EXPIRE and its like: bits of kv::functions::ExpireConditions.
struct ExpireOptions {
  uint8_t conditions = 0;
  std::string wrong{};
};
[[nodiscard]] ExpireOptions expire_options_of(Words words);

}  // namespace refract::doors::redis
