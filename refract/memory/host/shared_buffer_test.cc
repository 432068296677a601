// SPDX-License-Identifier: Apache-2.0
// What a process may lend to another one, and that nothing else passes for it.
#include "refract/memory/host/shared_buffer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <optional>

#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/memory/testing/child_process.h"

namespace refract::shared_buffer_test {
namespace {

constexpr uint64_t kBytes = 3 * kMiB;

SharedBufferHold buffer_of(uint64_t bytes) {
  auto made = SharedBuffer::make(bytes);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

Descriptor file_of(uint64_t bytes, bool allocated, int seals, unsigned flags = 0) {
  Descriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_TRUE(!allocated || ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) == 0);
  EXPECT_TRUE(seals == 0 || ::fcntl(file.get(), F_ADD_SEALS, seals) == 0);
  return file;
}

TEST(SharedBuffer, is_seen_by_whoever_maps_its_descriptor_as_it_changes) {
  for (const uint64_t bytes : {uint64_t{1}, 100 * kKiB, 2 * kMiB, kBytes, 9 * kMiB}) {
    const auto buffer = buffer_of(bytes);
    ASSERT_GE(buffer->bytes().size(), bytes);
    const auto view = SharedView::map(buffer->descriptor(), bytes);
    ASSERT_TRUE(view);
    ASSERT_EQ(view->bytes().size(), bytes);
    std::memset(buffer->bytes().data(), 7, bytes);
    EXPECT_EQ(view->bytes().front(), std::byte{7});
    EXPECT_EQ(view->bytes().back(), std::byte{7});
    buffer->bytes()[bytes - 1] = std::byte{8};
    EXPECT_EQ(view->bytes().back(), std::byte{8});
  }
}

TEST(SharedBuffer, outlives_its_maker_where_it_is_mapped) {
  std::optional<SharedView> view;
  {
    const auto buffer = buffer_of(kBytes);
    buffer->bytes()[kBytes - 1] = std::byte{9};
    view.emplace(test::needed(SharedView::map(buffer->descriptor(), kBytes)));
  }
  EXPECT_EQ(view->bytes().back(), std::byte{9});
}

// What would let its owner kill or charge a process that maps it is refused by the kernel.
TEST(SharedBuffer, cannot_be_shortened_emptied_or_opened_to_further_writers) {
  const auto buffer = buffer_of(kBytes);
  const int file = buffer->descriptor();
  EXPECT_NE(::ftruncate(file, 4096), 0);
  EXPECT_NE(::ftruncate(file, 16 * kMiB), 0);
  EXPECT_NE(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  EXPECT_NE(::madvise(buffer->bytes().data(), 4096, MADV_REMOVE), 0);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, file, 0), MAP_FAILED);
  EXPECT_NE(::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_TRUE(is_lendable(file, kBytes));
}

TEST(SharedBuffer, no_other_file_passes_for_one) {
  constexpr int kLength = F_SEAL_SHRINK | F_SEAL_GROW;
  constexpr int kAll = kLength | F_SEAL_FUTURE_WRITE;
  EXPECT_TRUE(is_lendable(file_of(kBytes, true, kAll).get(), kBytes)) << "the one that does";
  EXPECT_FALSE(is_lendable(file_of(kBytes, true, kAll).get(), kBytes + 1)) << "too short";
  EXPECT_FALSE(is_lendable(file_of(kBytes, true, 0).get(), kBytes)) << "may be shortened";
  EXPECT_FALSE(is_lendable(file_of(kBytes, true, kLength).get(), kBytes)) << "may be emptied";
  EXPECT_FALSE(is_lendable(file_of(kBytes, false, kAll).get(), kBytes)) << "its pages would be ours to pay";
  EXPECT_FALSE(is_lendable(::open("/dev/zero", O_RDWR | O_CLOEXEC), 1));
  EXPECT_FALSE(is_lendable(-1, 1));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_FALSE(is_lendable(ends[0], 1));
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_FALSE(SharedView::map(file_of(kBytes, false, kAll).get(), kBytes));
  EXPECT_FALSE(SharedView::map(file_of(kBytes, true, kAll).get(), 0));
}

// Pages of hugetlbfs may be missing when they are touched, and that is a SIGBUS.
TEST(SharedBuffer, huge_pages_of_the_administrator_are_not_lent) {
  const Descriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!file || ::ftruncate(file.get(), 2 * kMiB) != 0) GTEST_SKIP() << "this kernel has none";
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
  EXPECT_FALSE(is_lendable(file.get(), 1));
}

TEST(SharedBuffer, a_child_neither_writes_into_it_nor_ends_it) {
  auto buffer = buffer_of(kBytes);
  buffer->bytes()[0] = std::byte{1};
  EXPECT_EQ(test::in_child([&] {
              if (buffer->is_of_this_process()) return 1;
              void* const there = ::mmap(buffer->bytes().data(), 4096, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
              if (there == MAP_FAILED) return 2;
              buffer.let_go();
              *static_cast<char*>(there) = 5;  // Still mapped: the child's own.
              return 0;
            }),
            0);
  EXPECT_EQ(test::in_child([&] {
              buffer->bytes()[0] = std::byte{5};
              return 0;
            }),
            256 + SIGSEGV);
  EXPECT_EQ(buffer->bytes()[0], std::byte{1});
  EXPECT_TRUE(buffer->is_of_this_process());
}

TEST(SharedBuffer, what_cannot_be_had_is_reported) {
  EXPECT_EQ(SharedBuffer::make(0).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(SharedBuffer::make(uint64_t{1} << 50));
}

}  // namespace
}  // namespace refract::shared_buffer_test
