// SPDX-License-Identifier: Apache-2.0
// The directory of stores in a space's header, byte for byte, and who may still open the space.
#include "refract/memory/store_directory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "refract/memory/heap.h"

namespace refract {
namespace {

class StoreDirectory : public testing::Test {
 protected:
  StoreDirectory() { Heap::format(writer_, {.chunks_max = 1}); }

  [[nodiscard]] std::string bytes_at(size_t at, size_t count) const {
    return {reinterpret_cast<const char*>(space_.data()) + at, count};
  }

  alignas(64) std::vector<std::byte> space_ = std::vector<std::byte>(kChunkBytes);
  Writer writer_{space_.data()};
};

TEST_F(StoreDirectory, is_empty_in_a_space_that_was_just_made) {
  EXPECT_TRUE(stores_in(writer_).empty());
  EXPECT_EQ(root_of_store(writer_, StoreName::of("counter")), std::nullopt);
  EXPECT_EQ(bytes_at(8, 4), std::string("\4\0\0\0", 4)) << "releases that know no directory open it";
}

TEST_F(StoreDirectory, names_each_store_and_where_it_begins) {
  ASSERT_TRUE(set_root_of_store(writer_, StoreName::of("counter"), {0x1000}));
  ASSERT_TRUE(set_root_of_store(writer_, StoreName::of("b"), {0x2000}));
  ASSERT_TRUE(set_root_of_store(writer_, StoreName::of("counter"), {0x3000}));
  EXPECT_EQ(root_of_store(writer_, StoreName::of("counter")), Offset{0x3000});
  EXPECT_EQ(root_of_store(writer_, StoreName::of("b")), Offset{0x2000});
  EXPECT_EQ(stores_in(writer_), (std::vector<StoreName>{StoreName::of("counter"), StoreName::of("b")}));
  EXPECT_EQ(bytes_at(1104, 32), std::string("counter\0\0\x30\0\0\0\0\0\0"
                                            "b\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0",
                                            32));
}

TEST_F(StoreDirectory, makes_the_space_one_that_releases_without_it_refuse) {
  ASSERT_TRUE(set_root_of_store(writer_, StoreName::of("counter"), {0x1000}));
  EXPECT_EQ(bytes_at(8, 4), std::string("\4\0\1\0", 4)) << "to them it is version 65,540";
  EXPECT_TRUE(Heap::check_header(space_)) << "this release knows it";
}

TEST_F(StoreDirectory, says_when_it_is_full) {
  for (char name = 'a'; name < 'a' + static_cast<char>(kSpaceStoresMax); ++name) {
    ASSERT_TRUE(set_root_of_store(writer_, StoreName::of({&name, 1}), {0x1000}));
  }
  EXPECT_EQ(set_root_of_store(writer_, StoreName::of("z"), {0x1000}).code(), Code::kNoSpace);
  EXPECT_TRUE(set_root_of_store(writer_, StoreName::of("a"), {0x2000})) << "it has its place";
}

}  // namespace
}  // namespace refract
