// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "refract/documents/json.h"

namespace refract::cli {
Exit exit_of(Code code) noexcept {
  switch (code) {
    case Code::kOk:
      return kDone;
    case Code::kNotFound:
    case Code::kExists:
    case Code::kVersionMismatch:
      return kNotDone;
    case Code::kInvalidArgument:
      return kUsage;
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kAway:
      return kUnreachable;
    default:
      return kFailed;
  }
}

int complain(Exit exit, std::string_view what, std::string_view next) {
  // What a node says of its troubles comes from elsewhere.
  std::string text = fmt::format("refract: {}\n", printable(what, LineBreaks::kKept));
  if (!next.empty()) text += fmt::format("  {}\n", printable(next, LineBreaks::kKept));
  std::fputs(text.c_str(), stderr);
  return exit;
}

int complain(const Report& report) {
  return complain(exit_of(report.code), report.what, report.next);
}

int write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) return kFailed;
      return complain(kFailed, fmt::format("cannot write to the standard output: {}", errno_text(errno)),
                      "the output is not complete; make room and repeat the command");
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return kDone;
}

int write_text(std::string_view text) {
  return is_output_terminal() ? write_out(printable(text, LineBreaks::kKept)) : write_out(text);
}

int write_json(const documents::Value& object) {
  return write_text(documents::to_json_row(object));
}

bool is_output_terminal() noexcept {
  return ::isatty(STDOUT_FILENO) == 1;
}

}  // namespace refract::cli
