// SPDX-License-Identifier: Apache-2.0
// Calls of numbered writes by hand: what a test asks, and what it is told.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/check.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/layout/numbered_wire.h"
#include "refract/kv/layout/operations_body.h"
#include "refract/kv/testing/test_bodies.h"
#include "refract/runtime/op_table.h"

namespace refract::kv::test {

// One operation, as a test asks for it.
struct NumberedOp {
  wire::Operation operation{};
  std::string key;
  std::string value;

  [[nodiscard]] NumberedOp tagged(uint32_t tag) const {
    NumberedOp other = *this;
    other.operation.tag = tag;
    return other;
  }
  [[nodiscard]] NumberedOp flagged(uint8_t flags, uint64_t argument = 0) const {
    NumberedOp other = *this;
    other.operation.flags = flags;
    other.operation.argument = argument;
    return other;
  }
  [[nodiscard]] NumberedOp if_version(uint64_t version) const {
    NumberedOp other = *this;
    other.operation.if_version = version;
    return other;
  }
};

[[nodiscard]] inline NumberedOp numbered_op(wire::OperationKind kind, uint64_t number, std::string_view key,
                                            std::string_view value = {}) {
  NumberedOp made{.key = std::string(key), .value = std::string(value)};
  made.operation.number = number;
  made.operation.kind = static_cast<uint8_t>(kind);
  made.operation.key_bytes = static_cast<uint16_t>(key.size());
  made.operation.value_bytes = static_cast<uint32_t>(value.size());
  return made;
}
[[nodiscard]] inline NumberedOp put_op(uint64_t number, std::string_view key, std::string_view value) {
  return numbered_op(wire::OperationKind::kPut, number, key, value);
}
[[nodiscard]] inline NumberedOp erase_op(uint64_t number, std::string_view key) {
  return numbered_op(wire::OperationKind::kErase, number, key);
}
[[nodiscard]] inline NumberedOp condition_op(std::string_view key, uint8_t flags) {
  return numbered_op(wire::OperationKind::kCondition, 0, key).flagged(flags);
}
[[nodiscard]] inline NumberedOp withdraw_op(uint64_t number, uint32_t tag = 0) {
  return numbered_op(wire::OperationKind::kWithdraw, number, "").tagged(tag);
}
[[nodiscard]] inline NumberedOp function_op(uint64_t number, functions::Function function,
                                            std::string_view key, std::string_view arguments) {
  NumberedOp made = numbered_op(wire::OperationKind::kFunction, number, key, arguments);
  made.operation.function = static_cast<uint8_t>(function);
  return made;
}
[[nodiscard]] inline NumberedOp add_op(uint64_t number, std::string_view key, int64_t addend) {
  return function_op(number, functions::Function::kAdd, key,
                     std::string_view(reinterpret_cast<const char*>(&addend), sizeof(addend)));
}

struct NumberedAnswer {
  Code code = Code::kOk;
  uint64_t version = 0;
  uint16_t place = 0;
  uint8_t flags = 0;
  std::string bytes;

  [[nodiscard]] bool is_told_again() const noexcept {
    return (flags & wire::OperationAnswer::kToldAgain) != 0;
  }
  [[nodiscard]] bool is_not_executed() const noexcept {
    return (flags & wire::OperationAnswer::kNotExecuted) != 0;
  }
  [[nodiscard]] int64_t number() const { return bytes.size() == 8 ? reply_as<int64_t>(bytes) : -1; }
};
struct NumberedReply {
  Code code = Code::kOk;
  std::vector<NumberedAnswer> answers = {};

  // Of one operation.
  [[nodiscard]] const NumberedAnswer& one() const {
    REFRACT_CHECK(code == Code::kOk && answers.size() == 1);
    return answers.front();
  }
  [[nodiscard]] std::vector<Code> codes() const {
    std::vector<Code> all;
    all.reserve(answers.size());
    for (const NumberedAnswer& each : answers) all.push_back(each.code);
    return all;
  }
};

struct NumberedAcknowledgement {
  uint64_t number = 0;
  uint16_t place = wire::kPlaceUnknown;
};

[[nodiscard]] inline std::string operations_body(const std::vector<NumberedOp>& operations,
                                                 bool may_wait = false,
                                                 const std::vector<NumberedAcknowledgement>& told = {}) {
  wire::OperationsBody body;
  if (may_wait) body.may_wait();
  for (const NumberedAcknowledgement& one : told) body.acknowledge(one.number, one.place);
  for (const NumberedOp& one : operations) body.add(one.operation, bytes_of(one.key), bytes_of(one.value));
  return text_of(body.bytes());
}

[[nodiscard]] inline NumberedReply numbered_reply(const runtime::OpResult& result) {
  NumberedReply reply{.code = result.code};
  if (result.code != Code::kOk) return reply;
  std::span<const std::byte> left = result.bytes;
  while (!left.empty()) {
    const auto one = wire::take_operation_answer(left);
    REFRACT_CHECK(one.has_value());
    reply.answers.push_back({.code = one->code,
                             .version = one->answer.version,
                             .place = one->answer.place,
                             .flags = one->answer.flags,
                             .bytes = text_of(one->bytes)});
  }
  return reply;
}

}  // namespace refract::kv::test
