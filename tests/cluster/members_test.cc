// SPDX-License-Identifier: Apache-2.0
// Nodes with one list: each tells it, takes a newer one up without a restart, and keeps what it has where
// another one is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/cluster/node_set.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

using testing::HasSubstr;

// Waits until the node's log says so, behind its first `from` bytes.
bool says(const Node& node, const std::string& text, size_t from = 0) {
  return becomes_true([&] { return node.errors().find(text, from) != std::string::npos; });
}

TEST(Members, are_told_by_every_node_over_every_way_and_lead_to_each_other) {
  NodeSet nodes({"a", "b", "c"});
  for (size_t i = 0; i < nodes.size(); ++i) {
    ASSERT_TRUE(nodes.node(i).is_up()) << nodes.node(i).errors();
    EXPECT_THAT(nodes.node(i).output(),
                HasSubstr(fmt::format("{} of 3 nodes, list version 1\n", nodes.name(i))));
  }
  nodes.write_list(nodes.true_list(2));
  nodes.hang_up();
  for (size_t i = 0; i < nodes.size(); ++i) {
    Client near = nodes.node(i).connect();
    std::string wanted = "2";
    for (size_t k = 0; k < nodes.size(); ++k) {
      wanted += fmt::format(" {}{}={}", k == i ? "*" : "", nodes.name(k), nodes.node(k).tcp_address());
    }
    EXPECT_EQ(told_when(near, 2), wanted);
    Client far = nodes.node(i).connect_tcp();
    EXPECT_EQ(told_by(far), wanted);
  }
  // From any one to every other, by what it tells.
  Client first = nodes.node(0).connect();
  const auto told = first.members();
  ASSERT_TRUE(told);
  for (size_t i = 0; i < told->members.size(); ++i) {
    auto there = Client::connect("tcp:" + told->members[i].address, {.timeout_ns = kPatience_ns});
    ASSERT_TRUE(there) << there.error().to_string();
    const auto its = there->members();
    ASSERT_TRUE(its);
    EXPECT_EQ(its->self, i);
  }
}

TEST(Members, of_a_newer_list_are_told_without_a_restart_and_by_each_next_server) {
  NodeSet nodes({"a", "b"});
  Node& node = nodes.node(0);
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  EXPECT_EQ(told_by(client), "1 *a=192.0.2.1:1 b=192.0.2.1:2");
  const pid_t server = node.server();
  nodes.write_list("version = 20\nb = host:7400\na = [fd00::1]:7400\nc = host:1\n");
  nodes.hang_up();
  const std::string newer = "20 *a=[fd00::1]:7400 b=host:7400 c=host:1";
  EXPECT_EQ(told_when(client, 20), newer);
  EXPECT_EQ(node.server(), server);
  EXPECT_TRUE(says(node, "version 20 replaces version 1: a, b and c"));

  // The keeper has it, so that the file may be anything meanwhile.
  nodes.write_list("this is no list");
  for (pid_t now = server, i = 0; i < 3; ++i) {
    send_signal(now, SIGKILL);
    now = node.next_server(now);
    EXPECT_EQ(told_by(client), newer);
  }
}

// Lists that come while the server is stopped or dead are not lost, and the last one counts.
TEST(Members, that_change_while_the_server_is_away_are_told_when_it_is_back) {
  NodeSet nodes({"a"});
  Node& node = nodes.node(0);
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  const pid_t server = node.server();
  send_signal(server, SIGSTOP);
  for (uint64_t version = 2; version <= 5; ++version) {
    nodes.write_list(fmt::format("version = {}\na = host:{}\n", version, version));
    nodes.hang_up();
    ASSERT_TRUE(says(node, fmt::format("version {} replaces", version)));
  }
  send_signal(server, SIGCONT);
  EXPECT_EQ(told_when(client, 5), "5 *a=host:5");
  EXPECT_EQ(node.server(), server);

  send_signal(server, SIGSTOP);
  nodes.write_list("version = 6\na = host:6\n");
  nodes.hang_up();
  ASSERT_TRUE(says(node, "version 6 replaces"));
  send_signal(server, SIGKILL);
  EXPECT_EQ(told_when(client, 6), "6 *a=host:6");
}

TEST(Members, of_a_list_that_may_not_replace_the_present_one_are_refused_and_the_log_names_it) {
  NodeSet nodes({"a", "b"}, {.list = "version = 7\na = h:1\nb = h:2\n"});
  Node& node = nodes.node(0);
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  const std::string present = "7 *a=h:1 b=h:2";
  ASSERT_EQ(told_by(client), present);
  const auto refused = [&](const std::string& list, const std::string& sentence) {
    nodes.write_list(list);
    const size_t from = node.errors().size();
    node.process().signal(SIGHUP);
    EXPECT_TRUE(says(node, "the new list is refused, and version 7 stays: " + sentence, from))
        << node.errors();
    EXPECT_EQ(told_by(client), present) << list;
  };
  const std::string place = nodes.list_path() + ": ";
  refused("version = 6\na = h:1\nb = h:2\n", "its version is 6, which is older than version 7");
  refused("version = 7\na = h:1\nc = h:2\n", "its version is 7, which is another list's: one with a and b");
  refused("version = 7\na = h:1\nb = h:3\n", "its version is 7, which is another list's");
  refused("version = 8\nb = h:2\n", "this node's name, 'a', is not in the list, which has b");
  refused("a = h:1\nb = h:2\n", place + "a list in a file begins with its version");
  refused("version = 8\na = h:1\nb\n", place + "line 3: 'b': expected NAME=HOST:PORT");
  refused("version = 8\na = h:1\na = h:2\n", place + "there are two nodes of the name 'a'");
  refused("", place + "a list in a file begins with its version");
  refused(std::string(300'000, '#'), place + "a list has at most 131072 bytes");
  refused(std::string("version = 8\n\0\n", 14), place + "line 2: '\\x00': expected");

  const auto cannot_be_read = [&](const std::string& sentence) {
    const size_t from = node.errors().size();
    node.process().signal(SIGHUP);
    EXPECT_TRUE(says(node, fmt::format("cannot read {}: {}", nodes.list_path(), sentence), from))
        << node.errors();
    EXPECT_EQ(told_by(client), present);
    std::filesystem::remove(nodes.list_path());
  };
  std::filesystem::remove(nodes.list_path());
  cannot_be_read("No such file or directory");
  // A reader of a FIFO without a writer would wait for ever.
  ASSERT_EQ(::mkfifo(nodes.list_path().c_str(), 0600), 0);
  cannot_be_read("it is not a regular file");
  std::filesystem::create_directory(nodes.list_path());
  cannot_be_read("it is not a regular file");

  nodes.write_list("version = 7\nb = h:2\na = h:1\n");
  node.process().signal(SIGHUP);
  EXPECT_TRUE(says(node, "looked at again; version 7 stays"));
  nodes.write_list("version = 8\nb = h:2\na = h:1\n");
  node.process().signal(SIGHUP);
  EXPECT_EQ(told_when(client, 8), "8 *a=h:1 b=h:2");
}

TEST(Members, are_told_by_a_node_with_several_shards_and_objects_too) {
  NodeSet nodes({"a", "b"}, {.arguments = {"--server-shards", "2", "--objects-limit", "64MiB"}, .list = {}});
  Node& node = nodes.node(1);
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect_tcp();
  EXPECT_EQ(told_by(client), "1 a=192.0.2.1:1 *b=192.0.2.1:2");
  EXPECT_TRUE(client.put("key", "value"));
}

TEST(Members, in_a_setting_need_no_file_and_hanging_up_does_not_stop_the_node) {
  Node node({.arguments = {"--cluster-nodes", "version=4,me=h:1,you=h:2", "--cluster-self", "me"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  node.process().signal(SIGHUP);
  EXPECT_TRUE(says(node, "looked at again; version 4 stays"));
  Client client = node.connect();
  EXPECT_EQ(told_by(client), "4 *me=h:1 you=h:2");
  EXPECT_EQ(node.stop(), 0);
}

TEST(Members, are_unsupported_where_there_is_no_list_and_hanging_up_stops_the_node) {
  for (const bool has_more : {false, true}) {
    NodeOptions options;
    if (has_more) options.arguments = {"--server-shards", "2", "--objects-limit", "64MiB"};
    Node node(std::move(options));
    ASSERT_TRUE(node.is_up()) << node.errors();
    EXPECT_EQ(node.output().find("cluster"), std::string::npos);
    Client client = node.connect();
    EXPECT_EQ(told_by(client), "unsupported");
    EXPECT_TRUE(client.put("key", "value"));
    node.process().signal(SIGHUP);
    EXPECT_EQ(node.process().wait(), 0);
  }
}

TEST(Members, that_make_no_sense_keep_the_node_from_starting) {
  const auto refusal = [](const std::string& nodes) {
    Node node({.arguments = {"--cluster-nodes", nodes, "--cluster-self", "me"}});
    EXPECT_EQ(node.process().wait(), 2) << nodes;
    EXPECT_EQ(node.output(), "");
    return node.errors();
  };
  EXPECT_THAT(refusal("a=h:1,b=h:2"),
              HasSubstr("this node's name, 'me', is not in the list, which has a and b"));
  EXPECT_THAT(refusal("me=h:1,me=h:2"), HasSubstr("two nodes of the name 'me'"));
  EXPECT_THAT(refusal("me=h:1,y/u=h:2"), HasSubstr("'y/u' cannot be the name of a node"));
  EXPECT_THAT(refusal("me=h:1,you=h"), HasSubstr("'h' of node 'you' is no HOST:PORT"));
  EXPECT_THAT(refusal("version=2"), HasSubstr("the list names no node"));
  std::string many = "me=h:1";
  for (int i = 0; i < 255; ++i) many += fmt::format(",n{}=h:{}", i, i + 2);
  EXPECT_THAT(refusal(many), HasSubstr("more than 255 nodes"));
  EXPECT_THAT(refusal("file:/there/is/no/such/file"),
              HasSubstr("cannot read /there/is/no/such/file: No such"));
}

// Each list of a version has that many nodes more, so that a mixture of two would show.
TEST(Members, are_a_whole_list_whenever_they_are_asked_for_while_lists_and_servers_change) {
  NodeSet nodes({"a"});
  Node& node = nodes.node(0);
  ASSERT_TRUE(node.is_up()) << node.errors();
  constexpr uint64_t kLists = 60;
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> asked = 0;
  std::vector<std::string> troubles(2);
  const auto ask = [&](bool is_far, std::string& trouble) {
    Client client = is_far ? node.connect_tcp() : node.connect();
    uint64_t last = 0;
    while (!is_over) {
      const auto told = client.members();
      if (!told) {
        trouble = std::string(info(told.code()).text);
      } else if (told->version < last || told->members.size() != (told->version == 1 ? 1 : told->version)) {
        trouble = fmt::format("version {} behind {} has {} nodes", told->version, last, told->members.size());
      } else if (told->members[told->self].name != "a") {
        trouble = "the node has another name";
      }
      if (told) last = told->version;
      ++asked;
    }
  };
  std::vector<std::thread> askers;
  for (const bool is_far : {false, true})
    askers.emplace_back(ask, is_far, std::ref(troubles[is_far ? 1 : 0]));
  Client client = node.connect();
  for (uint64_t version = 2; version <= kLists; ++version) {
    std::string list = fmt::format("version = {}\na = h:1\n", version);
    // Long enough for several messages from the middle on.
    for (uint64_t i = 2; i <= version; ++i) {
      list += fmt::format("n{} = {}.example.org:{}\n", i, std::string(200, 'h') + std::to_string(i), i);
    }
    nodes.write_list(list);
    nodes.hang_up();
    const uint64_t before = asked;
    if (version % 20 == 0) send_signal(node.server(), SIGKILL);
    EXPECT_THAT(told_when(client, version), testing::StartsWith(std::to_string(version) + " *a=h:1"));
    EXPECT_TRUE(becomes_true([&] { return asked > before; }));
  }
  is_over = true;
  for (std::thread& asker : askers) asker.join();
  EXPECT_THAT(troubles, testing::Each(""));
  EXPECT_GE(asked, kLists);
}

// Windows as in process/idle_test.cc: a node is idle in one of them.
TEST(Members, cost_an_idle_node_nothing) {
  NodeSet nodes({"a", "b"});
  Node& node = nodes.node(0);
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  nodes.write_list(nodes.true_list(2));
  nodes.hang_up();
  ASSERT_THAT(told_when(client, 2), testing::StartsWith("2 "));
  constexpr uint64_t kWakeUpsMax = 15;
  constexpr uint64_t kCpuMax_ns = 20 * kMillisecond_ns;
  const auto use = [&node] {
    const ProcessUse keeper = use_of(node.keeper());
    const ProcessUse server = use_of(node.server());
    return ProcessUse{.cpu_ns = keeper.cpu_ns + server.cpu_ns, .wake_ups = keeper.wake_ups + server.wake_ups};
  };
  ProcessUse taken;
  for (int window = 0; window < 15; ++window) {
    const ProcessUse before = use();
    sleep_ms(2'000);
    const ProcessUse after = use();
    taken = {.cpu_ns = after.cpu_ns - before.cpu_ns, .wake_ups = after.wake_ups - before.wake_ups};
    if (taken.cpu_ns <= kCpuMax_ns && taken.wake_ups <= kWakeUpsMax) return;
  }
  ADD_FAILURE() << taken.cpu_ns << " ns of processor time and " << taken.wake_ups << " wake-ups in 2 s";
}

}  // namespace
}  // namespace refract::test
