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
  uint64_t argument;     // kPut: the time to live, as of PutRequest. kAdd: the addend, signed. Else 0.
  uint32_t value_bytes;  // Of kPut, else 0.
  uint16_t key_bytes;    // Not 0.
  uint8_t kind;          // WriteKind.
  uint8_t reserved;
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

// The answer, whatever became of the batch. Behind it, where `code` is kOk, a WrittenOfBatch for each write:
// all of them where view is 0, else the rest by kViewPiece, then kViewClose.
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
  uint64_t sum;  // Of kAdd, signed.
};
static_assert(sizeof(WrittenOfBatch) == 16);

}  // namespace refract::kv::wire
