// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/top/live_terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "apps/refract/terminal.h"

namespace refract::cli {
namespace {

constexpr std::string_view kOpen = "\x1b[?1049h\x1b[?25l";   // The other screen, without a cursor.
constexpr std::string_view kClose = "\x1b[?25h\x1b[?1049l";  // As it was.

// Set by signal handlers, which may touch nothing else.
volatile std::sig_atomic_t g_resized = 0;  // tidy: allow(volatile) The type that handlers may set.
volatile std::sig_atomic_t g_ended = 0;    // tidy: allow(volatile) Likewise.

void on_signal(int number) {
  (number == SIGWINCH ? g_resized : g_ended) = 1;
}

// Without SA_RESTART, so that a sleep ends.
void take_signal(int number, void (*handler)(int)) noexcept {
  struct sigaction action = {};
  action.sa_handler = handler;
  (void)sigaction(number, &action, nullptr);
}

}  // namespace

bool LiveTerminal::is_possible() noexcept {
  return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
}

LiveTerminal::LiveTerminal() noexcept {
  g_resized = 0;
  g_ended = 0;
  for (const int number : {SIGWINCH, SIGTERM, SIGHUP}) take_signal(number, on_signal);
  (void)tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  (void)write_out(kOpen);
}

LiveTerminal::~LiveTerminal() {
  (void)write_out(kClose);
  (void)tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  for (const int number : {SIGWINCH, SIGTERM, SIGHUP}) take_signal(number, SIG_DFL);
}

ScreenSize LiveTerminal::size() const noexcept {
  winsize window = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) {
    return {.columns = 80, .rows = 24};
  }
  return {.columns = window.ws_col, .rows = window.ws_row};
}

void LiveTerminal::show(std::string_view lines) const {
  // From the top left corner; each line clears what stood behind it, the last one what stood below.
  std::string out = "\x1b[H";
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(line.size() < lines.size() ? line.size() + 1 : line.size());
    out.append(line).append("\x1b[K");
    // A line break behind the last row would scroll.
    if (!lines.empty()) out += "\r\n";
  }
  out += "\x1b[J";
  (void)write_out(out);
}

std::optional<char> LiveTerminal::key() noexcept {
  char letter = 0;
  if (read(STDIN_FILENO, &letter, 1) != 1) return std::nullopt;
  return letter;
}

bool LiveTerminal::is_resized() noexcept {
  if (g_resized == 0) return false;
  g_resized = 0;
  return true;
}

bool LiveTerminal::is_ended() const noexcept {
  return g_ended != 0;
}

}  // namespace refract::cli
