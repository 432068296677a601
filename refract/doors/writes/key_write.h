// SPDX-License-Identifier: Apache-2.0
// Writes of one key: which operation each asks of the key's owner, and how its reply is made of what became
// of it. The operation is numbered, so that it is known what became of it behind a kill of the server, too,
// and has the tag of its connection, so that the owner keeps the order of these (docs/design/077).
//
// What no message has room for, or the owner leaves to its clients, goes by itself: its value is brought as
// long ones are, or it reads, computes, and commits (changing.h).
//
// Threads: that of the store's door.
#pragma once

#include <string>

#include "refract/base/result.h"
#include "refract/client/types.h"
#include "refract/doors/redis/commands.h"
#include "refract/kv/functions/functions.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

struct KeyWrite {
  // Puts the operation into the command, whose words it names. False: it was replied what is wrong.
  bool (*plan)(Store& store, Pending& command);
  // Replies. `answer` is a function's.
  void (*answer)(Store& store, Pending& command, Code code, Bytes answer);
  // Whether the owner may leave it to its clients behind having seen it: what stands behind it in its key
  // waits for its end.
  bool may_come_back = false;
};

// Of SET, and of GETSET, whose words are those of a plain one.
bool plan_set(Store& store, Pending& command);
// The arguments live as long as the command.
void plan_function(Pending& command, kv::functions::Function function, Bytes arguments);

// Those of the table of commands.
extern const KeyWrite kSetWrite;
extern const KeyWrite kSetnxWrite;
extern const KeyWrite kSetexWrite;
extern const KeyWrite kDelWrite;
extern const KeyWrite kIncrWrite;
extern const KeyWrite kIncrbyfloatWrite;
extern const KeyWrite kAppendWrite;
extern const KeyWrite kSetrangeWrite;
extern const KeyWrite kExpireWrite;
extern const KeyWrite kPersistWrite;

// Whether it goes by itself from the beginning.
[[nodiscard]] bool goes_by_itself(const Pending& command) noexcept;
// Plans it, does it by itself and replies. REQUIRES: what stands before it in its key is over, and what
// stands behind it waits.
[[nodiscard]] runtime::Task<> write_by_itself(Store& store, Pending& command);

// What a put has replaced, or would have.
struct Replaced {
  Code code = Code::kOk;  // kExists, kNotFound: its condition does not hold.
  bool was_there = false;
  std::string old = {};  // Empty, where it was not asked for.
};
// The put that was planned, on the version that was read.
[[nodiscard]] runtime::Task<Replaced> replace(Store& store, Pending& command, bool wants_old);

}  // namespace refract::doors::redis
