// SPDX-License-Identifier: Apache-2.0
#include "apps/records/debian_text.h"

#include <algorithm>
#include <array>

namespace refract::records {
namespace {

constexpr std::string_view kSpaces = " \t\r";

std::string_view trimmed(std::string_view text) noexcept {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// Field names are ASCII without spaces; case does not matter in them.
bool is_field_name(std::string_view name) noexcept {
  return !name.empty() && name[0] != '-' &&
         std::ranges::all_of(name, [](char byte) { return byte > ' ' && byte < 127; });
}

bool same_name(std::string_view name, std::string_view lower) noexcept {
  return std::ranges::equal(name, lower, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

struct Wanted {
  std::string_view name;
  std::string_view value = {};
  bool seen = false;
};

}  // namespace

bool is_blank_line(std::string_view line) noexcept {
  return line.find_first_not_of(kSpaces) == std::string_view::npos;
}

bool stanza_key(std::string_view stanza, std::string& key, StanzaFault& fault) {
  std::array<Wanted, 3> wanted = {{{.name = "package"}, {.name = "architecture"}, {.name = "multi-arch"}}};
  bool in_field = false;
  const auto refuse = [&](std::string what, std::string expected) {
    fault.what = std::move(what);
    fault.expected = std::move(expected);
    return false;
  };
  for (fault.line = 0;; ++fault.line) {
    const size_t line_break = stanza.find('\n');
    const std::string_view line = stanza.substr(0, line_break);
    const size_t colon = line.find(':');
    if (is_blank_line(line)) return refuse("the stanza has a blank line", "none, since that ends a stanza");
    if (line[0] == ' ' || line[0] == '\t') {
      if (!in_field) return refuse("a continuation line stands before the first field", "'Package: NAME'");
    } else if (line[0] != '#') {
      if (colon == std::string_view::npos || !is_field_name(line.substr(0, colon))) {
        return refuse("the line is no field", "'Field: value', or a space before a continuation line");
      }
      in_field = true;
      for (Wanted& field : wanted) {
        if (!same_name(line.substr(0, colon), field.name)) continue;
        if (field.seen)
          return refuse("the stanza has the field '" + std::string(field.name) + "' twice", "once");
        field.seen = true;
        field.value = trimmed(line.substr(colon + 1));
      }
    }
    if (line_break == std::string_view::npos) break;
    stanza.remove_prefix(line_break + 1);
  }
  fault.line = 0;
  if (wanted[0].value.empty()) return refuse("the stanza names no package", "'Package: NAME'");
  key = wanted[0].value;
  if (wanted[2].value == "same" && !wanted[1].value.empty()) key.append(":").append(wanted[1].value);
  return true;
}

}  // namespace refract::records
