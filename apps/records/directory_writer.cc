// SPDX-License-Identifier: Apache-2.0
// A file for each key. Every step down is an openat(2) that follows no link, from a directory that was empty.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "apps/records/path_names.h"
#include "apps/records/record_reader.h"
#include "apps/records/stream_writers.h"

namespace refract::records {
namespace {

// Deeper or longer paths are legal, but no tool likes them, and each level costs the reader a descriptor.
constexpr std::ptrdiff_t kWrittenDepthMax = 64;
constexpr size_t kPathBytesMax = 3000;

// The file system cannot take this path, whatever the value; the overflow file can.
bool is_refusal_of_path(int error) noexcept {
  return error == ENOTDIR || error == EISDIR || error == ENAMETOOLONG || error == EILSEQ || error == EINVAL ||
         error == ELOOP;
}

class DirectoryWriter final : public RecordWriter {
 public:
  DirectoryWriter(Descriptor root, std::string name, std::unique_ptr<RecordWriter> overflow) noexcept
      : root_(std::move(root)), name_(std::move(name)), overflow_(std::move(overflow)) {}

  [[nodiscard]] Reported<> write(std::string_view key, std::string_view value) noexcept override;
  [[nodiscard]] Reported<> finish() noexcept override { return overflow_->finish(); }

 private:
  int parent_of_path() noexcept;
  [[nodiscard]] Reported<> failed(int error) const;

  Descriptor root_;
  std::string name_;
  std::unique_ptr<RecordWriter> overflow_;
  std::string path_;
  std::string parent_path_;  // Where parent_ is, since neighbours often come together.
  Descriptor parent_;
};

Reported<> DirectoryWriter::failed(int error) const {
  return report(Code::kSystem, fmt::format("cannot write {}/{}: {}", name_, path_, errno_text(error)),
                error == ENOSPC ? "make room, or write elsewhere" : "");
}

// A descriptor of the directory that path_ lies in, made where it is not there; -1 with errno.
int DirectoryWriter::parent_of_path() noexcept {
  const size_t last = path_.rfind('/');
  if (last == std::string::npos) return root_.number();
  const std::string_view wanted = std::string_view(path_).substr(0, last);
  if (parent_.is_open() && parent_path_ == wanted) return parent_.number();
  Descriptor at;
  for (size_t begin = 0; begin <= last;) {
    const size_t end = path_.find('/', begin);
    const std::string component = path_.substr(begin, end - begin);
    const int above = at.is_open() ? at.number() : root_.number();
    if (::mkdirat(above, component.c_str(), 0777) != 0 && errno != EEXIST) return -1;
    Descriptor below(::openat(above, component.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!below.is_open()) return -1;
    at = std::move(below);
    begin = end + 1;
  }
  parent_ = std::move(at);
  parent_path_ = wanted;
  return parent_.number();
}

Reported<> DirectoryWriter::write(std::string_view key, std::string_view value) noexcept {
  if (key.empty()) return report(Code::kInvalidArgument, "a record without a key cannot be written");
  key_to_path(key, path_);
  if (path_.size() > kPathBytesMax || std::ranges::count(path_, '/') >= kWrittenDepthMax)
    return overflow_->write(key, value);
  const int parent = parent_of_path();
  if (parent < 0) return is_refusal_of_path(errno) ? overflow_->write(key, value) : failed(errno);
  const size_t slash = path_.rfind('/');
  const char* name = path_.c_str() + (slash == std::string::npos ? 0 : slash + 1);
  Descriptor file(::openat(parent, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.is_open()) return is_refusal_of_path(errno) ? overflow_->write(key, value) : failed(errno);
  while (!value.empty()) {
    const ssize_t put = ::write(file.number(), value.data(), value.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed(errno);
    value.remove_prefix(static_cast<size_t>(put));
  }
  if (file.close() != 0) return failed(errno);
  return {};
}

// Nothing, or the name of something that is there already.
Reported<std::string> first_entry(int directory, const std::string& name) {
  Descriptor own(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* stream = own.is_open() ? ::fdopendir(own.number()) : nullptr;
  if (stream == nullptr) {
    return report(Code::kSystem, fmt::format("cannot read the directory {}: {}", name, errno_text(errno)));
  }
  (void)own.release();
  std::string found;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view text = entry->d_name;
    if (text != "." && text != "..") found = text;
  }
  ::closedir(stream);
  return found;
}

}  // namespace

Reported<std::unique_ptr<RecordWriter>> directory_writer(Descriptor directory, std::string name) {
  const auto entry = first_entry(directory.number(), name);
  if (!entry) return report(entry.error());
  if (!entry->empty()) {
    return report(Code::kExists, fmt::format("the directory {} is not empty: it holds {}", name, *entry),
                  "choose a new directory, or empty this one");
  }
  const std::string mark(kDirectoryMark);
  Descriptor file(::openat(directory.number(), mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    return report(Code::kSystem, fmt::format("cannot write {}/{}: {}", name, mark, errno_text(errno)));
  }
  auto overflow = stream_writer(Output(std::move(file), fmt::format("{}/{}", name, mark)), Format::kJsonl);
  return std::make_unique<DirectoryWriter>(std::move(directory), std::move(name), std::move(overflow));
}

}  // namespace refract::records
