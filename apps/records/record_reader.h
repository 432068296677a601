// SPDX-License-Identifier: Apache-2.0
// What `refract load` stands on: a file, a pipe or a directory as a sequence of records, in bounded memory.
//
// A reader never stops at a bad record: it says what is wrong and where, and continues with the next. It
// never throws and takes any bytes. Keys of 1 to 65,535 bytes and values of up to 512 MiB are records,
// whatever is longer is a bad record, skipped without being kept. Memory is a few times the text of the
// longest record, which is bounded by Limits::text_bytes_max().
//
//   csv        RFC 4180: quotes, line breaks inside quotes, "\n" or "\r\n"; separated by commas.
//              Blank lines are skipped. The key is the column of `key_column`, or else the one
//              named "key", or else the first. The value is the other column where there are two;
//              of more columns, with a header, it is the record as a JSON object of strings, and
//              without one the text of the other columns as it stands in the file. All records have
//              as many columns as the header or the first good record. The first line is a header
//              where `header` says so, where `key_column` is a name, or where it reads exactly
//              "key,value" (what dump writes); it is not guessed from its looks, since a wrong
//              guess would lose a record.
//   tsv        The same without quotes: a line is a record, a tab separates. The escapes \t \n \r
//              \\ are undone where `escapes` says so, or where the first line is kTsvMark, which
//              dump writes; foreign files, in which a backslash is most often a backslash, are left
//              alone.
//   jsonl      A line is {"key": ..., "value": ...}, with "key_base64" and "value_base64" for bytes
//              that are no UTF-8. A value that is no string is kept as its JSON text. With
//              `key_field` the value is the object as it stands in the line, and the key is that
//              field, a string or a number.
//   directory  Each regular file below it: the key is its path from there, the value what it holds.
//              Symbolic links are not followed; they, special files and files that cannot be read
//              are bad records. A directory that dump wrote (it holds kDirectoryMark) has
//              percent-encoded names, which are decoded; others are not.
//   debian     /var/lib/dpkg/status, Packages: the value is a stanza as it stands, without the line
//              break that ends it; the key is what `dpkg --list` shows: the package's name, and ":"
//              and the architecture behind it where the stanza says "Multi-Arch: same". Only such
//              packages can be installed twice, so keys are unique in a status file, and a key does
//              not change when a second architecture comes along. A Packages file may list several
//              versions of a package: its key comes as often, and the last one stays.
//
// Threads: a reader is used by one thread. Errors: BadRecord for a record, Report for what cannot be opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/records/record.h"

#include "refract/base/report.h"

namespace refract::records {

inline constexpr std::string_view kTsvMark = R"(# refract tsv: \t \n \r \\ are escapes)";
inline constexpr std::string_view kDirectoryMark = "%refract.jsonl";

enum class Choice : uint8_t { kAuto, kYes, kNo };

struct ReadOptions {
  std::optional<Format> format;    // Else detect_format, or by content where the input is no regular file.
  std::string key_column;          // csv, tsv: a name of the header, or a number from 1.
  std::string key_field;           // jsonl: which member is the key; the whole object is the value.
  Choice header = Choice::kAuto;   // csv, tsv.
  Choice escapes = Choice::kAuto;  // tsv.
  Limits limits;
};

enum class Next : uint8_t { kRecord, kBad, kEnd };

class RecordReader {
 public:
  RecordReader() = default;
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;
  virtual ~RecordReader() = default;

  // kRecord: `record` is filled; its strings are reused, so hand in the same one each time. kBad: see bad();
  // go on. kEnd: nothing more, now and at every later call. An input that fails in the middle is a last bad
  // record.
  [[nodiscard]] virtual Next next(Record& record) noexcept = 0;

  // What was wrong; good after next() has returned kBad, until the next call.
  [[nodiscard]] const BadRecord& bad() const noexcept { return bad_; }

  // How far the reader has come, for a progress line.
  [[nodiscard]] virtual uint64_t bytes_read() const noexcept = 0;
  // The size of a regular file when it was opened; nothing for pipes and directories.
  [[nodiscard]] std::optional<uint64_t> bytes_total() const noexcept { return bytes_total_; }
  [[nodiscard]] Format format() const noexcept { return format_; }

 protected:
  BadRecord bad_;
  std::optional<uint64_t> bytes_total_;
  Format format_ = Format::kCsv;

  friend Reported<std::unique_ptr<RecordReader>> open_reader(const std::string&, const ReadOptions&);
};

// Opens `path`; "-" is the standard input. Reads the first bytes (a header without the key column fails
// here).
[[nodiscard]] Reported<std::unique_ptr<RecordReader>> open_reader(const std::string& path,
                                                                  const ReadOptions& options);

// Reads from memory, which must outlive the reader, uncovered `chunk_bytes` at a time. Not for kDirectory.
[[nodiscard]] Reported<std::unique_ptr<RecordReader>> read_bytes(std::string_view bytes,
                                                                 const ReadOptions& options,
                                                                 size_t chunk_bytes = SIZE_MAX);

// The format of an existing file or directory, by its name (.csv .tsv .tab .jsonl .ndjson), else by its
// beginning. Reports what to do where neither tells, and where the file is compressed.
[[nodiscard]] Reported<Format> detect_format(const std::string& path);

// By a file's first bytes alone; nothing where they do not tell.
[[nodiscard]] std::optional<Format> detect_content(std::string_view beginning) noexcept;

}  // namespace refract::records
