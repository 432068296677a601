// SPDX-License-Identifier: Apache-2.0
#include "refract/memory/host/address_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <string>

#include "refract/base/units.h"
#include "refract/memory/host/descriptor.h"
#include "refract/memory/host/limits.h"
#include "refract/memory/remote_visible.h"
#include "refract/memory/testing/child_process.h"

namespace refract {
namespace {

constexpr int kFaults = 256 + SIGSEGV;

Descriptor file_of(uint64_t bytes, char first) {
  Descriptor file(::memfd_create("test", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::pwrite(file.get(), &first, 1, 0), 1);
  return file;
}

int read_in_child(const std::byte* address) {
  return test::in_child([=] { return static_cast<int>(observe_u64(address) & 0xff); });
}

int write_in_child(std::byte* address) {
  return test::in_child([=] {
    publish_u64(address, 9);
    return 0;
  });
}

// The flags of the mapping that holds `address`, as the kernel tells them: "rd mr mw me dd".
std::string flags_at(const std::byte* address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_found = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long start = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2) {
      const auto wanted = reinterpret_cast<uintptr_t>(address);
      is_found = start <= wanted && wanted < end;
    }
    if (is_found && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

TEST(AddressSpace, reserves_aligned_addresses_that_fault_and_cost_nothing) {
  const Reported<AddressSpace> space = AddressSpace::reserve(64 * kGiB + 1);
  ASSERT_TRUE(space);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(space->base()) % (2 * kMiB), 0U);
  EXPECT_EQ(space->bytes(), 64 * kGiB + 2 * kMiB);
  EXPECT_EQ(read_in_child(space->base()), kFaults);
  EXPECT_EQ(read_in_child(space->base() + space->bytes() - 8), kFaults);
}

TEST(AddressSpace, maps_a_file_where_it_is_told) {
  Reported<AddressSpace> space = AddressSpace::reserve(8 * kMiB);
  ASSERT_TRUE(space);
  {
    const Descriptor file = file_of(2 * kMiB, 'a');
    ASSERT_TRUE(space->map({.descriptor = file.get(), .at = 4 * kMiB, .bytes = 2 * kMiB, .writable = false}));
  }
  std::byte* const mapped = space->base() + 4 * kMiB;
  EXPECT_EQ(read_in_child(mapped), 'a');
  EXPECT_EQ(write_in_child(mapped), kFaults);
  EXPECT_EQ(read_in_child(mapped - 8), kFaults);
  EXPECT_EQ(read_in_child(mapped + 2 * kMiB), kFaults);
  ASSERT_TRUE(space->unmap(4 * kMiB, 2 * kMiB));
  EXPECT_EQ(read_in_child(mapped), kFaults);
}

TEST(AddressSpace, a_childs_writes_reach_the_parent_through_a_writable_piece) {
  Reported<AddressSpace> space = AddressSpace::reserve(2 * kMiB);
  ASSERT_TRUE(space);
  const Descriptor file = file_of(kMiB, 'a');
  ASSERT_TRUE(space->map({.descriptor = file.get(), .at = 0, .bytes = kMiB, .writable = true}));
  EXPECT_EQ(write_in_child(space->base()), 0);
  EXPECT_EQ(*space->base(), std::byte{9});
}

TEST(AddressSpace, a_refused_piece_leaves_the_range_reserved) {
  Reported<AddressSpace> space = AddressSpace::reserve(4 * kMiB);
  ASSERT_TRUE(space);
  const Descriptor file = file_of(kMiB, 'a');
  const Descriptor read_only(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const Reported<> denied =
      space->map({.descriptor = read_only.get(), .at = 0, .bytes = 4096, .writable = true});
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Code::kAccessDenied);
  EXPECT_FALSE(space->map({.descriptor = -1, .at = 0, .bytes = kMiB, .writable = false}));
  EXPECT_FALSE(space->map({.descriptor = file.get(), .at = 4 * kMiB, .bytes = 4096, .writable = false}));
  EXPECT_FALSE(space->map({.descriptor = file.get(), .at = UINT64_MAX, .bytes = 4096, .writable = false}));
  EXPECT_FALSE(space->map({.descriptor = file.get(), .at = 0, .bytes = 0, .writable = false}));
  EXPECT_FALSE(space->unmap(4 * kMiB, 1));
  // Were there a hole, this mapping could be placed into it.
  EXPECT_NE(flags_at(space->base()), "");
  EXPECT_EQ(read_in_child(space->base()), kFaults);
}

TEST(AddressSpace, core_dumps_leave_it_out_unless_asked_otherwise) {
  for (const bool in_core_dumps : {false, true}) {
    Reported<AddressSpace> space = AddressSpace::reserve(4 * kMiB, {.in_core_dumps = in_core_dumps});
    ASSERT_TRUE(space);
    const Descriptor file = file_of(kMiB, 'a');
    ASSERT_TRUE(space->map({.descriptor = file.get(), .at = 0, .bytes = kMiB, .writable = true}));
    EXPECT_EQ(flags_at(space->base()).find(" dd") == std::string::npos, in_core_dumps);
  }
}

TEST(AddressSpace, children_lose_it_only_where_it_is_hidden) {
  for (const bool hidden : {false, true}) {
    Reported<AddressSpace> space = AddressSpace::reserve(4 * kMiB, {.hidden_from_children = hidden});
    ASSERT_TRUE(space);
    const Descriptor file = file_of(kMiB, 'a');
    ASSERT_TRUE(space->map({.descriptor = file.get(), .at = 0, .bytes = kMiB, .writable = true}));
    EXPECT_EQ(read_in_child(space->base()), hidden ? kFaults : 'a');
  }
}

TEST(AddressSpace, moving_it_moves_no_mapping) {
  Reported<AddressSpace> made = AddressSpace::reserve(2 * kMiB);
  ASSERT_TRUE(made);
  const std::byte* base = made->base();
  AddressSpace moved = std::move(*made);
  EXPECT_EQ(moved.base(), base);
  EXPECT_EQ(made->base(), nullptr);
  AddressSpace assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.base(), base);
  EXPECT_NE(flags_at(base), "");
  assigned = AddressSpace();
  EXPECT_EQ(flags_at(base), "");
}

TEST(AddressSpace, nonsense_sizes_are_refused) {
  EXPECT_FALSE(AddressSpace::reserve(0));
  EXPECT_FALSE(AddressSpace::reserve(UINT64_MAX));
}

TEST(AddressSpace, too_few_addresses_are_a_readable_error) {
  const int ended = test::in_child([] {
    const SystemRoot system;
    // Relative to what the sanitizers have reserved already.
    const uint64_t used = leading_number(system.read("/proc/self/statm").value_or("")).value_or(0) * 4096;
    const rlimit low{.rlim_cur = used + kGiB, .rlim_max = used + kGiB};
    if (::setrlimit(RLIMIT_AS, &low) != 0) return 1;
    const Reported<MemoryLimits> limits = memory_limits();
    if (!limits || limits->addresses_bytes > kGiB) return 2;
    const Reported<AddressSpace> space = AddressSpace::reserve(2 * kGiB);
    return !space && space.error().next.find("ulimit -v") != std::string::npos ? 0 : 3;
  });
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace refract
