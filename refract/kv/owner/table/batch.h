// SPDX-License-Identifier: Apache-2.0
// Several changes of a table that take effect at one moment, if all their conditions hold at that moment:
// docs/design/062-pending-entries.md. Table::change_at_once() executes it.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "refract/base/result.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/layout/contract.h"
#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/layout.h"
#include "refract/kv/owner/table/table_types.h"

namespace refract::kv {

// What must hold of a key when the batch takes effect.
struct BatchCondition {
  TableKey key;
  ConditionKind kind = ConditionKind::kExists;
  uint64_t version = 0;                   // kVersion.
  std::span<const std::byte> value = {};  // kValue.
};

// Of a write that computes: what it does depends on what its key has when the batch takes effect.
struct BatchRow {
  functions::Function function{};  // kFunction.
  bool if_absent = false;          // kPut, at most one of these two.
  bool if_present = false;
  bool keeps_expiry = false;  // kPut.
  // What its key had, and what it makes of that. Of an executed batch code and answer are the row's, and
  // kNone has changed nothing: it has read.
  Slot met{};
  functions::Plan plan = {};
};
// What the owner copies for functions at most, of one and of all of a batch: copying stops the shard.
inline constexpr uint64_t kRowBytesMax = uint64_t{1} << 20;
inline constexpr uint64_t kRowsBytesMax = kBatchBytesMax;

struct BatchWrite {
  TableKey key;
  WriteKind kind = WriteKind::kPut;
  bool is_known = true;  // Of an erasure, part of the outcome: whether it is known what was there.
  std::span<const std::byte> value = {};  // kPut; of kFunction the arguments.
  uint64_t expires_wall_ns = 0;           // kPut; 0: never.
  int64_t addend = 0;                     // kAdd.
  uint64_t restored_stamp = 0;            // Of a part from the disk; else 0.
  BatchRow* row = nullptr;                // Null: it does not compute. Outlives the batch.
  // The outcome: the version that was made, or that was erased (0: there was none); the sum.
  uint64_t version = 0;
  int64_t sum = 0;

  // Of one that computes, behind its plan.
  [[nodiscard]] functions::Effect effect() const noexcept {
    if (row != nullptr) return row->plan.effect;
    return kind == WriteKind::kErase ? functions::Effect::kErase : functions::Effect::kValue;
  }
};

// A part of a transaction over several shards: which one, and whose. At the home it is decided at once.
struct PartOf {
  TransactionName name;
  uint64_t session = 0;
  uint64_t now_ns = 0;    // By the shard's clock, likewise the next.
  uint64_t begun_ns = 0;  // The first attempt of the transaction.
  bool is_home = false;
  uint64_t not_after_wall_ns = 0;  // At the home: what other parts stand on expires then; 0: it does not.
  uint64_t generation = 0;         // Of the home's memory, where another node is the home; else 0.
  std::optional<uint32_t> member = {};  // Of this node, at a home of which others have parts.
  bool is_restored = false;             // From the disk: all of it held.
  [[nodiscard]] bool is_far() const noexcept { return name.place.is_far(); }
};

struct TableBatch {
  std::span<const BatchCondition> conditions;
  std::span<BatchWrite> writes;  // No key twice.
  const PartOf* part = nullptr;  // Null: it is whole, and takes effect at once.
  RequestId request = {};        // The first entry that is made says it.
  // Which one a failure is about: a condition, or behind those a write. All of them: the batch as a whole.
  size_t failed = 0;
  // When all of it held, and when the first entry expires that it stands on (0: never): one that a condition
  // found, that was added to, or that was erased. By the table's clock; of one that was refused nothing.
  uint64_t looked_wall_ns = 0;
  uint64_t expires_wall_ns = 0;
};

}  // namespace refract::kv
