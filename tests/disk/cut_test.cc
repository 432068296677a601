// SPDX-License-Identifier: Apache-2.0
// The host dies between any two operations of the disk, and keeps of what was not synced any sectors: what is
// recovered from the rest is each shard as it was after one of its changes, not before the last one that the
// log had confirmed.
//
// Method: shards with their logs and snapshots, with all their threads, work on a real folder while a
// RecordedDisk writes down what they do. For a cut, the operations up to there are made again on a
// SimulatedDisk, which crashes; what it kept is written into a folder, and recovered from there by the node's
// own code.
//
//   cut_test                        cuts chosen by chance, as many as take some seconds
//   REFRACT_CUTS=N cut_test         each cut there is, N times
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/disk/logged_shard.h"
#include "tests/disk/recorded_disk.h"

#include "refract/base/log.h"
#include "refract/base/testing/turns.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/posix_disk.h"

namespace refract::test {
namespace {

namespace fs = std::filesystem;

using kv::test::Model;
using storage::Durability;

constexpr uint64_t kSeed = 20'251;
constexpr uint64_t kChanges = 600;       // Of each shard.
constexpr uint64_t kSnapshotEach = 120;  // So many changes.
constexpr uint64_t kChangesMeanwhile = 50;
constexpr uint64_t kSnapshotsMin = 3;
constexpr uint64_t kRecycledMin = 4;
constexpr uint64_t kCutsByChance = turns(150, 40);

struct Stretch {
  Recording recording;
  std::vector<MadeChange> changes[kLoggedShards];
};

Stretch record_some_work(const std::string& folder, Durability durability) {
  auto real = storage::open_posix_disk(folder);
  EXPECT_TRUE(real) << real.error().to_string();
  RecordedDisk disk(**real);
  Stretch stretch;
  std::vector<std::unique_ptr<LoggedShard>> shards;
  for (uint32_t index = 0; index < kLoggedShards; ++index) {
    shards.push_back(std::make_unique<LoggedShard>(disk, index, durability, kSeed + index));
    const Reported<> recovered = shards.back()->recover();
    EXPECT_TRUE(recovered) << recovered.error().to_string();
    EXPECT_TRUE(shards.back()->start());
  }
  uint64_t told[kLoggedShards] = {};
  const auto look_at = [&](uint32_t index) {
    LoggedShard& shard = *shards[index];
    shard.poll();
    const uint64_t synced = shard.log().synced();
    if (synced == told[index]) return;
    told[index] = synced;
    disk.note({.shard = index, .synced_position = synced, .changes = shard.changes().size()});
  };
  bool is_over = false;
  while (!is_over) {
    is_over = true;
    for (uint32_t index = 0; index < kLoggedShards; ++index) {
      LoggedShard& shard = *shards[index];
      const uint64_t before = shard.changes().size();
      // How long a snapshot takes depends on the machine: with few changes meanwhile, so that the recording
      // does not.
      const bool has_done = before >= kChanges && shard.snapshots() >= kSnapshotsMin &&
                            shard.log().counters().segments_recycled >= kRecycledMin;
      const bool waits = shard.is_writing_snapshot() && before % kSnapshotEach > kChangesMeanwhile;
      // A few at once, so that the log's thread has now one record to take and now several.
      for (uint64_t i = 0; i <= before % 7 && !has_done && !waits; ++i) shard.change();
      const uint64_t now = shard.changes().size();
      if (now / kSnapshotEach != before / kSnapshotEach) shard.begin_snapshot();
      if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      look_at(index);
      const bool is_synced = shard.log().synced() == shard.log().appended();
      is_over &= has_done && is_synced && !shard.is_writing_snapshot();
    }
  }
  for (uint32_t index = 0; index < kLoggedShards; ++index) {
    look_at(index);
    stretch.changes[index] = shards[index]->changes();
  }
  shards.clear();
  stretch.recording = disk.recording();
  return stretch;
}

// What each shard had been promised when `count` operations had been made.
std::vector<Promise> promises_at(const Recording& recording, size_t count) {
  std::vector<Promise> promises(kLoggedShards);
  for (size_t i = 0; i < count; ++i) {
    const DiskOperation& operation = recording[i];
    if (operation.kind == DiskOperation::Kind::kNote) promises[operation.promise.shard] = operation.promise;
  }
  return promises;
}

// Nothing, or why `found` is not the shard behind one of its changes, from the last confirmed one on.
std::string difference(const std::vector<MadeChange>& changes, const Promise& promise, const Model& found) {
  Model model;
  bool is_reached = false;
  for (size_t made = 0;; ++made) {
    const bool is_next_promised = made < changes.size() && changes[made].end <= promise.synced_position;
    is_reached |= !is_next_promised;
    // What a batch has changed is there together.
    const bool is_within = made > 0 && made < changes.size() && changes[made].end == changes[made - 1].end;
    if (is_reached && !is_within && model == found) return {};
    if (made == changes.size()) break;
    const MadeChange& change = changes[made];
    if (change.entry)
      model[change.key] = *change.entry;
    else
      model.erase(change.key);
  }
  std::string told = std::to_string(found.size()) + " entries, with these versions:";
  for (const auto& [key, entry] : found) told += " " + key + "@" + std::to_string(entry.stamp);
  return told + "; confirmed up to " + std::to_string(promise.synced_position);
}

// What is recovered there need not outlive anything: on tmpfs, where there is one, its syncs cost nothing.
class Scratch {
 public:
  Scratch() {
    std::error_code ignored;
    const fs::path memory = "/dev/shm";
    std::string name =
        (fs::is_directory(memory, ignored) ? memory : fs::temp_directory_path()) / "cut-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

class Judge {
 public:
  Judge(const Stretch& stretch, Durability durability) : stretch_(stretch), durability_(durability) {}

  // Nothing, or what is wrong behind this cut.
  std::string judge(size_t cut, uint64_t seed, Forgets forgets = {}) {
    storage::SimulatedDisk disk({.seed = seed});
    replay(stretch_.recording, cut, disk, forgets);
    disk.crash();
    copy_to_folder(disk, folder_.path() + "/data");
    auto real = storage::open_posix_disk(folder_.path() + "/data");
    if (!real) return real.error().to_string();
    if (const auto removed = storage::remove_unfinished_snapshots(**real); !removed) {
      return removed.error().to_string();
    }
    const std::vector<Promise> promises = promises_at(stretch_.recording, cut);
    for (uint32_t index = 0; index < kLoggedShards; ++index) {
      const std::string wrong = judge_shard(**real, index, promises[index], seed);
      if (!wrong.empty()) return "shard " + std::to_string(index) + ": " + wrong;
    }
    return {};
  }

 private:
  std::string judge_shard(storage::Disk& disk, uint32_t index, const Promise& promise, uint64_t seed) {
    const std::vector<MadeChange>& changes = stretch_.changes[index];
    Model content;
    uint64_t stamp = 0;
    {
      LoggedShard shard(disk, index, durability_, seed);
      if (const Reported<> recovered = shard.recover(); !recovered) return recovered.error().to_string();
      content = shard.content();
      if (std::string wrong = difference(changes, promise, content); !wrong.empty()) return wrong;
      stamp = shard.next_stamp();
      uint64_t given = 0;
      for (uint64_t i = 0; i < promise.changes; ++i) {
        if (changes[i].entry) given = std::max(given, changes[i].entry->stamp);
      }
      if (stamp <= given) return "a version would come twice";
      // And it continues from there.
      for (int i = 0; i < 5; ++i) shard.change();
      for (const MadeChange& change : shard.changes()) {
        if (change.entry)
          content[change.key] = *change.entry;
        else
          content.erase(change.key);
      }
      if (!shard.drain()) return "the log does not continue:  " + shard.log().trouble();
    }
    LoggedShard again(disk, index, durability_, seed);
    if (const Reported<> recovered = again.recover(); !recovered) {
      return "when recovered again: " + recovered.error().to_string();
    }
    if (again.content() != content) return "what was written after the recovery is not there";
    return again.next_stamp() > stamp ? "" : "a version would come twice after the second recovery";
  }

  const Stretch& stretch_;
  Durability durability_;
  Scratch folder_;
};

class Cut : public testing::TestWithParam<Durability> {
 protected:
  void SetUp() override { set_log_level(LogLevel::kError); }
};

TEST_P(Cut, of_the_power_at_any_operation_loses_nothing_confirmed_and_leaves_nothing_half) {
  const Folder folder;
  const Stretch stretch = record_some_work(folder.path() + "/data", GetParam());
  const size_t operations = stretch.recording.size();
  const char* const wanted = std::getenv("REFRACT_CUTS");
  const uint64_t times = wanted == nullptr ? 1 : std::strtoull(wanted, nullptr, 10);
  Judge judge(stretch, GetParam());
  Prng prng(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()));
  const uint64_t cuts = wanted == nullptr ? kCutsByChance : operations * times;
  for (uint64_t i = 0; i < cuts; ++i) {
    const size_t cut = wanted == nullptr ? prng.below(operations + 1) : 1 + i / times;
    const uint64_t seed = prng.next();
    const std::string wrong = judge.judge(cut, seed);
    ASSERT_EQ(wrong, "") << "behind operation " << cut << " of " << operations << ", seed " << seed;
  }
  std::printf("%lu operations, %lu cuts\n", operations, cuts);
}

TEST_P(Cut, is_found_out_where_the_disk_was_not_asked_to_sync) {
  const Folder folder;
  const Stretch stretch = record_some_work(folder.path() + "/data", GetParam());
  Judge judge(stretch, GetParam());
  const Forgets all[] = {{.syncs = true}, {.folder_syncs = true}};
  for (const Forgets& forgets : all) {
    Prng prng(kSeed);
    bool is_found = false;
    for (int i = 0; i < 60 && !is_found; ++i) {
      const size_t cut = 1 + prng.below(stretch.recording.size());
      is_found = !judge.judge(cut, prng.next(), forgets).empty();
    }
    EXPECT_TRUE(is_found) << (forgets.syncs ? "of files" : "of the folder");
  }
}

// Readers see a change before it is confirmed: its version must not come again with another value.
TEST_P(Cut, before_anything_was_confirmed_lets_no_version_come_twice) {
  storage::SimulatedDisk disk({});
  uint64_t given = 0;
  {
    LoggedShard shard(disk, 0, GetParam(), kSeed);
    const Reported<> begun = shard.recover();
    ASSERT_TRUE(begun) << begun.error().to_string();
    while (given == 0) {
      shard.change();
      if (!shard.changes().empty() && shard.changes().back().entry) given = shard.next_stamp();
    }
  }
  disk.crash();
  LoggedShard again(disk, 0, GetParam(), kSeed);
  const Reported<> recovered = again.recover();
  ASSERT_TRUE(recovered) << recovered.error().to_string();
  EXPECT_TRUE(again.content().empty());
  EXPECT_GT(again.next_stamp(), given);
}

INSTANTIATE_TEST_SUITE_P(Modes, Cut, testing::Values(Durability::kEverySecond, Durability::kAlways),
                         [](const auto& mode) {
                           return mode.param == Durability::kAlways ? "always" : "everysec";
                         });

}  // namespace
}  // namespace refract::test
