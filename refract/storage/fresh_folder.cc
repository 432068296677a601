// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/fresh_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "refract/storage/posix_disk.h"

namespace refract::storage {
namespace {

constexpr std::string_view kFreshSuffix = ".part";

}  // namespace

FreshFolder::FreshFolder(std::string path, std::unique_ptr<Disk> disk) noexcept
    : path_(std::move(path)), aside_(path_ + std::string(kFreshSuffix)), disk_(std::move(disk)) {}

FreshFolder::FreshFolder(FreshFolder&& other) noexcept
    : path_(std::move(other.path_)),
      aside_(std::move(other.aside_)),
      disk_(std::move(other.disk_)),
      is_finished_(std::exchange(other.is_finished_, true)) {}

Reported<FreshFolder> FreshFolder::make(const std::string& path) {
  std::string whole = path;
  while (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  std::error_code error;
  if (std::filesystem::exists(whole, error) && !std::filesystem::is_empty(whole, error)) {
    return report(Code::kExists, fmt::format("{} is there already, and not empty", whole),
                  "name a folder that is not there yet");
  }
  const std::string aside = whole + std::string(kFreshSuffix);
  if (::mkdir(aside.c_str(), 0700) != 0) {
    if (errno != EEXIST) return report_errno(errno, "make the folder", aside);
    return report(Code::kExists, fmt::format("{} is there: an earlier attempt has left it", aside),
                  "remove it, or name another folder");
  }
  auto disk = open_existing_posix_disk(aside);
  if (!disk) return report(std::move(disk).error());
  return FreshFolder(std::move(whole), *std::move(disk));
}

FreshFolder::~FreshFolder() {
  if (is_finished_) return;
  // What cannot be removed bears a name that no node opens, and the next attempt says so.
  std::error_code ignored;
  std::filesystem::remove_all(aside_, ignored);
}

Reported<> FreshFolder::finish() {
  if (auto synced = disk_->sync_folder(); !synced) return synced;
  // Replaces an empty folder, and nothing else.
  if (::rename(aside_.c_str(), path_.c_str()) != 0)
    return report_errno(errno, fmt::format("rename to '{}' the folder", path_), aside_);
  is_finished_ = true;
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  auto above = open_existing_posix_disk(parent.empty() ? "." : parent.string());
  if (!above) return report(std::move(above).error());
  return (*above)->sync_folder();
}

}  // namespace refract::storage
