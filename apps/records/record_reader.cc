// SPDX-License-Identifier: Apache-2.0
// Opening: which format, which input.
#include "apps/records/record_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "apps/records/stream_readers.h"

namespace refract::records {
namespace {

constexpr size_t kBeginningBytes = 4096;
constexpr std::string_view kStandardInput = "standard input";

struct Packing {
  std::string_view magic;
  std::string_view program;
};
constexpr std::array<Packing, 5> kPackings = {{
    {.magic = "\x1f\x8b", .program = "zcat"},
    {.magic = "\xfd\x37zXZ", .program = "xzcat"},
    {.magic = "\x28\xb5\x2f\xfd", .program = "zstdcat"},
    {.magic = "\x04\x22\x4d\x18", .program = "lz4cat"},
    {.magic = "BZh", .program = "bzcat"},
}};

std::optional<Format> detect_name(std::string_view path) noexcept {
  struct Ending {
    std::string_view text;
    Format format;
  };
  constexpr std::array<Ending, 5> kEndings = {{{.text = ".csv", .format = Format::kCsv},
                                               {.text = ".tsv", .format = Format::kTsv},
                                               {.text = ".tab", .format = Format::kTsv},
                                               {.text = ".jsonl", .format = Format::kJsonl},
                                               {.text = ".ndjson", .format = Format::kJsonl}}};
  for (const Ending& ending : kEndings) {
    if (path.ends_with(ending.text)) return ending.format;
  }
  return std::nullopt;
}

Reported<Format> detect(std::string_view path, std::string_view beginning) {
  for (const Packing& packing : kPackings) {
    if (!beginning.starts_with(packing.magic)) continue;
    // What comes from the standard input has no name to give to the unpacking program.
    const std::string_view source = path == kStandardInput ? "FILE" : path;
    return report(Code::kUnsupported, fmt::format("{} is compressed", path),
                  fmt::format("unpack it on the way in: {} {} | refract load -", packing.program, source));
  }
  if (const std::optional<Format> format = detect_name(path)) return *format;
  if (const std::optional<Format> format = detect_content(beginning)) return *format;
  return report(Code::kInvalidArgument,
                fmt::format("cannot tell the format of {} from its name or its beginning", path),
                "say it with --format csv, tsv, jsonl or debian");
}

Reported<> check_options(Format format, const ReadOptions& options) {
  const bool table = format == Format::kCsv || format == Format::kTsv;
  const auto refuse = [&](std::string_view option, std::string_view where) {
    return report(Code::kInvalidArgument,
                  fmt::format("{} has no meaning for {}", option, format_name(format)),
                  fmt::format("leave it out; it is for {}", where));
  };
  if (!table && !options.key_column.empty()) return refuse("--key-column", "csv and tsv");
  if (format != Format::kJsonl && !options.key_field.empty()) return refuse("--key-field", "jsonl");
  return {};
}

Reported<std::unique_ptr<RecordReader>> open_stream(Input input, std::string name, Format format,
                                                    const ReadOptions& options) {
  if (auto checked = check_options(format, options); !checked) return report(std::move(checked.error()));
  switch (format) {
    case Format::kCsv:
    case Format::kTsv:
      return open_table(std::move(input), std::move(name), format, options);
    case Format::kJsonl:
      return open_jsonl(std::move(input), std::move(name), options);
    case Format::kDebian:
      return open_debian(std::move(input), std::move(name), options);
    case Format::kDirectory:
      break;
  }
  return report(Code::kInvalidArgument, fmt::format("{} is no directory", name),
                "leave out --format, or name another");
}

struct Opened {
  Descriptor file;
  struct stat status = {};
};

Reported<Opened> open_path(const std::string& path) {
  Opened opened;
  opened.file = Descriptor(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                       : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!opened.file.is_open() || ::fstat(opened.file.number(), &opened.status) != 0) {
    const int error = errno;
    return report(Code::kSystem, fmt::format("cannot read {}: {}", path, errno_text(error)),
                  error == ENOENT ? "check the path" : "");
  }
  return opened;
}

// What the input begins with; stays in it.
std::string_view beginning_of(Input& input) noexcept {
  while (input.view().size() < kBeginningBytes && input.more()) {
  }
  return input.view();
}

}  // namespace

std::optional<Format> detect_content(std::string_view beginning) noexcept {
  if (beginning.starts_with("\xef\xbb\xbf")) beginning.remove_prefix(3);
  const size_t begin = beginning.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return std::nullopt;
  if (beginning[begin] == '{') return Format::kJsonl;
  if (beginning.substr(begin).starts_with("Package:")) return Format::kDebian;
  const std::string_view line = beginning.substr(begin, beginning.find('\n', begin) - begin);
  if (line.starts_with(kTsvMark) || line.find('\t') != std::string_view::npos) return Format::kTsv;
  if (line.find(',') != std::string_view::npos) return Format::kCsv;
  return std::nullopt;
}

Reported<Format> detect_format(const std::string& path) {
  auto opened = open_path(path);
  if (!opened) return report(std::move(opened.error()));
  if (S_ISDIR(opened->status.st_mode)) return Format::kDirectory;
  // Looking into a pipe would take its bytes away from its next reader.
  if (!S_ISREG(opened->status.st_mode)) return detect(path, {});
  Input input(std::move(opened->file), kBeginningBytes);
  return detect(path, beginning_of(input));
}

Reported<std::unique_ptr<RecordReader>> open_reader(const std::string& path, const ReadOptions& options) {
  auto opened = open_path(path);
  if (!opened) return report(std::move(opened.error()));
  std::string name(path == "-" ? kStandardInput : path);
  if (S_ISDIR(opened->status.st_mode)) {
    if (options.format.value_or(Format::kDirectory) != Format::kDirectory) {
      return report(Code::kInvalidArgument,
                    fmt::format("{} is a directory, not {}", path, format_name(*options.format)));
    }
    if (auto checked = check_options(Format::kDirectory, options); !checked)
      return report(std::move(checked.error()));
    return open_directory(std::move(opened->file), std::move(name), options);
  }
  Input input(std::move(opened->file));
  Format format = options.format.value_or(Format::kCsv);
  if (!options.format) {
    const auto detected = detect(path == "-" ? kStandardInput : std::string_view(path), beginning_of(input));
    if (!detected) return report(detected.error());
    format = *detected;
  }
  auto reader = open_stream(std::move(input), std::move(name), format, options);
  if (reader && S_ISREG(opened->status.st_mode)) {
    (*reader)->bytes_total_ = static_cast<uint64_t>(opened->status.st_size);
  }
  return reader;
}

Reported<std::unique_ptr<RecordReader>> read_bytes(std::string_view bytes, const ReadOptions& options,
                                                   size_t chunk_bytes) {
  Input input(bytes, chunk_bytes);
  std::optional<Format> format = options.format;
  if (!format) format = detect_content(bytes.substr(0, kBeginningBytes));
  if (!format) return report(Code::kInvalidArgument, "cannot tell the format of these bytes");
  return open_stream(std::move(input), "memory", *format, options);
}

}  // namespace refract::records
