// SPDX-License-Identifier: Apache-2.0
// A node's data folder from one node to the next: what is made, taken up, refused. Real folders.
#include "refract/node/durable/data_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>

#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {
namespace {

namespace fs = std::filesystem;

using test::needed;
using testing::HasSubstr;

class OfDataFolder : public testing::Test {
 protected:
  OfDataFolder() {
    set_log_level(LogLevel::kError);
    config_.data_folder = folder_.path() + "/data";
    config_.durability = Durability::kEverySecond;
  }
  ~OfDataFolder() override { set_log_level(LogLevel::kInfo); }

  test::Folder folder_;
  NodeConfig config_;
};

TEST_F(OfDataFolder, the_next_node_finds_the_same_store) {
  storage::LogId log;
  uint64_t seed = 0;
  {
    DataFolder data = needed(DataFolder::open(config_));
    EXPECT_FALSE(data.existed());
    log = data.log_of(0);
    seed = data.origin().hash_seed;
    ASSERT_TRUE(data.leave(true));
  }
  DataFolder data = needed(DataFolder::open(config_));
  EXPECT_TRUE(data.existed());
  EXPECT_EQ(data.log_of(0).store, log.store);
  EXPECT_EQ(data.origin().hash_seed, seed);
  EXPECT_FALSE(data.origin().existed) << "of the memory, which is new";
  EXPECT_TRUE(data.origin().time) << "the store's time continues";
}

TEST_F(OfDataFolder, two_new_folders_are_two_stores) {
  DataFolder first = needed(DataFolder::open(config_));
  config_.data_folder = folder_.path() + "/other";
  DataFolder second = needed(DataFolder::open(config_));
  EXPECT_NE(first.log_of(0).store, second.log_of(0).store);
  EXPECT_NE(first.origin().hash_seed, second.origin().hash_seed);
}

TEST_F(OfDataFolder, another_number_of_shards_is_refused_with_the_number_to_start_with) {
  config_.server_shards = 2;
  ASSERT_TRUE(needed(DataFolder::open(config_)).leave(true));
  config_.server_shards = 3;
  const auto refused = DataFolder::open(config_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_THAT(refused.error().next, HasSubstr("--server-shards 2"));
  config_.server_shards = 2;
  EXPECT_TRUE(DataFolder::open(config_)) << "the refusal changed nothing";
}

TEST_F(OfDataFolder, parents_of_a_named_folder_are_not_made_and_those_of_the_default_one_are_private) {
  config_.data_folder = folder_.path() + "/a/b/data";
  const auto refused = DataFolder::open(config_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_THAT(refused.error().next, HasSubstr("mkdir -m 700 -p " + config_.data_folder));
  EXPECT_FALSE(fs::exists(folder_.path() + "/a"));
  config_.is_data_folder_default = true;
  ASSERT_TRUE(DataFolder::open(config_));
  for (const char* made : {"/a", "/a/b", "/a/b/data"}) {
    struct stat facts{};
    ASSERT_EQ(::stat((folder_.path() + made).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0700U) << made;
  }
}

TEST_F(OfDataFolder, a_file_where_the_folder_should_be_is_refused_and_stays) {
  folder_.write("data", "a letter");
  EXPECT_FALSE(DataFolder::open(config_));
  EXPECT_EQ(fs::file_size(config_.data_folder), 8U);
}

TEST_F(OfDataFolder, a_log_without_its_page_is_refused_and_not_taken_for_a_new_store) {
  fs::create_directory(config_.data_folder);
  folder_.write("data/log-0-1", "something");
  const auto refused = DataFolder::open(config_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_THAT(refused.error().next, HasSubstr("--salvage"));
}

TEST_F(OfDataFolder, the_page_says_that_rings_are_empty_only_where_all_was_settled) {
  const auto rings_in_use = [this](bool is_settled) {
    DataFolder data = needed(DataFolder::open(config_));
    EXPECT_TRUE(data.leave(is_settled));
    return needed(needed(storage::StoreFolder::look(data.disk()))).rings.is_in_use != 0;
  };
  EXPECT_FALSE(rings_in_use(true));
  EXPECT_TRUE(rings_in_use(false)) << "the next node looks for what they hold";
}

TEST_F(OfDataFolder, the_beginning_of_a_snapshot_is_removed_and_whole_ones_stay) {
  ASSERT_TRUE(needed(DataFolder::open(config_)).leave(true));
  const std::string whole = "data/" + storage::snapshot_name(0, 5);
  folder_.write(whole, "whole, as far as its name says");
  folder_.write("data/" + storage::snapshot_name(0, 6) + ".part", "the beginning");
  ASSERT_TRUE(DataFolder::open(config_));
  EXPECT_TRUE(fs::exists(folder_.path() + "/" + whole));
  EXPECT_FALSE(fs::exists(folder_.path() + "/data/" + storage::snapshot_name(0, 6) + ".part"));
}

}  // namespace
}  // namespace refract::node
