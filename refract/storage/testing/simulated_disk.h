// SPDX-License-Identifier: Apache-2.0
// For tests: a Disk in memory that keeps no more than a Disk must (disk.h, D1 to D5), and fails on demand.
//
// crash() is a host that loses power: of what was written since a file's last sync any subset of sectors
// survives, of the folder's changes any prefix. A failed sync forgets what it should have written, and the
// next one succeeds. The same seed and the same calls give the same bytes.
//
// Files opened before a crash are of no use behind it: every call on them fails. A process that dies without
// its host needs no call here: drop the files, and open them again.
//
// Threads: any; but only one at a time gives the same bytes again.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/storage/disk.h"

namespace refract::storage {

class SimulatedDisk final : public Disk {
 public:
  struct Options {
    uint64_t seed = 1;
    uint64_t capacity_bytes = UINT64_MAX;  // What all files together may take.
    double sync_failure_chance = 0;
    ManualClock* clock = nullptr;  // Moved by what the calls take, where there is one.
    uint64_t sync_ns = 0;
    uint64_t write_ns = 0;
  };

  explicit SimulatedDisk(const Options& options) : options_(options), chance_(options.seed) {}

  [[nodiscard]] Reported<std::unique_ptr<File>> open(std::string_view name, OpenMode mode) override;
  [[nodiscard]] Reported<> rename(std::string_view from, std::string_view to) override;
  [[nodiscard]] Reported<> remove(std::string_view name) override;
  [[nodiscard]] Reported<> sync_folder() override;
  [[nodiscard]] Reported<std::vector<std::string>> list() override;
  [[nodiscard]] Reported<std::unique_ptr<Lock>> lock(std::string_view name) override;
  [[nodiscard]] std::string path_of(std::string_view name) const override;

  // The host loses power and comes up again.
  void crash();
  // The power goes at the `operations`-th change from now (1: the next one), which may be half done; every
  // call fails from then on, until crash().
  void die_at(uint64_t operations);
  [[nodiscard]] bool is_dead();
  // Writes, syncs, allocations and changes of the folder so far.
  [[nodiscard]] uint64_t operations();

  void fail_next_syncs(uint64_t count);
  void set_capacity(uint64_t bytes);
  void set_sync_failure_chance(double chance);

  // Of a file that exists: what it holds now, and a change that no sync undoes.
  [[nodiscard]] std::vector<std::byte> bytes_of(std::string_view name);
  void flip_bit(std::string_view name, uint64_t bit);
  void replace(std::string_view name, std::span<const std::byte> bytes);

 private:
  friend class SimulatedFile;
  friend class SimulatedLock;

  struct Inode {
    std::vector<std::byte> cached;   // What every process of the host sees.
    std::vector<std::byte> durable;  // What is certain to be there after a crash.
    std::set<uint64_t> dirty;        // Sectors in which the two may differ.
  };
  // A change of the folder that no sync_folder() has confirmed. No name: that end does not exist.
  struct FolderChange {
    std::string removed;
    std::string added;
    size_t inode = 0;
  };
  using Names = std::map<std::string, size_t, std::less<>>;

  [[nodiscard]] Reported<> begin_change(std::string_view path);
  [[nodiscard]] std::optional<size_t> find(std::string_view name) const;
  [[nodiscard]] uint64_t used_bytes_beside(const Inode& without) const;
  [[nodiscard]] Reported<> grow(Inode& inode, uint64_t bytes, std::string_view path);
  void keep_some(Inode& inode, double share);
  void change_folder(FolderChange change);
  static void apply(Names& names, const FolderChange& change);
  [[nodiscard]] std::unexpected<Report> dead(std::string_view path) const;

  std::mutex mutex_;
  Options options_;
  Prng chance_;
  std::deque<Inode> inodes_;
  Names names_;
  Names durable_names_;
  std::vector<FolderChange> unsynced_;
  std::set<std::string, std::less<>> locks_;
  uint64_t boots_ = 0;  // Files of an earlier boot are dead.
  uint64_t operations_ = 0;
  uint64_t dies_at_ = UINT64_MAX;
  uint64_t failing_syncs_ = 0;
  bool dead_ = false;
};

}  // namespace refract::storage
