// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/batch_body.h"

#include <algorithm>

#include "refract/kv/calls/rpc_client_parts.h"
#include "refract/kv/functions/functions.h"

namespace refract::kv {
namespace {

void append(std::vector<std::byte>& body, std::span<const std::byte> bytes) {
  body.insert(body.end(), bytes.begin(), bytes.end());
}
template <typename Struct>
void append_struct(std::vector<std::byte>& body, const Struct& one) {
  append(body, std::as_bytes(std::span(&one, 1)));
}

static_assert(functions::kAnswerBytesMax == wire::kRowAnswerBytesMax);

uint8_t detail_of(const RpcBatchWrite& one) noexcept {
  using Write = wire::WriteOfBatch;
  if (one.kind == WriteKind::kFunction) return static_cast<uint8_t>(one.function);
  if (one.kind != WriteKind::kPut) return 0;
  return static_cast<uint8_t>(
      (one.if_absent ? Write::kIfAbsent : 0) | (one.if_present ? Write::kIfPresent : 0) |
      (one.keeps_expiry ? Write::kKeepsExpiry : 0) | (one.expires_wall_ns != 0 ? Write::kAtMoment : 0));
}
uint64_t argument_of(const RpcBatchWrite& one) noexcept {
  switch (one.kind) {
    case WriteKind::kPut:
      return one.expires_wall_ns != 0 ? one.expires_wall_ns : one.ttl_ns;
    case WriteKind::kErase:
      return 0;
    case WriteKind::kAdd:
      return static_cast<uint64_t>(one.addend);
    case WriteKind::kFunction:
      return functions::version();
  }
  return 0;
}
bool computes(const RpcBatchWrite& one) noexcept {
  return wire::WriteOfBatch::computes(one.kind, detail_of(one));
}
// One way to say when it expires, and one condition; else the owner could not be told.
bool makes_sense(const RpcBatchWrite& one) noexcept {
  const int expiries =
      (one.ttl_ns != 0 ? 1 : 0) + (one.expires_wall_ns != 0 ? 1 : 0) + (one.keeps_expiry ? 1 : 0);
  return one.kind != WriteKind::kPut || (expiries <= 1 && !(one.if_absent && one.if_present));
}

// Of what a write that does not compute was told.
Code code_of(const RpcBatchWrite& one, bool is_known) noexcept {
  if (one.kind == WriteKind::kPut || one.version != 0) return Code::kOk;
  return one.kind == WriteKind::kErase && is_known ? Code::kNotFound : Code::kIndeterminate;
}

}  // namespace

Code check_batch(RpcBatch& batch) noexcept {
  const size_t items = batch.conditions.size() + batch.writes.size();
  uint64_t bytes = 0;
  batch.failed = 0;
  const auto check_one = [&](std::span<const std::byte> key, uint64_t value_bytes) {
    bytes += key.size() + value_bytes;
    if (const Code code = check_lengths(key, value_bytes); code != Code::kOk) return code;
    ++batch.failed;
    return Code::kOk;
  };
  for (const RpcCondition& one : batch.conditions) {
    if (const Code code = check_one(one.key, one.value.size()); code != Code::kOk) return code;
  }
  for (const RpcBatchWrite& one : batch.writes) {
    if (!makes_sense(one)) return Code::kInvalidArgument;
    if (const Code code = check_one(one.key, one.value.size()); code != Code::kOk) return code;
  }
  return items > kBatchKeysMax || bytes > kBatchBytesMax ? Code::kTooLarge : Code::kOk;
}

std::vector<std::byte> body_of_batch(const RpcBatch& batch) {
  std::vector<std::byte> body;
  for (const RpcCondition& one : batch.conditions) {
    const bool has_value = one.kind == ConditionKind::kValue;
    append_struct(
        body, wire::ConditionOfBatch{.version = one.kind == ConditionKind::kVersion ? one.version : 0,
                                     .value_bytes = has_value ? static_cast<uint32_t>(one.value.size()) : 0,
                                     .key_bytes = static_cast<uint16_t>(one.key.size()),
                                     .kind = static_cast<uint8_t>(one.kind),
                                     .reserved = 0});
    append(body, one.key);
    if (has_value) append(body, one.value);
  }
  for (const RpcBatchWrite& one : batch.writes) {
    const bool has_value = one.kind == WriteKind::kPut || one.kind == WriteKind::kFunction;
    append_struct(body,
                  wire::WriteOfBatch{.argument = argument_of(one),
                                     .value_bytes = has_value ? static_cast<uint32_t>(one.value.size()) : 0,
                                     .key_bytes = static_cast<uint16_t>(one.key.size()),
                                     .kind = static_cast<uint8_t>(one.kind),
                                     .detail = detail_of(one)});
    append(body, one.key);
    if (has_value) append(body, one.value);
  }
  return body;
}

BatchAnswer take_batch_reply(RpcBatch& batch, std::span<const std::byte> bytes) noexcept {
  const auto reply = wire::take<wire::BatchReply>(bytes);
  return reply ? take_batch_reply(batch, *reply, bytes) : BatchAnswer{};
}

BatchAnswer take_batch_reply(RpcBatch& batch, const wire::BatchReply& reply,
                             std::span<const std::byte> behind) noexcept {
  BatchAnswer answer{
      .code = code_from_wire(reply.code), .view = reply.view, .bytes = reply.bytes, .here = behind};
  const size_t items = batch.conditions.size() + batch.writes.size();
  size_t wanted = 0;
  for (size_t i = 0; answer.code == Code::kOk && i < batch.writes.size(); ++i) {
    wanted += computes(batch.writes[i]) ? sizeof(wire::RowOfBatch) : sizeof(wire::WrittenOfBatch);
  }
  const bool is_whole = behind.size() == reply.bytes;
  const bool is_sound = reply.failed <= items && reply.bytes == wanted && behind.size() <= wanted &&
                        is_whole == (reply.view == 0);
  if (!is_sound) answer.code = Code::kMalformed;
  batch.failed = is_sound ? reply.failed : items;
  return answer;
}

void take_written(RpcBatch& batch, std::span<const std::byte> written) noexcept {
  for (RpcBatchWrite& one : batch.writes) {
    if (computes(one)) {
      const auto row = wire::take<wire::RowOfBatch>(written);
      one.version = row->version;
      one.code = code_from_wire(row->code);
      one.answer_bytes = std::min<uint8_t>(row->answer_bytes, wire::kRowAnswerBytesMax);
      std::ranges::copy(row->answer, one.answer.begin());
      continue;
    }
    const auto outcome = wire::take<wire::WrittenOfBatch>(written);
    one.version = outcome->version;
    one.sum = one.kind == WriteKind::kAdd ? static_cast<int64_t>(outcome->sum) : 0;
    one.code = code_of(one, /*is_known=*/outcome->sum == 0);
  }
}

}  // namespace refract::kv
