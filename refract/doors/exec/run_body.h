// SPDX-License-Identifier: Apache-2.0
// Runs the commands of a transaction and commits what they have made, at one moment, on what they have read;
// again and again, until no other writer was in between (docs/design/071).
//
// Threads: that of the store's door.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/result.h"
#include "refract/doors/exec/body_commands.h"
#include "refract/doors/redis/commands.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

// What one command of a transaction is. The words live until its end.
struct Step {
  const Row* row;  // Has a function for bodies, or is passed over.
  Words words;
};

// A key that has to have this version; 0: it has to be absent.
struct Watch {
  std::string_view key;
  uint64_t version;
};

struct Transaction {
  std::span<const Step> steps;
  std::span<const Watch> watched;
  Protocol protocol = Protocol::kResp2;
  size_t lent_bytes = 0;    // Of all words.
  uint64_t timeout_ns = 0;  // Of all attempts; the commit's messages have the client's own.
};

enum class Ending : uint8_t {
  kDone,
  kNil,          // A watched key has changed.
  kLongReplies,  // Those of its commands are too long together.
  kFailed,       // By the code. Of kIndeterminate all has happened or nothing; else nothing.
};
struct Ended {
  Ending ending = Ending::kDone;
  Code code = Code::kOk;
  // Of kDone: the replies of the steps, one behind the other, and where each ends. Of a step that was passed
  // over nothing.
  std::string replies = {};
  std::vector<size_t> ends = {};
};

// kConflict: other writers were in between until the timeout. kTooLarge: more keys or bytes than a
// transaction may have.
[[nodiscard]] runtime::Task<Ended> run_transaction(Store& store, const Transaction& transaction);

// So many bytes of replies at most.
inline constexpr size_t kRepliesMax = size_t{64} << 20;

}  // namespace refract::doors::redis
