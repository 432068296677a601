// SPDX-License-Identifier: Apache-2.0
// A folder that is there with everything in it, or not at all: its files are made in one beside it, named
// "FOLDER.part", which gets its own name when all of it is on the disk.
//
// Threads: one. Control path.
#pragma once

#include <memory>
#include <string>

#include "refract/base/report.h"
#include "refract/storage/disk.h"

namespace refract::storage {

class FreshFolder {
 public:
  // kExists: there is something under this name already, or what an earlier attempt left beside it. A folder
  // that is empty counts as none.
  [[nodiscard]] static Reported<FreshFolder> make(const std::string& path);
  FreshFolder(const FreshFolder&) = delete;
  FreshFolder& operator=(const FreshFolder&) = delete;
  FreshFolder(FreshFolder&& other) noexcept;
  FreshFolder& operator=(FreshFolder&&) = delete;
  // Removes what was made, unless it was finished.
  ~FreshFolder();

  [[nodiscard]] Disk& disk() noexcept { return *disk_; }
  // REQUIRES: every file in it was synced. Once this has returned without error, the folder is there.
  [[nodiscard]] Reported<> finish();

 private:
  FreshFolder(std::string path, std::unique_ptr<Disk> disk) noexcept;

  std::string path_;
  std::string aside_;
  std::unique_ptr<Disk> disk_;
  bool is_finished_ = false;
};

}  // namespace refract::storage
