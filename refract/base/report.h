// SPDX-License-Identifier: Apache-2.0
// An error for a person: what was wrong, with which value, and what to do next.
//
// Used on the control path only (start, configuration, connecting, command line), where a sentence is worth
// an allocation. Programs decide by the code; the data path returns Result (result.h).
#pragma once

#include <expected>
#include <string>
#include <utility>

#include "refract/base/result.h"

namespace refract {

struct Report {
  Code code;
  std::string what;  // "cannot listen on /run/refract/node.sock: another node answers there"
  std::string next;  // "stop it, or choose another path with --socket"; may be empty.

  // Both parts as one text of one or two lines, without a trailing newline.
  [[nodiscard]] std::string to_string() const { return next.empty() ? what : what + "\n  " + next; }
  // Both in one line, for a log.
  [[nodiscard]] std::string to_line() const { return next.empty() ? what : what + "; " + next; }
};

template <typename T = void>
class [[nodiscard]] Reported : public std::expected<T, Report> {
 public:
  using std::expected<T, Report>::expected;
};

[[nodiscard]] inline std::unexpected<Report> report(Code code, std::string what, std::string next = {}) {
  return std::unexpected<Report>(Report{code, std::move(what), std::move(next)});
}
[[nodiscard]] inline std::unexpected<Report> report(Report inner) {
  return std::unexpected<Report>(std::move(inner));
}

// "Permission denied" for an errno value; thread-safe.
[[nodiscard]] std::string errno_text(int error_number);

}  // namespace refract
