// SPDX-License-Identifier: Apache-2.0
// The calls of numbered writes (docs/design/077): a client has a session with a shard, which outlives its
// connection, and numbers its writes, so that what became of each can be asked behind a broken connection. A
// range of methods of its own.
//
// As wire.h: little endian, no padding, reserved fields are 0. Whatever comes from the peer is copied out
// once and checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "refract/base/result.h"
#include "refract/kv/layout/contract.h"
#include "refract/kv/layout/many_wire.h"
#include "refract/kv/layout/wire.h"

namespace refract::kv::wire {

inline constexpr uint16_t kNumberedMethodsBegin = 0xd0;
// Numbers travel and never change.
enum class NumberedMethod : uint16_t {
  kSessionBegin = 0xd0,   // Nothing. SessionReply; kOverloaded: not now.
  kSessionResume = 0xd1,  // SessionRequest. SessionReply; kInvalidated: no such session, or another secret.
  kOperations = 0xd2,     // OperationsRequest. An OperationAnswer for each.
  kClear = 0xd3,          // clear_wire.h
  // PutPulledRequest without a condition, key. Handle of a draft, when all bytes are there: kCommit puts it.
  kPullDraft = 0xd4,
};

inline constexpr size_t kOperationsPerCall = kKeysPerCall;
inline constexpr size_t kAcknowledgedPerCall = 64;
inline constexpr size_t kOperationAnswerBytesMax = 32;  // Behind an OperationAnswer.
inline constexpr unsigned kNumberBits = 48;
inline constexpr uint64_t kNumberMax = (uint64_t{1} << kNumberBits) - 1;
inline constexpr uint16_t kPlaceUnknown = 0xffff;

using SessionSecret = std::array<std::byte, 16>;

struct SessionRequest {
  uint64_t id;  // Not 0.
  SessionSecret secret;
};
static_assert(sizeof(SessionRequest) == 24 && offsetof(SessionRequest, secret) == 8);

struct SessionReply {
  uint64_t id;
  SessionSecret secret;
  uint32_t functions;  // Version of their table: a client with another one sends none.
  uint32_t reserved;
};
static_assert(sizeof(SessionReply) == 32 && offsetof(SessionReply, functions) == 24);

// Then each Acknowledged, then each Operation | key | value, at any alignment.
struct OperationsRequest {
  uint16_t operations;    // 1 to kOperationsPerCall.
  uint16_t acknowledged;  // At most kAcknowledgedPerCall.
  uint16_t flags;
  uint16_t reserved;

  static constexpr uint16_t kMayWait = 1;  // Of a call with one operation.
};
static_assert(sizeof(OperationsRequest) == 8 && offsetof(OperationsRequest, flags) == 4);

// Its client has the answer: the record goes.
struct Acknowledged {
  uint64_t bits;

  [[nodiscard]] static constexpr Acknowledged of(uint64_t number, uint16_t place) noexcept {
    return {number | uint64_t{place} << kNumberBits};
  }
  [[nodiscard]] constexpr uint64_t number() const noexcept { return bits & kNumberMax; }
  // kPlaceUnknown: wherever it is.
  [[nodiscard]] constexpr uint16_t place() const noexcept {
    return static_cast<uint16_t>(bits >> kNumberBits);
  }
};
static_assert(sizeof(Acknowledged) == 8);

enum class OperationKind : uint8_t {
  kWithdraw = 0,  // What became of the number; what was not executed is not executed any more.
  kPut = 1,    // The argument: when it expires (store time), or with kForSoLong its time to live; 0: never.
  kErase = 2,  // Likewise no argument.
  kFunction = 3,   // The value is its arguments.
  kCondition = 4,  // Changes nothing, and has no number.
  kCommit = 5,     // No key. The argument: the handle of a draft of the connection (put_begin, kPullDraft).
};

struct Operation {  // | key | value
  uint64_t number;  // At most kNumberMax; 0: none.
  uint32_t tag;     // Operations of one are executed in the order of their numbers; 0: none.
  uint32_t value_bytes;
  uint64_t argument;
  uint64_t if_version;  // 0: any. At most one of this, kIfAbsent and kIfPresent.
  uint16_t key_bytes;
  uint8_t kind;  // OperationKind.
  uint8_t flags;
  uint8_t function;  // Of kFunction: functions::Function.
  uint8_t staged;    // As of KeyRef.
  uint16_t reserved;

  static constexpr uint8_t kIfAbsent = 1;
  static constexpr uint8_t kIfPresent = 2;
  static constexpr uint8_t kKeepsExpiry = 4;  // With argument 0: as what was there.
  static constexpr uint8_t kForSoLong = 8;

  [[nodiscard]] constexpr bool is(OperationKind other) const noexcept {
    return kind == static_cast<uint8_t>(other);
  }
};
static_assert(sizeof(Operation) == 40 && offsetof(Operation, tag) == 8 &&
              offsetof(Operation, value_bytes) == 12 && offsetof(Operation, argument) == 16 &&
              offsetof(Operation, key_bytes) == 32 && offsetof(Operation, staged) == 37);

struct OperationAnswer {  // | bytes
  uint64_t version;       // The change's; 0: nothing has changed.
  uint16_t code;          // A number of codes.def. kOverloaded: refused for now, and nothing has happened.
  uint16_t place;         // Of its record; kPlaceUnknown: there is none.
  uint8_t bytes;          // Of an erasure the version erased, of a function its answer, or which error.
  uint8_t flags;
  uint16_t reserved;

  static constexpr uint8_t kToldAgain = 1;    // It was executed by an earlier call, whose answer this is.
  static constexpr uint8_t kNotExecuted = 2;  // Of kWithdraw.
};
static_assert(sizeof(OperationAnswer) == 16 && offsetof(OperationAnswer, place) == 10 &&
              offsetof(OperationAnswer, flags) == 13);

// What an answer may need behind it.
[[nodiscard]] constexpr size_t answer_bytes_max(OperationKind kind) noexcept {
  if (kind == OperationKind::kErase) return sizeof(uint64_t);
  const bool has_any = kind == OperationKind::kFunction || kind == OperationKind::kWithdraw;
  return has_any ? kOperationAnswerBytesMax : 0;
}

// What operations of a kind have; all else is 0 there.
struct OperationForm {
  uint8_t flags = 0;
  bool has_key = true;
  bool has_argument = false;
  bool has_version = false;  // if_version
  bool has_function = false;
  bool has_number = true;        // Or may have one.
  uint32_t value_bytes_max = 0;  // Of kCommit none, or a moment.
};
inline constexpr std::array<OperationForm, 6> kOperationForms = {
    OperationForm{.has_key = false},
    {.flags = Operation::kIfAbsent | Operation::kIfPresent | Operation::kKeepsExpiry | Operation::kForSoLong,
     .has_argument = true,
     .has_version = true,
     .value_bytes_max = kValueBytesMax},
    {.has_version = true},
    {.has_function = true, .value_bytes_max = kValueBytesMax},
    {.flags = Operation::kIfAbsent | Operation::kIfPresent, .has_version = true, .has_number = false},
    {.flags = Operation::kIfAbsent | Operation::kIfPresent | Operation::kForSoLong,
     .has_key = false,
     .has_argument = true,
     .has_version = true,
     .value_bytes_max = sizeof(uint64_t)}};

// Whether it may stand in a call. What is not sound makes the whole call malformed.
[[nodiscard]] constexpr bool is_sound(const Operation& one) noexcept {
  if (one.kind >= kOperationForms.size() || one.number > kNumberMax || one.reserved != 0) return false;
  const OperationForm& form = kOperationForms[one.kind];
  // A tag orders by numbers.
  const bool needs_number =
      one.is(OperationKind::kWithdraw) || (one.tag != 0 && !one.is(OperationKind::kCondition));
  const bool has_its_number = one.number != 0 ? form.has_number : !needs_number;
  const bool has_its_key = form.has_key ? one.key_bytes != 0 && one.staged <= kStagedKeysPerSession
                                        : one.key_bytes == 0 && one.staged == 0;
  const bool has_its_value = one.value_bytes <= form.value_bytes_max &&
                             (!one.is(OperationKind::kCommit) || one.value_bytes % sizeof(uint64_t) == 0);
  return has_its_number && has_its_key && has_its_value && (one.flags & ~form.flags) == 0 &&
         (form.has_argument || one.argument == 0) && (form.has_version || one.if_version == 0) &&
         (form.has_function ? one.function != 0 : one.function == 0);
}

// Whether what it asks for does not contradict itself. Else it alone is refused, with kInvalidArgument.
[[nodiscard]] constexpr bool is_consistent(const Operation& one) noexcept {
  const int conditions = (one.if_version != 0 ? 1 : 0) + ((one.flags & Operation::kIfAbsent) != 0 ? 1 : 0) +
                         ((one.flags & Operation::kIfPresent) != 0 ? 1 : 0);
  if (one.is(OperationKind::kCondition)) return conditions == 1;
  const bool keeps_expiry = (one.flags & Operation::kKeepsExpiry) != 0;
  const bool sets_expiry = one.argument != 0 || (one.flags & Operation::kForSoLong) != 0;
  return conditions <= 1 && !(keeps_expiry && sets_expiry);
}

// One of a call, as the sender wrote it: it may still be changing the bytes of key and value.
struct TakenOperation {
  Operation operation{};
  std::span<const std::byte> key;  // Empty where it was staged, likewise.
  std::span<const std::byte> value;
};
// The next one of a body; nothing: it makes no sense.
[[nodiscard]] inline std::optional<TakenOperation> take_operation(std::span<const std::byte>& body) noexcept {
  const auto operation = take<Operation>(body);
  if (!operation || !is_sound(*operation)) return std::nullopt;
  const size_t key_bytes = operation->staged == 0 ? operation->key_bytes : 0;
  if (key_bytes > body.size() || operation->value_bytes > body.size() - key_bytes) return std::nullopt;
  const auto key = take_bytes(body, key_bytes);
  return TakenOperation{
      .operation = *operation, .key = key, .value = take_bytes(body, operation->value_bytes)};
}

// The front of a call, whose acknowledgements and operations follow; nothing: it makes no sense.
[[nodiscard]] inline std::optional<OperationsRequest> take_operations_request(
    std::span<const std::byte>& body) noexcept {
  const auto request = take<OperationsRequest>(body);
  const bool is_sound = request && request->operations > 0 && request->operations <= kOperationsPerCall &&
                        request->acknowledged <= kAcknowledgedPerCall &&
                        (request->flags & ~OperationsRequest::kMayWait) == 0 && request->reserved == 0 &&
                        (request->flags == 0 || request->operations == 1);
  return is_sound && body.size() >= request->acknowledged * sizeof(Acknowledged) ? request : std::nullopt;
}

struct TakenAnswer {
  OperationAnswer answer{};
  Code code = Code::kOk;
  std::span<const std::byte> bytes;
};
// The next one of an answer; nothing: it makes no sense.
[[nodiscard]] inline std::optional<TakenAnswer> take_operation_answer(
    std::span<const std::byte>& bytes) noexcept {
  const auto answer = take<OperationAnswer>(bytes);
  const bool is_sound = answer && answer->reserved == 0 && answer->bytes <= kOperationAnswerBytesMax &&
                        answer->bytes <= bytes.size() &&
                        (answer->flags & ~(OperationAnswer::kToldAgain | OperationAnswer::kNotExecuted)) == 0;
  if (!is_sound) return std::nullopt;
  return TakenAnswer{
      .answer = *answer, .code = code_from_wire(answer->code), .bytes = take_bytes(bytes, answer->bytes)};
}

}  // namespace refract::kv::wire
