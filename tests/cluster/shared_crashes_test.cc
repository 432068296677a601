// SPDX-License-Identifier: Apache-2.0
// Nodes that share their objects, under a load of all of them: servers are killed, a node ends and comes
// back, and one is taken out of the list.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/cluster/shared_load.h"
#include "tests/cluster/shared_nodes.h"

#include "refract/base/prng.h"

namespace refract::test {
namespace {

uint64_t kills_wanted() {
  const char* const set = std::getenv("REFRACT_SHARED_KILLS");
  return static_cast<uint64_t>(set == nullptr ? 100 : std::max(1, std::atoi(set)));
}

class SharedUnderLoad : public AgreedNodes {
 protected:
  void expect_good_end(const std::vector<size_t>& nodes) {
    load_.stop();
    EXPECT_EQ(nodes_.trouble_to_agree(nodes), "");
    if (load_.trouble().empty()) load_.judge_the_end(nodes);
    EXPECT_EQ(load_.trouble(), "") << load_.counts_text();
    EXPECT_GT(load_.counts().made, 0U);
    EXPECT_GT(load_.counts().found, 0U);
    EXPECT_GT(load_.counts().removed, 0U);
    RecordProperty("load", load_.counts_text());
  }

  SharedLoad load_{nodes_};
};

TEST_F(SharedUnderLoad, are_neither_lost_nor_brought_back_by_servers_that_are_killed_at_any_moment) {
  Prng prng(1);
  load_.start();
  for (uint64_t i = 0; i < kills_wanted() && load_.trouble().empty(); ++i) {
    load_.go_on(20 + prng.below(200));
    ::usleep(static_cast<useconds_t>(prng.below(20'000)));
    Node& node = nodes_.node(prng.below(SharedNodes::kNodes));
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    ASSERT_GT(node.next_server(server), 0) << node.errors();
  }
  load_.go_on(200);
  expect_good_end({0, 1, 2});
}

// Stopped ones are missed by removals, and drop what they have missed when they go on.
TEST_F(SharedUnderLoad, are_neither_lost_nor_brought_back_by_servers_that_stop_for_a_while) {
  Prng prng(2);
  load_.start();
  for (uint64_t i = 0; i < std::max<uint64_t>(1, kills_wanted() / 10) && load_.trouble().empty(); ++i) {
    load_.go_on(100 + prng.below(100));
    const pid_t server = nodes_.node(prng.below(SharedNodes::kNodes)).server();
    send_signal(server, SIGSTOP);
    sleep_ms(1'500);
    send_signal(server, SIGCONT);
  }
  load_.go_on(200);
  expect_good_end({0, 1, 2});
}

TEST_F(SharedUnderLoad, are_lost_with_the_node_that_made_them_alone_and_it_comes_back) {
  load_.start();
  for (uint64_t i = 0; i < std::max<uint64_t>(1, kills_wanted() / 20) && load_.trouble().empty(); ++i) {
    load_.go_on(300);
    load_.avoid(2);
    nodes_.node(2).kill_everything();
    const uint64_t made = load_.counts().made;
    load_.go_on(15);
    EXPECT_TRUE(becomes_true([&] { return load_.counts().made > made || !load_.trouble().empty(); }))
        << "ids of other homes go on";
    nodes_.set().start_again(2);
    ASSERT_TRUE(nodes_.node(2).is_up()) << nodes_.node(2).errors();
    ASSERT_EQ(nodes_.trouble_to_agree(), "");
    load_.use_again(2);
    load_.go_on(100);
  }
  expect_good_end({0, 1, 2});
}

TEST_F(SharedUnderLoad, outlive_a_new_list_and_the_end_of_the_node_that_it_takes_out) {
  load_.start();
  load_.go_on(300);
  load_.avoid(2);
  nodes_.set().write_list(fmt::format("version = 3\na = {}\nb = {}\n", nodes_.node(0).tcp_address(),
                                      nodes_.node(1).tcp_address()));
  nodes_.set().hang_up();
  load_.go_on(300);
  EXPECT_EQ(nodes_.node(2).stop(), 0);
  load_.go_on(300);
  ObjectClient a = nodes_.open(0);
  ObjectClient b = nodes_.open(1);
  for (size_t home = 0; home < SharedNodes::kNodes; ++home) {
    const std::string id = nodes_.id_at(home, "further");
    EXPECT_TRUE(becomes_true([&] { return put_sealed(a.objects, id, 1, 1'000).has_value(); }))
        << a.objects.trouble().to_string();
    EXPECT_TRUE(b.objects.get(id));
  }
  // With all of them again.
  nodes_.set().write_list(nodes_.set().true_list(4));
  nodes_.set().hang_up();
  nodes_.set().start_again(2);
  ASSERT_EQ(nodes_.trouble_to_agree(), "");
  load_.go_on(200);
  expect_good_end({0, 1, 2});
}

}  // namespace
}  // namespace refract::test
