// SPDX-License-Identifier: Apache-2.0
// What the tests and the fuzzer of this folder share: reading everything, writing it, and comparing.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/records/record_reader.h"
#include "apps/records/record_writer.h"

#include "refract/base/prng.h"

namespace refract::records::testing {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Everything a reader said, in order.
struct Story {
  Pairs records;
  std::vector<uint64_t> lines;    // Of the records.
  std::vector<std::string> bads;  // As text.
  uint64_t bytes_read = 0;
};

inline Story read_all(RecordReader& reader) {
  Story story;
  Record record;
  for (;;) {
    const Next next = reader.next(record);
    if (next == Next::kEnd) break;
    if (next == Next::kBad) {
      story.bads.push_back(reader.bad().to_string());
      continue;
    }
    story.records.emplace_back(record.key, record.value);
    story.lines.push_back(record.place.line);
  }
  story.bytes_read = reader.bytes_read();
  return story;
}

// An input that cannot be opened is one bad thing and no record.
inline Story read_text(std::string_view text, const ReadOptions& options, size_t chunk_bytes = SIZE_MAX) {
  const auto reader = read_bytes(text, options, chunk_bytes);
  if (reader) return read_all(**reader);
  Story story;
  story.bads.push_back(reader.error().to_string());
  return story;
}

// Writes the records that the format can express; `refused` takes the others.
inline std::string write_text(const Pairs& records, Format format, Pairs* refused = nullptr) {
  std::string text;
  const auto writer = write_to(text, format);
  for (const auto& [key, value] : records) {
    if (!writer->write(key, value) && refused != nullptr) refused->emplace_back(key, value);
  }
  if (!writer->finish()) text.clear();
  return text;
}

// Empty, or how `records` fail to come back from `format` with the same bytes.
inline std::string lost_by(const Pairs& records, Format format, size_t chunk_bytes = SIZE_MAX) {
  Pairs refused;
  const std::string text = write_text(records, format, &refused);
  ReadOptions options;
  options.format = format;
  const Story back = read_text(text, options, chunk_bytes);
  const std::string name(format_name(format));
  if (!refused.empty()) return name + " refuses a record";
  if (!back.bads.empty()) return name + ": " + back.bads[0];
  if (back.records != records) return name + " gives back other bytes";
  return {};
}

// Bytes in which what is special to some format is frequent.
inline std::string random_bytes(Prng& prng, uint64_t bytes_max) {
  constexpr std::string_view kSpecial = "\"\"\"\\,,\t\n\n\r/..%{}:[] #kv\xef\xbb\xbf\xc3\xa4";
  std::string bytes(prng.below(bytes_max + 1), '\0');
  const bool wild = prng.chance(0.3);
  for (char& byte : bytes) {
    byte = wild ? static_cast<char>(prng.below(256)) : kSpecial[prng.below(kSpecial.size())];
  }
  return bytes;
}

// A directory for one test, removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "refract-records-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data()) != nullptr ? pattern : std::string();
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

}  // namespace refract::records::testing
