// SPDX-License-Identifier: Apache-2.0
// What a node's memory is to its device: a node of 1 GiB in pages of 2 MiB, read over RDMA.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/process/node_process.h"

#include "refract/base/testing/needed.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/shm/domain.h"
#include "refract/node/observe/watcher.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::test {
namespace {

// A counter of the node's first shard.
uint64_t counter_of(const Node& node, std::string_view name) {
  runtime::Shard shard{system_clock()};
  const auto domain = needed(fabric::shm::ClientDomain::create());
  const auto channel = domain->connect(node.socket_path());
  if (!channel) {
    ADD_FAILURE() << channel.error().to_string();
    return 0;
  }
  rpc::Session session(**channel, shard);
  const fabric::Dispatcher dispatcher(*domain, shard);
  (void)shard.run_until([&] { return session.state() != rpc::Session::State::kOpening; },
                        shard.clock().now_ns() + kPatience_ns);
  const auto state = observe::Watcher(session, shard, kPatience_ns).state();
  if (!state) {
    ADD_FAILURE() << state.error().to_string();
    return 0;
  }
  for (const auto& [each, count] : state->counters) {
    if (each == name) return count;
  }
  ADD_FAILURE() << "there is no counter of that name";
  return 0;
}

// Takes so many pages of 2 MiB out of the machine's memory, for as long as it lives.
class HugePages {
 public:
  explicit HugePages(int pages) { set(pages); }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  ~HugePages() { set(0); }

 private:
  static void set(int pages) {
    EXPECT_TRUE(write_whole("/proc/sys/vm/nr_hugepages", std::to_string(pages)));
    EXPECT_EQ(read_whole("/proc/sys/vm/nr_hugepages"), std::to_string(pages) + "\n");
  }
};

TEST(VerbsNodeMemory, of_a_gibibyte_in_huge_pages_is_one_registration) {
  const char* const family = std::getenv("REFRACT_VERBS_FAMILY");
  const char* const mtu = std::getenv("REFRACT_VERBS_MTU");
  const bool is_again = (family != nullptr && std::string_view(family) == "ipv6") ||
                        (mtu != nullptr && std::string_view(mtu) == "1024");
  if (is_again) GTEST_SKIP() << "it takes long in the machine, and address and MTU have no part in it";
  const HugePages pages(520);
  Node node({.arguments = {"--listen-address", "127.0.0.1:0", "--memory-backing",
                           "hugetlb:", "--memory-initial", "1GiB", "--memory-limit", "1GiB"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  auto client = Client::connect("verbs:" + node.tcp_address(), {.timeout_ns = kPatience_ns});
  ASSERT_TRUE(client.has_value()) << client.error().to_string();
  ASSERT_TRUE(client->put("key", "value"));
  EXPECT_EQ(client->get("key").value(), "value");
  EXPECT_TRUE(client->route().direct) << client->route().reason;
  EXPECT_EQ(counter_of(node, "verbs.registrations"), 1u);
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test
