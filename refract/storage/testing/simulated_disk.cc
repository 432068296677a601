// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/testing/simulated_disk.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"

namespace refract::storage {

class SimulatedFile final : public File {
 public:
  SimulatedFile(SimulatedDisk& disk, size_t inode, std::string path, bool writable)
      : disk_(disk), path_(std::move(path)), inode_(inode), boot_(disk.boots_), writable_(writable) {}

  [[nodiscard]] Reported<> write(uint64_t offset, std::span<const std::byte> bytes) override {
    const std::scoped_lock guard(disk_.mutex_);
    if (Reported<> begun = begin_change(); !begun) return begun;
    if (disk_.options_.clock != nullptr) disk_.options_.clock->advance_ns(disk_.options_.write_ns);
    SimulatedDisk::Inode& inode = disk_.inodes_[inode_];
    if (offset + bytes.size() > inode.cached.size()) {
      if (Reported<> grown = disk_.grow(inode, offset + bytes.size(), path_); !grown) return grown;
    }
    std::ranges::copy(bytes, inode.cached.begin() + static_cast<ptrdiff_t>(offset));
    for (uint64_t at = offset / kSectorBytes * kSectorBytes; at < offset + bytes.size(); at += kSectorBytes) {
      inode.dirty.insert(at / kSectorBytes);
    }
    if (disk_.dead_) return disk_.dead(path_);
    return {};
  }

  [[nodiscard]] Reported<uint64_t> read(uint64_t offset, std::span<std::byte> bytes) override {
    const std::scoped_lock guard(disk_.mutex_);
    if (is_lost()) return disk_.dead(path_);
    const std::vector<std::byte>& cached = disk_.inodes_[inode_].cached;
    if (offset >= cached.size()) return 0;
    const uint64_t count = std::min<uint64_t>(bytes.size(), cached.size() - offset);
    std::copy_n(cached.begin() + static_cast<ptrdiff_t>(offset), count, bytes.begin());
    return count;
  }

  [[nodiscard]] Reported<> sync() override {
    const std::scoped_lock guard(disk_.mutex_);
    if (Reported<> begun = begin_change(); !begun) return begun;
    if (disk_.options_.clock != nullptr) disk_.options_.clock->advance_ns(disk_.options_.sync_ns);
    SimulatedDisk::Inode& inode = disk_.inodes_[inode_];
    if (disk_.dead_) {
      disk_.keep_some(inode, 0.5);
      return disk_.dead(path_);
    }
    if (disk_.failing_syncs_ > 0 || disk_.chance_.chance(disk_.options_.sync_failure_chance)) {
      if (disk_.failing_syncs_ > 0) --disk_.failing_syncs_;
      disk_.keep_some(inode, 0.5);
      // Clean for the kernel from now on, though the medium never got the rest.
      inode.dirty.clear();
      return report(Code::kSystem, fmt::format("cannot bring to the disk {}: Input/output error", path_),
                    "the disk fails: see dmesg, and replace it");
    }
    // Only what is dirty: what a failed sync forgot stays forgotten.
    disk_.keep_some(inode, 1);
    inode.durable.resize(inode.cached.size());
    inode.dirty.clear();
    return {};
  }

  [[nodiscard]] Reported<> allocate(uint64_t bytes) override {
    const std::scoped_lock guard(disk_.mutex_);
    if (Reported<> begun = begin_change(); !begun) return begun;
    SimulatedDisk::Inode& inode = disk_.inodes_[inode_];
    if (bytes > inode.cached.size()) {
      if (Reported<> grown = disk_.grow(inode, bytes, path_); !grown) return grown;
    }
    if (disk_.dead_) return disk_.dead(path_);
    return {};
  }

  [[nodiscard]] Reported<> truncate(uint64_t bytes) override {
    const std::scoped_lock guard(disk_.mutex_);
    if (Reported<> begun = begin_change(); !begun) return begun;
    SimulatedDisk::Inode& inode = disk_.inodes_[inode_];
    inode.cached.resize(bytes);
    inode.dirty.insert(bytes / kSectorBytes);
    if (disk_.dead_) return disk_.dead(path_);
    return {};
  }

  [[nodiscard]] Reported<uint64_t> bytes() override {
    const std::scoped_lock guard(disk_.mutex_);
    if (is_lost()) return disk_.dead(path_);
    return disk_.inodes_[inode_].cached.size();
  }

  void start_writeback(uint64_t, uint64_t) override {
    const std::scoped_lock guard(disk_.mutex_);
    // Brings nothing that a crash would be bound to find: that is what makes it a hint.
    if (!is_lost()) disk_.keep_some(disk_.inodes_[inode_], 0.25);
  }

  [[nodiscard]] Reported<> finish_writeback(uint64_t, uint64_t) override {
    const std::scoped_lock guard(disk_.mutex_);
    if (is_lost()) return disk_.dead(path_);
    return {};
  }

  void drop_cached(uint64_t, uint64_t) override {}

 private:
  [[nodiscard]] bool is_lost() const { return disk_.dead_ || boot_ != disk_.boots_; }
  [[nodiscard]] Reported<> begin_change() {
    if (boot_ != disk_.boots_) return disk_.dead(path_);
    if (!writable_) return report(Code::kAccessDenied, fmt::format("{} was opened for reading", path_));
    return disk_.begin_change(path_);
  }

  SimulatedDisk& disk_;
  std::string path_;
  size_t inode_;
  uint64_t boot_;
  bool writable_;
};

class SimulatedLock final : public Lock {
 public:
  SimulatedLock(SimulatedDisk& disk, std::string_view name) : disk_(disk), name_(name), boot_(disk.boots_) {}
  SimulatedLock(const SimulatedLock&) = delete;
  SimulatedLock& operator=(const SimulatedLock&) = delete;
  ~SimulatedLock() override {
    const std::scoped_lock guard(disk_.mutex_);
    if (boot_ == disk_.boots_) disk_.locks_.erase(name_);
  }

 private:
  SimulatedDisk& disk_;
  std::string name_;
  uint64_t boot_;
};

std::unexpected<Report> SimulatedDisk::dead(std::string_view path) const {
  return report(Code::kSystem, fmt::format("cannot reach {}: the host has lost power", path));
}

// The change at which the power goes is still made, as far as crash() leaves it.
Reported<> SimulatedDisk::begin_change(std::string_view path) {
  if (dead_) return dead(path);
  ++operations_;
  if (operations_ >= dies_at_) dead_ = true;
  return {};
}

std::optional<size_t> SimulatedDisk::find(std::string_view name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return std::nullopt;
  return found->second;
}

uint64_t SimulatedDisk::used_bytes_beside(const Inode& without) const {
  uint64_t total = 0;
  for (const auto& [name, inode] : names_) {
    if (&inodes_[inode] != &without) total += inodes_[inode].cached.size();
  }
  return total;
}

Reported<> SimulatedDisk::grow(Inode& inode, uint64_t bytes, std::string_view path) {
  if (used_bytes_beside(inode) + bytes > options_.capacity_bytes) {
    return report(Code::kNoSpace,
                  fmt::format("cannot take {} bytes for {}: No space left on device", bytes, path),
                  "make room on that file system (df -h, df -i)");
  }
  const uint64_t before = inode.cached.size();
  inode.cached.resize(bytes);
  for (uint64_t sector = before / kSectorBytes; sector * kSectorBytes < bytes; ++sector) {
    inode.dirty.insert(sector);
  }
  return {};
}

// Each dirty sector reaches the medium with this probability. It stays dirty: it may still be written again.
void SimulatedDisk::keep_some(Inode& inode, double share) {
  for (const uint64_t sector : inode.dirty) {
    if (!chance_.chance(share)) continue;
    const uint64_t from = sector * kSectorBytes;
    const uint64_t to = std::min<uint64_t>(from + kSectorBytes, inode.cached.size());
    if (from >= to) continue;
    if (inode.durable.size() < to) inode.durable.resize(to);
    std::copy(inode.cached.begin() + static_cast<ptrdiff_t>(from),
              inode.cached.begin() + static_cast<ptrdiff_t>(to),
              inode.durable.begin() + static_cast<ptrdiff_t>(from));
  }
}

void SimulatedDisk::apply(Names& names, const FolderChange& change) {
  if (!change.removed.empty()) names.erase(change.removed);
  if (!change.added.empty()) names.insert_or_assign(change.added, change.inode);
}

void SimulatedDisk::change_folder(FolderChange change) {
  apply(names_, change);
  unsynced_.push_back(std::move(change));
}

Reported<std::unique_ptr<File>> SimulatedDisk::open(std::string_view name, OpenMode mode) {
  const std::scoped_lock guard(mutex_);
  if (dead_) return dead(path_of(name));
  const std::optional<size_t> found = find(name);
  if (mode == OpenMode::kCreate) {
    if (found) return report(Code::kExists, fmt::format("cannot make {}: File exists", path_of(name)));
    if (Reported<> begun = begin_change(path_of(name)); !begun) return report(begun.error());
    inodes_.emplace_back();
    change_folder({.removed = {}, .added = std::string(name), .inode = inodes_.size() - 1});
    if (dead_) return dead(path_of(name));
    return std::make_unique<SimulatedFile>(*this, inodes_.size() - 1, path_of(name), true);
  }
  if (!found) {
    return report(Code::kNotFound, fmt::format("cannot open {}: No such file or directory", path_of(name)),
                  "look whether the path is right");
  }
  return std::make_unique<SimulatedFile>(*this, *found, path_of(name), mode == OpenMode::kReadWrite);
}

Reported<> SimulatedDisk::rename(std::string_view from, std::string_view to) {
  const std::scoped_lock guard(mutex_);
  if (Reported<> begun = begin_change(path_of(from)); !begun) return begun;
  const std::optional<size_t> found = find(from);
  if (!found) return report(Code::kNotFound, fmt::format("cannot rename {}: no such file", path_of(from)));
  change_folder({.removed = std::string(from), .added = std::string(to), .inode = *found});
  if (dead_) return dead(path_of(from));
  return {};
}

Reported<> SimulatedDisk::remove(std::string_view name) {
  const std::scoped_lock guard(mutex_);
  if (Reported<> begun = begin_change(path_of(name)); !begun) return begun;
  if (!find(name)) {
    return report(Code::kNotFound, fmt::format("cannot remove {}: no such file", path_of(name)));
  }
  change_folder({.removed = std::string(name), .added = {}, .inode = 0});
  if (dead_) return dead(path_of(name));
  return {};
}

Reported<> SimulatedDisk::sync_folder() {
  const std::scoped_lock guard(mutex_);
  if (Reported<> begun = begin_change(path_of("")); !begun) return begun;
  if (dead_) return dead(path_of(""));
  for (const FolderChange& change : unsynced_) apply(durable_names_, change);
  unsynced_.clear();
  return {};
}

Reported<std::vector<std::string>> SimulatedDisk::list() {
  const std::scoped_lock guard(mutex_);
  if (dead_) return dead(path_of(""));
  std::vector<std::string> names;
  names.reserve(names_.size());
  for (const auto& [name, inode] : names_) names.push_back(name);
  return names;
}

Reported<std::unique_ptr<Lock>> SimulatedDisk::lock(std::string_view name) {
  const std::scoped_lock guard(mutex_);
  if (dead_) return dead(path_of(name));
  if (!locks_.emplace(name).second) {
    return report(Code::kInUse, fmt::format("another process uses the folder {}", path_of("")),
                  "stop it, or choose another folder");
  }
  return std::make_unique<SimulatedLock>(*this, name);
}

std::string SimulatedDisk::path_of(std::string_view name) const {
  return fmt::format("/simulated/{}", name);
}

void SimulatedDisk::crash() {
  const std::scoped_lock guard(mutex_);
  const uint64_t survives = chance_.below(unsynced_.size() + 1);
  for (uint64_t i = 0; i < survives; ++i) apply(durable_names_, unsynced_[i]);
  unsynced_.clear();
  names_ = durable_names_;
  // All, nothing and some: the middle alone would hardly ever show a crash that loses or keeps everything.
  constexpr double kShares[] = {0, 0.1, 0.5, 0.9, 1};
  const double share = kShares[chance_.below(std::size(kShares))];
  for (Inode& inode : inodes_) {
    keep_some(inode, share);
    inode.cached = inode.durable;
    inode.dirty.clear();
  }
  locks_.clear();
  ++boots_;
  dies_at_ = UINT64_MAX;
  dead_ = false;
}

void SimulatedDisk::die_at(uint64_t operations) {
  const std::scoped_lock guard(mutex_);
  dies_at_ = operations_ + operations;
}

bool SimulatedDisk::is_dead() {
  const std::scoped_lock guard(mutex_);
  return dead_;
}

uint64_t SimulatedDisk::operations() {
  const std::scoped_lock guard(mutex_);
  return operations_;
}

void SimulatedDisk::fail_next_syncs(uint64_t count) {
  const std::scoped_lock guard(mutex_);
  failing_syncs_ = count;
}

void SimulatedDisk::set_capacity(uint64_t bytes) {
  const std::scoped_lock guard(mutex_);
  options_.capacity_bytes = bytes;
}

void SimulatedDisk::set_sync_failure_chance(double chance) {
  const std::scoped_lock guard(mutex_);
  options_.sync_failure_chance = chance;
}

std::vector<std::byte> SimulatedDisk::bytes_of(std::string_view name) {
  const std::scoped_lock guard(mutex_);
  const std::optional<size_t> found = find(name);
  REFRACT_CHECK(found.has_value());
  return inodes_[*found].cached;
}

void SimulatedDisk::flip_bit(std::string_view name, uint64_t bit) {
  const std::scoped_lock guard(mutex_);
  const std::optional<size_t> found = find(name);
  REFRACT_CHECK(found.has_value() && bit / 8 < inodes_[*found].cached.size());
  const auto mask = static_cast<std::byte>(1U << (bit % 8));
  inodes_[*found].cached[bit / 8] ^= mask;
  if (bit / 8 < inodes_[*found].durable.size()) inodes_[*found].durable[bit / 8] ^= mask;
}

void SimulatedDisk::replace(std::string_view name, std::span<const std::byte> bytes) {
  const std::scoped_lock guard(mutex_);
  const std::optional<size_t> found = find(name);
  REFRACT_CHECK(found.has_value());
  inodes_[*found].cached.assign(bytes.begin(), bytes.end());
  inodes_[*found].durable = inodes_[*found].cached;
  inodes_[*found].dirty.clear();
}

}  // namespace refract::storage
