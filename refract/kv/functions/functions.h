// SPDX-License-Identifier: Apache-2.0
// The functions that change one value (docs/design/077, section 1): what a key has, arguments and a time give
// what it has then, and an answer. One table for owners, transactions and doors: the owner runs a row in its
// turn; a client that cannot have it run there reads, runs the same row, and commits on the version read.
//
// Pure: no allocation, no clock, no locale. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/result.h"

namespace refract::kv::functions {

// On the wire as this number. What the rows take and answer is the table of page 077; 1 or 0 is one byte.
enum class Function : uint8_t {
  kAdd = 1,
  kAddFloat = 2,
  kAppend = 3,
  kSetRange = 4,
  kExpire = 5,
  kPersist = 6
};

// Of kExpire, one byte behind the moment.
enum ExpireConditions : uint8_t { kIfNone = 1, kIfSome = 2, kIfLater = 4, kIfEarlier = 8 };

// Which error, as the one byte that an answer of kInvalidArgument has.
enum class Refusal : uint8_t { kNoInteger = 1, kOverflow = 2, kNoFloat = 3, kNotFinite = 4 };

// Of the result of any row. A longer one is kTooLarge.
inline constexpr uint64_t kValueBytesMax = uint64_t{512} << 20;
inline constexpr size_t kAnswerBytesMax = 32;
inline constexpr size_t kFloatTextMax = 255;  // Of an addend. A longer one is no float.

// The table's number, and the bits of a long double's mantissa: two machines with the same version compute
// the same bytes.
[[nodiscard]] uint32_t version() noexcept;

// What the key has. What has expired is not there: value empty, no expiry.
struct Before {
  bool is_there = false;
  std::span<const std::byte> value;
  uint64_t expires_wall_ns = 0;  // 0: never.
};

enum class Effect : uint8_t { kNone, kValue, kErase };

struct Plan {
  // kInvalidArgument: the answer is a Refusal. kTooLarge: the value, or a float's text as an answer. Then the
  // effect is kNone.
  Code code = Code::kOk;
  Effect effect = Effect::kNone;
  uint64_t value_bytes = 0;      // kValue.
  uint64_t expires_wall_ns = 0;  // kValue; 0: never.
  uint8_t answer_bytes = 0;
  std::array<std::byte, kAnswerBytesMax> answer = {};
  std::array<std::byte, kAnswerBytesMax> made = {};  // The new value, of rows that make a short one.
};

// What the row does with `before`. `now_wall_ns` is the store's time, as the moment in kExpire's arguments
// is. Arguments that are not the row's form: kInvalidArgument without an answer.
[[nodiscard]] Plan plan(Function, std::span<const std::byte> arguments, const Before&,
                        uint64_t now_wall_ns) noexcept;

// As plan(), for a client that puts the value on the version that it has read: a float's text may be longer
// than an answer. Then there are no answer bytes, and the value is the answer.
[[nodiscard]] Plan plan_to_put(Function, std::span<const std::byte> arguments, const Before&,
                               uint64_t now_wall_ns) noexcept;

// Writes all of the new value, plan.value_bytes long, of a plan with kValue that was made of the same three.
// `value` does not overlap the value before, and not the arguments.
void fill(Function, const Plan&, std::span<const std::byte> arguments, const Before&,
          std::span<std::byte> value) noexcept;

}  // namespace refract::kv::functions
