// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/batch_body.h"

#include "refract/kv/calls/rpc_client_parts.h"

namespace refract::kv {
namespace {

void append(std::vector<std::byte>& body, std::span<const std::byte> bytes) {
  body.insert(body.end(), bytes.begin(), bytes.end());
}
template <typename Struct>
void append_struct(std::vector<std::byte>& body, const Struct& one) {
  append(body, std::as_bytes(std::span(&one, 1)));
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
    const bool is_put = one.kind == WriteKind::kPut;
    const uint64_t addend = one.kind == WriteKind::kAdd ? static_cast<uint64_t>(one.addend) : 0;
    append_struct(body,
                  wire::WriteOfBatch{.argument = is_put ? one.ttl_ns : addend,
                                     .value_bytes = is_put ? static_cast<uint32_t>(one.value.size()) : 0,
                                     .key_bytes = static_cast<uint16_t>(one.key.size()),
                                     .kind = static_cast<uint8_t>(one.kind),
                                     .reserved = 0});
    append(body, one.key);
    if (is_put) append(body, one.value);
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
  const size_t wanted = answer.code == Code::kOk ? batch.writes.size() * sizeof(wire::WrittenOfBatch) : 0;
  const bool is_whole = behind.size() == reply.bytes;
  const bool is_sound = reply.failed <= items && reply.bytes == wanted && behind.size() <= wanted &&
                        is_whole == (reply.view == 0);
  if (!is_sound) answer.code = Code::kMalformed;
  batch.failed = is_sound ? reply.failed : items;
  return answer;
}

void take_written(RpcBatch& batch, std::span<const std::byte> written) noexcept {
  for (RpcBatchWrite& one : batch.writes) {
    const auto outcome = wire::take<wire::WrittenOfBatch>(written);
    one.version = outcome->version;
    one.sum = static_cast<int64_t>(outcome->sum);
  }
}

}  // namespace refract::kv
