// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "apps/records/json_text.h"

namespace refract::cli {
namespace {

constexpr size_t kQuotedBytesMax = 60;

}  // namespace

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
      return kUnreachable;
    default:
      return kFailed;
  }
}

int complain(Exit exit, std::string_view what, std::string_view next) {
  std::string text = fmt::format("refract: {}\n", what);
  if (!next.empty()) text += fmt::format("  {}\n", next);
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

bool is_output_terminal() noexcept {
  return ::isatty(STDOUT_FILENO) == 1;
}

std::string printable(std::string_view bytes) {
  const bool is_text = records::is_utf8(bytes);
  std::string out;
  for (const char letter : bytes) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_text)) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out.push_back(letter);
    }
  }
  return out;
}

std::string in_quotes(std::string_view bytes) {
  std::string shown;
  for (const char letter : bytes.substr(0, kQuotedBytesMax)) {
    const auto byte = static_cast<unsigned char>(letter);
    shown += byte < 0x20 || byte > 0x7e ? fmt::format("\\x{:02x}", byte) : std::string(1, letter);
  }
  return fmt::format("'{}'{}", shown, bytes.size() > kQuotedBytesMax ? "..." : "");
}

std::string json_text(std::string_view text) {
  // Paths and messages may hold any bytes; JSON may not.
  const std::string safe = records::is_utf8(text) ? std::string(text) : printable(text);
  std::string out = "\"";
  records::append_json_escaped(out, safe);
  out.push_back('"');
  return out;
}

std::string json_member(std::string_view name, std::string_view bytes) {
  if (records::is_utf8(bytes)) return fmt::format("\"{}\": {}", name, json_text(bytes));
  std::string out = fmt::format("\"{}_base64\": \"", name);
  records::append_base64(out, bytes);
  out.push_back('"');
  return out;
}

}  // namespace refract::cli
