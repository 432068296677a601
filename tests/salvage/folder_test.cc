// SPDX-License-Identifier: Apache-2.0
// A data folder that was damaged while it lay on the disk: a start refuses it with file and place, or has all
// of it; salvage gives nothing that was never true, and everything that the damage has no part in.
//
// Method: a small store is damaged in one place, for every place and several kinds of damage. The start's own
// way of reading is taken (fill_shard, or what refract check predicts of it, and the two are compared).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/salvage/small_store.h"

#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/base/testing/turns.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/testing/test_space.h"
#include "refract/node/durable/shard_fill.h"
#include "refract/node/hosted_kv/kv_contents.h"

namespace refract::salvage {
namespace {

using node::FolderReading;
using node::Salvaged;
using storage::SimulatedDisk;
using testing::HasSubstr;
using testing::SizeIs;

class DamagedFolder : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kError); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  // What a server serves of one shard of the folder.
  // `puts`: and then makes one more change, and stops.
  static Reported<Content> start_shard(storage::Disk& disk, uint32_t shard, bool puts = false) {
    const auto facts = storage::StoreFolder::look(disk);
    if (!facts) return report(facts.error());
    kv::test::Space space({.chunks = 10, .chunks_max = 10, .hash_seed = (*facts)->hash_seed});
    const storage::LogId id{.store = (*facts)->store, .shard = shard};
    ManualClock clock;
    const auto log = storage::ShardLog::open({.log = id, .disk = &disk, .clock = &clock});
    if (!log) return report(log.error());
    const node::Grow grow = [](uint64_t) { return false; };
    node::KvFilling filling(space.table(), space.heap(), grow);
    const auto filled = node::fill_shard({.disk = disk,
                                          .log = **log,
                                          .log_id = id,
                                          .filling = filling,
                                          .heap = space.heap(),
                                          .grow = grow,
                                          .name = {},
                                          .hosted = {}});
    if (!filled) return report(filled.error());
    Content content;
    kv::MappedMemory memory(space.base(), space.bytes(), nullptr);
    kv::DirectReader reader(memory, space.clock());
    uint64_t cursor = 0;
    do {
      const auto page = reader.scan(cursor, 100, [&](std::span<const std::byte> key, uint64_t, uint64_t) {
        const auto found = space.table().find(key);
        ASSERT_TRUE(found);
        content[kv::test::text_of(key)] = {.stamp = found->version,
                                           .value = kv::test::text_of(found->value),
                                           .expires_wall_ns = found->expires_wall_ns};
      });
      EXPECT_EQ(page.code, Code::kOk);
      cursor = page.next;
    } while (cursor != 0);
    if (!puts) return content;
    if (auto begun = (*log)->begin(filled->reading); !begun) return report(begun.error());
    const std::string key = "since-" + std::to_string(shard);
    const Version since{.stamp = space.heap().next_stamp(), .value = "a value"};
    (*log)->append({.stamp = since.stamp,
                    .key = std::as_bytes(std::span(key)),
                    .value = std::as_bytes(std::span(since.value))});
    EXPECT_TRUE((*log)->drain());
    content[key] = since;
    return content;
  }
  static Reported<Content> start(storage::Disk& disk, bool puts = false) {
    Content all;
    for (uint32_t shard = 0; shard < SmallStore::kShards; ++shard) {
      const auto one = start_shard(disk, shard, puts);
      if (!one) return report(one.error());
      all.insert(one->begin(), one->end());
    }
    return all;
  }

  // A refusal names the file, or the damage is of a kind that no longer matters.
  void expect_start_is_right(const std::string& file, const std::string& where) {
    const FolderReading read = test::needed(node::read_folder(store().disk(), {}));
    const auto started = start(store().disk());
    ASSERT_EQ(started.has_value(), !read.refusal.has_value())
        << where << ": check predicts " << (read.refusal ? read.refusal->what : "a start");
    if (started) {
      ASSERT_TRUE(*started == store().content()) << where << ": served as something else";
      return;
    }
    ASSERT_NE(started.error().what.find(file), std::string::npos) << where << ": " << started.error().what;
    ASSERT_GT(read.damage_count(), 0U) << where;
  }

  // `touched`: keys that the damage has a part in.
  void expect_salvage_is_right(const std::set<std::string>& touched, const std::string& where,
                               bool may_be_whole = true) {
    SimulatedDisk to{{}};
    const auto done = node::salvage_folder(store().disk(), to, {.salvages = true});
    ASSERT_TRUE(done) << where << ": " << done.error().to_string();
    const Content got = content_of(to);
    ASSERT_EQ(done->entries, got.size());
    for (const auto& [key, version] : got) {
      const auto known = store().versions().find(key);
      ASSERT_TRUE(known != store().versions().end() && std::ranges::count(known->second, version) == 1)
          << where << ": " << key << " was never " << version.value;
      if (touched.contains(key)) continue;
      const auto truth = store().content().find(key);
      ASSERT_TRUE(truth != store().content().end() && truth->second == version) << where << ": " << key;
    }
    bool is_whole = true;
    for (const auto& [key, version] : store().content()) {
      const auto found = got.find(key);
      is_whole &= found != got.end() && found->second == version;
      ASSERT_TRUE(touched.contains(key) || found != got.end()) << where << ": lost " << key;
    }
    ASSERT_TRUE(is_whole || !done->left_out.empty()) << where << ": left out without a word";
    ASSERT_TRUE(is_whole || may_be_whole) << where;
    // Another start can serve it.
    const FolderReading read = test::needed(node::read_folder(to, {}));
    ASSERT_EQ(read.damage_count(), 0U) << where;
    ASSERT_FALSE(read.refusal) << where << ": " << read.refusal->to_string();
  }

  [[nodiscard]] SmallStore& store() {
    if (!store_) store_.emplace();
    return *store_;
  }

  std::optional<SmallStore> store_;
};

TEST_F(DamagedFolder, a_sound_one_is_served_and_copied_whole) {
  const FolderReading read = test::needed(node::read_folder(store().disk(), {}));
  EXPECT_EQ(read.damage_count(), 0U);
  ASSERT_FALSE(read.refusal) << read.refusal->to_string();
  const auto started = start(store().disk());
  ASSERT_TRUE(started) << started.error().to_string();
  EXPECT_EQ(*started, store().content());
  SimulatedDisk to{{}};
  const auto done = node::salvage_folder(store().disk(), to, {});
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_THAT(done->left_out, SizeIs(0));
  EXPECT_THAT(done->notes, SizeIs(0));
  EXPECT_EQ(content_of(to), store().content());
  const auto again = start(to, /*puts=*/true);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(again->size(), store().content().size() + SmallStore::kShards);
  // A log that began far above its snapshot lacks nothing.
  const auto third = start(to);
  ASSERT_TRUE(third) << third.error().to_string();
  EXPECT_EQ(*third, *again);
  EXPECT_NE(storage::StoreFolder::look(to).value()->store,
            storage::StoreFolder::look(store().disk()).value()->store)
      << "the ring of the old one must not be taken for the new one's";
}

TEST_F(DamagedFolder, a_flipped_bit_is_named_or_harmless_and_salvage_loses_only_what_it_touched) {
  // A log's bytes are all flipped in storage/log/log_damage_test.cc; here every seventh.
  uint64_t refused = 0;
  for (const std::string& file : store().files()) {
    const uint64_t step = test::kStride * (file.starts_with("log-") ? 7 : 1);
    for (uint64_t byte = 0; byte < store().sound(file).size(); byte += step) {
      // The unused end of a log's file: a few of its bytes.
      const bool is_used = !file.starts_with("log-") || byte < 512 || store().has_content(file, byte);
      if (!is_used && byte % 301 != 0) continue;
      const std::string where = file + " byte " + std::to_string(byte);
      store().disk().flip_bit(file, 8 * byte + byte % 8);
      const FolderReading read = test::needed(node::read_folder(store().disk(), {}));
      ASSERT_EQ(read.damage_count() > 0, is_used) << where;
      ASSERT_EQ(read.refusal.has_value(), is_used) << where;
      refused += read.refusal ? 1 : 0;
      if (byte % (101 * step) == 0) {
        ASSERT_NO_FATAL_FAILURE(expect_start_is_right(file, where));
      }
      ASSERT_NO_FATAL_FAILURE(expect_salvage_is_right(store().touched(file, byte, byte + 1), where));
      store().mend();
    }
  }
  EXPECT_GT(refused, 4'000U / test::kStride);
}

TEST_F(DamagedFolder, a_snapshot_that_was_cut_anywhere_is_named_and_its_whole_blocks_are_saved) {
  const std::string file = store().snapshot_of(1);
  const std::vector<std::byte> sound = store().sound(file);
  for (uint64_t bytes = 0; bytes < sound.size(); bytes += 5 * test::kStride) {
    store().disk().replace(file, std::span(sound).first(bytes));
    const std::string where = "of " + std::to_string(bytes) + " bytes";
    if (bytes % (17 * test::kStride) == 0) {
      ASSERT_NO_FATAL_FAILURE(expect_start_is_right(file, where));
    }
    ASSERT_NO_FATAL_FAILURE(expect_salvage_is_right(store().touched(file, bytes, sound.size()), where));
  }
}

TEST_F(DamagedFolder, a_sector_of_zero_bytes_is_named_and_what_lies_beside_it_is_saved) {
  for (const std::string& file : store().files()) {
    const std::vector<std::byte> sound = store().sound(file);
    for (uint64_t at = 0; at + 512 <= sound.size(); at += 512) {
      std::vector<std::byte> bytes = sound;
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), 512, std::byte{0});
      if (bytes == sound) continue;
      store().disk().replace(file, bytes);
      const std::string where = file + " at " + std::to_string(at);
      const auto touched = store().touched(file, at, at + 512);
      const FolderReading read = test::needed(node::read_folder(store().disk(), {}));
      // The last record and the mark behind it, in one sector: then it is a torn tail, and said to be cut.
      const bool is_said = std::ranges::any_of(read.files, [](const node::FileReading& each) {
        return each.note.find("torn") != std::string::npos;
      });
      if (!is_said) {
        ASSERT_NO_FATAL_FAILURE(expect_start_is_right(file, where));
        ASSERT_NO_FATAL_FAILURE(expect_salvage_is_right(touched, where));
      }
      store().mend();
    }
  }
}

TEST_F(DamagedFolder, with_the_whole_log_a_damaged_snapshot_costs_nothing) {
  store_.emplace(/*logs_from_the_start=*/true);
  const std::string file = store().snapshot_of(0);
  for (uint64_t byte = 0; byte < store().sound(file).size(); byte += 13) {
    store().disk().flip_bit(file, 8 * byte);
    ASSERT_NO_FATAL_FAILURE(
        expect_salvage_is_right({}, "byte " + std::to_string(byte), /*may_be_whole=*/false));
    store().mend();
  }
}

// A block of the snapshot is gone, so that the log is read from its beginning, and that has a hole: what
// stands in the sound blocks is younger than what the log says of it in front of the hole.
TEST_F(DamagedFolder, what_the_snapshot_has_is_not_replaced_by_what_was_before_it) {
  store_.emplace(/*logs_from_the_start=*/true);
  const std::string snapshot = store().snapshot_of(0);
  const std::set<std::string> lost = store().touched(snapshot, 1'700, 1'701);
  std::set<std::string> safe = store().touched(snapshot, 512, store().sound(snapshot).size());
  for (const std::string& key : lost) safe.erase(key);
  ASSERT_FALSE(lost.empty());
  ASSERT_TRUE(safe.contains("key-0-10")) << "it has two versions before the snapshot, and none behind";
  uint64_t judged = 0;
  for (const Place& place : std::vector<Place>(store().places())) {
    if (place.stamp == 0 || place.stamp > SmallStore::kSnapshotStamp || !safe.contains(*place.keys.begin()))
      continue;
    store().disk().flip_bit(snapshot, 8 * 1'700);
    store().disk().flip_bit(place.file, 8 * (place.end - 20));
    ASSERT_NO_FATAL_FAILURE(expect_salvage_is_right(lost, "stamp " + std::to_string(place.stamp)));
    store().mend();
    ++judged;
  }
  EXPECT_GT(judged, 5U);
}

TEST_F(DamagedFolder, files_that_are_not_what_their_names_say_are_named) {
  SimulatedDisk& disk = store().disk();
  const std::string mine = store().snapshot_of(0);
  // Under the name of a later moment.
  const std::string later = storage::snapshot_name(0, 1'000);
  ASSERT_TRUE(disk.rename(mine, later));
  auto started = start(disk);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().what, HasSubstr("is the file " + mine).operator testing::Matcher<std::string>())
      << started.error().what;
  ASSERT_TRUE(disk.rename(later, mine));
  // Another shard's.
  disk.replace(mine, store().sound(store().snapshot_of(1)));
  started = start(disk);
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().what, HasSubstr(mine));
  const FolderReading read = test::needed(node::read_folder(disk, {}));
  ASSERT_TRUE(read.refusal);
  EXPECT_EQ(read.refusal->what, started.error().what);
  store().mend();
  // No file of a shard at all, beside one that has served.
  for (const std::string& file : store().files()) {
    if (!file.starts_with("log-001") && !file.starts_with("snapshot-001")) continue;
    ASSERT_TRUE(disk.remove(file));
  }
  const FolderReading half = test::needed(node::read_folder(disk, {}));
  EXPECT_EQ(half.damage_count(), 1U);
}

TEST_F(DamagedFolder, without_its_page_the_store_is_salvaged_by_what_its_other_files_say) {
  SimulatedDisk& disk = store().disk();
  ASSERT_TRUE(disk.remove("store"));
  const auto refused = start(disk);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().next, HasSubstr("refract restore --salvage"));
  ASSERT_NO_FATAL_FAILURE(expect_salvage_is_right({}, "no page", /*may_be_whole=*/false));
  // Also by the logs alone.
  ASSERT_TRUE(disk.remove(store().snapshot_of(0)));
  ASSERT_TRUE(disk.remove(store().snapshot_of(1)));
  SimulatedDisk to{{}};
  const auto done = node::salvage_folder(disk, to, {.salvages = true});
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(done->facts.hash_seed, 77U) << "or keys would be sought in the wrong shard";
  EXPECT_EQ(done->facts.shard_count, 2U);
  EXPECT_EQ(done->facts.copies, 1U);
  EXPECT_EQ(done->facts.placement, 55U) << "or keys would be taken for another node's";
}

TEST_F(DamagedFolder, an_older_snapshot_is_not_used_where_it_would_bring_back_what_was_erased) {
  SimulatedDisk& disk = store().disk();
  // An empty one of before: what stands in the younger one must not be judged by it, and not the other way
  // round.
  const storage::SnapshotFacts old{
      .store = {std::byte{9}, std::byte{8}}, .shard_index = 0, .shard_count = 2, .hash_seed = 77, .stamp = 3};
  auto writer = test::needed(storage::SnapshotWriter::create(disk, old, {}));
  ASSERT_TRUE(writer->finish());
  const std::string file = store().snapshot_of(0);
  disk.flip_bit(file, 8 * 1'000);
  ASSERT_NO_FATAL_FAILURE(expect_salvage_is_right(store().touched(file, 1'000, 1'001), "beside an old one"));
  SimulatedDisk to{{}};
  const auto done = test::needed(node::salvage_folder(disk, to, {.salvages = true}));
  EXPECT_TRUE(std::ranges::any_of(done.notes, [](const std::string& note) {
    return note.find("was not used: it is older") != std::string::npos;
  }));
}

TEST_F(DamagedFolder, salvage_never_touches_its_source_and_leaves_nothing_where_the_target_is_full) {
  SimulatedDisk& disk = store().disk();
  disk.flip_bit(store().snapshot_of(0), 8 * 700);
  const uint64_t before = disk.operations();
  SimulatedDisk small({.capacity_bytes = 2'000});
  const auto full = node::salvage_folder(disk, small, {.salvages = true});
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kNoSpace);
  EXPECT_THAT(small.list().value(), SizeIs(1)) << "the page; no half snapshot";
  EXPECT_EQ(disk.operations(), before);
  const auto refused = node::salvage_folder(disk, small, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_THAT(refused.error().what, HasSubstr(store().snapshot_of(0)));
}

TEST_F(DamagedFolder, one_that_a_node_has_is_not_salvaged_and_of_it_the_snapshots_alone_are_checked) {
  const auto lock = store().disk().lock("lock");
  ASSERT_TRUE(lock);
  SimulatedDisk to{{}};
  EXPECT_EQ(node::salvage_folder(store().disk(), to, {.salvages = true}).error().code, Code::kInUse);
  const FolderReading read = test::needed(node::read_folder(store().disk(), {}));
  EXPECT_TRUE(read.is_in_use);
  EXPECT_TRUE(std::ranges::none_of(read.files, [](const node::FileReading& file) {
    return file.kind == node::FileReading::Kind::kSegment;
  }));
  EXPECT_EQ(std::ranges::count(read.files, node::FileReading::Kind::kSnapshot, &node::FileReading::kind), 2);
}

TEST(SnapshotRestore, snapshots_alone_make_a_store_and_must_be_of_one) {
  SmallStore store;
  std::vector<node::SnapshotSourceFile> files{{store.disk(), store.snapshot_of(0)},
                                              {store.disk(), store.snapshot_of(1)}};
  SimulatedDisk to{{}};
  const auto done = node::salvage_snapshots(files, to, {});
  ASSERT_TRUE(done) << done.error().to_string();
  for (const auto& [key, version] : content_of(to)) {
    EXPECT_EQ(std::ranges::count(store.versions().at(key), version), 1) << key;
  }
  EXPECT_EQ(content_of(to).size(), done->entries);
  EXPECT_GT(done->entries, 30U);
  EXPECT_FALSE(node::read_folder(to, {}).value().refusal);
  files.pop_back();
  EXPECT_THAT(node::salvage_snapshots(files, to, {}).error().what,
              HasSubstr("2 shards, and these are snapshots of 1"));
  files.push_back(files.front());
  EXPECT_THAT(node::salvage_snapshots(files, to, {}).error().what,
              HasSubstr("is the second snapshot of shard 0"));
  store.disk().flip_bit(store.snapshot_of(0), 8 * 600);
  const std::vector<node::SnapshotSourceFile> both{{store.disk(), store.snapshot_of(0)},
                                                   {store.disk(), store.snapshot_of(1)}};
  EXPECT_FALSE(node::salvage_snapshots(both, to, {}));
  SimulatedDisk rest{{}};
  const auto salvaged = node::salvage_snapshots(both, rest, {.salvages = true});
  ASSERT_TRUE(salvaged) << salvaged.error().to_string();
  EXPECT_THAT(salvaged->left_out, SizeIs(1));
  EXPECT_LT(salvaged->entries, done->entries);
}

}  // namespace
}  // namespace refract::salvage
