// SPDX-License-Identifier: Apache-2.0
// A shard serves while its snapshot is written by a thread, and what is restored from the file is the shard
// at the snapshot's moment; whatever the disk does, there is such a file or none.
//
// Method: the test's thread is the shard, and changes its table at random while a job works; a model of the
// table is kept for each moment. Real threads: run under the thread sanitizer, too.
#include "refract/node/durable/snapshot_job.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/testing/test_random_owner.h"
#include "refract/kv/testing/test_snapshot.h"
#include "refract/node/durable/snapshot_entries.h"
#include "refract/node/durable/snapshot_restore.h"
#include "refract/node/hosted_kv/kv_contents.h"
#include "refract/storage/testing/simulated_disk.h"

namespace refract::node {
namespace {

using kv::test::bytes_of;
using kv::test::Model;
using kv::test::RandomOwner;
using kv::test::Space;
using kv::test::text_of;

constexpr storage::StoreId kStore{std::byte{9}};

// The system's, and as far ahead of it as a test says.
class AheadClock final : public Clock {
 public:
  [[nodiscard]] uint64_t now_ns() const noexcept override {
    return system_clock().now_ns() + ahead_ns_.load();
  }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return system_clock().wall_ns(); }
  void advance(uint64_t ns) { ahead_ns_ += ns; }

 private:
  std::atomic<uint64_t> ahead_ns_ = 0;
};

// Threads of this process that write snapshots, by how the system schedules them.
std::multiset<int> policies() {
  std::multiset<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream comm(entry.path() / "comm");
    std::getline(comm, name);
    if (!name.starts_with("refract-snap")) continue;
    const int policy = sched_getscheduler(static_cast<pid_t>(std::stol(entry.path().filename())));
    if (policy >= 0) found.insert(policy);
  }
  return found;
}

class Shard {
 public:
  Shard(storage::Disk& disk, uint64_t seed, uint64_t keys)
      : disk_(disk), space_({.chunks = 24, .chunks_max = 24}), owner_(space_, {.seed = seed, .keys = keys}) {}

  LogStands* stands = nullptr;

  void work(int steps) {
    for (int i = 0; i < steps; ++i) owner_.step();
  }
  // The table's content at the moment goes to `moments`.
  void begin(const SnapshotJob::Options& options = {}) {
    const KvSnapshot::Parts parts{
        .table = space_.table(), .heap = space_.heap(), .writer = space_.writer(), .clock = space_.clock()};
    auto job = SnapshotJob::start({.begin = [&](auto of) { return std::make_unique<KvSnapshot>(parts, of); },
                                   .clock = clock_,
                                   .disk = disk_,
                                   .store = kStore,
                                   .stands = stands},
                                  options);
    ASSERT_TRUE(job) << job.error().to_string();
    job_ = std::move(*job);
    moments_[job_->facts().stamp] = owner_.model();
  }
  // Continues to change the table until the job is over, or, where the job has hardly any processor, until
  // the old values that are kept for it would fill the memory.
  Reported<storage::SnapshotTotals> work_until_ended() {
    for (int steps = 0; !job_->ended(); steps += 20) {
      if (steps < kStepsMax) {
        work(20);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      (void)job_->poll();
    }
    Reported<storage::SnapshotTotals> outcome = job_->outcome();
    owner_.end_chains();
    while (job_->poll()) {
    }
    job_.reset();
    EXPECT_FALSE(space_.table().validate());
    return outcome;
  }

  Space& space() { return space_; }
  SnapshotJob& job() { return *job_; }
  // Of the pace.
  void pass(uint64_t ns) { clock_.advance(ns); }
  const std::map<uint64_t, Model>& moments() const { return moments_; }

 private:
  static constexpr int kStepsMax = 30'000;

  storage::Disk& disk_;
  AheadClock clock_;
  Space space_;
  RandomOwner owner_;
  std::unique_ptr<SnapshotJob> job_;
  std::map<uint64_t, Model> moments_;
};

// What a fresh table holds that was filled from the file.
Reported<Model> restore(storage::Disk& disk, const std::string& name, const RestoreOptions& options = {}) {
  Space space({.chunks = 32, .chunks_max = 32});
  // Nothing expires that had not expired at the moment.
  space.clock().set_wall_offset_ns(0);
  const Grow grow = [](uint64_t) { return false; };
  KvFilling filling(space.table(), space.heap(), grow);
  const auto restored = restore_snapshot(disk, name, filling, options);
  if (!restored) return report(restored.error());
  filling.finish(restored->stamp);
  EXPECT_FALSE(space.table().validate());
  EXPECT_EQ(restored->store, kStore);
  EXPECT_GT(space.heap().next_stamp(), restored->stamp);
  Model model;
  uint64_t cursor = 0;
  kv::MappedMemory memory(space.base(), space.bytes(), nullptr);
  kv::DirectReader reader(memory, space.clock());
  do {
    const auto page = reader.scan(cursor, 100, [&](std::span<const std::byte> key, uint64_t, uint64_t) {
      const auto found = space.table().find(key);
      ASSERT_TRUE(found);
      model[text_of(key)] = {.stamp = found->version,
                             .expires_wall_ns = found->expires_wall_ns,
                             .request = found->request,
                             .value = text_of(found->value)};
    });
    EXPECT_EQ(page.code, Code::kOk);
    cursor = page.next;
  } while (cursor != 0);
  return model;
}

TEST(SnapshotJob, what_is_restored_is_the_shard_at_the_moment) {
  storage::SimulatedDisk disk({});
  Shard shard(disk, 1, 2'000);
  for (int round = 0; round < 12; ++round) {
    shard.work(round == 0 ? 100 : 1'500);
    shard.begin();
    const auto outcome = shard.work_until_ended();
    ASSERT_TRUE(outcome) << outcome.error().to_string();
  }
  const auto names = storage::list_snapshots(disk);
  ASSERT_TRUE(names);
  ASSERT_EQ(names->size(), 12U);
  for (const auto& name : *names) {
    const auto model = restore(disk, name.name);
    ASSERT_TRUE(model) << model.error().to_string();
    ASSERT_TRUE(shard.moments().contains(name.stamp));
    EXPECT_TRUE(*model == shard.moments().at(name.stamp)) << name.name;
  }
}

TEST(SnapshotJob, a_crash_leaves_whole_snapshots_or_none) {
  uint64_t whole = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    storage::SimulatedDisk disk({.seed = seed});
    Shard shard(disk, seed, 400);
    shard.work(500);
    disk.die_at(1 + seed * 7 % 45);
    uint64_t promised = 0;
    for (int round = 0; round < 5; ++round) {
      shard.work(50);
      shard.begin();
      if (shard.work_until_ended()) ++promised;
    }
    disk.crash();
    ASSERT_TRUE(storage::remove_unfinished_snapshots(disk));
    const auto names = storage::list_snapshots(disk);
    ASSERT_TRUE(names);
    ASSERT_EQ(disk.list()->size(), names->size());
    EXPECT_GE(names->size(), promised);
    for (const auto& name : *names) {
      const auto model = restore(disk, name.name);
      ASSERT_TRUE(model) << model.error().to_string();
      EXPECT_TRUE(*model == shard.moments().at(name.stamp)) << "seed " << seed;
      ++whole;
    }
  }
  EXPECT_GT(whole, 8U);
}

TEST(SnapshotJob, ends_soon_when_it_is_cancelled_in_the_middle_of_its_pace) {
  storage::SimulatedDisk disk({});
  Shard shard(disk, 1, 4'000);
  shard.work(12'000);
  // It would take a day.
  shard.begin({.bytes_per_second = 10});
  while (shard.job().progress().bytes == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(shard.job().ended());
  shard.job().cancel();
  const auto outcome = shard.work_until_ended();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kCancelled);
  EXPECT_TRUE(disk.list()->empty());
  // And the shard can have the next one.
  shard.begin();
  EXPECT_TRUE(shard.work_until_ended());
}

TEST(SnapshotJob, runs_in_idle_time_until_it_is_behind_its_pace) {
  storage::SimulatedDisk disk({});
  Shard shard(disk, 1, 40'000);
  shard.work(60'000);
  // Some hundred seconds.
  shard.begin({.bytes_per_second = 30'000});
  // Without a poll, which on a busy machine may find it behind its pace already.
  while (shard.job().progress().bytes == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(policies(), std::multiset<int>({SCHED_IDLE}));
  shard.pass(1'000 * kSecond_ns);
  (void)shard.job().poll();
  // The one that was relieved ends when it sees that.
  while (policies() != std::multiset<int>({SCHED_OTHER}) && !shard.job().ended()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto outcome = shard.work_until_ended();
  ASSERT_TRUE(outcome) << outcome.error().to_string();
  const auto names = test::needed(storage::list_snapshots(disk));
  ASSERT_EQ(names.size(), 1U);
  const auto model = restore(disk, names.front().name);
  ASSERT_TRUE(model) << model.error().to_string();
  EXPECT_TRUE(*model == shard.moments().begin()->second);
}

// A log that syncs when it is told to.
class SlowLog {
 public:
  SlowLog(LogStands& stands, uint32_t shard) : stands_(stands), shard_(shard) {
    storage::ShardLogSpec spec{.log = {.store = kStore, .shard = shard, .shard_count = 2},
                               .ring_bytes = storage::kRingBytesMin,
                               .disk = &disk_,
                               .clock = &system_clock()};
    log_ = test::needed(storage::ShardLog::open(spec));
    const storage::LogReading reading = test::needed(log_->read({}, [](const storage::Record&) {}));
    EXPECT_TRUE(log_->begin(reading));
  }
  void join() { stands_.join(shard_, *log_); }
  void put() {
    log_->append({.stamp = ++stamp_, .key = bytes_of("key"), .value = bytes_of("value")});
    stands_.note(shard_, *log_);
  }
  void sync() { EXPECT_TRUE(log_->drain()); }

 private:
  LogStands& stands_;
  const uint32_t shard_;
  storage::SimulatedDisk disk_{{}};
  std::unique_ptr<storage::ShardLog> log_;
  uint64_t stamp_ = 0;
};

TEST(SnapshotJob, counts_when_other_shards_logs_have_synced_what_they_had_at_its_moment) {
  storage::SimulatedDisk disk({});
  Shard shard(disk, 1, 500);
  LogStands stands(2, storage::Durability::kEverySecond);
  SlowLog own(stands, 0);
  SlowLog other(stands, 1);
  std::thread joining([&] { other.join(); });
  own.join();
  joining.join();
  shard.stands = &stands;
  shard.work(500);
  own.put();
  other.put();
  shard.begin({.log_position = 4'711});
  EXPECT_EQ(shard.job().facts().log_position, 4'711U);
  for (int i = 0; i < 60; ++i) {
    shard.work(1);
    (void)shard.job().poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(shard.job().ended());
  EXPECT_TRUE(test::needed(storage::list_snapshots(disk)).empty());
  other.sync();
  other.put();
  EXPECT_TRUE(shard.work_until_ended());
  EXPECT_EQ(test::needed(storage::list_snapshots(disk)).size(), 1U);
}

TEST(SnapshotJob, says_what_the_disk_said_and_leaves_nothing) {
  storage::SimulatedDisk disk({});
  Shard shard(disk, 1, 4'000);
  shard.work(12'000);
  disk.set_capacity(100'000);
  shard.begin();
  const auto outcome = shard.work_until_ended();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, Code::kNoSpace);
  EXPECT_NE(outcome.error().what.find("snapshot-000-"), std::string::npos) << outcome.error().what;
  EXPECT_TRUE(disk.list()->empty());
}

TEST(SnapshotJob, damage_is_never_restored_and_salvage_says_what_is_missing) {
  storage::SimulatedDisk disk({});
  Shard shard(disk, 1, 30'000);
  shard.work(60'000);
  shard.begin();
  const auto outcome = shard.work_until_ended();
  ASSERT_TRUE(outcome);
  ASSERT_GT(outcome->blocks, 3U);
  const std::string name = storage::list_snapshots(disk)->front().name;
  disk.flip_bit(name, 8 * (kMiB + kMiB / 2));
  const auto refused = restore(disk, name);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_NE(refused.error().what.find("at byte"), std::string::npos);
  const Model& whole = shard.moments().begin()->second;
  uint64_t entries = 0;
  const auto salvaged = read_snapshot_entries(disk, name, {.on_entry = [&](const kv::SnapshotEntry& entry) {
                                                ++entries;
                                                const auto found = whole.find(text_of(entry.key));
                                                ASSERT_TRUE(found != whole.end());
                                                EXPECT_EQ(found->second.stamp, entry.stamp);
                                                EXPECT_EQ(found->second.value, text_of(entry.value));
                                              }});
  ASSERT_TRUE(salvaged) << salvaged.error().to_string();
  EXPECT_EQ(salvaged->entries, entries);
  ASSERT_EQ(salvaged->damages.size(), 1U);
  EXPECT_GT(salvaged->damages[0].offset, 0U);
  EXPECT_EQ(salvaged->lost, whole.size() - entries);
  EXPECT_LT(entries, whole.size());
  EXPECT_GT(entries, whole.size() / 2);
}

TEST(SnapshotJob, a_file_that_the_caller_does_not_accept_changes_nothing) {
  storage::SimulatedDisk disk({});
  Shard shard(disk, 1, 100);
  shard.work(100);
  shard.begin();
  ASSERT_TRUE(shard.work_until_ended());
  Space space;
  const Grow grow = [](uint64_t) { return false; };
  KvFilling filling(space.table(), space.heap(), grow);
  const auto refused = restore_snapshot(disk, storage::list_snapshots(disk)->front().name, filling,
                                        {.accepts = [](const storage::SnapshotFacts&) -> Reported<> {
                                          return report(Code::kInvalidArgument, "of another store");
                                        }});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "of another store");
  EXPECT_EQ(space.table().stats().entries, 0U);
}

}  // namespace
}  // namespace refract::node
