// SPDX-License-Identifier: Apache-2.0
// One stanza of a Debian control file (deb822): fields "Name: value", whose values continue in lines that
// begin with a space or tab. Lines that begin with # are comments. A line of nothing but spaces ends a
// stanza.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace refract::records {

[[nodiscard]] bool is_blank_line(std::string_view line) noexcept;

struct StanzaFault {
  size_t line = 0;  // From 0, within the stanza.
  std::string what;
  std::string expected;
};

// Fills `key` with the key that the stanza is stored under (see record_reader.h). False, and `fault`, where
// the text is no stanza of a package: also where it holds a blank line, or ends with a line break, since it
// would not be read back as it is.
[[nodiscard]] bool stanza_key(std::string_view stanza, std::string& key, StanzaFault& fault);

}  // namespace refract::records
