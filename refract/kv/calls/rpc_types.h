// SPDX-License-Identifier: Apache-2.0
// What callers give to RpcClient and get from it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/kv/layout/contract.h"

namespace refract {
class SharedBuffer;
}
namespace refract::kv {

namespace functions {
enum class Function : uint8_t;
}  // namespace functions

// Which write it is, and whether it was sent before: perhaps by another client, over another session.
struct RpcAttempt {
  RequestId request;
  // When it was first sent, by the shard's clock; 0: it has not been. If that is unknown, but may have been,
  // kLongAgo_ns. Then the outcome is that of the earlier execution, if there was one; and kIndeterminate,
  // where that cannot be known any more, or while the owner cannot be asked.
  uint64_t first_sent_ns = 0;

  static constexpr uint64_t kLongAgo_ns = 1;
};

// As PutOptions, but the time to live is relative: the owner's clock counts.
struct RpcPutOptions {
  bool if_absent = false;
  uint64_t if_version = 0;
  uint64_t ttl_ns = 0;
  RpcAttempt attempt = {};
  // The value lies in it, if it does: then the owner may fetch it from there. Null: not known.
  SharedBuffer* shared = nullptr;
  // Stands in front of the value: what is put is both. Not beside `shared`, and not of multi_put.
  std::span<const std::byte> front = {};
};

// Several changes of one shard at one moment, if all conditions hold then (contract.h, design/062).
struct RpcCondition {
  std::span<const std::byte> key;
  ConditionKind kind = ConditionKind::kExists;
  uint64_t version = 0;                   // kVersion.
  std::span<const std::byte> value = {};  // kValue.
};
struct RpcBatchWrite {
  std::span<const std::byte> key;  // No key twice.
  WriteKind kind = WriteKind::kPut;
  std::span<const std::byte> value = {};  // kPut; of kFunction the arguments.
  // kPut; at most one of the three. None: it stays.
  uint64_t ttl_ns = 0;
  uint64_t expires_wall_ns = 0;  // A moment of the store's time.
  bool keeps_expiry = false;     // As what is there.
  // kPut: a condition of this row alone, at most one. Else it changes nothing, and its code is kExists or
  // kNotFound.
  bool if_absent = false;
  bool if_present = false;
  functions::Function function{};  // kFunction.
  int64_t addend = 0;              // kAdd.
  // The outcome: made or erased, and the sum of an add. 0: there was nothing to erase; or the answer to an
  // earlier attempt was lost, and the entry has been written again since.
  uint64_t version = 0;
  int64_t sum = 0;
  // Of the row. kNotFound of an erasure: there was nothing. Of a function its error: then nothing of the key
  // has changed. kIndeterminate: what it was is not known, as above; the batch has happened.
  Code code = Code::kOk;
  uint8_t answer_bytes = 0;
  std::array<std::byte, 32> answer = {};  // A function's, or which error.
};
struct RpcBatch {
  std::span<const RpcCondition> conditions;
  std::span<RpcBatchWrite> writes;
  // Which one a failure is about: a condition, or behind those a write; as many as there are: none of them.
  size_t failed = 0;
};

}  // namespace refract::kv
