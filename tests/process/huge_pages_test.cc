// SPDX-License-Identifier: Apache-2.0
// A node whose memory lies in huge pages. Where none are set aside these count as skipped, and say so.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/process/node_process.h"

namespace refract::test {
namespace {

uint64_t free_huge_pages() {
  const std::string text = read_whole("/proc/meminfo");
  const std::string name = "HugePages_Free:";
  const size_t at = text.find(name);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + name.size(), nullptr, 10);
}

// Huge pages have no name by which a process could find them again: what outlives the node is the log.
TEST(HugePages, of_a_node_with_a_log_have_everything_again_after_a_stop_and_after_everything_was_killed) {
  constexpr uint64_t kPages = 16;
  if (free_huge_pages() < kPages) {
    GTEST_SKIP() << "needs " << kPages << " free huge pages: sysctl vm.nr_hugepages=" << kPages;
  }
  const TemporaryFolder folder;
  const auto huge = [&] {
    return NodeOptions{.arguments = {"--data-durability", "everysec", "--data-folder",
                                     folder.path() + "/data", "--memory-backing",
                                     "hugetlb:", "--memory-initial", "32MiB", "--memory-limit", "32MiB"}};
  };
  for (uint64_t life = 1; life < 4; ++life) {
    Node node(huge());
    ASSERT_TRUE(node.is_up()) << node.errors();
    {
      // Gone before the node is, for it holds the memory, too.
      Client client = node.connect();
      for (uint64_t key = 0; key < 200 && life > 1; ++key) {
        EXPECT_EQ(client.get("key-" + std::to_string(key)).value(), "value " + std::to_string(life - 1));
      }
      for (uint64_t key = 0; key < 200; ++key) {
        ASSERT_TRUE(client.put("key-" + std::to_string(key), "value " + std::to_string(life)));
      }
    }
    if (life == 1) {
      EXPECT_EQ(node.stop(), 0);
    } else {
      node.kill_everything();
    }
    EXPECT_TRUE(becomes_true([] { return free_huge_pages() >= kPages; })) << "a page outlived its node";
  }
}

}  // namespace
}  // namespace refract::test
