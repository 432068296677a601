// SPDX-License-Identifier: Apache-2.0
// The space of a shard as its keeper makes it, grows it, and takes it up again from files: what is refused,
// and that a refusal changes nothing. Real memory, and real files in a folder of the test's own.
#include "refract/node/space/store_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/node/hosted_kv/hosted_kv.h"
#include "refract/node/space/predecessor.h"

namespace refract::node {
namespace {

namespace fs = std::filesystem;

using test::needed;
using testing::HasSubstr;

class OfSpace : public testing::Test {
 protected:
  OfSpace() {
    config_.memory_limit_bytes = 64 * kMiB;
    config_.memory_initial_bytes = 8 * kMiB;
  }

  [[nodiscard]] Reported<StoreSpace> open(uint32_t shard = 0) {
    const auto origin = find_store(config_);
    if (!origin) return report(origin.error());
    return StoreSpace::open(plan_key_space(config_, shard, kKvRow.area), *origin);
  }
  [[nodiscard]] static const SpaceHeader& header_of(const StoreSpace& space) {
    return *reinterpret_cast<const SpaceHeader*>(space.addresses().base());
  }
  static void grow(StoreSpace& space, uint64_t bytes) {
    ASSERT_TRUE(space.begin_growth(bytes));
    while (!needed(space.grow_some())) {
    }
    ASSERT_TRUE(space.finish_growth());
  }

  NodeConfig config_;
};

class OfSpaceInFiles : public OfSpace {
 protected:
  OfSpaceInFiles() { config_.memory_backing = {.kind = BackingKind::kFile, .folder = folder_.path()}; }

  // A store that a node has used, which then ended by itself, or died.
  void make_store(bool is_left) {
    StoreSpace space = needed(open());
    ASSERT_TRUE(space.enter());
    Writer(space.addresses().base()).publish(Offset{offsetof(SpaceHeader, fill_state)}, kFillComplete);
    if (is_left) {
      ASSERT_TRUE(space.leave());
    }
  }
  [[nodiscard]] fs::path file(uint32_t shard = 0) const {
    Backing backing = config_.memory_backing;
    backing.shard = shard;
    return region_path(backing, 0);
  }
  [[nodiscard]] std::string whole(const fs::path& path) const {
    std::string bytes(fs::file_size(path), '\0');
    std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
  void write_word(uint64_t at, uint64_t word, uint32_t shard = 0) const {
    std::fstream out(file(shard), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(at));
    out.write(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  // Of open(), which must leave the file as it is.
  void expect_refused(Code code, const std::string& why) {
    const std::string before = whole(file());
    const auto opened = open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, code) << opened.error().what;
    EXPECT_THAT(opened.error().what, HasSubstr(why));
    EXPECT_NE(opened.error().next, "") << "what to do";
    EXPECT_TRUE(before == whole(file())) << "the file was changed";
  }

  test::Folder folder_;
};

TEST_F(OfSpace, each_shard_has_its_share_and_an_empty_store_in_it) {
  config_.server_shards = 2;
  config_.kv_copies = 1;
  config_.kv_placement = 9;
  const StoreOrigin origin{.hash_seed = 17};
  for (uint32_t shard = 0; shard < 2; ++shard) {
    const StoreSpace space = needed(StoreSpace::open(plan_key_space(config_, shard, kKvRow.area), origin));
    EXPECT_EQ(space.bytes(), 4 * kMiB);
    EXPECT_EQ(space.bytes_max(), 32 * kMiB);
    const SpaceHeader& header = header_of(space);
    EXPECT_EQ(header.shard_index, shard);
    EXPECT_EQ(header.shard_count, 2U);
    EXPECT_EQ(header.copies, 1U);
    EXPECT_EQ(header.placement, 9U);
    EXPECT_EQ(header.hash_seed, 17U) << "of all shards";
    EXPECT_EQ(space.fill_state(), 0U) << "no server has filled it";
  }
}

TEST_F(OfSpace, all_shards_of_a_node_have_one_time) {
  config_.server_shards = 2;
  StoreOrigin origin = needed(find_store(config_));
  ASSERT_TRUE(origin.time);
  // As if the wall clock were set before the first one is made.
  origin.time->offset_ns -= kSecond_ns;
  const StoreSpace one = needed(StoreSpace::open(plan_key_space(config_, 0, kKvRow.area), origin));
  const StoreSpace other = needed(StoreSpace::open(plan_key_space(config_, 1, kKvRow.area), origin));
  EXPECT_EQ(header_of(one).time.offset_ns, header_of(other).time.offset_ns);
  EXPECT_EQ(header_of(one).time.offset_ns, origin.time->offset_ns);
}

TEST_F(OfSpace, too_little_memory_for_what_it_may_grow_to_is_refused_with_advice) {
  config_.memory_limit_bytes = 1024 * kGiB;
  config_.memory_initial_bytes = 2 * kMiB;
  const auto opened = open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
  EXPECT_THAT(opened.error().next, HasSubstr("--memory-initial"));
}

TEST_F(OfSpace, the_next_region_has_room_for_the_value_and_keeps_to_the_limit) {
  StoreSpace space = needed(open());
  EXPECT_EQ(space.next_region_bytes(0), 16 * kMiB) << "a step";
  EXPECT_EQ(space.next_region_bytes(56 * kMiB), 0U) << "a value lies in one region, with something around it";
  EXPECT_EQ(space.next_region_bytes(54 * kMiB), 56 * kMiB);
  for (int steps = 0; steps < 4; ++steps) grow(space, space.next_region_bytes(0));
  EXPECT_EQ(space.bytes(), space.bytes_max()) << "the last step is what the limit leaves";
  EXPECT_EQ(space.next_region_bytes(0), 0U) << "full";
}

TEST_F(OfSpace, that_of_objects_begins_small_and_has_room_beside_its_limit_in_no_file) {
  config_.memory_backing = {.kind = BackingKind::kFile, .folder = "/none"};
  config_.server_shards = 2;
  for (const uint64_t limit : {uint64_t{1}, kGiB, 1024 * kGiB}) {
    config_.objects_limit_bytes = limit;
    const SpacePlan plan = plan_object_space(config_, kKvRow.area);
    EXPECT_EQ(plan.backing, (Backing{.kind = BackingKind::kMemfd, .folder = {}, .shard = 2}));
    EXPECT_GE(plan.bytes_max - plan.bytes_initial, limit + limit / 8 + 40 * kMiB) << limit;
    EXPECT_LE(plan.bytes_initial, 64 * kMiB) << "of 1 TiB too";
    const StoreSpace space = needed(StoreSpace::open(plan, {.hash_seed = 3}));
    EXPECT_EQ(space.bytes(), plan.bytes_initial);
    EXPECT_EQ(header_of(space).shard_index, 2U);
    EXPECT_EQ(header_of(space).shard_count, 2U) << "of those with keys";
  }
}

TEST_F(OfSpace, something_long_may_use_what_is_left_where_it_may_lie_across_regions) {
  config_.objects_limit_bytes = 64 * kMiB;
  const StoreSpace space = needed(StoreSpace::open(plan_object_space(config_, kKvRow.area), {}));
  const uint64_t left = space.bytes_max() - space.bytes();
  EXPECT_EQ(space.next_region_bytes(left), left);
}

TEST_F(OfSpace, a_step_is_an_eighth_of_a_large_space_and_more_for_a_larger_value) {
  config_.memory_limit_bytes = 4 * kGiB;
  config_.memory_initial_bytes = 16 * kMiB;
  const StoreSpace space = needed(open());
  EXPECT_EQ(space.next_region_bytes(0), 16 * kMiB) << "the least";
  EXPECT_EQ(space.next_region_bytes(300 * kMiB), 302 * kMiB);
}

TEST_F(OfSpace, regions_lie_behind_each_other_and_have_keys_of_their_own) {
  StoreSpace space = needed(open());
  grow(space, 4 * kMiB);
  grow(space, 2 * kMiB);
  ASSERT_EQ(space.regions().size(), 3U);
  uint64_t end = 0;
  for (size_t i = 0; i < 3; ++i) {
    const StoreSpace::Held& held = space.regions()[i];
    EXPECT_EQ(held.region.id(), i);
    EXPECT_EQ(held.region.base(), end);
    end += held.region.bytes();
    for (size_t other = 0; other < i; ++other) EXPECT_NE(held.key.bits, space.regions()[other].key.bits);
  }
  EXPECT_EQ(space.bytes(), end);
}

TEST_F(OfSpace, emptied_it_is_the_same_store_without_its_entries) {
  StoreSpace space = needed(open());
  grow(space, 4 * kMiB);
  const SpaceHeader before = header_of(space);
  Writer writer(space.addresses().base());
  writer.publish(Offset{offsetof(SpaceHeader, fill_state)}, kFillBegun);
  writer.publish(Offset{before.chunk_table + 3 * sizeof(ChunkWord)}, 77);
  ASSERT_TRUE(space.empty());
  EXPECT_EQ(space.fill_state(), 0U);
  EXPECT_EQ(writer.load(Offset{before.chunk_table + 3 * sizeof(ChunkWord)}), 0U);
  EXPECT_EQ(header_of(space).hash_seed, before.hash_seed);
  EXPECT_EQ(header_of(space).time.offset_ns, before.time.offset_ns) << "its time continues";
  EXPECT_EQ(space.regions().size(), 2U) << "the memory stays";
}

TEST_F(OfSpaceInFiles, what_a_node_left_is_taken_up_as_it_was) {
  make_store(true);
  const auto origin = needed(find_store(config_));
  EXPECT_TRUE(origin.existed);
  const StoreSpace space = needed(open());
  EXPECT_EQ(space.bytes(), 8 * kMiB);
  EXPECT_EQ(space.fill_state(), kFillComplete);
  EXPECT_EQ(header_of(space).hash_seed, origin.hash_seed);
}

TEST_F(OfSpaceInFiles, a_file_of_zeros_is_as_if_it_were_not_there) {
  make_store(true);
  const uint64_t bytes = fs::file_size(file());
  fs::resize_file(file(), 0);
  fs::resize_file(file(), bytes);
  EXPECT_FALSE(needed(find_store(config_)).existed);
  EXPECT_EQ(needed(open()).fill_state(), 0U);
}

TEST_F(OfSpaceInFiles, what_a_node_that_died_had_counts_in_the_same_boot_and_the_same_files_alone) {
  make_store(false);
  EXPECT_TRUE(open()) << "a crash of the node";
  const fs::path copy = file().string() + ".copy";
  fs::copy_file(file(), copy);
  fs::rename(copy, file());
  expect_refused(Code::kCorrupt, "copies of a running node's");
}

TEST_F(OfSpaceInFiles, of_a_host_that_went_down_only_what_was_left_before_counts) {
  constexpr uint64_t kBootAt = offsetof(SpaceHeader, time) + offsetof(SpaceTime, boot);
  make_store(false);
  write_word(kBootAt, 42);
  expect_refused(Code::kCorrupt, "was running when its host went down");
  fs::remove(file());
  make_store(true);
  write_word(kBootAt, 42);
  EXPECT_TRUE(open());
}

TEST_F(OfSpaceInFiles, what_is_no_space_or_of_another_version_is_refused_and_not_changed) {
  make_store(true);
  write_word(offsetof(SpaceHeader, magic), 1);
  expect_refused(Code::kMalformed, "does not begin with a space's header");
  write_word(offsetof(SpaceHeader, magic), kSpaceMagic);
  write_word(offsetof(SpaceHeader, layout_version), uint64_t{kChunkBytes} << 32 | 999);
  expect_refused(Code::kUnsupported, "layout version 999");
}

TEST_F(OfSpaceInFiles, a_lower_limit_than_the_store_was_made_with_is_refused) {
  make_store(true);
  config_.memory_limit_bytes = 32 * kMiB;
  expect_refused(Code::kInvalidArgument, "a higher --memory-limit");
  config_.memory_limit_bytes = 6 * kMiB;
  expect_refused(Code::kInvalidArgument, "the 6 MiB that --memory-limit allows");
}

TEST_F(OfSpaceInFiles, files_of_one_store_alone_are_taken_and_all_of_them) {
  config_.server_shards = 2;
  const StoreOrigin origin = needed(find_store(config_));
  for (const uint32_t shard : {1U, 0U}) {
    ASSERT_TRUE(needed(StoreSpace::open(plan_key_space(config_, shard, kKvRow.area), origin)).leave());
  }
  EXPECT_EQ(needed(find_store(config_)).hash_seed, origin.hash_seed);
  config_.server_shards = 1;
  const auto other_count = find_store(config_);
  ASSERT_FALSE(other_count);
  EXPECT_THAT(other_count.error().next, HasSubstr("--server-shards 2"));
  config_.server_shards = 2;

  const std::string first = whole(file(0));
  write_word(offsetof(SpaceHeader, hash_seed), origin.hash_seed + 1);
  const auto strange = find_store(config_);
  ASSERT_FALSE(strange);
  EXPECT_THAT(strange.error().what, HasSubstr("belongs to another store"));
  std::ofstream(file(0), std::ios::binary) << first;

  fs::remove(file(1));
  const auto missing = find_store(config_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kCorrupt);
  EXPECT_THAT(missing.error().what, HasSubstr(file(1).string()));
}

// As releases before left them, and as a wall clock that is set while a node ends leaves them.
TEST_F(OfSpaceInFiles, shards_whose_times_differ_take_that_of_the_one_that_is_ahead) {
  constexpr uint64_t kTimeAt = offsetof(SpaceHeader, time);
  config_.server_shards = 2;
  const auto take_up = [&] {
    const StoreOrigin origin = needed(find_store(config_));
    std::vector<SpaceTime> times;
    for (const uint32_t shard : {1U, 0U}) {
      StoreSpace space = needed(StoreSpace::open(plan_key_space(config_, shard, kKvRow.area), origin));
      times.push_back(header_of(space).time);
      EXPECT_TRUE(space.leave());
    }
    EXPECT_EQ(times[0].offset_ns, times[1].offset_ns);
    return times[0];
  };
  const SpaceTime first = take_up();
  write_word(kTimeAt + offsetof(SpaceTime, offset_ns), first.offset_ns + kSecond_ns, 0);
  EXPECT_EQ(take_up().offset_ns, first.offset_ns + kSecond_ns);
  write_word(kTimeAt + offsetof(SpaceTime, offset_ns), first.offset_ns, 0);
  EXPECT_EQ(take_up().offset_ns, first.offset_ns + kSecond_ns) << "of the other one";
  for (const uint32_t shard : {0U, 1U}) write_word(kTimeAt + offsetof(SpaceTime, boot), 42, shard);
  (void)take_up();
}

TEST(Predecessor, is_waited_for_while_it_has_the_thing_and_for_no_other_reason) {
  int tries = 0;
  const auto taken = take_from_predecessor([&]() -> Reported<int> {
    if (++tries < 3) return report(Code::kInUse, "another node has it");
    return 7;
  });
  EXPECT_EQ(needed(taken), 7);
  EXPECT_EQ(tries, 3);
  const auto refused = take_from_predecessor([&]() -> Reported<int> {
    ++tries;
    return report(Code::kCorrupt, "damaged");
  });
  EXPECT_FALSE(refused);
  EXPECT_EQ(tries, 4) << "waiting mends no damage";
}

}  // namespace
}  // namespace refract::node
