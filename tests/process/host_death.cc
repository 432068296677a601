// SPDX-License-Identifier: Apache-2.0
#include "tests/process/host_death.h"

#include <gtest/gtest.h>

#include "refract/base/testing/needed.h"
#include "refract/storage/posix_disk.h"
#include "refract/storage/store_folder.h"

namespace refract::test {

void boot_again(const std::string& data_folder) {
  auto disk = needed(storage::open_posix_disk(data_folder));
  auto facts = needed(storage::StoreFolder::look(*disk));
  ASSERT_TRUE(facts);
  facts->rings.boot[0] ^= std::byte{0xff};
  ASSERT_TRUE(storage::write_store_page(*disk, *facts));
}

}  // namespace refract::test
