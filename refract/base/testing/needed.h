// SPDX-License-Identifier: Apache-2.0
// What a test cannot do without: the value of a Result, a Reported or an optional. Where there is none, the
// program says where, and why not, and ends.
//
// Threads: any.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

#include "refract/base/report.h"
#include "refract/base/result.h"

namespace refract::test {

template <typename R>
[[nodiscard]] std::remove_cvref_t<R>::value_type needed(
    R&& result, const std::source_location& where = std::source_location::current()) {
  if (result.has_value()) return *std::forward<R>(result);
  std::fprintf(stderr, "%s:%u: no value", where.file_name(), where.line());
  if constexpr (requires { result.error().code; }) {
    std::fprintf(stderr, ": %s", std::string(text(result.error().code)).c_str());
  }
  if constexpr (requires { result.error().to_string(); }) {
    std::fprintf(stderr, ": %s", result.error().to_string().c_str());
  }
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace refract::test
