// SPDX-License-Identifier: Apache-2.0
// Both disks keep the contract of disk.h; the simulated one keeps nothing beyond it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/storage/posix_disk.h"
#include "refract/storage/testing/simulated_disk.h"

namespace refract::storage {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

std::string text_of(File& file, uint64_t offset, size_t count) {
  std::vector<std::byte> bytes(count);
  const Reported<uint64_t> read = file.read(offset, bytes);
  EXPECT_TRUE(read) << read.error().to_string();
  std::string text;
  for (size_t i = 0; read && i < *read; ++i) text.push_back(static_cast<char>(bytes[i]));
  return text;
}

class DiskContract : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      Reported<std::unique_ptr<Disk>> opened = open_posix_disk(folder_.path() + "/store");
      ASSERT_TRUE(opened) << opened.error().to_string();
      disk_ = *std::move(opened);
    } else {
      disk_ = std::make_unique<SimulatedDisk>(SimulatedDisk::Options{});
    }
  }

  test::Folder folder_;
  std::unique_ptr<Disk> disk_;
};

TEST_P(DiskContract, what_was_written_is_read_and_reading_ends_with_the_file) {
  Reported<std::unique_ptr<File>> file = disk_->open("a", OpenMode::kCreate);
  ASSERT_TRUE(file) << file.error().to_string();
  ASSERT_TRUE((*file)->allocate(2000));
  ASSERT_TRUE((*file)->write(1000, bytes_of("hello")));
  ASSERT_TRUE((*file)->sync());
  EXPECT_EQ(text_of(**file, 1000, 5), "hello");
  EXPECT_EQ(text_of(**file, 999, 3), std::string("\0he", 3));
  EXPECT_EQ(text_of(**file, 1998, 10).size(), 2);
  EXPECT_EQ(text_of(**file, 5000, 10), "");
  EXPECT_EQ((*file)->bytes().value(), 2000);
  ASSERT_TRUE((*file)->truncate(1003));
  EXPECT_EQ(text_of(**file, 1000, 5), "hel");
}

TEST_P(DiskContract, names_are_made_replaced_listed_and_removed) {
  {
    ASSERT_TRUE(disk_->open("b", OpenMode::kCreate).value()->write(0, bytes_of("new")));
  }
  {
    ASSERT_TRUE(disk_->open("a", OpenMode::kCreate).value()->write(0, bytes_of("old")));
  }
  EXPECT_EQ(disk_->open("a", OpenMode::kCreate).error().code, Code::kExists);
  EXPECT_THAT(disk_->list().value(), ElementsAre("a", "b"));
  ASSERT_TRUE(disk_->rename("b", "a"));
  EXPECT_THAT(disk_->list().value(), ElementsAre("a"));
  EXPECT_EQ(text_of(**disk_->open("a", OpenMode::kRead), 0, 3), "new");
  ASSERT_TRUE(disk_->remove("a"));
  ASSERT_TRUE(disk_->sync_folder());
  EXPECT_EQ(disk_->open("a", OpenMode::kRead).error().code, Code::kNotFound);
  EXPECT_EQ(disk_->remove("a").error().code, Code::kNotFound);
  EXPECT_THAT(disk_->path_of("x"), testing::EndsWith("/x"));
}

TEST_P(DiskContract, a_lock_is_held_by_one_and_freed_with_its_holder) {
  {
    const Reported<std::unique_ptr<Lock>> lock = disk_->lock("lock");
    ASSERT_TRUE(lock) << lock.error().to_string();
    const Reported<std::unique_ptr<Lock>> second = disk_->lock("lock");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kInUse);
    EXPECT_THAT(second.error().what, HasSubstr("another process uses the folder"));
  }
  EXPECT_TRUE(disk_->lock("lock"));
}

TEST_P(DiskContract, a_file_opened_for_reading_is_not_written) {
  {
    ASSERT_TRUE(disk_->open("a", OpenMode::kCreate));
  }
  EXPECT_FALSE(disk_->open("a", OpenMode::kRead).value()->write(0, bytes_of("x")));
}

INSTANTIATE_TEST_SUITE_P(AllDisks, DiskContract, testing::Bool(),
                         [](const auto& disk) { return disk.param ? "posix" : "simulated"; });

TEST(PosixDisk, files_belong_to_the_user_alone_and_links_are_not_followed) {
  const test::Folder folder;
  const std::unique_ptr<Disk> disk = test::needed(open_posix_disk(folder.path() + "/store"));
  ASSERT_TRUE(disk->open("a", OpenMode::kCreate));
  struct stat facts = {};
  ASSERT_EQ(::stat((folder.path() + "/store/a").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600);
  std::filesystem::create_symlink("/etc/hostname", folder.path() + "/store/b");
  EXPECT_EQ(disk->open("b", OpenMode::kReadWrite).error().code, Code::kAccessDenied);
}

TEST(PosixDisk, an_error_names_the_file_as_it_is_called_by_now) {
  const test::Folder folder;
  const auto disk = test::needed(open_posix_disk(folder.path()));
  ASSERT_TRUE(disk->open("before", OpenMode::kCreate));
  const auto file = test::needed(disk->open("before", OpenMode::kRead));
  ASSERT_TRUE(disk->rename("before", "after"));
  const Reported<> written = file->write(0, std::as_bytes(std::span("x", 1)));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().what, HasSubstr("cannot write to " + folder.path() + "/after"));
}

TEST(PosixDisk, a_missing_parent_and_a_missing_folder_are_named) {
  const test::Folder folder;
  const auto made = open_posix_disk(folder.path() + "/no/store");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kNotFound);
  EXPECT_THAT(made.error().what, HasSubstr(folder.path() + "/no/store"));
  EXPECT_EQ(open_existing_posix_disk(folder.path() + "/none").error().code, Code::kNotFound);
}

TEST(PosixDisk, each_error_of_a_disk_has_its_code_and_says_what_to_do) {
  struct Row {
    int error;
    Code code;
    const char* next;
  };
  const Row rows[] = {{ENOSPC, Code::kNoSpace, "df -h"},     {EDQUOT, Code::kNoSpace, "quota"},
                      {EROFS, Code::kAccessDenied, "dmesg"}, {EACCES, Code::kAccessDenied, "writable"},
                      {EIO, Code::kSystem, "replace"},       {EMFILE, Code::kSystem, "ulimit -n"},
                      {EFBIG, Code::kNoSpace, "ulimit -f"}};
  for (const Row& row : rows) {
    const Report told = report_errno(row.error, "write to", "/x/y").error();
    EXPECT_EQ(told.code, row.code);
    EXPECT_THAT(told.what, HasSubstr("cannot write to /x/y: "));
    EXPECT_THAT(told.next, HasSubstr(row.next));
  }
}

// Four sectors are written without a sync: over some seeds each subset of them must survive.
TEST(SimulatedDisk, a_crash_keeps_any_subset_of_unsynced_sectors_and_all_synced_ones) {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SimulatedDisk disk({.seed = seed});
    const auto file = test::needed(disk.open("a", OpenMode::kCreate));
    ASSERT_TRUE(file->write(0, std::vector<std::byte>(kSectorBytes * 4, std::byte{'o'})));
    ASSERT_TRUE(file->sync());
    ASSERT_TRUE(disk.sync_folder());
    ASSERT_TRUE(file->write(0, std::vector<std::byte>(kSectorBytes * 4, std::byte{'n'})));
    disk.crash();
    EXPECT_FALSE(file->write(0, bytes_of("x"))) << "a file of before the crash";
    const std::vector<std::byte> left = disk.bytes_of("a");
    ASSERT_EQ(left.size(), kSectorBytes * 4);
    std::string pattern;
    for (size_t sector = 0; sector < 4; ++sector) {
      const std::byte first = left[sector * kSectorBytes];
      for (size_t i = 0; i < kSectorBytes; ++i) ASSERT_EQ(left[sector * kSectorBytes + i], first);
      pattern.push_back(static_cast<char>(first));
    }
    seen.insert(pattern);
  }
  EXPECT_EQ(seen.size(), 16);
}

TEST(SimulatedDisk, what_a_failed_sync_should_have_written_is_lost_though_the_next_one_succeeds) {
  bool lost = false;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimulatedDisk disk({.seed = seed});
    const auto file = test::needed(disk.open("a", OpenMode::kCreate));
    ASSERT_TRUE(file->allocate(kSectorBytes));
    ASSERT_TRUE(file->sync());
    ASSERT_TRUE(disk.sync_folder());
    ASSERT_TRUE(file->write(0, bytes_of("x")));
    disk.fail_next_syncs(1);
    ASSERT_FALSE(file->sync());
    ASSERT_TRUE(file->sync());
    EXPECT_EQ(disk.bytes_of("a")[0], std::byte{'x'}) << "still seen before the crash";
    disk.crash();
    lost = lost || disk.bytes_of("a")[0] == std::byte{0};
  }
  EXPECT_TRUE(lost);
}

TEST(SimulatedDisk, a_file_that_no_folder_sync_confirmed_may_be_gone_and_may_be_there) {
  std::set<size_t> seen;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimulatedDisk disk({.seed = seed});
    ASSERT_TRUE(disk.open("a", OpenMode::kCreate).value()->sync());
    ASSERT_TRUE(disk.open("b", OpenMode::kCreate).value()->sync());
    disk.crash();
    seen.insert(disk.list()->size());
    EXPECT_TRUE(disk.list()->size() != 1 || disk.list()->front() == "a") << "a prefix of the changes";
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2));
}

TEST(SimulatedDisk, a_full_one_refuses_growth_and_takes_writes_into_allocated_room) {
  SimulatedDisk disk({.capacity_bytes = 4096});
  const auto file = test::needed(disk.open("a", OpenMode::kCreate));
  ASSERT_TRUE(file->allocate(4096));
  EXPECT_EQ(file->write(4096, bytes_of("x")).error().code, Code::kNoSpace);
  EXPECT_EQ(disk.open("b", OpenMode::kCreate).value()->allocate(1).error().code, Code::kNoSpace);
  EXPECT_TRUE(file->write(4095, bytes_of("x")));
}

TEST(SimulatedDisk, after_its_power_went_everything_fails_until_it_is_up_again) {
  SimulatedDisk disk({});
  disk.die_at(3);
  const auto file = test::needed(disk.open("a", OpenMode::kCreate));
  ASSERT_TRUE(file->write(0, bytes_of("x")));
  EXPECT_FALSE(file->sync());
  EXPECT_TRUE(disk.is_dead());
  EXPECT_FALSE(file->write(0, bytes_of("x")));
  EXPECT_FALSE(disk.list());
  disk.crash();
  EXPECT_TRUE(disk.list());
}

}  // namespace
}  // namespace refract::storage
