// SPDX-License-Identifier: Apache-2.0
// The file of a ring, on a real disk: what lies at its name is made use of, refused with a sentence, or
// replaced, and never anything that another process holds.
#include "refract/storage/ring/ring_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "refract/base/testing/needed.h"
#include "refract/memory/testing/fake_system.h"

namespace refract::storage {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

constexpr RingIdentity kOurs{
    .store = {std::byte{7}}, .shard = 3, .boot = {std::byte{9}}, .number = 0x1234'5678};

class RingFiles : public testing::Test {
 protected:
  [[nodiscard]] Reported<RingFile> make(const RingIdentity& identity = kOurs) const {
    return RingFile::make(folder_, identity, kRingBytesMin);
  }
  [[nodiscard]] Reported<RingFile> take_up(const RingIdentity& identity = kOurs) const {
    return RingFile::take_up(folder_, identity);
  }
  [[nodiscard]] std::string path() const { return made_.path() + "/ring-003"; }
  [[nodiscard]] struct stat facts() const {
    struct stat found = {};
    EXPECT_EQ(::lstat(path().c_str(), &found), 0);
    return found;
  }
  // Another file's bytes, flipped or replaced.
  void write_at(uint64_t offset, char byte) const {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
  void expect_refused(const RingIdentity& identity, Code code, const std::string& words) const {
    const auto taken = take_up(identity);
    ASSERT_FALSE(taken) << words;
    EXPECT_EQ(taken.error().code, code);
    EXPECT_THAT(taken.error().to_string(), HasSubstr(words));
  }

  test::Folder made_;
  RingFolder folder_ = test::needed(RingFolder::open(made_.path()));
};

TEST_F(RingFiles, are_made_with_all_their_blocks_for_their_owner_alone_and_leave_nothing_aside) {
  ASSERT_TRUE(make());
  EXPECT_EQ(facts().st_mode & 0777, 0600U);
  EXPECT_EQ(facts().st_nlink, 1U);
  EXPECT_EQ(static_cast<uint64_t>(facts().st_size), kRingBytesMin + kRingHeaderBytes);
  EXPECT_GE(static_cast<uint64_t>(facts().st_blocks) * 512, kRingBytesMin + kRingHeaderBytes);
  EXPECT_FALSE(fs::exists(path() + ".new"));
  const auto taken = take_up();
  ASSERT_TRUE(taken) << taken.error().to_string();
  EXPECT_FALSE(taken->is_copy());
  EXPECT_TRUE(taken->has_name(folder_));
}

// So a node that was stopped starts on a disk that is full since.
TEST_F(RingFiles, of_ours_are_used_again_without_any_further_room) {
  ASSERT_TRUE(make());
  const ino_t before = facts().st_ino;
  RingIdentity next = kOurs;
  next.number = 5;
  next.boot[0] = std::byte{1};
  ASSERT_TRUE(make(next));
  EXPECT_EQ(facts().st_ino, before);
  EXPECT_TRUE(take_up(next));
  expect_refused(kOurs, Code::kCorrupt, "not the ring that was in use");
}

TEST_F(RingFiles, replace_whatever_else_bears_their_name) {
  const auto expect_replaced = [&](const char* what) {
    const auto made = make();
    ASSERT_TRUE(made) << what << ": " << made.error().to_string();
    EXPECT_TRUE(S_ISREG(facts().st_mode)) << what;
    EXPECT_TRUE(made->has_name(folder_)) << what;
    fs::remove(path());
  };
  std::ofstream(path()) << "no ring at all";
  expect_replaced("a file");
  fs::create_symlink("/etc/passwd", path());
  expect_replaced("a link");
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect_replaced("a pipe");
  {
    ASSERT_TRUE(make());
  }
  fs::resize_file(path(), kRingBytesMin);
  expect_replaced("a ring cut short");
  {
    ASSERT_TRUE(make());
  }
  fs::create_hard_link(path(), made_.path() + "/other");
  const uint64_t other = fs::file_size(made_.path() + "/other");
  expect_replaced("a ring with another name");
  EXPECT_EQ(fs::file_size(made_.path() + "/other"), other);
  {
    ASSERT_TRUE(make());
  }
  fs::permissions(path(), fs::perms::others_write, fs::perm_options::add);
  expect_replaced("a ring that others may write to");
  std::ofstream(path() + ".new") << "half a ring";
  expect_replaced("what a death has left");
}

TEST_F(RingFiles, that_a_folder_stands_in_the_place_of_say_how_to_move_it) {
  ASSERT_TRUE(fs::create_directory(path()));
  const auto made = make();
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().to_string(), HasSubstr("mv " + path()));
  EXPECT_FALSE(fs::exists(path() + ".new"));
}

TEST_F(RingFiles, that_another_process_holds_are_left_alone) {
  const auto held = make();
  ASSERT_TRUE(held);
  EXPECT_EQ(take_up().error().code, Code::kInUse);
  RingIdentity other = kOurs;
  other.number = 9;
  EXPECT_EQ(make(other).error().code, Code::kInUse);
  EXPECT_TRUE(held->is_whole()) << "its header is as it was";
}

TEST_F(RingFiles, in_use_are_refused_with_a_sentence_when_they_are_not_what_the_page_says) {
  expect_refused(kOurs, Code::kNotFound, "No such file");
  {
    ASSERT_TRUE(make());
  }
  RingIdentity other = kOurs;
  other.boot[5] = std::byte{1};
  expect_refused(other, Code::kCorrupt, "another one");
  other = kOurs;
  other.store[1] = std::byte{1};
  expect_refused(other, Code::kCorrupt, "another one");
  write_at(offsetof(RingHeader, version), 9);
  expect_refused(kOurs, Code::kUnsupported, "has version 9 of the ring; this program knows 3");
  write_at(offsetof(RingHeader, version), 3);
  write_at(offsetof(RingHeader, number), 1);
  expect_refused(kOurs, Code::kCorrupt, "damaged");
  {
    ASSERT_TRUE(make());
  }
  fs::resize_file(path(), kRingHeaderBytes + kRingBytesMin / 2);
  expect_refused(kOurs, Code::kCorrupt, "was made with");
  fs::resize_file(path(), 0);
  expect_refused(kOurs, Code::kCorrupt, "no ring of a log");
  fs::remove(path());
  fs::create_symlink("/etc/passwd", path());
  expect_refused(kOurs, Code::kAccessDenied, "symbolic link");
}

TEST_F(RingFiles, of_other_users_or_writable_by_them_are_not_taken_up) {
  {
    ASSERT_TRUE(make());
  }
  fs::permissions(path(), fs::perms::group_write, fs::perm_options::add);
  expect_refused(kOurs, Code::kAccessDenied, "chmod 600 " + path());
  fs::permissions(path(), fs::perms::group_write, fs::perm_options::remove);
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  ASSERT_EQ(::chown(path().c_str(), 4711, 0), 0);
  expect_refused(kOurs, Code::kAccessDenied, "belongs to user 4711");
}

TEST_F(RingFiles, in_a_copy_of_their_folder_know_it_once_and_links_are_refused) {
  {
    ASSERT_TRUE(make());
  }
  const test::Folder copy;
  fs::copy_file(path(), copy.path() + "/ring-003");
  const RingFolder there = test::needed(RingFolder::open(copy.path()));
  EXPECT_TRUE(RingFile::take_up(there, kOurs).value().is_copy());
  EXPECT_FALSE(RingFile::take_up(there, kOurs).value().is_copy()) << "it is at home now";
  EXPECT_FALSE(take_up().value().is_copy());
  const test::Folder linked;
  fs::create_hard_link(path(), linked.path() + "/ring-003");
  const auto taken = RingFile::take_up(test::needed(RingFolder::open(linked.path())), kOurs);
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().to_string(), HasSubstr("cp -a, not cp -al"));
  EXPECT_TRUE(take_up()) << "a link elsewhere does not keep it from its own folder";
}

TEST_F(RingFiles, get_their_name_and_content_back_while_they_are_held) {
  const auto held = make();
  ASSERT_TRUE(held);
  {
    Ring ring = test::needed(Ring::open(*held));
    ring.begin(8192);
    ring.set_in_use();
  }
  fs::remove(path());
  EXPECT_FALSE(held->has_name(folder_));
  EXPECT_TRUE(held->is_whole());
  {
    const auto fresh = RingFile::prepare(folder_, held->identity(), held->ring_bytes());
    ASSERT_TRUE(fresh) << fresh.error().to_string();
    EXPECT_FALSE(fs::exists(path())) << "not before it has what the old one has";
    ASSERT_TRUE(fresh->copy_content(*held));
    ASSERT_TRUE(fresh->take_name(folder_));
    EXPECT_TRUE(fresh->has_name(folder_));
  }
  const auto taken = take_up();
  ASSERT_TRUE(taken) << taken.error().to_string();
  EXPECT_FALSE(taken->is_copy());
  EXPECT_EQ(Ring::open(*taken).value().mark().log_position, 8192U);
}

TEST_F(RingFiles, that_were_cut_say_that_what_they_held_is_lost) {
  const auto held = make();
  ASSERT_TRUE(held);
  fs::resize_file(path(), kRingHeaderBytes);
  EXPECT_FALSE(held->is_whole());
  {
    const auto fresh = RingFile::prepare(folder_, held->identity(), held->ring_bytes());
    ASSERT_TRUE(fresh);
    ASSERT_TRUE(fresh->say_lost());
    ASSERT_TRUE(fresh->take_name(folder_));
    EXPECT_TRUE(Ring::open(*fresh).value().is_lost());
  }
  expect_refused(kOurs, Code::kCorrupt, "is lost");
}

TEST(RingPlaces, are_file_systems_that_write_where_the_blocks_are) {
  for (const uint64_t sound : {uint64_t{EXT4_SUPER_MAGIC}, uint64_t{0x58465342}, uint64_t{TMPFS_MAGIC}}) {
    EXPECT_TRUE(keeps_mapped_stores(sound)) << sound;
  }
  for (const uint64_t other : {uint64_t{BTRFS_SUPER_MAGIC}, uint64_t{NFS_SUPER_MAGIC}, uint64_t{0x65735546},
                               uint64_t{0x2fc12fc1}, uint64_t{0}}) {
    EXPECT_FALSE(keeps_mapped_stores(other)) << other;
  }
}

}  // namespace
}  // namespace refract::storage
