// SPDX-License-Identifier: Apache-2.0
// Where the rings of a node are, from one keeper to the next, with real folders.
#include "refract/node/durable/data_rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "refract/base/boot_id.h"
#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/posix_disk.h"

namespace refract::node {
namespace {

namespace fs = std::filesystem;

using storage::Ring;
using storage::RingPlace;
using testing::HasSubstr;

class Rings : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kError);
    config_.data_folder = made_.path();
    config_.durability = Durability::kEverySecond;
    config_.server_shards = 2;
    if (!host_boot_id()) GTEST_SKIP() << "this system does not say which boot it is";
    if (!test::needed(storage::RingFolder::open(made_.path())).keeps_rings()) {
      GTEST_SKIP() << made_.path() << " keeps no rings";
    }
    open_folder();
  }
  void TearDown() override { set_log_level(LogLevel::kInfo); }

  void open_folder() {
    folder_.reset();
    auto opened = storage::StoreFolder::open(test::needed(storage::open_posix_disk(made_.path())),
                                             {.store = {std::byte{3}}, .shard_count = 2});
    ASSERT_TRUE(opened) << opened.error().to_string();
    folder_.emplace(*std::move(opened));
  }
  // Another keeper, after the one before has died, or has said that it leaves.
  [[nodiscard]] Reported<DataRings> next_keeper(bool leaves = false) {
    rings_.reset();
    if (leaves) {
      EXPECT_TRUE(folder_->set({}, {}));
    }
    open_folder();
    return DataRings::open(config_, *folder_, {});
  }
  void begin() {
    auto opened = next_keeper();
    ASSERT_TRUE(opened) << opened.error().to_string();
    rings_.emplace(*std::move(opened));
  }
  void use(uint32_t shard) {
    Ring ring = test::needed(Ring::open(rings_->of(shard)));
    ring.begin(4096 * (shard + 1));
    ring.set_in_use();
  }
  [[nodiscard]] std::string path(uint32_t shard) const {
    return made_.path() + "/" + storage::ring_name(shard);
  }

  test::Folder made_;
  NodeConfig config_;
  std::optional<storage::StoreFolder> folder_;
  std::optional<DataRings> rings_;
};

TEST_F(Rings, are_taken_up_behind_a_death_and_begin_anew_behind_an_end) {
  begin();
  use(0);
  const uint64_t number = rings_->use().number;
  auto next = next_keeper();
  ASSERT_TRUE(next) << next.error().to_string();
  EXPECT_EQ(next->use().number, number);
  EXPECT_TRUE(Ring::open(next->of(0)).value().is_in_use());
  EXPECT_FALSE(Ring::open(next->of(1)).value().is_in_use());
  rings_.emplace(*std::move(next));
  auto later = next_keeper(/*leaves=*/true);
  ASSERT_TRUE(later) << later.error().to_string();
  EXPECT_NE(later->use().number, number);
  EXPECT_FALSE(Ring::open(later->of(0)).value().is_in_use());
}

TEST_F(Rings, that_are_gone_are_named_and_refused_where_only_they_may_have_had_something) {
  begin();
  use(0);
  rings_.reset();
  fs::remove(path(1));
  const auto refused = next_keeper();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().to_string(), HasSubstr(path(1)));
  EXPECT_THAT(refused.error().next, HasSubstr("refract restore --salvage"));
  EXPECT_TRUE(
      Ring::open(storage::RingFile::look(storage::RingFolder::open(made_.path()).value(),
                                         {.store = {std::byte{3}}, .boot = test::needed(host_boot_id())})
                     .value())
          .value()
          .is_in_use())
      << "a refusal changes nothing";
}

TEST_F(Rings, of_a_node_that_confirmed_on_the_disk_alone_may_be_gone) {
  config_.durability = Durability::kAlways;
  begin();
  use(0);
  rings_.reset();
  fs::remove(path(1));
  begin();
  EXPECT_EQ(rings_->use().always, 1U);
  EXPECT_TRUE(fs::exists(path(1)));
}

// What the one before had promised less for is in the rings still.
TEST_F(Rings, do_not_count_as_those_of_always_before_they_were_made_by_it) {
  begin();
  config_.durability = Durability::kAlways;
  begin();
  EXPECT_EQ(rings_->use().always, 0U);
  rings_.reset();
  auto next = next_keeper(/*leaves=*/true);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->use().always, 1U);
  config_.durability = Durability::kEverySecond;
  rings_.emplace(*std::move(next));
  begin();
  EXPECT_EQ(rings_->use().always, 0U);
}

TEST_F(Rings, that_the_folder_has_no_place_for_lie_in_memory) {
  fs::create_directory(path(1));
  begin();
  EXPECT_EQ(rings_->use().place, static_cast<uint64_t>(RingPlace::kMemory));
  use(0);
  use(1);
  EXPECT_TRUE(Ring::open(rings_->of(1)).value().is_in_use());
  fs::remove(path(1));
  // Gone with its keeper, which is said, and no reason to keep a node from starting.
  begin();
  EXPECT_EQ(rings_->use().place, static_cast<uint64_t>(RingPlace::kFolder));
  EXPECT_FALSE(Ring::open(rings_->of(1)).value().is_in_use());
}

TEST_F(Rings, that_a_file_system_refuses_move_to_memory_with_all_that_they_hold) {
  begin();
  use(1);
  ASSERT_TRUE(rings_->move_to_memory(*folder_));
  EXPECT_EQ(rings_->use().place, static_cast<uint64_t>(RingPlace::kMemory));
  EXPECT_EQ(folder_->facts().rings.place, static_cast<uint64_t>(RingPlace::kMemory));
  const Ring ring = test::needed(Ring::open(rings_->of(1)));
  EXPECT_TRUE(ring.is_in_use());
  EXPECT_EQ(ring.mark().log_position, 8192U);
}

TEST_F(Rings, whose_names_are_lost_are_noticed_and_get_them_back_with_all_that_they_hold) {
  begin();
  use(0);
  EXPECT_FALSE(rings_->has_lost_names());
  fs::remove(path(0));
  EXPECT_TRUE(rings_->has_lost_names());
  auto prepared = rings_->prepare();
  ASSERT_TRUE(prepared);
  EXPECT_EQ(prepared->size(), 1U);
  ASSERT_TRUE(rings_->replace(*std::move(prepared)));
  EXPECT_FALSE(rings_->has_lost_names());
  EXPECT_TRUE(Ring::open(rings_->of(0)).value().is_in_use());
  begin();
  EXPECT_TRUE(Ring::open(rings_->of(0)).value().is_in_use());
}

TEST_F(Rings, that_were_cut_are_replaced_and_say_what_was_lost) {
  begin();
  use(0);
  EXPECT_FALSE(rings_->replace_damaged().value());
  fs::resize_file(path(0), 5000);
  EXPECT_TRUE(rings_->replace_damaged().value());
  EXPECT_TRUE(Ring::open(rings_->of(0)).value().is_lost());
  const auto refused = next_keeper();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().to_string(), HasSubstr("is lost"));
}

}  // namespace
}  // namespace refract::node
