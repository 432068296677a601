// SPDX-License-Identifier: Apache-2.0
// Large pages are taken where the kernel grants them, and never change what is in a file. Everything works
// where it grants none.
//
// Method: real memory files; kernels that grant none are played by a seccomp filter in a child.
#include "refract/memory/host/large_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/memory/host/address_space.h"
#include "refract/memory/host/descriptor.h"
#include "refract/memory/host/limits.h"
#include "refract/memory/host/region.h"
#include "refract/memory/testing/child_process.h"

namespace refract::large_pages_test {
namespace {

constexpr uint32_t kMerge = 25;  // MADV_COLLAPSE.
constexpr uint64_t kBytes = 8 * kMiB;

struct MappedFile {
  Descriptor file;
  AddressSpace space;

  [[nodiscard]] std::byte* at(uint64_t offset) const { return space.base() + offset; }
};

// Of kBytes, mapped writable `shift` bytes behind a boundary of 2 MiB.
MappedFile mapped_file(uint64_t shift = 0) {
  MappedFile mapped{.file = Descriptor(::memfd_create("test", MFD_CLOEXEC)),
                    .space = test::needed(AddressSpace::reserve(kBytes + 2 * kMiB))};
  EXPECT_EQ(::ftruncate(mapped.file.get(), kBytes), 0);
  EXPECT_TRUE(
      mapped.space.map({.descriptor = mapped.file.get(), .at = shift, .bytes = kBytes, .writable = true}));
  return mapped;
}

Region populated_region(AddressSpace& space, uint64_t bytes) {
  Reported<Region> region = Region::create(space, {.bytes = bytes});
  EXPECT_TRUE(region) << region.error().to_string();
  EXPECT_TRUE(region->populate());
  return std::move(*region);
}

class LargePages : public testing::Test {
 protected:
  void SetUp() override {
    if (!large_pages_are_granted()) GTEST_SKIP() << "this kernel grants no pages of 2 MiB";
  }
};

TEST_F(LargePages, take_all_that_lies_whole_in_a_piece) {
  const MappedFile file = mapped_file();
  EXPECT_EQ(take_large_pages(file.file.get(), 0, file.at(0), kBytes), kBytes);
  const MappedFile other = mapped_file();
  EXPECT_EQ(take_large_pages(other.file.get(), kMiB, other.at(kMiB), 4 * kMiB), 2 * kMiB);
}

TEST_F(LargePages, keep_what_is_in_the_file_and_zero_the_rest) {
  const MappedFile file = mapped_file();
  std::memset(file.at(kMiB), 7, 4096);
  ASSERT_EQ(take_large_pages(file.file.get(), 0, file.at(0), kBytes), kBytes);
  EXPECT_EQ(file.at(kMiB)[0], std::byte{7});
  EXPECT_EQ(file.at(kMiB)[4095], std::byte{7});
  EXPECT_EQ(file.at(kMiB)[4096], std::byte{0});
  EXPECT_EQ(file.at(kBytes)[-1], std::byte{0});
}

TEST_F(LargePages, are_what_a_memory_region_consists_of) {
  AddressSpace space = test::needed(AddressSpace::reserve(kBytes));
  EXPECT_EQ(populated_region(space, kBytes).large_page_bytes(), kBytes);
}

TEST_F(LargePages, leave_the_rest_of_a_region_to_small_ones) {
  AddressSpace space = test::needed(AddressSpace::reserve(kBytes));
  const Region region = populated_region(space, 5 * kMiB);
  EXPECT_EQ(region.large_page_bytes(), 4 * kMiB);
  region.data()[5 * kMiB - 1] = std::byte{1};
}

TEST(LargePagesRefused, where_file_and_addresses_do_not_match_nothing_is_done) {
  const MappedFile file = mapped_file(4096);
  EXPECT_EQ(take_large_pages(file.file.get(), 0, file.at(4096), kBytes), 0U);
}

TEST(LargePagesRefused, a_kernel_that_grants_none_gives_regions_of_small_ones) {
  const int ended = test::in_child([] {
    if (!test::refuse(
            {.number = SYS_madvise, .argument = 2, .mask = ~0U, .value = kMerge, .error = EINVAL})) {
      return 1;
    }
    if (large_pages_are_granted()) return 2;
    AddressSpace space = test::needed(AddressSpace::reserve(kBytes));
    const Region region = populated_region(space, kBytes);
    region.data()[kBytes - 1] = std::byte{1};
    return region.large_page_bytes() == 0 && region.populated_bytes() == kBytes ? 0 : 3;
  });
  EXPECT_EQ(ended, 0);
}

// Where in this process's memory the kernel was told to prefer large pages.
bool is_wished_at(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t start = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2) {
      is_there = start <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < end;
    }
    if (is_there && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST(LargePagesWished, for_whole_pages_of_private_memory_and_nothing_beside) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "a kernel without them";
  void* place = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  auto* bytes = static_cast<std::byte*>(place);
  wish_for_large_pages(bytes, 0);
  wish_for_large_pages(bytes + 1, 2 * kMiB);
  EXPECT_FALSE(is_wished_at(bytes + 2 * kMiB)) << "no whole page";
  wish_for_large_pages(bytes + 1, kBytes - 1);
  const uintptr_t first = round_up(reinterpret_cast<uintptr_t>(bytes) + 1, kHugePageBytes);
  std::byte* const page = bytes + (first - reinterpret_cast<uintptr_t>(bytes));
  EXPECT_TRUE(is_wished_at(page));
  EXPECT_FALSE(is_wished_at(page - 1));
  EXPECT_EQ(bytes[kBytes - 1], std::byte{0});
  ::munmap(place, kBytes);
}

}  // namespace
}  // namespace refract::large_pages_test
