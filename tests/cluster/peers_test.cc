// SPDX-License-Identifier: Apache-2.0
// Nodes in processes of their own whose shards of objects reach each other, while servers are killed, nodes
// end and lists change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "tests/cluster/node_set.h"
#include "tests/cluster/peer_store.h"

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::test {
namespace {

using fabric::tcp::Role;
using fabric::tcp::Secret;
using testing::HasSubstr;

constexpr std::string_view kSecret = "what the nodes of this test know";

// What a node's shard of objects says of the others; why it could not be asked otherwise.
std::string told_by(const Node& node, Role role = Role::kClient, std::string_view text = kSecret) {
  const Secret secret = needed(Secret::copy_of(std::as_bytes(std::span(text))));
  runtime::Shard shard(system_clock());
  const auto domain = needed(fabric::tcp::ClientDomain::create(
      {.secret = role == Role::kNode ? &secret : nullptr, .role = role, .reconnect_for_ns = 0}));
  fabric::Dispatcher dispatcher(*domain, shard);
  const auto channel = domain->connect(node.tcp_address() + "/2");
  if (!channel) return channel.error().to_string();
  rpc::Session session(**channel, shard);
  const auto reply = session.call_and_wait({.method = kMethodTell}, shard.refresh_now() + kPatience_ns);
  if (reply.code != Code::kOk) return domain->last_refusal().to_string();
  return {reinterpret_cast<const char*>(reply.bytes.data()), reply.bytes.size()};
}

class MetNodes : public testing::Test {
 protected:
  [[nodiscard]] std::string secret_file(const std::string& name, std::string_view text) const {
    const std::string path = folder_.path() + "/" + name;
    EXPECT_TRUE(write_whole(path, std::string(text)));
    EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
    return path;
  }
  [[nodiscard]] static std::vector<std::string> with_objects(std::vector<std::string> further) {
    further.insert(further.end(), {"--objects-limit", "64MiB", "--server-shards", "2"});
    return further;
  }
  void start(std::vector<std::string> names) {
    nodes_.emplace(
        std::move(names),
        NodeSet::Options{.arguments = with_objects({"--cluster-secret-file", secret_file("secret", kSecret)}),
                         .program = PEER_NODE_PATH});
    for (size_t i = 0; i < nodes_->size(); ++i) {
      ASSERT_TRUE(nodes_->node(i).is_up()) << nodes_->node(i).errors();
    }
    nodes_->write_list(nodes_->true_list(2));
    nodes_->hang_up();
  }
  // Waits until the node tells this.
  void expect_told(size_t index, const std::string& wanted) {
    std::string told;
    (void)becomes_true([&] { return (told = told_by(nodes_->node(index))) == wanted; });
    ASSERT_EQ(told, wanted) << nodes_->name(index);
  }
  void expect_all_met() {
    ASSERT_NO_FATAL_FAILURE(expect_told(0, "2 client; b up; c up; greeted by b c"));
    ASSERT_NO_FATAL_FAILURE(expect_told(1, "2 client; a up; c up; greeted by a c"));
    ASSERT_NO_FATAL_FAILURE(expect_told(2, "2 client; a up; b up; greeted by a b"));
  }

  TemporaryFolder folder_;
  std::optional<NodeSet> nodes_;
};

TEST_F(MetNodes, reach_each_other_in_the_node_role_that_no_client_has) {
  ASSERT_NO_FATAL_FAILURE(start({"a", "b", "c"}));
  ASSERT_NO_FATAL_FAILURE(expect_all_met());
  EXPECT_THAT(told_by(nodes_->node(0), Role::kNode), testing::StartsWith("2 node; "));
  EXPECT_THAT(told_by(nodes_->node(0), Role::kNode, "not what these nodes know"),
              HasSubstr("cluster secret is not this node's"));
}

TEST_F(MetNodes, meet_again_after_each_crash_of_a_server) {
  ASSERT_NO_FATAL_FAILURE(start({"a", "b", "c"}));
  ASSERT_NO_FATAL_FAILURE(expect_all_met());
  Node& node = nodes_->node(1);
  for (int round = 0; round < 5; ++round) {
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    ASSERT_NE(node.next_server(server), -1);
    // The next server was born with the list, and greets and is greeted.
    ASSERT_NO_FATAL_FAILURE(expect_all_met());
  }
}

TEST_F(MetNodes, are_not_waited_for_where_one_is_stopped_or_ends_and_the_list_says_which_are_reached) {
  ASSERT_NO_FATAL_FAILURE(start({"a", "b", "c"}));
  ASSERT_NO_FATAL_FAILURE(expect_all_met());
  // One that stands still is a matter of each call's deadline; its session stays.
  send_signal(nodes_->node(2).server(), SIGSTOP);
  expect_told(0, "2 client; b up; c up; greeted by b c");
  send_signal(nodes_->node(2).server(), SIGCONT);

  EXPECT_EQ(nodes_->node(2).stop(), 0);
  std::string told;
  EXPECT_TRUE(becomes_true([&] {
    told = told_by(nodes_->node(0));
    return told.find("c node c: cannot reach 127.0.0.1") != std::string::npos;
  })) << told;
  EXPECT_THAT(told, HasSubstr("; b up;"));

  nodes_->write_list("version = 3\na = " + nodes_->node(0).tcp_address() +
                     "\nb = " + nodes_->node(1).tcp_address() + "\n");
  nodes_->hang_up();
  expect_told(0, "3 client; b up; greeted by b c");
  expect_told(1, "3 client; a up; greeted by a c");
}

TEST_F(MetNodes, with_different_secrets_or_none_say_so) {
  ASSERT_NO_FATAL_FAILURE(start({"a", "b"}));
  const auto further_node = [&](const std::string& name, std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--cluster-nodes", "file:" + nodes_->list_path(), "--cluster-self",
                                       name, "--listen-address", "127.0.0.1:0"});
    return Node({.arguments = with_objects(std::move(arguments)), .program = PEER_NODE_PATH});
  };
  nodes_->write_list(nodes_->true_list(3, "c = 192.0.2.1:1\nd = 192.0.2.1:2\n"));
  Node other =
      further_node("c", {"--cluster-secret-file", secret_file("other", "what another cluster's nodes know")});
  Node without = further_node("d", {});
  ASSERT_TRUE(other.is_up()) << other.errors();
  ASSERT_TRUE(without.is_up()) << without.errors();
  EXPECT_EQ(told_by(without), "alone");
  nodes_->write_list(
      nodes_->true_list(4, "c = " + other.tcp_address() + "\nd = " + without.tcp_address() + "\n"));
  nodes_->hang_up();
  other.process().signal(SIGHUP);
  std::string told;
  EXPECT_TRUE(becomes_true([&] {
    told = told_by(nodes_->node(0));
    return told.find("the other node's cluster secret is not this node's") != std::string::npos &&
           told.find("this node has no cluster secret") != std::string::npos;
  })) << told;
  EXPECT_THAT(told, HasSubstr("4 client; b up; c node c: "));
  EXPECT_TRUE(becomes_true([&] {
    told = told_by(other);
    return told.find("a node a: ") != std::string::npos &&
           told.find("cluster secret is not this node's") != std::string::npos;
  })) << told;
}

// Windows as in members_test.cc: a node is idle in one of them.
TEST_F(MetNodes, cost_an_idle_node_nothing_and_an_absent_member_an_attempt_now_and_then) {
  ASSERT_NO_FATAL_FAILURE(start({"a", "b", "c"}));
  ASSERT_NO_FATAL_FAILURE(expect_all_met());
  EXPECT_EQ(nodes_->node(2).stop(), 0);
  constexpr uint64_t kWakeUpsMax = 25;
  constexpr uint64_t kCpuMax_ns = 20 * kMillisecond_ns;
  ProcessUse taken;
  for (int window = 0; window < 15; ++window) {
    const ProcessUse before = use_of(nodes_->node(0).server());
    sleep_ms(2'000);
    const ProcessUse after = use_of(nodes_->node(0).server());
    taken = {.cpu_ns = after.cpu_ns - before.cpu_ns, .wake_ups = after.wake_ups - before.wake_ups};
    if (taken.cpu_ns <= kCpuMax_ns && taken.wake_ups <= kWakeUpsMax) return;
  }
  ADD_FAILURE() << taken.cpu_ns << " ns of processor time and " << taken.wake_ups << " wake-ups in 2 s";
}

}  // namespace
}  // namespace refract::test
