// SPDX-License-Identifier: Apache-2.0
#include "tests/disk/recorded_disk.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "refract/base/check.h"

namespace refract::test {

using storage::File;
using storage::OpenMode;
using Kind = DiskOperation::Kind;

class RecordedDisk::RecordedFile final : public File {
 public:
  RecordedFile(RecordedDisk& disk, std::unique_ptr<File> file, size_t number)
      : disk_(disk), file_(std::move(file)), number_(number) {}

  [[nodiscard]] Reported<> write(uint64_t offset, std::span<const std::byte> bytes) override {
    return disk_.add_if(
        file_->write(offset, bytes),
        {.kind = Kind::kWrite, .file = number_, .offset = offset, .bytes = {bytes.begin(), bytes.end()}});
  }
  [[nodiscard]] Reported<uint64_t> read(uint64_t offset, std::span<std::byte> bytes) override {
    return file_->read(offset, bytes);
  }
  [[nodiscard]] Reported<> sync() override {
    return disk_.add_if(file_->sync(), {.kind = Kind::kSync, .file = number_});
  }
  [[nodiscard]] Reported<> allocate(uint64_t bytes) override {
    return disk_.add_if(file_->allocate(bytes), {.kind = Kind::kAllocate, .file = number_, .offset = bytes});
  }
  [[nodiscard]] Reported<> truncate(uint64_t bytes) override {
    return disk_.add_if(file_->truncate(bytes), {.kind = Kind::kTruncate, .file = number_, .offset = bytes});
  }
  [[nodiscard]] Reported<uint64_t> bytes() override { return file_->bytes(); }
  void start_writeback(uint64_t offset, uint64_t bytes) override { file_->start_writeback(offset, bytes); }
  void drop_cached(uint64_t offset, uint64_t bytes) override { file_->drop_cached(offset, bytes); }

 private:
  RecordedDisk& disk_;
  std::unique_ptr<File> file_;
  size_t number_;
};

void RecordedDisk::add(DiskOperation operation) {
  const std::scoped_lock guard(mutex_);
  recording_.push_back(std::move(operation));
}

Reported<> RecordedDisk::add_if(Reported<> done, DiskOperation operation) {
  if (done) add(std::move(operation));
  return done;
}

Reported<std::unique_ptr<File>> RecordedDisk::open(std::string_view name, OpenMode mode) {
  const std::scoped_lock guard(folder_);
  auto file = disk_.open(name, mode);
  if (!file) return file;
  if (mode == OpenMode::kRead) return file;
  if (mode == OpenMode::kCreate) {
    names_.insert_or_assign(std::string(name), files_);
    add({.kind = Kind::kCreate, .file = files_, .name = std::string(name)});
    ++files_;
  }
  return std::make_unique<RecordedFile>(*this, *std::move(file), names_.at(std::string(name)));
}

Reported<> RecordedDisk::rename(std::string_view from, std::string_view to) {
  const std::scoped_lock guard(folder_);
  Reported<> done = disk_.rename(from, to);
  if (!done) return done;
  auto moved = names_.extract(std::string(from));
  names_.insert_or_assign(std::string(to), moved.mapped());
  add({.kind = Kind::kRename, .name = std::string(from), .to = std::string(to)});
  return done;
}

Reported<> RecordedDisk::remove(std::string_view name) {
  const std::scoped_lock guard(folder_);
  return add_if(disk_.remove(name), {.kind = Kind::kRemove, .name = std::string(name)});
}

Reported<> RecordedDisk::sync_folder() {
  const std::scoped_lock guard(folder_);
  return add_if(disk_.sync_folder(), {.kind = Kind::kSyncFolder});
}

void replay(const Recording& recording, size_t count, storage::SimulatedDisk& disk, Forgets forgets) {
  std::vector<std::unique_ptr<File>> files;
  for (size_t i = 0; i < count; ++i) {
    const DiskOperation& operation = recording[i];
    Reported<> done;
    switch (operation.kind) {
      case Kind::kCreate: {
        auto file = disk.open(operation.name, OpenMode::kCreate);
        REFRACT_CHECK(file.has_value() && files.size() == operation.file);
        files.push_back(*std::move(file));
        break;
      }
      case Kind::kWrite:
        done = files[operation.file]->write(operation.offset, operation.bytes);
        break;
      case Kind::kAllocate:
        done = files[operation.file]->allocate(operation.offset);
        break;
      case Kind::kTruncate:
        done = files[operation.file]->truncate(operation.offset);
        break;
      case Kind::kSync:
        if (!forgets.syncs) done = files[operation.file]->sync();
        break;
      case Kind::kRename:
        done = disk.rename(operation.name, operation.to);
        break;
      case Kind::kRemove:
        done = disk.remove(operation.name);
        break;
      case Kind::kSyncFolder:
        if (!forgets.folder_syncs) done = disk.sync_folder();
        break;
      case Kind::kNote:
        break;
    }
    REFRACT_CHECK(done.has_value());
  }
}

void copy_to_folder(storage::SimulatedDisk& disk, const std::string& folder) {
  namespace fs = std::filesystem;
  fs::remove_all(folder);
  fs::create_directory(folder);
  const auto names = disk.list();
  REFRACT_CHECK(names.has_value());
  for (const std::string& name : *names) {
    const std::vector<std::byte> bytes = disk.bytes_of(name);
    std::ofstream file(fs::path(folder) / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    REFRACT_CHECK(!file.fail());
  }
}

}  // namespace refract::test
