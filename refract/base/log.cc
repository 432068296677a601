// SPDX-License-Identifier: Apache-2.0
#include "refract/base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <iterator>

#include "refract/base/clock.h"
#include "refract/base/printable.h"

namespace refract {
namespace {

// What a pipe takes in one piece (PIPE_BUF).
constexpr size_t kLineBytesMax = 4096;
constexpr std::string_view kCut = "...\n";
constexpr std::array<std::string_view, 4> kLevels = {"error", "warn", "info", "debug"};

std::atomic<LogLevel> g_level = LogLevel::kInfo;

// Not gmtime: that takes a lock, which a fork may leave held.
void append_time(fmt::memory_buffer& line, uint64_t wall_ns) {
  const std::chrono::sys_time<std::chrono::nanoseconds> moment{std::chrono::nanoseconds(wall_ns)};
  const auto day = std::chrono::floor<std::chrono::days>(moment);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::microseconds>(moment - day));
  fmt::format_to(std::back_inserter(line), "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z ", int(date.year()),
                 unsigned(date.month()), unsigned(date.day()), time.hours().count(), time.minutes().count(),
                 time.seconds().count(), time.subseconds().count());
}

}  // namespace

void set_log_level(LogLevel level) noexcept {
  g_level.store(level, std::memory_order_relaxed);
}
LogLevel log_level() noexcept {
  return g_level.load(std::memory_order_relaxed);
}

std::string_view text(LogLevel level) noexcept {
  return kLevels[static_cast<size_t>(level)];
}

Result<LogLevel> log_level_from_text(std::string_view text) noexcept {
  for (size_t row = 0; row < kLevels.size(); ++row) {
    if (kLevels[row] == text) return static_cast<LogLevel>(row);
  }
  return fail(Code::kInvalidArgument);
}

void write_log_line(LogLevel level, fmt::string_view format, fmt::format_args values) noexcept {
  const int saved_errno = errno;
  fmt::memory_buffer message;
  fmt::vformat_to(std::back_inserter(message), format, values);
  fmt::memory_buffer line;
  append_time(line, system_clock().wall_ns());
  line.append(text(level));
  line.push_back(' ');
  line.append(printable(std::string_view(message.data(), message.size()).substr(0, kLineBytesMax)));
  line.push_back('\n');
  if (line.size() > kLineBytesMax) {
    line.resize(kLineBytesMax - kCut.size());
    line.append(kCut);
  }
  while (write(STDERR_FILENO, line.data(), line.size()) < 0 && errno == EINTR) {
  }
  errno = saved_errno;
}

void log_lines(LogLevel level, std::string_view text) noexcept {
  if (level > log_level()) return;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view rest = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (!rest.empty()) write_log_line(level, "{}", fmt::make_format_args(rest));
  }
}

}  // namespace refract
