// SPDX-License-Identifier: Apache-2.0
// The doctor on a node's folder: real folders, in each state that one can be in.
#include "refract/node/doctor/doctor_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "refract/base/boot_id.h"
#include "refract/base/testing/needed.h"
#include "refract/base/testing/processes/files.h"
#include "refract/node/config/config.h"
#include "refract/storage/posix_disk.h"
#include "refract/storage/store_folder.h"

namespace refract::node {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class DoctorData : public testing::Test {
 protected:
  DoctorData() {
    inputs_.memory_limit_bytes = kMiB;
    inputs_.durability = Durability::kAlways;
    inputs_.data_folder = made_ + "/data";
  }
  [[nodiscard]] std::optional<Finding> finding(std::string_view name) const {
    const std::vector<Finding> all = examine_data(inputs_);
    const auto found = std::ranges::find(all, name, &Finding::name);
    return found == all.end() ? std::nullopt : std::optional(*found);
  }
  void expect(std::string_view name, Health health, const std::string& found, const std::string& mend) const {
    const auto one = finding(name);
    ASSERT_TRUE(one) << name;
    EXPECT_EQ(one->health, health) << one->found;
    EXPECT_THAT(one->found, HasSubstr(found));
    EXPECT_THAT(one->mend, HasSubstr(mend));
    EXPECT_EQ(one->mend.empty(), health == Health::kOk) << one->found;
  }
  [[nodiscard]] storage::StoreFolder begin_store(uint32_t shards) const {
    return test::needed(storage::StoreFolder::open(
        test::needed(storage::open_posix_disk(inputs_.data_folder)), {.shard_count = shards}));
  }

  test::TemporaryFolder folder_;
  const std::string& made_ = folder_.path();
  DoctorInputs inputs_;
};

TEST_F(DoctorData, a_folder_that_is_not_there_is_made_where_its_parent_is) {
  expect("data folder", Health::kOk, "is made when a node starts", "");
  inputs_.data_folder = made_ + "/missing/data";
  expect("data folder", Health::kFail, "there is no " + made_ + "/missing",
         "mkdir -m 700 -p " + inputs_.data_folder);
  inputs_.is_data_folder_default = true;
  expect("data folder", Health::kOk, "is made when a node starts", "");
  EXPECT_FALSE(fs::exists(made_ + "/missing")) << "the doctor makes nothing";
}

TEST_F(DoctorData, a_store_of_other_shards_fails_and_one_that_fits_does_not) {
  {
    (void)begin_store(2);
  }
  expect("data folder", Health::kFail, "server.shards 2, and this is 1", "--server-shards 2");
  inputs_.shards = 2;
  expect("data folder", Health::kOk, "has a store", "");
}

TEST_F(DoctorData, a_store_of_other_copies_fails_and_one_that_fits_does_not) {
  {
    (void)test::needed(storage::StoreFolder::open(test::needed(storage::open_posix_disk(inputs_.data_folder)),
                                                  {.shard_count = 1, .copies = 1}));
  }
  expect("data folder", Health::kFail, "kv.copies 1, and this is 0", "--kv-copies 1");
  inputs_.copies = 1;
  expect("data folder", Health::kOk, "has a store", "");
}

TEST_F(DoctorData, a_folder_in_use_is_told_from_one_that_is_free) {
  {
    const storage::StoreFolder holding = begin_store(1);
    expect("data folder", Health::kOk, "in use by a node that runs", "");
  }
  EXPECT_THAT(finding("data folder")->found, Not(HasSubstr("in use")));
}

TEST_F(DoctorData, a_damaged_page_is_said_before_a_node_meets_it) {
  {
    (void)begin_store(1);
  }
  std::ofstream(inputs_.data_folder + "/store", std::ios::binary | std::ios::trunc) << "no store";
  expect("data folder", Health::kFail, "is damaged", "copy");
}

TEST_F(DoctorData, room_is_wanted_for_two_snapshots_and_the_log) {
  const auto enough = finding("data disk");
  ASSERT_TRUE(enough);
  EXPECT_THAT(enough->found, HasSubstr("free"));
  inputs_.memory_limit_bytes = uint64_t{1} << 50;
  const auto little = finding("data disk");
  ASSERT_TRUE(little);
  EXPECT_EQ(little->health, Health::kWarn);
  // Where the folder lies in memory or in a container, that is what is said first.
  const bool is_blamed_already = enough->health == Health::kWarn;
  EXPECT_THAT(little->found, HasSubstr(is_blamed_already ? "free" : "two snapshots and the log"));
}

TEST_F(DoctorData, a_ring_lies_in_the_folder_and_one_that_was_in_use_is_missed) {
  inputs_.durability = Durability::kEverySecond;
  const auto before = finding("log's ring");
  ASSERT_TRUE(before);
  EXPECT_THAT(before->found, testing::AnyOf(HasSubstr("lies in the folder"), HasSubstr("lies in memory")));
  const auto boot = host_boot_id();
  if (!boot) GTEST_SKIP() << "this system does not say which boot it is";
  {
    storage::StoreFolder folder = begin_store(1);
    ASSERT_TRUE(folder.set({}, {.is_in_use = 1, .number = 5, .boot = *boot}));
  }
  expect("log's ring", Health::kFail, inputs_.data_folder + "/ring-000 is gone", "refract restore --salvage");
  std::ofstream(inputs_.data_folder + "/ring-000") << "there";
  EXPECT_NE(finding("log's ring")->health, Health::kFail);
}

TEST_F(DoctorData, a_node_without_a_log_is_told_what_it_loses_and_what_it_leaves_lying) {
  {
    (void)begin_store(1);
  }
  inputs_.durability = Durability::kNone;
  expect("data", Health::kWarn, "not read and not written", "--data-durability everysec");
  inputs_.data_folder = made_ + "/nothing";
  expect("data", Health::kOk, "everything is lost when the node stops or the host crashes", "");
  inputs_.backing.kind = BackingKind::kFile;
  expect("data", Health::kOk, "a crash of the host loses everything", "");
  EXPECT_TRUE(measure_data(inputs_).empty());
}

TEST_F(DoctorData, a_sync_is_measured_and_leaves_nothing_behind) {
  fs::create_directory(inputs_.data_folder);
  const std::vector<Finding> measured = measure_data(inputs_);
  // Not every file system has files without a name.
  if (measured.empty()) GTEST_SKIP() << "no O_TMPFILE in " << inputs_.data_folder;
  ASSERT_EQ(measured.size(), 1U);
  EXPECT_EQ(measured[0].health, Health::kOk) << measured[0].found;
  ASSERT_EQ(measured[0].figures.size(), 2U);
  EXPECT_GT(measured[0].figures[0].value, 0U);
  EXPECT_GE(measured[0].figures[1].value, measured[0].figures[0].value);
  EXPECT_TRUE(fs::is_empty(inputs_.data_folder));
}

TEST(DoctorFileSystem, what_does_not_keep_data_is_named_and_what_does_is_not_blamed) {
  for (const uint64_t type : {uint64_t{TMPFS_MAGIC}, uint64_t{OVERLAYFS_SUPER_MAGIC},
                              uint64_t{NFS_SUPER_MAGIC}, uint64_t{0x65735546}, uint64_t{0xff534d42}}) {
    EXPECT_FALSE(file_system_facts(type).trouble.empty()) << type;
    EXPECT_FALSE(file_system_facts(type).mend.empty()) << type;
  }
  for (const uint64_t type : {uint64_t{EXT4_SUPER_MAGIC}, uint64_t{XFS_SUPER_MAGIC}, uint64_t{12345}}) {
    EXPECT_TRUE(file_system_facts(type).trouble.empty()) << type;
  }
}

}  // namespace
}  // namespace refract::node
