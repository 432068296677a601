// SPDX-License-Identifier: Apache-2.0
// Any row with any arguments on any value. A plan is the same each time, changes nothing where it is an
// error, and what is filled is what was planned: as long, as told in the answer, and as 128 bits or strings
// compute it. Input: row, length of the value, whether it is there, conditions of time, then the value, then
// arguments.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "refract/base/check.h"
#include "refract/kv/functions/functions.h"
#include "refract/kv/functions/text.h"

namespace {

using refract::Code;
using namespace refract::kv::functions;  // NOLINT(google-build-using-namespace)

__extension__ using Wide = __int128;

constexpr uint64_t kNow_ns = 1000;
constexpr uint64_t kFilledMax = uint64_t{1} << 20;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
template <typename Number>
Number number_at(std::string_view bytes) {
  Number number;
  REFRACT_CHECK(bytes.size() >= sizeof(number));
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

bool is_same(const Plan& one, const Plan& other) {
  return one.code == other.code && one.effect == other.effect && one.value_bytes == other.value_bytes &&
         one.expires_wall_ns == other.expires_wall_ns && one.answer_bytes == other.answer_bytes &&
         one.answer == other.answer && one.made == other.made;
}

// What a row is asked, and what came of it.
struct Asked {
  Function function{};
  std::string value;
  std::string arguments;
  Before before;
  Plan plan;
  std::string answer;
  std::string filled;
};

void check_sum(const Asked& asked) {
  // Beyond 64 bits it was refused.
  const auto number = asked.before.is_there ? integer_in(asked.value) : 0;
  REFRACT_CHECK(number.has_value());
  const Wide sum = Wide{*number} + number_at<int64_t>(asked.arguments);
  REFRACT_CHECK(sum == number_at<int64_t>(asked.answer));
  REFRACT_CHECK(std::to_string(static_cast<int64_t>(sum)) == asked.filled);
}

void check_refused_sum(const Asked& asked) {
  const auto number = asked.before.is_there ? integer_in(asked.value) : 0;
  if (asked.answer[0] == static_cast<char>(Refusal::kNoInteger)) return REFRACT_CHECK(!number);
  REFRACT_CHECK(asked.answer[0] == static_cast<char>(Refusal::kOverflow) && number.has_value());
  const Wide sum = Wide{*number} + number_at<int64_t>(asked.arguments);
  REFRACT_CHECK(sum != static_cast<int64_t>(sum));
}

// As Redis writes it.
std::string written_by_printf(long double number) {
  std::string text(kFloatTextBytesMax + 1, '\0');
  text.resize(static_cast<size_t>(std::snprintf(text.data(), text.size(), "%.17Lf", number)));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

void check_float(const Asked& asked) {
  const auto number = asked.before.is_there ? float_in(asked.value) : 0;
  const auto addend = float_in(asked.arguments);
  REFRACT_CHECK(number.has_value() && addend.has_value());
  REFRACT_CHECK(asked.filled == written_by_printf(*number + *addend));
  REFRACT_CHECK(asked.answer == asked.filled || asked.filled.size() > kAnswerBytesMax);
}

void check_range(const Asked& asked) {
  const auto offset = number_at<uint64_t>(asked.arguments);
  const std::string bytes = asked.arguments.substr(sizeof(offset));
  std::string wanted = asked.value;
  wanted.resize(std::max<size_t>(wanted.size(), offset + bytes.size()), '\0');
  wanted.replace(offset, bytes.size(), bytes);
  REFRACT_CHECK(asked.filled == wanted);
}

void check_value(const Asked& asked) {
  switch (asked.function) {
    case Function::kAdd:
      return check_sum(asked);
    case Function::kAddFloat:
      return check_float(asked);
    case Function::kAppend:
      return REFRACT_CHECK(asked.filled == asked.value + asked.arguments);
    case Function::kSetRange:
      return check_range(asked);
    case Function::kExpire:
      REFRACT_CHECK(asked.plan.expires_wall_ns > kNow_ns);
      return REFRACT_CHECK(asked.filled == asked.value && asked.answer == "\1");
    case Function::kPersist:
      REFRACT_CHECK(asked.plan.expires_wall_ns == 0 && asked.before.expires_wall_ns != 0);
      return REFRACT_CHECK(asked.filled == asked.value && asked.answer == "\1");
  }
  REFRACT_CHECK(false);
}

// Storage of exactly that length, between bytes that stay.
void fill(Asked& asked) {
  if (asked.plan.value_bytes > kFilledMax) return;
  for (const char before : {'?', '!'}) {
    std::string room(asked.plan.value_bytes, before);
    fill(asked.function, asked.plan, bytes_of(asked.arguments), asked.before,
         std::as_writable_bytes(std::span(room)));
    REFRACT_CHECK(before == '?' || room == asked.filled);
    asked.filled = room;
  }
  check_value(asked);
}

void check(Asked& asked) {
  const Plan& plan = asked.plan;
  REFRACT_CHECK(plan.answer_bytes <= kAnswerBytesMax);
  asked.answer.assign(reinterpret_cast<const char*>(plan.answer.data()), plan.answer_bytes);
  REFRACT_CHECK(plan.effect == Effect::kValue || (plan.value_bytes == 0 && plan.expires_wall_ns == 0));
  REFRACT_CHECK(plan.value_bytes <= kValueBytesMax);
  if (plan.code != Code::kOk) {
    REFRACT_CHECK(plan.code == Code::kInvalidArgument || plan.code == Code::kTooLarge);
    REFRACT_CHECK(plan.effect == Effect::kNone && plan.answer_bytes <= 1);
    if (asked.function == Function::kAdd && plan.answer_bytes == 1) check_refused_sum(asked);
    return;
  }
  REFRACT_CHECK(plan.effect != Effect::kErase ||
                (asked.function == Function::kExpire && asked.answer == "\1"));
  REFRACT_CHECK(plan.effect != Effect::kErase || number_at<uint64_t>(asked.arguments) <= kNow_ns);
  if (plan.effect == Effect::kValue) fill(asked);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kHead = 4;
  if (size < kHead) return 0;
  const std::string input(reinterpret_cast<const char*>(data) + kHead, size - kHead);
  Asked asked;
  asked.function = static_cast<Function>(data[0] % 8);
  const bool is_there = data[2] % 2 != 0;
  if (is_there) asked.value = input.substr(0, data[1]);
  asked.arguments = input.substr(asked.value.size());
  asked.before.is_there = is_there;
  asked.before.value = bytes_of(asked.value);
  if (is_there) asked.before.expires_wall_ns = data[3] * uint64_t{8};
  const auto planned = [&asked](auto& row) {
    return row(asked.function, bytes_of(asked.arguments), asked.before, kNow_ns);
  };
  for (auto* row : {&plan, &plan_to_put}) {
    asked.plan = planned(row);
    REFRACT_CHECK(is_same(asked.plan, planned(row)));
    check(asked);
  }
  REFRACT_CHECK(asked.function != Function::kAddFloat || asked.plan.code != Code::kTooLarge);
  return 0;
}
