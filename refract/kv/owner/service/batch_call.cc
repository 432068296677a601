// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/batch_call.h"

#include <algorithm>
#include <cstring>

#include "refract/kv/functions/text.h"
#include "refract/kv/layout/many_wire.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/kv/owner/service/service_writes.h"

namespace refract::kv {
namespace {

// The bytes of key and value, behind each other. False: there are not so many.
bool take_both(std::span<const std::byte>& body, size_t key_bytes, size_t value_bytes,
               std::span<const std::byte>& key, std::span<const std::byte>& value) noexcept {
  if (key_bytes > body.size() || value_bytes > body.size() - key_bytes) return false;
  key = wire::take_bytes(body, key_bytes);
  value = wire::take_bytes(body, value_bytes);
  return true;
}

}  // namespace

Code BatchCall::decode(const wire::BatchRequest& request, std::span<const std::byte> body, const Table& table,
                       const Clock& clock) {
  const size_t items = size_t{request.conditions} + request.writes;
  const wire::Identity& identity = request.identity;
  if ((identity.client == 0) != (identity.sequence == 0)) return Code::kMalformed;
  if (items > kBatchKeysMax) return Code::kTooLarge;
  bytes_ = {static_cast<std::byte*>(arena_.allocate(body.size(), alignof(uint64_t))), body.size()};
  if (!body.empty()) copy_possibly_torn(bytes_.data(), body.data(), body.size());
  conditions_.reserve(request.conditions);
  writes_.reserve(request.writes);
  std::span<const std::byte> left = bytes_;
  for (size_t i = 0; i < items; ++i) {
    batch_.failed = i;
    const Code code = i < request.conditions ? take_condition(left, table) : take_write(left, table, clock);
    if (code != Code::kOk) return code;
  }
  batch_ = {.conditions = conditions_,
            .writes = writes_,
            .request = {.client = identity.client, .sequence = identity.sequence},
            .failed = items};
  if (!left.empty()) return Code::kMalformed;
  return bytes_.size() > wire::kBatchBodyBytesMax ? Code::kTooLarge : Code::kOk;
}

Code BatchCall::take_condition(std::span<const std::byte>& body, const Table& table) {
  const auto asked = wire::take<wire::ConditionOfBatch>(body);
  if (!asked || asked->reserved != 0) return Code::kMalformed;
  BatchCondition condition{
      .key = {}, .kind = ConditionKind{asked->kind}, .version = asked->version, .value = {}};
  const bool is_known = asked->kind >= static_cast<uint8_t>(ConditionKind::kAbsent) &&
                        asked->kind <= static_cast<uint8_t>(ConditionKind::kAny);
  const bool agrees = (asked->version == 0 || condition.kind == ConditionKind::kVersion) &&
                      (asked->value_bytes == 0 || condition.kind == ConditionKind::kValue);
  if (!is_known || !agrees) return Code::kMalformed;
  std::span<const std::byte> key;
  if (!take_both(body, asked->key_bytes, asked->value_bytes, key, condition.value)) return Code::kMalformed;
  if (key.empty()) return Code::kInvalidArgument;
  condition.key = table.hashed(key);
  conditions_.push_back(condition);
  return Code::kOk;
}

Code BatchCall::take_write(std::span<const std::byte>& body, const Table& table, const Clock& clock) {
  const auto asked = wire::take<wire::WriteOfBatch>(body);
  if (!asked || asked->reserved != 0) return Code::kMalformed;
  BatchWrite write{.key = {}, .kind = WriteKind{asked->kind}};
  const bool is_known = asked->kind >= static_cast<uint8_t>(WriteKind::kPut) &&
                        asked->kind <= static_cast<uint8_t>(WriteKind::kAdd);
  const bool agrees = (asked->value_bytes == 0 || write.kind == WriteKind::kPut) &&
                      (asked->argument == 0 || write.kind != WriteKind::kErase);
  if (!is_known || !agrees) return Code::kMalformed;
  if (write.kind == WriteKind::kPut) write.expires_wall_ns = writes::expiry(clock, asked->argument);
  if (write.kind == WriteKind::kAdd) write.addend = static_cast<int64_t>(asked->argument);
  std::span<const std::byte> key;
  if (!take_both(body, asked->key_bytes, asked->value_bytes, key, write.value)) return Code::kMalformed;
  if (key.empty()) return Code::kInvalidArgument;
  write.key = table.hashed(key);
  writes_.push_back(write);
  return Code::kOk;
}

uint64_t BatchCall::base() const noexcept {
  for (size_t i = 0; i < writes_.size(); ++i) {
    if (writes_[i].kind != WriteKind::kErase) return writes_[i].version - i;
  }
  return 0;
}

bool BatchCall::find_executed(Table& table) {
  for (size_t i = 0; i < writes_.size(); ++i) {
    const Result<Table::Entry> entry = table.find(writes_[i].key);
    if (!entry || entry->request != batch_.request) continue;
    tell_again(table, entry->version - i);
    return true;
  }
  return false;
}

// The stamps of a batch are in a row. What a sum was, only the entry knows.
void BatchCall::tell_again(Table& table, uint64_t base) {
  for (size_t i = 0; base != 0 && i < writes_.size(); ++i) {
    BatchWrite& write = writes_[i];
    if (write.kind == WriteKind::kPut) write.version = base + i;
    if (write.kind != WriteKind::kAdd) continue;
    const Result<Table::Entry> entry = table.find(write.key);
    if (!entry || entry->version != base + i) continue;
    const auto* const text = reinterpret_cast<const char*>(entry->value.data());
    write.sum = functions::integer_in({text, entry->value.size()}).value_or(0);
    write.version = base + i;
  }
}

bool BatchCall::is_untouched(Table& table) const {
  return std::ranges::any_of(conditions_, [&](const BatchCondition& condition) {
    const auto is_same = [&](const BatchWrite& write) {
      return std::ranges::equal(write.key.bytes, condition.key.bytes);
    };
    if (condition.kind != ConditionKind::kVersion || std::ranges::none_of(writes_, is_same)) return false;
    const Result<Table::Entry> entry = table.find(condition.key);
    return entry && entry->version == condition.version;
  });
}

std::vector<std::byte> BatchCall::answer(Code code) const {
  wire::BatchReply reply{.code = static_cast<uint16_t>(code),
                         .failed = static_cast<uint16_t>(code == Code::kOk ? items() : batch_.failed),
                         .bytes = 0,
                         .view = 0};
  if (code == Code::kOk) reply.bytes = static_cast<uint32_t>(writes_.size() * sizeof(wire::WrittenOfBatch));
  std::vector<std::byte> bytes(code == Code::kOk ? answer_bytes() : sizeof(reply));
  std::memcpy(bytes.data(), &reply, sizeof(reply));
  for (size_t i = 0; code == Code::kOk && i < writes_.size(); ++i) {
    const wire::WrittenOfBatch written{.version = writes_[i].version,
                                       .sum = static_cast<uint64_t>(writes_[i].sum)};
    std::memcpy(bytes.data() + sizeof(reply) + i * sizeof(written), &written, sizeof(written));
  }
  return bytes;
}

std::vector<std::byte> BatchCall::answer_of_part(Code code) const {
  std::vector<std::byte> bytes = answer(code);
  wire::PartReply reply{};
  if (code == Code::kOk) {
    reply.looked_wall_ns = batch_.looked_wall_ns;
    reply.expires_wall_ns = batch_.expires_wall_ns;
  }
  const auto times = std::as_bytes(std::span(&reply, 1)).subspan(sizeof(reply.batch));
  bytes.insert(bytes.begin() + sizeof(reply.batch), times.begin(), times.end());
  return bytes;
}

}  // namespace refract::kv
