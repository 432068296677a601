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

// Whether flags of a put, and its argument, go together.
bool is_sound_put(const wire::WriteOfBatch& asked) noexcept {
  using Write = wire::WriteOfBatch;
  constexpr uint8_t kConditions = Write::kIfAbsent | Write::kIfPresent;
  if ((asked.detail & ~(kConditions | Write::kKeepsExpiry | Write::kAtMoment)) != 0) return false;
  if ((asked.detail & kConditions) == kConditions) return false;
  const bool keeps_expiry = (asked.detail & Write::kKeepsExpiry) != 0;
  return !keeps_expiry || (asked.argument == 0 && (asked.detail & Write::kAtMoment) == 0);
}

// What fields agree with what kind of write; functions are looked at by their own rows.
bool is_sound_write(const wire::WriteOfBatch& asked) noexcept {
  switch (WriteKind{asked.kind}) {
    case WriteKind::kPut:
      return is_sound_put(asked);
    case WriteKind::kErase:
      return asked.argument == 0 && asked.value_bytes == 0 && asked.detail == 0;
    case WriteKind::kAdd:
      return asked.value_bytes == 0 && asked.detail == 0;
    case WriteKind::kFunction:
      return asked.detail >= static_cast<uint8_t>(functions::Function::kAdd) &&
             asked.detail <= static_cast<uint8_t>(functions::Function::kPersist);
  }
  return false;
}

// What a row that has made this entry must have answered.
void answer_again(const BatchWrite& write, const Table::Entry& entry, functions::Plan& plan) noexcept {
  plan = {.code = Code::kOk, .effect = functions::Effect::kValue};
  const auto say = [&plan](std::span<const std::byte> bytes) {
    plan.answer_bytes = static_cast<uint8_t>(bytes.size());
    std::ranges::copy(bytes, plan.answer.begin());
  };
  if (write.kind != WriteKind::kFunction) return;
  switch (write.row->function) {
    case functions::Function::kAdd: {
      const auto* const text = reinterpret_cast<const char*>(entry.value.data());
      const int64_t sum = functions::integer_in({text, entry.value.size()}).value_or(0);
      return say(std::as_bytes(std::span(&sum, 1)));
    }
    case functions::Function::kAddFloat:
      return say(entry.value.first(std::min(entry.value.size(), plan.answer.size())));
    case functions::Function::kAppend:
    case functions::Function::kSetRange: {
      const uint64_t length = entry.value.size();
      return say(std::as_bytes(std::span(&length, 1)));
    }
    case functions::Function::kExpire:
    case functions::Function::kPersist:
      plan.answer_bytes = 1;
      plan.answer[0] = std::byte{1};
      return;
  }
}

template <typename Struct>
void append(std::vector<std::byte>& bytes, const Struct& one) {
  const auto more = std::as_bytes(std::span(&one, 1));
  bytes.insert(bytes.end(), more.begin(), more.end());
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
  if (!asked || !is_sound_write(*asked)) return Code::kMalformed;
  BatchWrite write{.key = {}, .kind = WriteKind{asked->kind}};
  if (write.kind == WriteKind::kPut) {
    const bool is_moment = (asked->detail & wire::WriteOfBatch::kAtMoment) != 0;
    write.expires_wall_ns = is_moment ? asked->argument : writes::expiry(clock, asked->argument);
  }
  if (write.kind == WriteKind::kAdd) write.addend = static_cast<int64_t>(asked->argument);
  std::span<const std::byte> key;
  if (!take_both(body, asked->key_bytes, asked->value_bytes, key, write.value)) return Code::kMalformed;
  if (key.empty()) return Code::kInvalidArgument;
  write.key = table.hashed(key);
  Code code = Code::kOk;
  if (wire::WriteOfBatch::computes(write.kind, asked->detail)) code = take_row(*asked, write);
  writes_.push_back(write);
  return code;
}

Code BatchCall::take_row(const wire::WriteOfBatch& asked, BatchWrite& write) {
  using Write = wire::WriteOfBatch;
  // At once, for they do not move any more.
  if (rows_.empty()) rows_.reserve(writes_.capacity() - writes_.size());
  BatchRow& row = rows_.emplace_back();
  write.row = &row;
  if (write.kind == WriteKind::kFunction) {
    row.function = functions::Function{asked.detail};
    return asked.argument == functions::version() ? Code::kOk : Code::kUnsupported;
  }
  row.if_absent = (asked.detail & Write::kIfAbsent) != 0;
  row.if_present = (asked.detail & Write::kIfPresent) != 0;
  row.keeps_expiry = (asked.detail & Write::kKeepsExpiry) != 0;
  return Code::kOk;
}

bool BatchCall::has_answers() const noexcept {
  const auto is_erasure = [](const BatchWrite& write) { return write.kind == WriteKind::kErase; };
  return !rows_.empty() || std::ranges::any_of(writes_, is_erasure);
}

uint64_t BatchCall::base() const noexcept {
  if (base_ != 0) return base_;
  for (size_t i = 0; i < writes_.size(); ++i) {
    if (writes_[i].effect() == functions::Effect::kValue) return writes_[i].version - i;
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
  base_ = base;
  for (size_t i = 0; i < writes_.size(); ++i) {
    BatchWrite& write = writes_[i];
    write.is_known = write.kind != WriteKind::kErase;
    if (write.row != nullptr) write.row->plan = {.code = Code::kIndeterminate};
    if (base == 0 || write.kind == WriteKind::kErase) continue;
    const bool is_plain = write.kind == WriteKind::kPut && write.row == nullptr;
    if (is_plain) write.version = base + i;
    if (is_plain) continue;
    const Result<Table::Entry> entry = table.find(write.key);
    if (!entry || entry->version != base + i) continue;
    if (write.row != nullptr) {
      answer_again(write, *entry, write.row->plan);
      write.version = base + i;
      continue;
    }
    const auto* const text = reinterpret_cast<const char*>(entry->value.data());
    write.sum = functions::integer_in({text, entry->value.size()}).value_or(0);
    write.version = base + i;
  }
}

bool BatchCall::take_told(std::span<const std::byte> told) {
  if (told.size() != answer_bytes()) return false;
  told = told.subspan(sizeof(wire::BatchReply));
  for (BatchWrite& write : writes_) {
    if (write.row == nullptr) {
      const auto written = wire::take<wire::WrittenOfBatch>(told);
      write.version = written->version;
      write.sum = static_cast<int64_t>(written->sum);
      continue;
    }
    const auto row = wire::take<wire::RowOfBatch>(told);
    write.version = row->version;
    write.row->plan = {.code = code_from_wire(row->code), .answer_bytes = row->answer_bytes};
    std::ranges::copy(row->answer, write.row->plan.answer.begin());
  }
  return true;
}

bool BatchCall::is_untouched(Table& table) const {
  return std::ranges::any_of(conditions_, [&](const BatchCondition& condition) {
    const auto is_same = [&](const BatchWrite& write) {
      return std::ranges::equal(write.key.bytes, condition.key.bytes);
    };
    // A row that has changed nothing left the version as it was.
    const auto is_changed = [&](const BatchWrite& write) { return write.row == nullptr && is_same(write); };
    if (condition.kind != ConditionKind::kVersion || std::ranges::none_of(writes_, is_changed)) return false;
    const Result<Table::Entry> entry = table.find(condition.key);
    return entry && entry->version == condition.version;
  });
}

std::vector<std::byte> BatchCall::answer(Code code) const {
  wire::BatchReply reply{.code = static_cast<uint16_t>(code),
                         .failed = static_cast<uint16_t>(code == Code::kOk ? items() : batch_.failed),
                         .bytes = 0,
                         .view = 0};
  if (code == Code::kOk) reply.bytes = static_cast<uint32_t>(answer_bytes() - sizeof(reply));
  std::vector<std::byte> bytes;
  bytes.reserve(sizeof(reply) + reply.bytes);
  append(bytes, reply);
  for (size_t i = 0; code == Code::kOk && i < writes_.size(); ++i) {
    const BatchWrite& write = writes_[i];
    if (write.row == nullptr) {
      const uint64_t sum = write.is_known ? static_cast<uint64_t>(write.sum) : 1;
      append(bytes, wire::WrittenOfBatch{.version = write.version, .sum = sum});
      continue;
    }
    const functions::Plan& plan = write.row->plan;
    wire::RowOfBatch row{.version = write.version,
                         .code = static_cast<uint16_t>(plan.code),
                         .answer_bytes = plan.answer_bytes,
                         .reserved = {},
                         .answer = {}};
    std::ranges::copy(std::span(plan.answer).first(plan.answer_bytes), row.answer);
    append(bytes, row);
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
