// SPDX-License-Identifier: Apache-2.0
// What --help prints: an overview, and a page for each command.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace refract::cli {

struct HelpPage {
  std::string_view command;
  std::string_view summary;  // For the overview.
  std::string_view text;     // Everything that is the command's own; the options of all commands are added.
};

[[nodiscard]] std::span<const HelpPage> help_pages() noexcept;
[[nodiscard]] std::string overview();
// Empty where there is no such command.
[[nodiscard]] std::string help_of(std::string_view command);

}  // namespace refract::cli
