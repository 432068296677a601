// SPDX-License-Identifier: Apache-2.0
#include "refract/storage/store_folder.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/base/testing/processes/files.h"
#include "refract/storage/posix_disk.h"
#include "refract/storage/testing/simulated_disk.h"

namespace refract::storage {
namespace {

constexpr StoreFacts kWanted{.store = {std::byte{7}},
                             .shard_count = 3,
                             .copies = 1,
                             .placement = 0x1122'3344'5566'7788,
                             .hash_seed = 42,
                             .created_wall_ns = 1'800'000'000'000'000'000,
                             .time = {.offset_ns = 5, .boot = {1, 2}, .left_ns = 0, .left_wall_ns = 0}};

class StoreFolderTest : public testing::Test {
 protected:
  [[nodiscard]] Reported<StoreFolder> open(const StoreFacts& wanted = kWanted) const {
    return StoreFolder::open(test::needed(open_posix_disk(path_)), wanted);
  }
  [[nodiscard]] std::string page() const { return path_ + "/store"; }
  void flip(uint64_t at) const {
    FILE* const file = fopen(page().c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(fseek(file, static_cast<long>(at), SEEK_SET), 0);
    const int byte = fgetc(file);
    ASSERT_EQ(fseek(file, static_cast<long>(at), SEEK_SET), 0);
    ASSERT_NE(fputc(byte ^ 0x10, file), EOF);
    ASSERT_EQ(fclose(file), 0);
  }

  test::TemporaryFolder folder_;
  const std::string& path_ = folder_.path();
};

TEST_F(StoreFolderTest, keeps_the_facts_of_whoever_began_it) {
  {
    const auto first = open();
    ASSERT_TRUE(first) << first.error().to_string();
    EXPECT_FALSE(first->existed());
  }
  const auto second = open({.store = {std::byte{9}}, .shard_count = 1, .hash_seed = 1});
  ASSERT_TRUE(second) << second.error().to_string();
  EXPECT_TRUE(second->existed());
  EXPECT_EQ(second->facts().store, kWanted.store);
  EXPECT_EQ(second->facts().shard_count, 3U);
  EXPECT_EQ(second->facts().copies, 1U);
  EXPECT_EQ(second->facts().placement, 0x1122'3344'5566'7788U);
  EXPECT_EQ(second->facts().hash_seed, 42U);
  EXPECT_EQ(second->facts().created_wall_ns, kWanted.created_wall_ns);
  EXPECT_EQ(second->facts().time.boot[1], 2U);
}

// docs/formats/log.md.
TEST(StoreFolder, has_its_copies_where_its_page_says) {
  SimulatedDisk disk({});
  ASSERT_TRUE(write_store_page(disk, kWanted));
  const std::vector<std::byte> bytes = disk.bytes_of("store");
  ASSERT_EQ(bytes.size(), kSectorBytes);
  EXPECT_EQ(bytes[8], std::byte{3}) << "the version";
  EXPECT_EQ(bytes[12], std::byte{3}) << "shards";
  EXPECT_EQ(bytes[136], std::byte{1});
  for (size_t i = 137; i < 144; ++i) ASSERT_EQ(bytes[i], std::byte{0}) << i;
  EXPECT_EQ(bytes[144], std::byte{0x88});
  EXPECT_EQ(bytes[151], std::byte{0x11});
  for (size_t i = 152; i < 504; ++i) ASSERT_EQ(bytes[i], std::byte{0}) << i;
}

TEST_F(StoreFolderTest, is_one_nodes_at_a_time) {
  const auto first = open();
  ASSERT_TRUE(first);
  const auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInUse);
  EXPECT_NE(second.error().what.find(path_), std::string::npos) << second.error().what;
}

TEST_F(StoreFolderTest, is_one_nodes_also_when_its_lock_was_removed) {
  const auto first = open();
  ASSERT_TRUE(first);
  ASSERT_TRUE(std::filesystem::remove(path_ + "/lock"));
  EXPECT_EQ(open().error().code, Code::kInUse);
}

TEST_F(StoreFolderTest, remembers_which_rings_are_in_use) {
  const RingUse use{.is_in_use = 1, .place = 1, .always = 1, .number = 77, .boot = {std::byte{5}}};
  {
    auto first = open();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->facts().rings.is_in_use, 0U);
    ASSERT_TRUE(first->set({}, use));
  }
  const auto second = open();
  ASSERT_TRUE(second);
  const RingUse& found = second->facts().rings;
  EXPECT_EQ(found.is_in_use, 1U);
  EXPECT_EQ(found.place, 1U);
  EXPECT_EQ(found.always, 1U);
  EXPECT_EQ(found.number, 77U);
  EXPECT_EQ(found.boot, use.boot);
}

// A page is one sector, so that writing over it takes no room and leaves none half.
TEST(StoreFolder, is_replaced_on_a_full_disk_too) {
  SimulatedDisk disk({});
  ASSERT_TRUE(write_store_page(disk, kWanted));
  disk.set_capacity(0);
  StoreFacts later = kWanted;
  later.rings.number = 9;
  const Reported<> written = write_store_page(disk, later);
  ASSERT_TRUE(written) << written.error().to_string();
  const auto found = StoreFolder::look(disk);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->rings.number, 9U);
}

TEST_F(StoreFolderTest, remembers_the_time) {
  {
    auto first = open();
    ASSERT_TRUE(first);
    ASSERT_TRUE(first->set({.offset_ns = 11, .boot = {3, 4}, .left_ns = 12, .left_wall_ns = 13}, {}));
  }
  const auto second = open();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->facts().time.offset_ns, 11U);
  EXPECT_EQ(second->facts().time.left_wall_ns, 13U);
}

TEST_F(StoreFolderTest, finds_every_flipped_byte_of_its_page) {
  ASSERT_TRUE(open());
  for (uint64_t at = 0; at < kSectorBytes; ++at) {
    flip(at);
    const auto found = open();
    ASSERT_FALSE(found) << at;
    EXPECT_NE(found.error().what.find(page()), std::string::npos) << found.error().what;
    flip(at);
  }
  EXPECT_TRUE(open());
}

TEST_F(StoreFolderTest, refuses_another_version_with_a_sentence) {
  ASSERT_TRUE(open());
  flip(8);
  const auto found = open();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kUnsupported);
  EXPECT_NE(found.error().what.find("version 19, this program reads 3"), std::string::npos)
      << found.error().what;
}

TEST_F(StoreFolderTest, does_not_begin_again_beside_a_log_whose_page_is_gone) {
  ASSERT_TRUE(open());
  std::filesystem::rename(page(), path_ + "/log-000-00000000000000004096");
  const auto found = open();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kCorrupt);
}

TEST(StoreFolder, is_the_old_one_or_the_new_one_behind_any_crash) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimulatedDisk host({.seed = seed});
    // A view of the host's disk that the folder may own.
    class View final : public Disk {
     public:
      explicit View(Disk& disk) noexcept : disk_(disk) {}
      Reported<std::unique_ptr<File>> open(std::string_view name, OpenMode mode) override {
        return disk_.open(name, mode);
      }
      Reported<> rename(std::string_view from, std::string_view to) override {
        return disk_.rename(from, to);
      }
      Reported<> remove(std::string_view name) override { return disk_.remove(name); }
      Reported<> sync_folder() override { return disk_.sync_folder(); }
      Reported<std::vector<std::string>> list() override { return disk_.list(); }
      Reported<std::unique_ptr<Lock>> lock(std::string_view name) override { return disk_.lock(name); }
      std::string path_of(std::string_view name) const override { return disk_.path_of(name); }

     private:
      Disk& disk_;
    };
    {
      auto folder = StoreFolder::open(std::make_unique<View>(host), kWanted);
      ASSERT_TRUE(folder) << folder.error().to_string();
    }
    uint64_t synced = 5;
    for (uint64_t round = 0; round < 4; ++round) {
      {
        auto folder = StoreFolder::open(std::make_unique<View>(host), kWanted);
        ASSERT_TRUE(folder) << seed << ": " << folder.error().to_string();
        EXPECT_EQ(folder->facts().time.offset_ns, synced) << seed;
        ASSERT_TRUE(folder->set({.offset_ns = 100 + round, .boot = {}, .left_ns = 0, .left_wall_ns = 0}, {}));
        synced = 100 + round;
      }
      host.crash();
    }
  }
}

}  // namespace
}  // namespace refract::storage
