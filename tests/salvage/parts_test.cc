// SPDX-License-Identifier: Apache-2.0
// A data folder of two shards in whose logs transactions over both are half done: what a restore makes of it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/salvage/small_store.h"

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/storage/log/shard_log.h"
#include "refract/storage/snapshot/snapshot_file.h"
#include "refract/storage/store_folder.h"

namespace refract::salvage {
namespace {

using storage::GroupRole;
using storage::Record;
using storage::RecordKind;
using test::needed;

constexpr uint64_t kPlace = uint64_t{1} << 48 | 0x2000;  // A word of the first shard.

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class HalfDone : public testing::Test {
 protected:
  HalfDone() {
    facts_ = {.store = {std::byte{9}}, .shard_count = 2, .hash_seed = 77, .created_wall_ns = 5};
    clock_.set_now_ns(kSecond_ns);
    REFRACT_CHECK(storage::write_store_page(disk_, facts_).has_value());
    REFRACT_CHECK(disk_.open("lock", storage::OpenMode::kCreate).has_value());
    for (uint32_t shard = 0; shard < 2; ++shard) logs_[shard] = open(shard);
  }

  void append(uint32_t shard, RecordKind kind, uint64_t number, const std::vector<std::string>& keys) {
    const uint64_t group = ++stamp_;
    std::vector<Record> changes;
    for (const std::string& key : keys) {
      changes.push_back(
          {.stamp = ++stamp_, .key = bytes_of(key), .value = bytes_of("new"), .value_bytes = 3});
    }
    logs_[shard]->append_group(group, changes, {.kind = kind, .place = kPlace, .number = number});
  }
  void append_settled(uint32_t shard, uint64_t number, bool has_happened) {
    logs_[shard]->append_settled(++stamp_, {.kind = RecordKind::kSettled, .place = kPlace, .number = number},
                                 has_happened);
  }
  void put(uint32_t shard, std::string_view key, std::string_view value) {
    logs_[shard]->append({.stamp = ++stamp_, .key = bytes_of(key), .value = bytes_of(value)});
  }
  // What a restore gives, key by key.
  [[nodiscard]] std::map<std::string, std::string> restored() {
    for (const auto& log : logs_) REFRACT_CHECK(log->drain());
    storage::SimulatedDisk to{{}};
    const auto done = node::salvage_folder(disk_, to, {});
    EXPECT_TRUE(done) << done.error().to_string();
    std::map<std::string, std::string> values;
    for (const auto& [key, version] : content_of(to)) values[key] = version.value;
    return values;
  }

 private:
  std::unique_ptr<storage::ShardLog> open(uint32_t shard) {
    storage::ShardLogSpec spec{
        .log = {.store = facts_.store, .shard = shard, .shard_count = 2, .hash_seed = facts_.hash_seed},
        .disk = &disk_,
        .clock = &clock_};
    spec.options.durability = storage::Durability::kAlways;
    auto log = needed(storage::ShardLog::open(spec));
    const storage::LogReading reading = needed(log->read({}, [](const Record&) {}));
    REFRACT_CHECK(log->begin(reading).has_value());
    return log;
  }

  storage::SimulatedDisk disk_{{}};
  storage::StoreFacts facts_;
  ManualClock clock_;
  std::unique_ptr<storage::ShardLog> logs_[2];
  uint64_t stamp_ = 0;
};

TEST_F(HalfDone, what_the_home_has_decided_is_restored_in_both_shards_and_nothing_else) {
  put(1, "part", "old");
  append(1, RecordKind::kPrepared, 1, {"part", "another"});
  append(0, RecordKind::kDecided, 1, {"home"});
  append(1, RecordKind::kPrepared, 2, {"never"});
  EXPECT_EQ(restored(),
            (std::map<std::string, std::string>{{"home", "new"}, {"part", "new"}, {"another", "new"}}));
}

TEST_F(HalfDone, what_is_settled_stands_where_that_was_said) {
  append(1, RecordKind::kPrepared, 1, {"part"});
  append(1, RecordKind::kPrepared, 2, {"undone"});
  append_settled(1, 1, true);
  append_settled(1, 2, false);
  put(1, "part", "later");
  EXPECT_EQ(restored(), (std::map<std::string, std::string>{{"part", "later"}}));
}

TEST_F(HalfDone, a_home_that_changes_nothing_decides_too) {
  append(1, RecordKind::kPrepared, 1, {"part"});
  append(0, RecordKind::kDecided, 1, {});
  EXPECT_EQ(restored(), (std::map<std::string, std::string>{{"part", "new"}}));
}

}  // namespace
}  // namespace refract::salvage
