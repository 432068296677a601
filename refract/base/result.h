// SPDX-License-Identifier: Apache-2.0
// What every fallible call of Refract returns: a value, or an Error that says what may be done about it.
//
// An Error here is a retry decision, not a sentence: 16 bytes, trivially copyable, built without allocation.
// What a person reads is a Report (report.h). The codes and their meaning are one table, codes.def. Why
// std::expected, and why behind our own name: docs/design/002-errors.md.
#pragma once

#include <cstdint>
#include <expected>
#include <source_location>
#include <string_view>
#include <type_traits>

#include "refract/base/api.h"

namespace refract {

enum class Code : uint8_t {
#define REFRACT_CODE(name, number, text, breaks, retry, sentence) name = number,
#include "refract/base/codes.def"
#undef REFRACT_CODE
};

// The largest thing that an error takes away for ever: what must be made again before work can continue.
enum class Breaks : uint8_t { kOp, kChannel, kShard, kProcess };

// Whether the same call may succeed when it is repeated.
enum class Retry : uint8_t { kNow, kLater, kNever };

struct CodeInfo {
  Code code;
  Breaks breaks;
  Retry retry;
  std::string_view text;      // "not_found": stable, for programs and logs.
  std::string_view sentence;  // For people.
};

// The table's row; of a number that no row has, the row of kMalformed.
[[nodiscard]] REFRACT_API const CodeInfo& info(Code code) noexcept;

// The code that travels as `number`, or kMalformed where the table has no such row.
[[nodiscard]] Code code_from_wire(uint64_t number) noexcept;

[[nodiscard]] inline std::string_view text(Code code) noexcept {
  return info(code).text;
}

struct Error {
  Code code;
  std::source_location where = std::source_location::current();
};
static_assert(sizeof(Error) == 16 && std::is_trivially_copyable_v<Error>);

// A value of type T, or an Error. Dropping one is a compiler warning, and so an error.
template <typename T = void>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;

  // The code, kOk where there is a value: for tests and switches.
  [[nodiscard]] Code code() const noexcept { return this->has_value() ? Code::kOk : this->error().code; }
};

// `return fail(Code::kNotFound);` and, to hand an error on, `return fail(inner.error());`.
[[nodiscard]] inline std::unexpected<Error> fail(
    Code code, std::source_location where = std::source_location::current()) noexcept {
  return std::unexpected<Error>(Error{code, where});
}
[[nodiscard]] inline std::unexpected<Error> fail(Error error) noexcept {
  return std::unexpected<Error>(error);
}

}  // namespace refract
