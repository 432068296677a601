// SPDX-License-Identifier: Apache-2.0
// A Disk that writes down what is done to it, so that a test can let the host die between any two of these
// operations, long after they were made.
//
//   RecordedDisk disk(real_disk);     work on it, with as many threads as the real one may have
//   disk.note(...)                    what a caller was promised at this point
//   Replay replay(disk.recording());  a SimulatedDisk on which the first n operations are made again
//
// A sync counts from the moment at which it has returned; what other threads did to the folder waits
// meanwhile, so that no change is taken for confirmed by a sync_folder() that began before it.
//
// Threads: any, as of every Disk.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/storage/disk.h"
#include "refract/storage/testing/simulated_disk.h"

namespace refract::test {

// What a shard's log had confirmed, and how many changes the shard had made.
struct Promise {
  uint64_t shard = 0;
  uint64_t synced_position = 0;
  uint64_t changes = 0;
};

struct DiskOperation {
  enum class Kind : uint8_t {
    kCreate,
    kWrite,
    kAllocate,
    kTruncate,
    kSync,
    kRename,
    kRemove,
    kSyncFolder,
    kNote
  };
  Kind kind = Kind::kNote;
  size_t file = 0;                    // Numbered as they were made.
  uint64_t offset = 0;                // Of a write; of kAllocate and kTruncate how many bytes.
  std::vector<std::byte> bytes = {};  // Of a write.
  std::string name = {};
  std::string to = {};  // Of a renaming.
  Promise promise = {};
};
using Recording = std::vector<DiskOperation>;

class RecordedDisk final : public storage::Disk {
 public:
  // The folder is empty, and the disk outlives this.
  explicit RecordedDisk(storage::Disk& disk) : disk_(disk) {}

  [[nodiscard]] Reported<std::unique_ptr<storage::File>> open(std::string_view name,
                                                              storage::OpenMode mode) override;
  [[nodiscard]] Reported<> rename(std::string_view from, std::string_view to) override;
  [[nodiscard]] Reported<> remove(std::string_view name) override;
  [[nodiscard]] Reported<> sync_folder() override;
  [[nodiscard]] Reported<std::vector<std::string>> list() override { return disk_.list(); }
  [[nodiscard]] Reported<std::unique_ptr<storage::Lock>> lock(std::string_view name) override {
    return disk_.lock(name);
  }
  [[nodiscard]] std::string path_of(std::string_view name) const override { return disk_.path_of(name); }

  void note(const Promise& promise) { add({.promise = promise}); }
  // REQUIRES: no thread works on the disk any more.
  [[nodiscard]] const Recording& recording() const noexcept { return recording_; }

 private:
  class RecordedFile;

  void add(DiskOperation operation);
  Reported<> add_if(Reported<> done, DiskOperation operation);

  storage::Disk& disk_;
  std::mutex folder_;  // Held over each operation on the folder; taken before the other one.
  std::mutex mutex_;   // Over the recording.
  std::map<std::string, size_t, std::less<>> names_;  // Of the files that there are.
  size_t files_ = 0;
  Recording recording_;
};

// What a disk did that forgot something, to see that it would be found out.
struct Forgets {
  bool syncs = false;
  bool folder_syncs = false;
};

// The first `count` operations, made on a disk that may keep as little as a disk may. Nothing else has been
// done to it.
void replay(const Recording& recording, size_t count, storage::SimulatedDisk& disk, Forgets forgets = {});

// All files of the disk, in a folder of the real file system, which is emptied before.
void copy_to_folder(storage::SimulatedDisk& disk, const std::string& folder);

}  // namespace refract::test
