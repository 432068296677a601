// SPDX-License-Identifier: Apache-2.0
// A directory of files. Memory is bounded by the depth, since names are taken as readdir(3) gives them,
// unsorted.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "apps/records/path_names.h"
#include "apps/records/stream_readers.h"

namespace refract::records {
namespace {

// One descriptor a level. Twice as deep as what the writer makes.
constexpr size_t kDepthMax = 128;

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

struct Level {
  std::unique_ptr<DIR, CloseDirectory> directory;
  size_t path_bytes;  // How much of the path leads here, with the slash behind it.
};

class DirectoryReader final : public RecordReader {
 public:
  DirectoryReader(std::string name, const ReadOptions& options) noexcept
      : root_(std::move(name)), limits_(options.limits) {
    format_ = Format::kDirectory;
    while (root_.size() > 1 && root_.ends_with('/')) root_.pop_back();
  }

  [[nodiscard]] Next next(Record& record) noexcept override;
  [[nodiscard]] uint64_t bytes_read() const noexcept override {
    return bytes_read_ + (overflow_ ? overflow_->bytes_read() : 0);
  }
  void open(Descriptor directory, const ReadOptions& options) noexcept;

 private:
  enum class Step : uint8_t { kRecord, kBad, kNothing };

  Step enter(int parent) noexcept;
  Step visit(const char* name, Record& record) noexcept;
  Step take(int parent, const char* name, Record& record) noexcept;
  Step read_all(int file, uint64_t bytes, std::string& value) noexcept;
  Step complain(std::string what, std::string expected) noexcept;
  bool push(Descriptor directory) noexcept;

  std::string root_;
  std::string path_;     // Below the root.
  std::string display_;  // The root and path_.
  Limits limits_;
  std::vector<Level> levels_;
  std::unique_ptr<RecordReader>
      overflow_;  // Of a directory that dump wrote: the keys that no path could take.
  uint64_t bytes_read_ = 0;
};

DirectoryReader::Step DirectoryReader::complain(std::string what, std::string expected) noexcept {
  bad_ = {.file = display_, .line = 0, .what = std::move(what), .expected = std::move(expected)};
  return Step::kBad;
}

bool DirectoryReader::push(Descriptor directory) noexcept {
  DIR* stream = ::fdopendir(directory.number());
  if (stream == nullptr) return false;
  (void)directory.release();
  levels_.push_back({.directory = std::unique_ptr<DIR, CloseDirectory>(stream), .path_bytes = path_.size()});
  return true;
}

void DirectoryReader::open(Descriptor directory, const ReadOptions& options) noexcept {
  Descriptor mark(::openat(directory.number(), std::string(kDirectoryMark).c_str(),
                           O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (mark.is_open()) {
    ReadOptions inner;
    inner.limits = options.limits;
    overflow_ = open_jsonl(Input(std::move(mark)), fmt::format("{}/{}", root_, kDirectoryMark), inner);
  }
  (void)push(std::move(directory));
}

DirectoryReader::Step DirectoryReader::enter(int parent) noexcept {
  const size_t slash = path_.rfind('/');
  const std::string name = path_.substr(slash == std::string::npos ? 0 : slash + 1);
  if (levels_.size() >= kDepthMax) {
    return complain("the directory is nested too deep", fmt::format("at most {} levels", kDepthMax));
  }
  Descriptor directory(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.is_open()) return complain("the directory cannot be read: " + errno_text(errno), "");
  path_.push_back('/');
  if (!push(std::move(directory))) return complain("the directory cannot be read: " + errno_text(errno), "");
  return Step::kNothing;
}

// The size is only a hint: files grow and shrink, and those of /proc say 0.
DirectoryReader::Step DirectoryReader::read_all(int file, uint64_t bytes, std::string& value) noexcept {
  value.resize(bytes + 1);
  size_t have = 0;
  for (;;) {
    const ssize_t got = ::read(file, value.data() + have, value.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return complain("the file cannot be read: " + errno_text(errno), "");
    have += static_cast<size_t>(got);
    bytes_read_ += static_cast<uint64_t>(got);
    if (got == 0) break;
    if (have > limits_.value_bytes_max) {
      return complain("the file grew while it was read",
                      fmt::format("at most {} bytes", limits_.value_bytes_max));
    }
    if (have == value.size()) value.resize(std::min<uint64_t>(2 * have + 4096, limits_.value_bytes_max + 1));
  }
  value.resize(have);
  return Step::kRecord;
}

DirectoryReader::Step DirectoryReader::take(int parent, const char* name, Record& record) noexcept {
  // O_NONBLOCK, since what was a file a moment ago may be a pipe by now, and opening one waits for its
  // writer.
  const Descriptor file(::openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.is_open()) return complain("the file cannot be read: " + errno_text(errno), "");
  struct stat status = {};
  if (::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return complain("it is no longer a regular file", "a regular file");
  }
  const auto bytes = static_cast<uint64_t>(status.st_size);
  if (bytes > limits_.value_bytes_max) {
    return complain(fmt::format("the file has {} bytes", bytes),
                    fmt::format("at most {}", limits_.value_bytes_max));
  }
  if (overflow_ == nullptr) {
    record.key = path_;
  } else if (!path_to_key(path_, record.key)) {
    return complain("the name has a % without two hexadecimal digits",
                    fmt::format("the names that dump writes, since {} is here", kDirectoryMark));
  }
  if (record.key.size() > limits_.key_bytes_max) {
    return complain(fmt::format("the key has {} bytes", record.key.size()),
                    fmt::format("at most {}", limits_.key_bytes_max));
  }
  record.place = {.file = display_, .line = 0};
  return read_all(file.number(), bytes, record.value);
}

DirectoryReader::Step DirectoryReader::visit(const char* name, Record& record) noexcept {
  const int parent = ::dirfd(levels_.back().directory.get());
  path_.resize(levels_.back().path_bytes);
  path_.append(name);
  display_ = fmt::format("{}/{}", root_, path_);
  struct stat status = {};
  if (::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return complain("the file cannot be read: " + errno_text(errno), "");
  }
  if (S_ISDIR(status.st_mode)) return enter(parent);
  if (S_ISREG(status.st_mode)) return take(parent, name, record);
  return complain(
      S_ISLNK(status.st_mode) ? "it is a symbolic link, which is not followed" : "it is a special file",
      "regular files");
}

Next DirectoryReader::next(Record& record) noexcept {
  while (!levels_.empty()) {
    errno = 0;
    const dirent* entry = ::readdir(levels_.back().directory.get());
    if (entry == nullptr) {
      const int error = errno;
      path_.resize(levels_.back().path_bytes);
      levels_.pop_back();
      if (error == 0) continue;
      display_ = fmt::format("{}/{}", root_, path_);
      complain("the directory cannot be read to its end: " + errno_text(error), "");
      return Next::kBad;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || (overflow_ && levels_.size() == 1 && name == kDirectoryMark)) continue;
    switch (visit(entry->d_name, record)) {
      case Step::kRecord:
        return Next::kRecord;
      case Step::kBad:
        return Next::kBad;
      case Step::kNothing:
        break;
    }
  }
  if (overflow_ == nullptr) return Next::kEnd;
  const Next step = overflow_->next(record);
  if (step == Next::kBad) bad_ = overflow_->bad();
  return step;
}

}  // namespace

std::unique_ptr<RecordReader> open_directory(Descriptor directory, std::string name,
                                             const ReadOptions& options) {
  auto reader = std::make_unique<DirectoryReader>(std::move(name), options);
  reader->open(std::move(directory), options);
  return reader;
}

}  // namespace refract::records
