// SPDX-License-Identifier: Apache-2.0
// Whose turn it is to change a key: those of one thread that read a key and commit on what they have read
// would overtake each other again and again, so they go one behind the other.
//
// Threads: that of its shard.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "refract/runtime/op_table.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

class KeyTurns {
 public:
  // `shard` outlives it.
  explicit KeyTurns(runtime::Shard& shard) noexcept : shard_(shard) {}
  KeyTurns(const KeyTurns&) = delete;
  KeyTurns& operator=(const KeyTurns&) = delete;
  ~KeyTurns() = default;

  // Ends when the caller has the turn, in the order of the calls. False: it has none, for too many wait. The
  // key lives until then.
  [[nodiscard]] runtime::Task<bool> take(std::string_view key);
  // REQUIRES: the caller has the turn of that key.
  void give(std::string_view key);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const noexcept { return std::hash<std::string_view>()(key); }
  };

  runtime::Shard& shard_;
  // Of keys that have one: those that wait, behind it.
  std::unordered_map<std::string, std::list<runtime::Token>, Hash, std::equal_to<>> waiting_;
};

}  // namespace refract::doors::redis
