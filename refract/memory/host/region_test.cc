// SPDX-License-Identifier: Apache-2.0
// Regions take what was promised to them, tell readably when they cannot, and no process can harm them once
// they are sealed.
//
// Method: real memory and real kernels. What a hostile reader could try is tried from a child process; older
// and stricter kernels are played by a seccomp filter in a child.
#include "refract/memory/host/region.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "refract/base/units.h"
#include "refract/memory/remote_visible.h"
#include "refract/memory/testing/child_process.h"
#include "refract/memory/testing/fake_system.h"

namespace refract::region_test {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytes = 4 * kMiB;

AddressSpace reserved(uint64_t bytes = 4 * kBytes) {
  Reported<AddressSpace> space = AddressSpace::reserve(bytes);
  EXPECT_TRUE(space);
  return std::move(*space);
}

RegionSpec memory_spec() {
  return {.id = 3, .bytes = kBytes, .base = kBytes};
}

RegionSpec huge_spec(uint64_t bytes) {
  RegionSpec spec;
  spec.backing.kind = BackingKind::kHugetlb;
  spec.bytes = bytes;
  return spec;
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

uint64_t held_bytes(const Region& region) {
  struct stat status{};
  EXPECT_EQ(::fstat(region.write_descriptor(), &status), 0);
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

std::string refusal(AddressSpace& space, const RegionSpec& spec) {
  const Reported<Region> region = Region::create(space, spec);
  EXPECT_FALSE(region);
  return region ? "" : region.error().to_string();
}

Region sealed_region(AddressSpace& space, const RegionSpec& spec) {
  Reported<Region> region = Region::create(space, spec);
  EXPECT_TRUE(region) << region.error().to_string();
  EXPECT_TRUE(region->populate());
  publish_u64(region->data(), 42);
  EXPECT_TRUE(region->seal());
  return std::move(*region);
}

TEST(Region, takes_its_memory_step_by_step) {
  AddressSpace space = reserved();
  Reported<Region> region = Region::create(space, memory_spec());
  ASSERT_TRUE(region) << region.error().to_string();
  EXPECT_EQ(region->data(), space.base() + kBytes);
  EXPECT_EQ(held_bytes(*region), 0U);
  EXPECT_FALSE(*region->populate_some(kMiB));
  EXPECT_EQ(held_bytes(*region), kMiB);
  EXPECT_FALSE(*region->populate_some(1));  // At least one page, so that it comes to an end.
  EXPECT_EQ(region->populated_bytes(), kMiB + 4096);
  EXPECT_TRUE(*region->populate_some(UINT64_MAX));
  EXPECT_EQ(held_bytes(*region), kBytes);
  EXPECT_TRUE(*region->populate_some(kMiB));
  EXPECT_FALSE(region->existing());
}

TEST(Region, gives_everything_back_but_its_addresses) {
  AddressSpace space = reserved();
  const auto before = open_descriptors();
  {
    const Region region = sealed_region(space, memory_spec());
  }
  EXPECT_EQ(open_descriptors(), before);
  std::byte* const place = space.base() + kBytes;
  EXPECT_EQ(test::in_child([=] { return static_cast<int>(observe_u64(place)); }), 256 + SIGSEGV);
  EXPECT_TRUE(Region::create(space, memory_spec()));
}

TEST(Region, moving_it_keeps_it) {
  AddressSpace space = reserved();
  Region first = sealed_region(space, memory_spec());
  Region second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(observe_u64(second.data()), 42U);
  EXPECT_EQ(second.id(), 3U);
  EXPECT_TRUE(second.sealed());
}

// Each way to change the bytes or the size, tried with the descriptor that is open for writing. Returns the
// number of the first that is not refused as it should be, or 0.
int first_breach(int descriptor) {
  if (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) != MAP_FAILED) return 1;
  void* view = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
  if (view == MAP_FAILED || observe_u64(view) != 42) return 2;
  if (::mprotect(view, 4096, PROT_READ | PROT_WRITE) == 0) return 3;
  if (::pwrite(descriptor, "x", 1, 0) >= 0) return 4;
  if (::ftruncate(descriptor, 0) == 0 || ::ftruncate(descriptor, 16 * kMiB) == 0) return 5;
  if (::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0) return 6;
  if (::fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE) == 0) return 7;
  if (::madvise(view, 4096, MADV_REMOVE) == 0) return 8;
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  const Descriptor again(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (again && ::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, again.get(), 0) != MAP_FAILED) return 9;
  if (again && ::pwrite(again.get(), "x", 1, 0) >= 0) return 10;
  return observe_u64(view) == 42 ? 0 : 11;
}

TEST(Region, once_sealed_no_descriptor_changes_it) {
  AddressSpace space = reserved();
  const Region region = sealed_region(space, memory_spec());
  const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  EXPECT_EQ(::fcntl(region.write_descriptor(), F_GET_SEALS) & all, all);
  EXPECT_EQ(test::in_child([&] { return first_breach(region.write_descriptor()); }), 0);
  EXPECT_EQ(observe_u64(region.data()), 42U);
}

// Were first_breach() blind, the test above would hold for any region.
TEST(Region, before_it_is_sealed_a_descriptor_does_change_it) {
  AddressSpace space = reserved();
  const Reported<Region> region = Region::create(space, memory_spec());
  ASSERT_TRUE(region);
  EXPECT_EQ(test::in_child([&] { return first_breach(region->write_descriptor()); }), 1);
}

TEST(Region, a_child_still_writes_through_the_mapping_that_it_inherits) {
  AddressSpace space = reserved();
  const Region region = sealed_region(space, memory_spec());
  const int ended = test::in_child([&] {
    publish_u64(region.data() + 8, 43);
    return 0;
  });
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(observe_u64(region.data() + 8), 43U);
}

TEST(Region, readers_get_a_descriptor_that_was_opened_read_only) {
  AddressSpace space = reserved();
  const Region region = sealed_region(space, memory_spec());
  const Reported<int> descriptor = region.read_descriptor();
  ASSERT_TRUE(descriptor);
  EXPECT_NE(*descriptor, region.write_descriptor());
  EXPECT_EQ(::fcntl(*descriptor, F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_NE(::fcntl(*descriptor, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(test::in_child([&] { return first_breach(*descriptor); }), 0);
  ASSERT_TRUE(space.map({.descriptor = *descriptor, .at = 2 * kBytes, .bytes = kBytes, .writable = false}));
  EXPECT_EQ(observe_u64(space.base() + 2 * kBytes), 42U);
}

TEST(Region, an_undumpable_process_can_still_reopen_its_region) {
  const int ended = test::in_child([] {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 1;
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return 2;
    AddressSpace space = reserved();
    const Reported<Region> region = Region::create(space, memory_spec());
    return region && region->read_descriptor() ? 0 : 3;
  });
  EXPECT_EQ(ended, 0);
}

// Method: an empty tmpfs covers /proc in a mount namespace of a child.
TEST(Region, without_proc_readers_get_the_sealed_descriptor_and_never_an_unsealed_one) {
  const test::FakeSystem system;
  RegionSpec spec = memory_spec();
  spec.system = system.root();
  const int ended = test::in_child([&] {
    if (!test::mount_tmpfs("/proc", "size=4k")) return 77;
    AddressSpace space = reserved();
    Reported<Region> region = Region::create(space, spec);
    if (!region || !region->populate()) return 1;
    if (region->read_descriptor()) return 2;
    if (!region->seal()) return 3;
    const Reported<int> descriptor = region->read_descriptor();
    return descriptor && *descriptor == region->write_descriptor() ? 0 : 4;
  });
  if (ended == 77) GTEST_SKIP() << "cannot mount a tmpfs: not root, and no user namespaces";
  EXPECT_EQ(ended, 0);
}

TEST(Region, sealing_twice_is_sealing_once) {
  AddressSpace space = reserved();
  Region region = sealed_region(space, memory_spec());
  EXPECT_TRUE(region.seal());
}

TEST(Region, one_that_does_not_fit_is_refused_before_anything_is_made) {
  const test::FakeSystem system;
  system.memory(1024, 4096);
  AddressSpace space = reserved();
  RegionSpec spec = memory_spec();
  spec.headroom_bytes = 1;
  spec.system = system.root();
  const auto before = open_descriptors();
  const std::string text = refusal(space, spec);
  EXPECT_THAT(text, HasSubstr("a region of 4 MiB does not fit: the machine allows"));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Region, sizes_that_are_no_pages_or_lie_outside_are_refused) {
  AddressSpace space = reserved();
  RegionSpec spec = memory_spec();
  spec.bytes = 4097;
  EXPECT_THAT(refusal(space, spec), HasSubstr("does not consist of pages of 4 KiB"));
  spec.bytes = 0;
  EXPECT_THAT(refusal(space, spec), HasSubstr("does not consist of pages"));
  spec = memory_spec();
  spec.base = 4 * kBytes;
  EXPECT_THAT(refusal(space, spec), HasSubstr("lies outside"));
  spec.backing.kind = BackingKind::kHugetlb;
  spec.base = 4096;
  EXPECT_THAT(refusal(space, spec), HasSubstr("does not consist of pages of 2 MiB"));
}

TEST(Region, absent_huge_pages_are_an_error_with_the_command_that_sets_them_aside) {
  const test::FakeSystem system;
  AddressSpace space = reserved();
  RegionSpec spec = huge_spec(kBytes);
  spec.system = system.root();
  std::string text = refusal(space, spec);
  EXPECT_THAT(text, HasSubstr("needs 2 huge pages of 2 MiB, but 0 of 0 are free"));
  EXPECT_THAT(text, HasSubstr("sysctl vm.nr_hugepages=2"));
  system.huge_pages(10, 1, 0);
  text = refusal(space, spec);
  EXPECT_THAT(text, HasSubstr("sysctl vm.nr_hugepages=11"));
}

TEST(Region, huge_pages_that_others_take_meanwhile_are_the_same_error) {
  const test::FakeSystem system;
  system.huge_pages(uint64_t{1} << 30, uint64_t{1} << 30, 0);
  AddressSpace space = reserved(kGiB << 12);
  RegionSpec spec = huge_spec(kGiB << 12);
  spec.system = system.root();
  const auto before = open_descriptors();
  EXPECT_THAT(refusal(space, spec), HasSubstr("sysctl vm.nr_hugepages="));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Region, works_in_huge_pages) {
  if (huge_pages().free < 2) GTEST_SKIP() << "no huge pages are set aside: sysctl vm.nr_hugepages=8";
  AddressSpace space = reserved();
  const Region region = sealed_region(space, huge_spec(kBytes));
  EXPECT_EQ(test::in_child([&] { return first_breach(region.write_descriptor()); }), 0);
}

TEST(Region, a_kernel_without_the_newer_calls_does_as_well) {
  const int ended = test::in_child([] {
    if (!test::refuse({.number = SYS_madvise,
                       .argument = 2,
                       .mask = ~0U,
                       .value = MADV_POPULATE_WRITE,
                       .error = EINVAL})) {
      return 1;
    }
    if (!test::refuse({.number = SYS_memfd_create, .argument = 1, .mask = 8, .value = 8, .error = EINVAL}))
      return 2;
    AddressSpace space = reserved();
    const Region region = sealed_region(space, memory_spec());
    return region.sealed() && held_bytes(region) == kBytes ? 0 : 3;
  });
  EXPECT_EQ(ended, 0);
}

TEST(Region, a_sandbox_without_memfd_is_named) {
  const int ended = test::in_child([] {
    if (!test::refuse({.number = SYS_memfd_create, .error = EPERM})) return 1;
    AddressSpace space = reserved();
    const Reported<Region> region = Region::create(space, memory_spec());
    return !region && region.error().next.find("seccomp") != std::string::npos ? 0 : 2;
  });
  EXPECT_EQ(ended, 0);
}

TEST(Region, a_kernel_without_future_write_is_named) {
  const int ended = test::in_child([] {
    if (!test::refuse(
            {.number = SYS_fcntl, .argument = 1, .mask = ~0U, .value = F_ADD_SEALS, .error = EINVAL}))
      return 1;
    AddressSpace space = reserved();
    Reported<Region> region = Region::create(space, memory_spec());
    if (!region || !region->populate()) return 2;
    const Reported<> sealed = region->seal();
    return !sealed && sealed.error().code == Code::kUnsupported && !region->sealed() ? 0 : 3;
  });
  EXPECT_EQ(ended, 0);
}

// The real thing: without the check the kernel would kill the child.
TEST(Region, over_the_limit_of_a_real_cgroup_there_is_an_error_and_no_kill) {
  const std::vector<MemoryCgroup> cgroups = memory_cgroups();
  if (cgroups.empty()) GTEST_SKIP() << "this machine has no cgroups that control memory";
  const MemoryCgroup& own = cgroups.front();
  const std::string folder = own.folder + "/refract-test-" + std::to_string(::getpid());
  const std::string limit = folder + (own.version == 1 ? "/memory.limit_in_bytes" : "/memory.max");
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  std::ofstream(limit) << 64 * kMiB << std::flush;
  if (error || leading_number(SystemRoot().read(limit).value_or("")) != 64 * kMiB) {
    std::filesystem::remove(folder, error);
    GTEST_SKIP() << "cannot make a cgroup with a limit below " << own.folder;
  }
  const int ended = test::in_child([&] {
    std::ofstream(folder + "/cgroup.procs") << ::getpid() << std::flush;
    AddressSpace space = reserved(256 * kMiB);
    const Reported<Region> region = Region::create(space, {.bytes = 128 * kMiB, .base = 0});
    if (region) return 1;
    if (region.error().what.find("refract-test-") == std::string::npos) return 2;
    Reported<Region> smaller = Region::create(space, {.bytes = 16 * kMiB, .base = 0, .headroom_bytes = kMiB});
    return smaller && smaller->populate() ? 0 : 3;
  });
  EXPECT_EQ(ended, 0);
  EXPECT_TRUE(std::filesystem::remove(folder, error));
}

}  // namespace
}  // namespace refract::region_test
