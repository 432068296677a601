// SPDX-License-Identifier: Apache-2.0
// What `refract dump` stands on: writes records so that the reader of the same format gives back the same
// bytes.
//
//   csv        A header "key,value"; fields with commas, quotes or line breaks in quotes. Any
//              bytes.
//   tsv        kTsvMark, a header, and \t \n \r \\ as escapes. Any bytes.
//   jsonl      {"key": ..., "value": ...}; base64 for what is not UTF-8, or would more than double
//              by escaping.
//   directory  A file for each key, by path_names.h, and kDirectoryMark. That file takes, as JSON
//              lines, the records whose path the file system refuses: components over 255 bytes, a
//              file and a directory of one name. Nothing is written outside the directory, which
//              must be new or empty: files that another dump left would come back as records.
//   debian     The values as they are, separated by blank lines. Takes only stanzas whose key is
//              that of the reader.
//
// Threads: one. Memory: a buffer, not the value's size (only a value's own bytes are held by the caller).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "apps/records/record.h"

#include "refract/base/report.h"

namespace refract::records {

class RecordWriter {
 public:
  RecordWriter() = default;
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  virtual ~RecordWriter() = default;

  // kInvalidArgument: this record has no form in this format; nothing was written, continue with the next.
  // Any other code: the output is broken (disk full, say); give up.
  [[nodiscard]] virtual Reported<> write(std::string_view key, std::string_view value) noexcept = 0;

  // Must be called for the last bytes to arrive: what is still buffered is dropped with the writer. Nothing
  // may be written afterwards. Does not fsync(2).
  [[nodiscard]] virtual Reported<> finish() noexcept = 0;
};

struct WriteOptions {
  bool overwrite = false;  // Replace a file of this name instead of refusing. Does not empty directories.
  bool raw = false;        // Also on a terminal, where else what cannot be printed is spelled.
};

// Creates `path`; "-" is the standard output (of stream formats). Devices and pipes are opened as they are.
[[nodiscard]] Reported<std::unique_ptr<RecordWriter>> open_writer(const std::string& path, Format format,
                                                                  const WriteOptions& options = {});

// Appends to `out`, which must outlive the writer. REQUIRES: not kDirectory.
[[nodiscard]] std::unique_ptr<RecordWriter> write_to(std::string& out, Format format);

}  // namespace refract::records
