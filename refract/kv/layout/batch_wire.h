// SPDX-License-Identifier: Apache-2.0
// kBatch: several changes of one shard at one moment, if all conditions hold then (docs/design/062). One call
// where the body fits a message; else it comes before it, by kBatchPiece.
//
// As wire.h: little endian, no padding, reserved fields are 0. Whatever comes from the peer is copied out
// once and checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/kv/layout/contract.h"
#include "refract/kv/layout/wire.h"

namespace refract::kv::wire {

// Then all conditions, then all writes; each at any alignment: struct | key | value.
struct BatchRequest {
  uint16_t conditions;
  uint16_t writes;        // Together at most kBatchKeysMax.
  uint32_t staged_bytes;  // Not 0: so many bytes have come by kBatchPiece, and none follow here.
  Identity identity;      // All 0: none.
};
static_assert(sizeof(BatchRequest) == 32 && offsetof(BatchRequest, identity) == 8);

struct ConditionOfBatch {
  uint64_t version;      // Of ConditionKind::kVersion, else 0.
  uint32_t value_bytes;  // Of kValue, else 0.
  uint16_t key_bytes;    // Not 0.
  uint8_t kind;          // ConditionKind.
  uint8_t reserved;
};
static_assert(sizeof(ConditionOfBatch) == 16 && offsetof(ConditionOfBatch, kind) == 14);

struct WriteOfBatch {
  // kPut: the time to live, as of PutRequest, or with kAtMoment when it expires (store time); 0: never. kAdd:
  // the addend, signed. kFunction: the version of the sender's functions; other ones are kUnsupported.
  uint64_t argument;
  uint32_t value_bytes;  // Of kPut; of kFunction its arguments; else 0.
  uint16_t key_bytes;    // Not 0.
  uint8_t kind;          // WriteKind.
  uint8_t detail;        // kPut: flags. kFunction: functions::Function. Else 0.

  // Of a put. At most one of the first two, which are conditions of this row alone; kKeepsExpiry with
  // argument 0, and without kAtMoment.
  static constexpr uint8_t kIfAbsent = 1;
  static constexpr uint8_t kIfPresent = 2;
  static constexpr uint8_t kKeepsExpiry = 4;  // As what is there.
  static constexpr uint8_t kAtMoment = 8;

  // Whether what it does depends on what its key has: then a RowOfBatch answers it.
  [[nodiscard]] static constexpr bool computes(WriteKind kind, uint8_t detail) noexcept {
    if (kind == WriteKind::kFunction) return true;
    return kind == WriteKind::kPut && (detail & (kIfAbsent | kIfPresent | kKeepsExpiry)) != 0;
  }
};
static_assert(sizeof(WriteOfBatch) == 16 && offsetof(WriteOfBatch, kind) == 14);

// Offset 0 begins a body; a piece elsewhere must follow on what is there. Ends with the session, and
// with the kBatch that uses it.
struct BatchPieceRequest {  // | bytes
  uint32_t offset;
  uint32_t reserved;
};
static_assert(sizeof(BatchPieceRequest) == 8);
// Of the body behind BatchRequest.
inline constexpr uint64_t kBatchBodyBytesMax =
    kBatchBytesMax +
    kBatchKeysMax *
        (sizeof(ConditionOfBatch) > sizeof(WriteOfBatch) ? sizeof(ConditionOfBatch) : sizeof(WriteOfBatch));

// The answer, whatever became of the batch. Behind it, where `code` is kOk, for each write a WrittenOfBatch,
// or a RowOfBatch: all of them where view is 0, else the rest by kViewPiece, then kViewClose.
struct BatchReply {
  uint16_t code;    // A number of codes.def.
  uint16_t failed;  // Which one it is about: a condition, or behind those a write; or as many as there are.
  uint32_t bytes;   // Of all that follows, in pieces too.
  uint64_t view;
};
static_assert(sizeof(BatchReply) == 16 && offsetof(BatchReply, view) == 8);

struct WrittenOfBatch {
  // Made or erased. 0: there was nothing to erase; or the answer to an earlier attempt was lost, and the
  // entry has been written again since.
  uint64_t version;
  // Of kAdd, signed. Of kErase 1: the answer to an earlier attempt was lost, and what was there is not known.
  uint64_t sum;
};
static_assert(sizeof(WrittenOfBatch) == 16);

inline constexpr size_t kRowAnswerBytesMax = 32;
// Of a write that computes.
struct RowOfBatch {
  uint64_t version;  // Made, or erased by a function; 0: nothing has changed, or it is not known.
  // Of the row: kOk, its error, or why it did not put. kIndeterminate: the answer to an earlier attempt was
  // lost, and what it was is not known.
  uint16_t code;
  uint8_t answer_bytes;  // A function's answer, or which error.
  uint8_t reserved[5];
  std::byte answer[kRowAnswerBytesMax];  // 0 behind it.
};
static_assert(sizeof(RowOfBatch) == 48 && offsetof(RowOfBatch, answer_bytes) == 10 &&
              offsetof(RowOfBatch, answer) == 16);

}  // namespace refract::kv::wire
