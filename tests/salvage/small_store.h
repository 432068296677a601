// SPDX-License-Identifier: Apache-2.0
// A data folder of two shards on a simulated disk, small enough to be damaged in each of its bytes, and what
// is true of it: every version that a key ever had, and what a given place of a file has a part in.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "refract/node/durable/folder_reading.h"
#include "refract/node/durable/folder_salvage.h"
#include "refract/storage/testing/simulated_disk.h"

namespace refract::salvage {

struct Version {
  uint64_t stamp = 0;
  std::string value;
  uint64_t expires_wall_ns = 0;
  bool operator==(const Version&) const = default;
};
// By key.
using Content = std::map<std::string, Version>;

// A record of a log, or a block of a snapshot.
struct Place {
  std::string file;
  uint64_t begin = 0;
  uint64_t end = 0;
  std::set<std::string> keys = {};
  uint64_t stamp = 0;  // Of a record.
};

class SmallStore {
 public:
  static constexpr uint32_t kShards = 2;

  static constexpr uint64_t kSnapshotStamp = 31;

  // Snapshots of several blocks, and logs of several files behind them. `logs_from_the_start`: nothing of
  // these was dropped.
  explicit SmallStore(bool logs_from_the_start = false);

  [[nodiscard]] storage::SimulatedDisk& disk() noexcept { return disk_; }
  [[nodiscard]] const Content& content() const noexcept { return content_; }
  // All that were ever true of a key.
  [[nodiscard]] const std::map<std::string, std::vector<Version>>& versions() const { return versions_; }
  [[nodiscard]] const std::vector<std::string>& files() const noexcept { return files_; }
  [[nodiscard]] const std::string& snapshot_of(uint32_t shard) const { return snapshots_[shard]; }
  [[nodiscard]] const std::vector<std::byte>& sound(const std::string& file) const { return sound_.at(file); }
  void mend() {
    for (const auto& [name, bytes] : sound_) disk_.replace(name, bytes);
  }
  // The keys of which something lies in [from, to) of the file.
  [[nodiscard]] std::set<std::string> touched(const std::string& file, uint64_t from, uint64_t to) const;
  [[nodiscard]] const std::vector<Place>& places() const noexcept { return places_; }
  [[nodiscard]] bool has_content(const std::string& file, uint64_t byte) const;

 private:
  void make_shard(uint32_t shard, bool logs_from_the_start);
  void write_snapshot(uint32_t shard, uint64_t stamp, const Content& content);
  void find_places();

  storage::SimulatedDisk disk_{{}};
  storage::StoreFacts facts_;
  Content content_;
  std::map<std::string, std::vector<Version>> versions_;
  std::vector<std::string> files_;
  std::vector<std::string> snapshots_;
  std::map<std::string, std::vector<std::byte>> sound_;
  std::vector<Place> places_;
};

// What a folder's snapshots have, of a store that was just restored.
[[nodiscard]] Content content_of(storage::Disk& disk);

}  // namespace refract::salvage
