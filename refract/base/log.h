// SPDX-License-Identifier: Apache-2.0
// The log that people read: start, stop, losing and finding peers, bad records. Never on the data path (that
// is what the trace ring is for): at most a few lines a second under any load.
//
// One call makes one line on stderr, "2026-01-31T12:00:00.123456Z warn text", by a single write(2), so that
// lines of threads and processes do not mix. Control characters in the text come out as \xNN (printable.h),
// so no key or file name can forge a line; lines end at 4096 bytes. Values are printed as `name value`,
// without `=`. Any thread; errno is preserved; a line that cannot be written is lost.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "refract/base/result.h"

namespace refract {

enum class LogLevel : uint8_t { kError, kWarn, kInfo, kDebug };

// Lines above the level are not formatted. kInfo at start. Any thread.
void set_log_level(LogLevel level) noexcept;
[[nodiscard]] LogLevel log_level() noexcept;

[[nodiscard]] std::string_view text(LogLevel level) noexcept;
// "error", "warn", "info", "debug"; kInvalidArgument for anything else.
[[nodiscard]] Result<LogLevel> log_level_from_text(std::string_view text) noexcept;

// A text of several lines, as reports have them, makes as many lines of the log, each with its time and
// level. For texts whose line breaks are our own.
void log_lines(LogLevel level, std::string_view text) noexcept;

// What the templates below call; formats and writes without asking for the level.
void write_log_line(LogLevel level, fmt::string_view format, fmt::format_args values) noexcept;

template <typename... Values>
void log_at(LogLevel level, fmt::format_string<Values...> format, Values&&... values) noexcept {
  if (level > log_level()) return;
  write_log_line(level, format, fmt::make_format_args(values...));
}
template <typename... Values>
void log_error(fmt::format_string<Values...> format, Values&&... values) noexcept {
  log_at(LogLevel::kError, format, std::forward<Values>(values)...);
}
template <typename... Values>
void log_warn(fmt::format_string<Values...> format, Values&&... values) noexcept {
  log_at(LogLevel::kWarn, format, std::forward<Values>(values)...);
}
template <typename... Values>
void log_info(fmt::format_string<Values...> format, Values&&... values) noexcept {
  log_at(LogLevel::kInfo, format, std::forward<Values>(values)...);
}
template <typename... Values>
void log_debug(fmt::format_string<Values...> format, Values&&... values) noexcept {
  log_at(LogLevel::kDebug, format, std::forward<Values>(values)...);
}

}  // namespace refract
