// SPDX-License-Identifier: Apache-2.0
// A drawing of what clients did: time from left to right, a lane for each client, a bar for each call, from
// the call to its return, and arrows between bars. The axis is the order of calls and returns, with their
// times beneath, since what matters is the order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace refract::timeline {

inline constexpr uint64_t kNever = UINT64_MAX;

struct Bar {
  uint32_t client = 0;
  // The order of calls and returns, and the true time.
  uint64_t began = 0;
  uint64_t ended = kNever;
  uint64_t began_ns = 0;
  uint64_t ended_ns = kNever;
  std::string place;           // What it was done to; in the text alone.
  std::string label;           // What was asked and told.
  const char* fill = "white";  // Colour.
  bool is_involved = false;
  bool is_convicted = false;
  bool is_open = false;  // It may take effect even later.
};

struct Arrow {
  size_t from = 0;  // Indices of bars.
  size_t to = 0;
  std::string label;
};

struct Timeline {
  std::string sentence;
  std::vector<std::string> clients;
  std::vector<Bar> bars;
  std::vector<Arrow> arrows;
  std::string legend;  // Of the text.
};

// For a terminal, at most `columns` wide where names permit.
[[nodiscard]] std::string draw_text(const Timeline& timeline, size_t columns);

// A whole SVG file. Hovering gives details.
[[nodiscard]] std::string draw_svg(const Timeline& timeline);

// False: it cannot be written there.
[[nodiscard]] bool write_file(const std::string& path, const std::string& text);

}  // namespace refract::timeline
