// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/functions/functions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "refract/base/check.h"
#include "refract/kv/functions/text.h"
#include "refract/kv/layout/layout.h"

namespace refract::kv::functions {
namespace {

static_assert(functions::kValueBytesMax == kv::kValueBytesMax);
static_assert(kIntegerTextBytesMax <= kAnswerBytesMax);

using Bytes = std::span<const std::byte>;

std::string_view text_of(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::span<char> letters_of(std::span<std::byte> bytes) noexcept {
  return {reinterpret_cast<char*>(bytes.data()), bytes.size()};
}

// The number at the front, which is taken off.
template <typename Number>
std::optional<Number> take(Bytes& arguments) noexcept {
  if (arguments.size() < sizeof(Number)) return std::nullopt;
  Number number;
  std::memcpy(&number, arguments.data(), sizeof(number));
  arguments = arguments.subspan(sizeof(number));
  return number;
}

template <typename Number>
void give(Plan& plan, Number number) noexcept {
  static_assert(sizeof(number) <= kAnswerBytesMax);
  std::memcpy(plan.answer.data(), &number, sizeof(number));
  plan.answer_bytes = sizeof(number);
}

Plan no_form() noexcept {
  return {.code = Code::kInvalidArgument};
}
Plan too_large() noexcept {
  return {.code = Code::kTooLarge};
}
Plan refuse(Refusal refusal) noexcept {
  Plan plan{.code = Code::kInvalidArgument};
  give(plan, refusal);
  return plan;
}
template <typename Number>
Plan keep(Number answer) noexcept {
  Plan plan;
  give(plan, answer);
  return plan;
}
// The time to live stays.
Plan change(const Before& before, uint64_t value_bytes) noexcept {
  return {.effect = Effect::kValue, .value_bytes = value_bytes, .expires_wall_ns = before.expires_wall_ns};
}

Plan plan_add(Bytes arguments, const Before& before) noexcept {
  const auto addend = take<int64_t>(arguments);
  if (!addend || !arguments.empty()) return no_form();
  const auto number = before.is_there ? integer_in(text_of(before.value)) : 0;
  if (!number) return refuse(Refusal::kNoInteger);
  int64_t sum = 0;
  if (__builtin_add_overflow(*number, *addend, &sum)) return refuse(Refusal::kOverflow);
  Plan plan = change(before, 0);
  plan.value_bytes = write_integer(sum, letters_of(plan.made));
  give(plan, sum);
  return plan;
}

struct FloatSum {
  std::optional<Refusal> refusal;
  long double sum = 0;
};

FloatSum float_sum(Bytes arguments, const Before& before) noexcept {
  if (arguments.size() > kFloatTextMax) return {.refusal = Refusal::kNoFloat};
  const auto number = before.is_there ? float_in(text_of(before.value)) : 0;
  const auto addend = float_in(text_of(arguments));
  if (!number || !addend) return {.refusal = Refusal::kNoFloat};
  const long double sum = *number + *addend;
  if (!std::isfinite(sum)) return {.refusal = Refusal::kNotFinite};
  return {.refusal = {}, .sum = sum};
}

Plan plan_add_float(Bytes arguments, const Before& before) noexcept {
  const FloatSum made = float_sum(arguments, before);
  if (made.refusal) return refuse(*made.refusal);
  Plan plan = change(before, 0);
  plan.value_bytes = write_float(made.sum, letters_of(plan.made));
  if (plan.value_bytes == 0) return too_large();
  plan.answer = plan.made;
  plan.answer_bytes = static_cast<uint8_t>(plan.value_bytes);
  return plan;
}

Plan plan_append(Bytes arguments, const Before& before) noexcept {
  const uint64_t bytes = uint64_t{before.value.size()} + arguments.size();
  if (bytes > kValueBytesMax) return too_large();
  Plan plan = change(before, bytes);
  give(plan, bytes);
  return plan;
}

Plan plan_set_range(Bytes arguments, const Before& before) noexcept {
  const auto offset = take<uint64_t>(arguments);
  if (!offset) return no_form();
  const uint64_t bytes_before = before.value.size();
  if (arguments.empty()) return keep(bytes_before);
  if (arguments.size() > kValueBytesMax || *offset > kValueBytesMax - arguments.size()) return too_large();
  const uint64_t bytes = std::max(bytes_before, *offset + arguments.size());
  if (bytes > kValueBytesMax) return too_large();
  Plan plan = change(before, bytes);
  give(plan, bytes);
  return plan;
}

constexpr uint8_t kNo = 0;
constexpr uint8_t kYes = 1;

// What has no expiry is later than any moment.
bool meets(uint8_t conditions, uint64_t moment, uint64_t expiry) noexcept {
  const bool expires = expiry != 0;
  if ((conditions & kIfNone) != 0 && expires) return false;
  if ((conditions & kIfSome) != 0 && !expires) return false;
  if ((conditions & kIfLater) != 0 && (!expires || moment <= expiry)) return false;
  return (conditions & kIfEarlier) == 0 || !expires || moment < expiry;
}

Plan plan_expire(Bytes arguments, const Before& before, uint64_t now_wall_ns) noexcept {
  constexpr uint8_t kConditions = kIfNone | kIfSome | kIfLater | kIfEarlier;
  const auto moment = take<uint64_t>(arguments);
  const auto conditions = take<uint8_t>(arguments);
  if (!moment || !conditions || !arguments.empty() || (*conditions & ~kConditions) != 0) return no_form();
  if (!before.is_there || !meets(*conditions, *moment, before.expires_wall_ns)) return keep(kNo);
  Plan plan = keep(kYes);
  plan.effect = Effect::kErase;
  if (*moment <= now_wall_ns) return plan;
  plan.effect = Effect::kValue;
  plan.value_bytes = before.value.size();
  plan.expires_wall_ns = *moment;
  return plan;
}

Plan plan_persist(Bytes arguments, const Before& before) noexcept {
  if (!arguments.empty()) return no_form();
  if (!before.is_there || before.expires_wall_ns == 0) return keep(kNo);
  Plan plan = keep(kYes);
  plan.effect = Effect::kValue;
  plan.value_bytes = before.value.size();
  return plan;
}

std::byte* put(Bytes bytes, std::byte* at) noexcept {
  return std::ranges::copy(bytes, at).out;
}

void fill_range(Bytes arguments, Bytes before, std::byte* at) noexcept {
  const uint64_t offset = take<uint64_t>(arguments).value_or(0);
  at = put(before.first(std::min<uint64_t>(before.size(), offset)), at);
  if (offset > before.size()) at = std::fill_n(at, offset - before.size(), std::byte{0});
  at = put(arguments, at);
  const uint64_t end = offset + arguments.size();
  if (end < before.size()) put(before.subspan(end), at);
}

}  // namespace

Plan plan(Function function, Bytes arguments, const Before& before, uint64_t now_wall_ns) noexcept {
  switch (function) {
    case Function::kAdd:
      return plan_add(arguments, before);
    case Function::kAddFloat:
      return plan_add_float(arguments, before);
    case Function::kAppend:
      return plan_append(arguments, before);
    case Function::kSetRange:
      return plan_set_range(arguments, before);
    case Function::kExpire:
      return plan_expire(arguments, before, now_wall_ns);
    case Function::kPersist:
      return plan_persist(arguments, before);
  }
  return no_form();
}

Plan plan_to_put(Function function, Bytes arguments, const Before& before, uint64_t now_wall_ns) noexcept {
  Plan plan = functions::plan(function, arguments, before, now_wall_ns);
  if (function != Function::kAddFloat || plan.code != Code::kTooLarge) return plan;
  std::array<char, kFloatTextBytesMax> text;
  return change(before, write_float(float_sum(arguments, before).sum, text));
}

void fill(Function function, const Plan& plan, Bytes arguments, const Before& before,
          std::span<std::byte> value) noexcept {
  REFRACT_DCHECK(plan.effect == Effect::kValue && value.size() == plan.value_bytes);
  switch (function) {
    case Function::kAdd:
    case Function::kAddFloat:
      if (value.size() > plan.made.size()) {
        static_cast<void>(write_float(float_sum(arguments, before).sum, letters_of(value)));
      } else {
        put(Bytes(plan.made).first(value.size()), value.data());
      }
      return;
    case Function::kAppend:
      put(arguments, put(before.value, value.data()));
      return;
    case Function::kSetRange:
      fill_range(arguments, before.value, value.data());
      return;
    case Function::kExpire:
    case Function::kPersist:
      put(before.value, value.data());
      return;
  }
}

}  // namespace refract::kv::functions
