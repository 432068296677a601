// SPDX-License-Identifier: Apache-2.0
// A record is what `refract load` stores and `refract dump` writes: a key and a value, any bytes, and where
// they stood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "refract/base/units.h"

namespace refract::records {

enum class Format : uint8_t { kCsv, kTsv, kJsonl, kDirectory, kDebian };

// "csv", "tsv", "jsonl", "directory", "debian": what --format takes and messages print.
[[nodiscard]] std::string_view format_name(Format format) noexcept;
[[nodiscard]] std::optional<Format> format_named(std::string_view name) noexcept;

// What the store accepts. Tests make the limits small to reach them.
struct Limits {
  uint64_t key_bytes_max = 65'535;
  uint64_t value_bytes_max = 512 * kMiB;

  // The longest text of one record: quoting, backslashes and base64 at most double what they carry.
  [[nodiscard]] uint64_t text_bytes_max() const noexcept {
    return 2 * (key_bytes_max + value_bytes_max) + 1024;
  }
};

// Where a record began. The name is lent by the reader until its next call.
struct SourceLine {
  std::string_view file;
  uint64_t line = 0;  // From 1; 0 where the record is a whole file.
};

struct Record {
  std::string key;
  std::string value;
  SourceLine place;
};

// Why something in the input is no record: "people.csv:17: the key is empty (expected 1 to 65535 bytes)".
struct BadRecord {
  std::string file;
  uint64_t line = 0;
  std::string what;
  std::string expected;

  [[nodiscard]] std::string to_string() const;
};

}  // namespace refract::records
