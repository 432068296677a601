// SPDX-License-Identifier: Apache-2.0
// One operation of a client that numbers its writes, executed in one turn of the owner: looked up among the
// records, planned, its buffer taken, planned again on what is there then, and made in the order that page
// 077 has, section 4, so that a restart knows whether it has happened.
//
//   Table::NumberedTurn turn(table);
//   table.seek(key, sought); table.fetch(many);                // Of several at once: their misses overlap.
//   const NumberedOutcome outcome = turn.execute(session, {.number = 7, .kind = kErase, .key = key});
//
// The caller keeps the order of tags, and the log's confirmation (docs/design/025, 8).
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/kv/owner/numbered/session_records.h"
#include "refract/kv/owner/table/table.h"

namespace refract::kv {

namespace functions {
enum class Function : uint8_t;
struct Plan;
}  // namespace functions

// What the wire's operation says, checked in itself: a key of 1 to 65,535 bytes, a value that is none too
// long, a known function, flags that go together. As its kinds are numbered there.
struct NumberedOperation {
  enum class Kind : uint8_t { kPut = 1, kErase = 2, kFunction = 3, kCondition = 4, kCommit = 5 };

  uint64_t number = 0;  // 0: none, and no record. Never of kCondition.
  Kind kind = Kind::kPut;
  TableKey key = {};                      // None of kCommit.
  std::span<const std::byte> value = {};  // kPut; of kFunction the arguments.
  functions::Function function{};         // kFunction.
  // kPut, kCommit: a moment of the store's time; 0: never. A draft that was begun without room for it stays
  // without; 0 leaves a draft's as it was begun.
  uint64_t expires_wall_ns = 0;
  bool keeps_expiry = false;  // kPut without expires_wall_ns: what is there says it.
  // kPut, kCondition, kCommit: at most one of the three.
  bool if_absent = false;   // Else kExists.
  bool if_present = false;  // Else kNotFound.
  uint64_t if_version = 0;  // Else kVersionMismatch, or kNotFound. Of kErase, too.
  TableDraft draft = {};    // kCommit: complete.
};

class Table::NumberedTurn {
 public:
  // What a function copies at most: copying stops the shard. Beyond: kTooLarge, and nothing has changed.
  static constexpr uint64_t kCopiedBytesMax = uint64_t{1} << 20;

  // The table outlives this.
  explicit NumberedTurn(Table& table) noexcept : table_(table) {}

  // A number that has a record is answered by it. What is not refused for now leaves one, also where nothing
  // changes; but kInvalidArgument without an answer (arguments that are not the function's form) does not.
  // kOverloaded: refused for now, and nothing has changed but what made room: a transaction holds the key,
  // the log has no room, or no place for a record is free. kNoSpace, kReadOnly: likewise, and no record says
  // so before refuse(). A draft stays for these three, and for a number that has a record; else it is gone.
  // REQUIRES: a number has a session.
  [[nodiscard]] NumberedOutcome execute(NumberedSession* session, const NumberedOperation& operation);
  // The last word on a number that execute() has refused with kNoSpace or kReadOnly. kOverloaded: no place
  // for it is free; nothing has been said.
  [[nodiscard]] NumberedOutcome refuse(NumberedSession& session, uint64_t number, Code code);

 private:
  struct Look;
  class Change;

  [[nodiscard]] TableKey key_of(const NumberedOperation& operation) const noexcept;
  [[nodiscard]] Look look(const NumberedOperation& operation, const TableKey& key) const;
  void plan(const NumberedOperation& operation, Look& look) const;
  [[nodiscard]] Code condition(const NumberedOperation& operation, const Look& look) const noexcept;
  [[nodiscard]] Lengths lengths_for(const TableKey& key, const functions::Plan& plan) const noexcept;

  Table& table_;
  std::vector<std::byte> made_;  // What a function has made, until it is stored.
};

}  // namespace refract::kv
