// SPDX-License-Identifier: Apache-2.0
// Regions in files survive, are never shared by two nodes, and never mistaken for something else.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/memory/host/region.h"
#include "refract/memory/remote_visible.h"
#include "refract/memory/testing/child_process.h"
#include "refract/memory/testing/fake_system.h"

namespace refract::region_file_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytes = 4 * kMiB;

struct RegionFile : testing::Test {
  test::Folder folder;
  AddressSpace space = test::needed(AddressSpace::reserve(4 * kBytes));
  std::string path = folder.path() + "/region-000";

  [[nodiscard]] RegionSpec spec() const {
    return {.backing = {BackingKind::kFile, folder.path()}, .bytes = kBytes, .base = 0};
  }
  // A region with a word in it, closed again.
  void leave_one_behind() {
    Reported<Region> region = Region::create(space, spec());
    ASSERT_TRUE(region) << region.error().to_string();
    ASSERT_TRUE(region->populate());
    publish_u64(region->data() + kMiB, 42);
    ASSERT_TRUE(region->seal());
  }
  [[nodiscard]] Report refusal(const RegionSpec& asked) {
    const Reported<Region> region = Region::create(space, asked);
    EXPECT_FALSE(region);
    return region ? Report{Code::kOk, "", ""} : region.error();
  }
};

TEST_F(RegionFile, what_was_stored_is_there_again) {
  leave_one_behind();
  EXPECT_EQ(existing_region_bytes(spec().backing, 0).value(), kBytes);
  Reported<Region> region = Region::create(space, spec());
  ASSERT_TRUE(region) << region.error().to_string();
  EXPECT_TRUE(region->existing());
  ASSERT_TRUE(region->populate());
  EXPECT_EQ(observe_u64(region->data() + kMiB), 42U);
}

TEST_F(RegionFile, only_its_owner_may_open_it) {
  leave_one_behind();
  struct stat status{};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(::chmod(path.c_str(), 0660), 0);
  const Report refused = refusal(spec());
  EXPECT_EQ(refused.code, Code::kAccessDenied);
  EXPECT_THAT(refused.next, HasSubstr("chmod 600"));
}

TEST_F(RegionFile, readers_get_a_descriptor_that_was_opened_read_only) {
  Reported<Region> region = Region::create(space, spec());
  ASSERT_TRUE(region);
  ASSERT_TRUE(region->populate());
  const Reported<int> descriptor = region->read_descriptor();
  ASSERT_TRUE(descriptor);
  EXPECT_EQ(::fcntl(*descriptor, F_GETFL) & O_ACCMODE, O_RDONLY);
}

TEST_F(RegionFile, two_nodes_cannot_share_it) {
  Reported<Region> region = Region::create(space, spec());
  ASSERT_TRUE(region);
  RegionSpec elsewhere = spec();
  elsewhere.base = kBytes;
  const Report refused = refusal(elsewhere);
  EXPECT_EQ(refused.code, Code::kInUse);
  EXPECT_THAT(refused.what, HasSubstr("belongs to a running node"));
}

TEST_F(RegionFile, another_size_is_refused_and_nothing_is_changed) {
  leave_one_behind();
  RegionSpec larger = spec();
  larger.bytes = 2 * kBytes;
  const Report refused = refusal(larger);
  EXPECT_EQ(refused.code, Code::kCorrupt);
  EXPECT_THAT(refused.what, HasSubstr("has 4194304 B, but the region has 8388608 B"));
  EXPECT_EQ(std::filesystem::file_size(path), kBytes);
}

TEST_F(RegionFile, the_caller_judges_what_it_begins_with) {
  leave_one_behind();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file << "MAGIC";
  }
  RegionSpec judged = spec();
  judged.accept_existing = [](std::span<const std::byte> start) -> Reported<> {
    if (start.size() == 4096 && start[0] == std::byte{'M'}) return {};
    return report(Code::kCorrupt, "not a region of ours");
  };
  EXPECT_TRUE(Region::create(space, judged));
  folder.write("region-000", std::string(kBytes, 'x'));
  EXPECT_EQ(refusal(judged).what, "not a region of ours");
  EXPECT_EQ(std::filesystem::file_size(path), kBytes);
}

TEST_F(RegionFile, one_that_was_not_populated_to_its_end_is_removed) {
  {
    Reported<Region> region = Region::create(space, spec());
    ASSERT_TRUE(region);
    ASSERT_FALSE(*region->populate_some(kMiB));
    ASSERT_TRUE(std::filesystem::exists(path));
    // A child's copy of the object must not do it.
    EXPECT_EQ(test::in_child([&] {
                const Region copy = std::move(*region);
                return 0;
              }),
              0);
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(existing_region_bytes(spec().backing, 0).value(), 0U);
}

TEST_F(RegionFile, an_empty_file_counts_as_none) {
  folder.write("region-000", "");
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  const Reported<Region> region = Region::create(space, spec());
  ASSERT_TRUE(region) << region.error().to_string();
  EXPECT_FALSE(region->existing());
}

TEST_F(RegionFile, what_is_no_plain_file_is_refused) {
  std::filesystem::create_symlink("/etc/passwd", path);
  EXPECT_EQ(refusal(spec()).code, Code::kSystem);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(refusal(spec()).what, HasSubstr("cannot open"));
}

TEST_F(RegionFile, a_missing_folder_is_an_error_with_the_command_that_makes_it) {
  RegionSpec elsewhere = spec();
  elsewhere.backing.folder += "/none";
  EXPECT_THAT(refusal(elsewhere).next, HasSubstr("mkdir -m 700 -p " + elsewhere.backing.folder));
}

// Method: a tmpfs of 2 MiB in a mount namespace of a child.
TEST_F(RegionFile, a_full_file_system_is_an_error_and_leaves_nothing) {
  const int ended = test::in_child([&] {
    if (!test::mount_tmpfs(folder.path().c_str(), "size=2m")) return 77;
    const Reported<Region> region = Region::create(space, spec());
    if (region || region.error().code != Code::kNoSpace) return 1;
    if (region.error().to_string().find("mount -o remount,size=") == std::string::npos) return 2;
    return std::filesystem::exists(path) ? 3 : 0;
  });
  if (ended == 77) GTEST_SKIP() << "cannot mount a tmpfs: not root, and no user namespaces";
  EXPECT_EQ(ended, 0);
}

TEST_F(RegionFile, a_file_system_that_fills_up_meanwhile_is_an_error_and_no_fault) {
  const int ended = test::in_child([&] {
    if (!test::mount_tmpfs(folder.path().c_str(), "size=6m")) return 77;
    Reported<Region> region = Region::create(space, spec());
    if (!region) return 1;
    folder.write("other", std::string(4 * kMiB, 'x'));
    const Reported<> populated = region->populate();
    if (populated || populated.error().code != Code::kNoSpace) return 2;
    region = report(Code::kNoSpace, "");
    return std::filesystem::exists(path) ? 3 : 0;
  });
  if (ended == 77) GTEST_SKIP() << "cannot mount a tmpfs: not root, and no user namespaces";
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace refract::region_file_test
