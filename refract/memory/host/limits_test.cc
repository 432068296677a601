// SPDX-License-Identifier: Apache-2.0
// What limits memory is found on both versions of cgroups, from outside and inside of containers.
//
// Method: trees as captured from real machines, and one check against the machine that runs the test.
#include "refract/memory/host/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refract/base/units.h"
#include "refract/memory/testing/fake_system.h"

namespace refract {
namespace {

using test::FakeSystem;
using testing::HasSubstr;

constexpr const char* kNone = "9223372036854771712\n";

// systemd on version 2: limits on the slice and on the service, usage mostly page cache in the leaf.
struct SecondVersion : FakeSystem {
  SecondVersion() {
    write("proc/self/cgroup", "0::/system.slice/refractd.service\n");
    write("proc/self/mountinfo",
          "23 28 0:22 / /sys rw,nosuid - sysfs sysfs rw\n"
          "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 "
          "rw,nsdelegate\n");
    write("sys/fs/cgroup/memory.stat", "anon 1\n");
    const std::string slice = "sys/fs/cgroup/system.slice/";
    write(slice + "memory.max", "4294967296\n");
    write(slice + "memory.current", "1073741824\n");
    write(slice + "memory.high", "max\n");
    const std::string service = slice + "refractd.service/";
    write(service + "memory.max", "max\n");
    write(service + "memory.current", "524288000\n");
    write(service + "memory.high", "max\n");
  }
};

// Version 1 with a limit two levels up.
struct FirstVersion : FakeSystem {
  FirstVersion() {
    write("proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/a/b/c\n3:cpuset:/\n0::/unified\n");
    write("proc/self/mountinfo",
          "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
          "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
          "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,cpu,memory\n");
    const std::string top = "sys/fs/cgroup/memory/";
    write(top + "memory.limit_in_bytes", kNone);
    write(top + "memory.usage_in_bytes", "8589934592\n");
    write(top + "a/memory.limit_in_bytes", "3221225472\n");
    write(top + "a/memory.usage_in_bytes", "2147483648\n");
    write(top + "a/memory.stat", "inactive_file 1\ntotal_inactive_file 1073741824\n");
    write(top + "a/b/memory.limit_in_bytes", kNone);
    write(top + "a/b/memory.usage_in_bytes", "1\n");
    write(top + "a/b/c/memory.limit_in_bytes", "6442450944\n");
    write(top + "a/b/c/memory.usage_in_bytes", "1\n");
  }
};

uint64_t available(const FakeSystem& system) {
  const Reported<MemoryLimits> limits = memory_limits(system.root());
  EXPECT_TRUE(limits);
  return limits ? limits->available_bytes() : 0;
}

std::string holder(const FakeSystem& system) {
  return memory_limits(system.root())->tightest().holder;
}

TEST(MemoryLimits, without_cgroups_the_free_memory_binds) {
  const FakeSystem system;
  EXPECT_EQ(available(system), 12 * kGiB);
  EXPECT_EQ(holder(system), "the machine");
  EXPECT_EQ(memory_limits(system.root())->lockable_bytes, 8 * kMiB);
  EXPECT_EQ(memory_limits(system.root())->addresses_bytes, kUnlimited);
}

TEST(MemoryLimits, a_slice_above_the_service_binds_on_version_2) {
  const SecondVersion system;
  EXPECT_EQ(available(system), 3 * kGiB);
  EXPECT_EQ(holder(system), "the cgroup /system.slice (version 2)");
  EXPECT_EQ(memory_limits(system.root())->tightest().mend, "raise /sys/fs/cgroup/system.slice/memory.max");
}

TEST(MemoryLimits, inactive_page_cache_is_no_usage_on_version_2) {
  const SecondVersion system;
  system.write("sys/fs/cgroup/system.slice/memory.stat", "file 9\ninactive_file 536870912\nactive_file 7\n");
  EXPECT_EQ(available(system), 3 * kGiB + 512 * kMiB);
}

TEST(MemoryLimits, memory_high_is_known_but_never_binds) {
  const SecondVersion system;
  system.write("sys/fs/cgroup/system.slice/memory.high", "1073741824\n");
  const Reported<MemoryLimits> limits = memory_limits(system.root());
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->available_bytes(), 3 * kGiB);
  ASSERT_NE(limits->tightest_soft(), nullptr);
  EXPECT_EQ(limits->tightest_soft()->left_bytes(), 0U);
  EXPECT_EQ(memory_limits(SecondVersion().root())->tightest_soft(), nullptr);
}

TEST(MemoryLimits, an_ancestor_binds_on_version_1_less_its_inactive_page_cache) {
  const FirstVersion system;
  EXPECT_EQ(available(system), 2 * kGiB);
  EXPECT_EQ(holder(system), "the cgroup /a (version 1)");
  EXPECT_EQ(memory_limits(system.root())->tightest().mend,
            "raise /sys/fs/cgroup/memory/a/memory.limit_in_bytes");
}

TEST(MemoryLimits, a_limit_that_version_1_shows_only_in_the_leaf_is_found) {
  const FirstVersion system;
  system.write("sys/fs/cgroup/memory/a/b/c/memory.stat", "hierarchical_memory_limit 1073741824\n");
  EXPECT_EQ(available(system), kGiB - 1);
  EXPECT_THAT(holder(system), HasSubstr("outside this container"));
  system.write("sys/fs/cgroup/memory/a/b/c/memory.stat", "hierarchical_memory_limit 3221225472\n");
  EXPECT_EQ(holder(system), "the cgroup /a (version 1)");
}

TEST(MemoryLimits, usage_above_the_limit_leaves_nothing) {
  const SecondVersion system;
  system.write("sys/fs/cgroup/system.slice/memory.current", "5294967296\n");
  EXPECT_EQ(available(system), 0U);
}

// Docker without a cgroup namespace: the names are the host's, the mount shows the container's own cgroup
// only.
TEST(MemoryLimits, a_container_with_names_of_the_host_finds_its_own_limit) {
  const FakeSystem system;
  system.write("proc/self/cgroup", "5:memory:/docker/4f5e\n");
  system.write("proc/self/mountinfo",
               "9 8 0:1 /docker/4f5e /sys/fs/cgroup/memory ro - cgroup cgroup ro,memory\n");
  system.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
  system.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "4096\n");
  EXPECT_EQ(available(system), 512 * kMiB - 4096);
  EXPECT_EQ(holder(system), "the cgroup /docker/4f5e (version 1)");
}

TEST(MemoryLimits, a_cgroup_below_the_root_of_a_containers_mount_is_followed) {
  const FakeSystem system;
  system.write("proc/self/cgroup", "0::/pod/box/inner\n");
  system.write("proc/self/mountinfo", "9 8 0:1 /pod/box /cg\\040roup rw - cgroup2 none rw\n");
  system.write("cg roup/inner/memory.max", "1048576\n");
  system.write("cg roup/inner/memory.current", "0\n");
  const std::vector<MemoryCgroup> cgroups = memory_cgroups(system.root());
  ASSERT_EQ(cgroups.size(), 2U);
  EXPECT_EQ(cgroups[0].folder, "/cg roup/inner");
  EXPECT_EQ(cgroups[1].name, "/pod/box");
  EXPECT_EQ(cgroups[1].folder, "/cg roup");
  EXPECT_EQ(available(system), kMiB);
}

TEST(MemoryLimits, a_cgroup_namespace_looks_like_a_root_with_a_limit) {
  const FakeSystem system;
  system.write("proc/self/cgroup", "0::/\n");
  system.write("proc/self/mountinfo", "9 8 0:1 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  system.write("sys/fs/cgroup/memory.max", "2147483648\n");
  system.write("sys/fs/cgroup/memory.current", "1073741824\n");
  EXPECT_EQ(available(system), kGiB);
}

TEST(MemoryLimits, a_process_moved_out_of_its_namespace_does_not_climb_out_of_the_mount) {
  const FakeSystem system;
  system.write("proc/self/cgroup", "0::/../other\n");
  system.write("proc/self/mountinfo", "9 8 0:1 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  system.write("sys/fs/cgroup/memory.max", "2147483648\n");
  system.write("sys/fs/other/memory.max", "1\n");
  EXPECT_EQ(available(system), 2 * kGiB);
}

TEST(MemoryLimits, garbage_in_the_trees_limits_nothing_and_crashes_nothing) {
  const FakeSystem system;
  for (const char* text :
       {"", "\n", ":", "0::", "0::x", "4:memory", "4:memory:", "::::", "0::/a\n0::/b\0\xff"}) {
    for (const char* mounts : {"", "-", " - ", "1 2 3 / /x rw - cgroup2", "1 2 3 / /x rw - cgroup2 a b",
                               "\\0 - \\9", "1 2 3 \\04 \\777 rw - cgroup a memory"}) {
      system.write("proc/self/cgroup", text);
      system.write("proc/self/mountinfo", mounts);
      EXPECT_EQ(available(system), 12 * kGiB) << text << mounts;
    }
  }
}

TEST(MemoryLimits, without_proc_the_error_says_so) {
  const test::Folder empty;
  const Reported<MemoryLimits> limits = memory_limits({empty.path()});
  ASSERT_FALSE(limits);
  EXPECT_THAT(limits.error().what, HasSubstr("/proc/meminfo"));
}

TEST(MemoryLimits, of_this_machine_are_plausible) {
  const Reported<MemoryLimits> limits = memory_limits();
  ASSERT_TRUE(limits);
  EXPECT_GT(limits->available_bytes(), kMiB);
  EXPECT_LE(limits->available_bytes(), limits->limits.front().limit_bytes);
}

TEST(CheckRoom, says_which_limit_binds_and_what_to_do) {
  const SecondVersion system;
  EXPECT_TRUE(check_room(3 * kGiB, 0, system.root()));
  EXPECT_TRUE(check_room(2 * kGiB, kGiB, system.root()));
  const Reported<> refused = check_room(64 * kGiB, 0, system.root());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_EQ(refused.error().what,
            "a region of 64 GiB does not fit: the cgroup /system.slice (version 2) allows 3 GiB more");
  EXPECT_EQ(refused.error().next,
            "lower memory.limit (--memory-limit), or raise /sys/fs/cgroup/system.slice/memory.max");
}

TEST(CheckRoom, headroom_stays_free) {
  const SecondVersion system;
  const Reported<> refused = check_room(3 * kGiB, 1, system.root());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("and 1 B must stay free"));
  EXPECT_FALSE(check_room(UINT64_MAX, UINT64_MAX, system.root()));
  EXPECT_FALSE(check_room(1, UINT64_MAX, system.root()));
}

TEST(CheckRoom, the_limit_of_file_sizes_binds_too) {
  const FakeSystem system;
  system.write("proc/self/limits",
               "Max file size             1048576              unlimited            bytes\n");
  const Reported<> refused = check_room(2 * kMiB, 0, system.root());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().next, HasSubstr("ulimit -f unlimited"));
}

TEST(CheckOwnRoom, refuses_what_would_end_the_process_and_names_the_limit) {
  const SecondVersion system;
  EXPECT_TRUE(check_own_room(3 * kGiB, true, system.root()));
  const Reported<> refused = check_own_room(64 * kGiB, true, system.root());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_EQ(refused.error().what,
            "64 GiB of memory do not fit: the cgroup /system.slice (version 2) allows 3 GiB more");
  EXPECT_EQ(refused.error().next, "raise /sys/fs/cgroup/system.slice/memory.max");
  const FakeSystem small;
  small.write("proc/self/limits",
              "Max file size             1048576              unlimited            bytes\n");
  EXPECT_FALSE(check_own_room(kLookedAtBytes, true, small.root()));
  EXPECT_TRUE(check_own_room(kLookedAtBytes, false, small.root())) << "it is no file";
  EXPECT_TRUE(check_own_room(kLookedAtBytes - 1, true, small.root())) << "this process's own limit allows it";
  const FakeSystem silent;
  silent.write("proc/meminfo", "");
  EXPECT_TRUE(check_own_room(64 * kGiB, true, silent.root())) << "nothing is known";
}

TEST(HugePages, promised_pages_are_not_free) {
  const FakeSystem system;
  EXPECT_EQ(huge_pages(system.root()).total, 0U);
  system.huge_pages(10, 8, 3);
  EXPECT_EQ(huge_pages(system.root()).total, 10U);
  EXPECT_EQ(huge_pages(system.root()).free, 5U);
}

TEST(ProcessLimit, tells_numbers_from_unlimited) {
  const FakeSystem system;
  EXPECT_EQ(process_limit("Max open files", system.root()), 1024U);
  EXPECT_EQ(process_limit("Max file size", system.root()), kUnlimited);
  EXPECT_EQ(process_limit("Max nonsense", system.root()), kUnlimited);
}

TEST(BytesText, rounds_down_to_one_digit) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1 KiB");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(64 * kGiB), "64 GiB");
  EXPECT_EQ(bytes_text(64 * kGiB - 1), "63.9 GiB");
  EXPECT_EQ(bytes_text(UINT64_MAX), "15.9 EiB");
}

}  // namespace
}  // namespace refract
