// SPDX-License-Identifier: Apache-2.0
#include "apps/records/record_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/records/csv_text.h"
#include "apps/records/debian_text.h"
#include "apps/records/json_text.h"
#include "apps/records/record_reader.h"
#include "apps/records/shown_text.h"
#include "apps/records/stream_writers.h"

#include "refract/base/check.h"
#include "refract/documents/json.h"

namespace refract::records {
namespace {

constexpr auto kVerbatim = [](std::string& out, std::string_view piece) { out.append(piece); };

class StreamWriter : public RecordWriter {
 public:
  explicit StreamWriter(Output output) noexcept : output_(std::move(output)) {}

  [[nodiscard]] Reported<> write(std::string_view key, std::string_view value) noexcept override {
    if (key.empty()) return report(Code::kInvalidArgument, "a record without a key cannot be written");
    if (auto accepted = accept(key, value); !accepted) return accepted;
    put(key, value);
    output_.settle();
    return output_.status();
  }
  [[nodiscard]] Reported<> finish() noexcept override { return output_.finish(); }

 protected:
  [[nodiscard]] virtual Reported<> accept(std::string_view, std::string_view) { return {}; }
  virtual void put(std::string_view key, std::string_view value) = 0;

  Output output_;
};

class CsvWriter final : public StreamWriter {
 public:
  explicit CsvWriter(Output output) : StreamWriter(std::move(output)) {
    output_.text().append("key,value\n");
  }

 private:
  void put_field(std::string_view field) {
    if (!csv_needs_quotes(field)) return output_.put(field, kVerbatim);
    output_.text().push_back('"');
    output_.put(field, append_csv_quoted);
    output_.text().push_back('"');
  }
  void put(std::string_view key, std::string_view value) override {
    put_field(key);
    output_.text().push_back(',');
    put_field(value);
    output_.text().push_back('\n');
  }
};

class TsvWriter final : public StreamWriter {
 public:
  explicit TsvWriter(Output output) : StreamWriter(std::move(output)) {
    output_.text().append(kTsvMark).append("\nkey\tvalue\n");
  }

 private:
  void put(std::string_view key, std::string_view value) override {
    output_.put(key, append_tsv_escaped);
    output_.text().push_back('\t');
    output_.put(value, append_tsv_escaped);
    output_.text().push_back('\n');
  }
};

class JsonlWriter final : public StreamWriter {
 public:
  using StreamWriter::StreamWriter;

 private:
  void put_member(std::string_view name, std::string_view content) {
    // Control characters take six bytes each; base64 bounds what a reader must hold for one record.
    const bool text = is_utf8(content) && documents::escaped_bytes(content) <= 2 * content.size();
    output_.text().append("\"").append(name).append(text ? "\":\"" : "_base64\":\"");
    if (text) {
      output_.put(content, documents::append_escaped);
    } else {
      output_.put(content, append_base64);
    }
    output_.text().push_back('"');
  }
  void put(std::string_view key, std::string_view value) override {
    output_.text().push_back('{');
    put_member("key", key);
    output_.text().push_back(',');
    put_member("value", value);
    output_.text().append("}\n");
  }
};

class DebianWriter final : public StreamWriter {
 public:
  using StreamWriter::StreamWriter;

 private:
  Reported<> accept(std::string_view key, std::string_view value) override {
    if (!stanza_key(value, key_, fault_)) {
      return report(Code::kInvalidArgument,
                    fmt::format("the value of {} is no package stanza: {}", in_quotes(key), fault_.what),
                    "dump with --format jsonl, csv, tsv or directory");
    }
    if (key_ == key) return {};
    return report(Code::kInvalidArgument,
                  fmt::format("the stanza at {} would be read back as {}", in_quotes(key), in_quotes(key_)),
                  "dump with --format jsonl, csv, tsv or directory");
  }
  void put(std::string_view, std::string_view value) override {
    output_.put(value, kVerbatim);
    output_.text().append("\n\n");
  }

  std::string key_;
  StanzaFault fault_;
};

Reported<std::unique_ptr<RecordWriter>> open_directory_writer(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    return report(Code::kSystem, fmt::format("cannot make the directory {}: {}", path, errno_text(errno)));
  }
  Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) {
    return report(Code::kSystem, fmt::format("cannot open the directory {}: {}", path, errno_text(errno)));
  }
  return directory_writer(std::move(directory), path);
}

}  // namespace

std::unique_ptr<RecordWriter> stream_writer(Output output, Format format) {
  switch (format) {
    case Format::kCsv:
      return std::make_unique<CsvWriter>(std::move(output));
    case Format::kTsv:
      return std::make_unique<TsvWriter>(std::move(output));
    case Format::kJsonl:
      return std::make_unique<JsonlWriter>(std::move(output));
    case Format::kDebian:
      return std::make_unique<DebianWriter>(std::move(output));
    case Format::kDirectory:
      break;
  }
  REFRACT_CHECK(format != Format::kDirectory);
  return nullptr;
}

Reported<std::unique_ptr<RecordWriter>> open_writer(const std::string& path, Format format,
                                                    const WriteOptions& options) {
  if (path == "-") {
    if (format == Format::kDirectory) {
      return report(Code::kInvalidArgument, "a directory cannot be written to the standard output",
                    "name a directory with --output");
    }
    Descriptor standard(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    const bool is_terminal = !options.raw && ::isatty(STDOUT_FILENO) == 1;
    return stream_writer(Output(std::move(standard), "the standard output", is_terminal), format);
  }
  if (format == Format::kDirectory) return open_directory_writer(path);
  struct stat status = {};
  const bool special = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  const int creation = special ? 0 : options.overwrite ? O_CREAT | O_TRUNC : O_CREAT | O_EXCL;
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | creation, 0666));
  if (!file.is_open()) {
    const int error = errno;
    return report(error == EEXIST ? Code::kExists : Code::kSystem,
                  fmt::format("cannot write {}: {}", path, errno_text(error)),
                  error == EEXIST ? "choose another name, or replace it with --overwrite" : "");
  }
  return stream_writer(Output(std::move(file), path), format);
}

std::unique_ptr<RecordWriter> write_to(std::string& out, Format format) {
  return stream_writer(Output(out), format);
}

}  // namespace refract::records
