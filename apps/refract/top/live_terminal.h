// SPDX-License-Identifier: Apache-2.0
// The terminal while a command shows a screen that changes: keys come at once and unseen, what was on the
// screen before is there again afterwards, also when the command is told to end.
//
// Threads: one, and one object at a time: it takes SIGWINCH, SIGTERM and SIGHUP.
#pragma once

#include <termios.h>

#include <optional>
#include <string_view>

#include "apps/refract/top/top_figures.h"

namespace refract::cli {

class LiveTerminal {
 public:
  // Whether standard input and output are a terminal.
  [[nodiscard]] static bool is_possible() noexcept;

  LiveTerminal() noexcept;
  LiveTerminal(const LiveTerminal&) = delete;
  LiveTerminal& operator=(const LiveTerminal&) = delete;
  ~LiveTerminal();

  [[nodiscard]] ScreenSize size() const noexcept;
  // In place of what is shown; lines end with a line break.
  void show(std::string_view lines) const;

  // These do not wait. A key that was pressed, once.
  [[nodiscard]] std::optional<char> key() noexcept;
  // Whether the size has changed since the last question.
  [[nodiscard]] bool is_resized() noexcept;
  // The user wants the command to end.
  [[nodiscard]] bool is_ended() const noexcept;

 private:
  termios before_{};
};

}  // namespace refract::cli
