// SPDX-License-Identifier: Apache-2.0
// The bytes that a page of docs/formats shows, so that a test can hold them against what the code writes.
//
// A block that begins with ```golden has a line for every few bytes: the offset, the bytes, all in hex, and
// behind three spaces a word on what they are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace refract::golden {

struct Line {
  uint64_t offset = 0;
  std::vector<std::byte> bytes;
};

// No bytes: the line is no golden one.
[[nodiscard]] inline Line line_of(const std::string& text) {
  Line line;
  std::istringstream words(text.substr(0, text.find("   ")));
  words >> std::hex >> line.offset;
  for (uint32_t byte = 0; words >> std::hex >> byte;) {
    if (byte > 0xff) return {};
    line.bytes.push_back(static_cast<std::byte>(byte));
  }
  if (!words.eof()) return {};
  return line;
}

// Of the first block below a heading, as "### Its reply in hex"; "": of the first one in the page.
[[nodiscard]] inline std::vector<Line> lines_of(const std::string& page, std::string_view heading = "") {
  std::ifstream file(page);
  std::string text;
  bool is_below = heading.empty();
  while (std::getline(file, text) && !(is_below && text == "```golden")) {
    if (!heading.empty() && text.starts_with("#")) is_below = text == heading;
  }
  std::vector<Line> lines;
  while (std::getline(file, text) && text != "```") {
    lines.push_back(line_of(text));
    EXPECT_FALSE(lines.back().bytes.empty()) << page << " has a line that cannot be read: " << text;
  }
  EXPECT_EQ(text, "```") << page << " has no such block, or one without an end";
  return lines;
}

// `bytes` of memory as the lines show it; zero where there is none.
[[nodiscard]] inline std::vector<std::byte> image_of(const std::vector<Line>& lines, uint64_t bytes) {
  std::vector<std::byte> image(bytes);
  for (const Line& line : lines) {
    const bool fits = line.offset <= bytes && line.bytes.size() <= bytes - line.offset;
    EXPECT_TRUE(fits) << "the page shows bytes at " << line.offset << ", the memory has " << bytes;
    if (fits) std::ranges::copy(line.bytes, image.begin() + static_cast<ptrdiff_t>(line.offset));
  }
  return image;
}

}  // namespace refract::golden
