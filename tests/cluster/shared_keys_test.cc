// SPDX-License-Identifier: Apache-2.0
// The keys of a store with kv.copies 1 are shared out among the nodes of a list, and a client has them all.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cluster/node_set.h"
#include "tests/process/node_process.h"
#include "tests/process/shard_link.h"
#include "tests/process/told_writes.h"

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/client/client.h"
#include "refract/cluster/routing.h"

namespace refract::test::shared_keys_test {
namespace {

constexpr size_t kA = 0;
constexpr size_t kB = 1;
constexpr size_t kC = 2;
constexpr size_t kKeys = 300;

std::string key_of(size_t i) {
  return fmt::format("key/{}", i);
}

// Which of three nodes has it.
size_t home_of(const std::string& key) {
  static const cluster::Routing routing(
      needed(cluster::parse_member_list("a=h:1,b=h:2,c=h:3", cluster::ListForm::kSetting)));
  return routing.home_of(cluster::slot_of(key));
}

// The first one of these that the node has.
std::string key_at(size_t node, const std::string& begin = "k") {
  for (int i = 0;; ++i) {
    const std::string key = fmt::format("{}{}", begin, i);
    if (home_of(key) == node) return key;
  }
}

class SharedKeys : public testing::Test {
 protected:
  explicit SharedKeys(std::vector<std::string> arguments = {"--kv-copies", "1"})
      : nodes_({"a", "b", "c"}, {.arguments = std::move(arguments), .list = {}}) {
    for (size_t i = 0; i < nodes_.size(); ++i) EXPECT_TRUE(nodes_.node(i).is_up()) << nodes_.node(i).errors();
    nodes_.move_to(nodes_.true_list(2), 2);
  }
  [[nodiscard]] std::string all_addresses(const std::string& query = {}) const {
    std::string address = "refract://";
    for (size_t i = 0; i < 3; ++i) {
      address += fmt::format("{}{}", i == 0 ? "" : ",", const_cast<NodeSet&>(nodes_).node(i).tcp_address());
    }
    return address + query;
  }
  [[nodiscard]] static Client connect(const std::string& address, uint64_t timeout_ns = kPatience_ns) {
    return needed(Client::connect(address, {.timeout_ns = timeout_ns}));
  }

  NodeSet nodes_;
};

struct Way {
  std::string name;
  std::string query;
  int shards = 1;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class SharedKeysOver : public SharedKeys, public testing::WithParamInterface<Way> {
 protected:
  SharedKeysOver() : SharedKeys({"--kv-copies", "1", "--server-shards", std::to_string(GetParam().shards)}) {}
};

INSTANTIATE_TEST_SUITE_P(Ways, SharedKeysOver,
                         testing::Values(Way{.name = "shm", .query = ""},
                                         Way{.name = "shm_shards", .query = "", .shards = 3},
                                         Way{.name = "tcp", .query = "?transport=tcp"},
                                         Way{.name = "tcp_shards", .query = "?transport=tcp", .shards = 2},
                                         Way{.name = "chains", .query = "?path=chain"},
                                         Way{.name = "calls", .query = "?path=rpc", .shards = 2}),
                         [](const auto& way) { return way.param.name; });

TEST_P(SharedKeysOver, are_found_by_every_operation) {
  Client client = connect(all_addresses(GetParam().query));
  std::vector<std::string> keys;
  std::vector<PutItem> puts(kKeys);
  for (size_t i = 0; i < kKeys; ++i) keys.push_back(key_of(i));
  for (size_t i = 0; i < kKeys / 2; ++i)
    ASSERT_TRUE(client.put(keys[i], keys[i])) << client.trouble().to_string();
  for (size_t i = kKeys / 2; i < kKeys; ++i) puts[i].key = puts[i].value = keys[i];
  client.multi_put(std::span(puts).subspan(kKeys / 2));
  for (size_t i = kKeys / 2; i < kKeys; ++i) ASSERT_TRUE(puts[i].result) << keys[i];

  // By another one, which has been told one node alone.
  Client other = connect("refract://" + nodes_.node(kB).tcp_address() + GetParam().query);
  for (const std::string& key : keys) {
    EXPECT_EQ(other.get(key).value_or(""), key);
    EXPECT_TRUE(other.exists(key)) << key;
    const auto view = other.view(key);
    ASSERT_TRUE(view) << key;
    EXPECT_EQ(Bytes(view->bytes()).text(), key);
  }
  std::vector<std::string_view> names(keys.begin(), keys.end());
  names.emplace_back("none");
  const auto all = other.multi_get(names);
  for (size_t i = 0; i < kKeys; ++i) EXPECT_EQ(all[i].value_or(""), keys[i]);
  EXPECT_EQ(all.back().code(), Code::kNotFound);

  EXPECT_EQ(needed(other.stat()).entries, kKeys);
  std::multiset<std::string> listed;
  uint64_t cursor = 0;
  do {
    const auto page = needed(other.scan(cursor, 7));
    for (const auto& entry : page.entries) listed.emplace(entry.key);
    cursor = page.next;
  } while (cursor != 0);
  EXPECT_EQ(listed, std::multiset<std::string>(keys.begin(), keys.end()));

  const uint64_t version = needed(other.exists(keys[0])).version;
  EXPECT_EQ(client.put(keys[0], "no", {.if_version = version + 1}).code(), Code::kVersionMismatch);
  EXPECT_TRUE(client.put(keys[0], "yes", {.if_version = version}));
  for (const std::string& key : keys) ASSERT_TRUE(client.erase(key));
  EXPECT_EQ(needed(other.stat()).entries, 0U);
  const Route route = other.route();
  ASSERT_EQ(route.nodes.size(), 3U);
  for (const RouteNode& node : route.nodes) {
    EXPECT_TRUE(node.is_reached);
    EXPECT_EQ(node.shards, static_cast<uint32_t>(GetParam().shards));
  }
}

TEST_P(SharedKeysOver, change_together_where_one_node_has_them_and_else_not_at_all) {
  Client client = connect(all_addresses(GetParam().query));
  const std::string here = key_at(kA, "here");
  const std::string there = key_at(kC, "there");
  // Of one tag, and of one node.
  for (const auto& [one, other] :
       {std::pair<std::string, std::string>{"order:{7}", "item:{7}"}, {key_at(kB, "x"), key_at(kB, "y")}}) {
    const Result<> moved = client.transaction([&](Transaction& t) -> Result<> {
      if (auto put = t.put(one, "1"); !put) return put;
      return t.put(other, "2");
    });
    ASSERT_TRUE(moved) << client.trouble().to_string();
    EXPECT_EQ(client.get(one).value_or(""), "1");
    EXPECT_EQ(client.get(other).value_or(""), "2");
  }
  ASSERT_TRUE(client.put(there, "before"));
  const Result<> refused = client.transaction([&](Transaction& t) -> Result<> {
    if (auto put = t.put(here, "new"); !put) return put;
    return t.put(there, "new");
  });
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(client.trouble().what.find("keys of nodes 'a' and 'c'"), std::string::npos)
      << client.trouble().what;
  EXPECT_EQ(client.get(here).code(), Code::kNotFound);
  EXPECT_EQ(client.get(there).value_or(""), "before");
  // What reads alone needs the owners' word only for what is not there.
  std::string seen;
  const auto read = [&] {
    return client.read_only([&](Transaction& t) -> Result<> {
      seen.clear();
      for (const std::string& key : {here, there}) {
        const auto value = t.get(key);
        if (!value && value.code() != Code::kNotFound) return fail(value.error());
        seen += value.value_or("none") + " ";
      }
      return {};
    });
  };
  EXPECT_EQ(read().code(), Code::kUnsupported);
  ASSERT_TRUE(client.put(here, "now"));
  EXPECT_EQ(read().code(), Code::kOk);
  EXPECT_EQ(seen, "now before ");
}

TEST_F(SharedKeys, of_a_node_that_is_gone_are_unavailable_and_the_others_are_there) {
  Client client = connect(all_addresses(), 300 * kMillisecond_ns);
  for (size_t i = 0; i < kKeys; ++i) ASSERT_TRUE(client.put(key_of(i), "value"));
  nodes_.node(kB).kill_everything();
  // Direct reads see what is mapped until the client looks for the node.
  ASSERT_TRUE(becomes_true([&] { return client.put(key_at(kB), "value").code() == Code::kUnavailable; }));
  std::map<bool, int> found;
  for (size_t i = 0; i < kKeys; ++i) {
    const std::string key = key_of(i);
    const bool is_gone = home_of(key) == kB;
    // A few of the lost ones are enough: each takes its time.
    if (is_gone && found[true] >= 3) continue;
    ++found[is_gone];
    EXPECT_EQ(client.get(key).code(), is_gone ? Code::kUnavailable : Code::kOk) << key;
    EXPECT_EQ(client.put(key, "value").code(), is_gone ? Code::kUnavailable : Code::kOk) << key;
    if (!is_gone) continue;
    EXPECT_NE(client.trouble().what.find("node 'b'"), std::string::npos) << client.trouble().what;
  }
  EXPECT_GT(found[false], 100);
  EXPECT_EQ(client.scan(0, 1'000'000).code(), Code::kOk) << "the first node's own";
  // A client that comes now begins with any that is there.
  Client late = connect(all_addresses(), 300 * kMillisecond_ns);
  EXPECT_TRUE(late.get(key_at(kC, "key/")).code() != Code::kUnavailable);
  EXPECT_EQ(late.stat().code(), Code::kUnavailable);
  EXPECT_NE(late.trouble().what.find("node 'b'"), std::string::npos) << late.trouble().what;

  nodes_.start_again(kB);
  EXPECT_TRUE(becomes_true([&] { return client.put(key_at(kB), "again").has_value(); }));
  EXPECT_EQ(client.get(key_at(kB)).value_or(""), "again");
}

// Over TCP nothing says that a node will not come back to its address.
TEST_P(SharedKeysOver, of_a_node_that_has_moved_are_found_by_clients_of_before) {
  const std::string first = "refract://" + nodes_.node(kA).tcp_address() + GetParam().query;
  Client client = connect(first, 4 * kSecond_ns);
  ASSERT_TRUE(client.put(key_at(kC), "there"));
  Client unused = connect(first, 4 * kSecond_ns);
  nodes_.node(kC).kill_everything();
  Node moved({.arguments = {"--cluster-nodes", "file:" + nodes_.list_path(), "--cluster-self", "c",
                            "--listen-address", "127.0.0.1:0", "--kv-copies", "1", "--server-shards",
                            std::to_string(GetParam().shards)}});
  ASSERT_TRUE(moved.is_up()) << moved.errors();
  nodes_.move_to(fmt::format("version = 3\na = {}\nb = {}\nc = {}\n", nodes_.node(kA).tcp_address(),
                             nodes_.node(kB).tcp_address(), moved.tcp_address()),
                 3);
  for (Client* one : {&client, &unused}) {
    EXPECT_TRUE(becomes_true([&] { return one->put(key_at(kC), "moved").has_value(); }))
        << one->trouble().to_string();
    EXPECT_EQ(one->get(key_at(kC)).value_or(""), "moved");
  }
}

// It would take all keys for its own, and reads would look for them by another rule.
TEST_F(SharedKeys, are_not_looked_for_at_a_node_that_has_come_back_with_keys_of_its_own) {
  Client client = connect("refract://" + nodes_.node(kA).tcp_address(), kSecond_ns);
  ASSERT_TRUE(client.put(key_at(kA), "a"));
  ASSERT_TRUE(client.put(key_at(kB), "b"));
  for (const size_t gone : {kA, kB}) {
    const std::string address = nodes_.node(gone).tcp_address();
    nodes_.node(gone).kill_everything();
    const Node other({.arguments = {"--cluster-nodes", "file:" + nodes_.list_path(), "--cluster-self",
                                    nodes_.name(gone), "--listen-address", address, "--server-shards", "2"}});
    EXPECT_TRUE(becomes_true([&] {
      return client.put(key_at(gone), "lost").code() == Code::kUnavailable &&
             client.trouble().what.find("has keys of its own") != std::string::npos;
    })) << client.trouble().to_string();
    EXPECT_EQ(client.get(key_at(gone)).code(), Code::kUnavailable);
    EXPECT_EQ(client.get(key_at(kB)).value_or(""), gone == kA ? "b" : "");
  }
}

TEST_F(SharedKeys, are_there_for_a_new_thread_where_the_first_node_is_gone) {
  Client client = connect("refract://" + nodes_.node(kA).tcp_address(), 4 * kSecond_ns);
  const std::string key = key_at(kC);
  ASSERT_TRUE(client.put(key, "value"));
  nodes_.node(kA).kill_everything();
  std::thread([&] {
    EXPECT_EQ(client.get(key).value_or(""), "value");
    const std::vector<std::string_view> keys = {key};
    EXPECT_EQ(client.multi_get(keys)[0].value_or(""), "value");
    EXPECT_TRUE(client.put(key, "again")) << client.trouble().to_string();
  }).join();
}

// Before it is asked for anything: its owner would take some keys for its own.
TEST_F(SharedKeys, are_not_looked_for_at_a_node_that_is_another_one_than_the_list_says) {
  nodes_.move_to(fmt::format("version = 3\na = {}\nb = {}\nc = {}\n", nodes_.node(kA).tcp_address(),
                             nodes_.node(kC).tcp_address(), nodes_.node(kB).tcp_address()),
                 3);
  Client client = connect("refract://" + nodes_.node(kA).tcp_address(), kSecond_ns);
  EXPECT_TRUE(client.put(key_at(kA), "value"));
  EXPECT_EQ(client.put(key_at(kB), "value").code(), Code::kUnavailable);
  EXPECT_NE(client.trouble().what.find("is 'c', and 'b' should be there"), std::string::npos)
      << client.trouble().what;

  const Node stranger({.arguments = {"--cluster-nodes", "version=9,b=h:1,d=h:2", "--cluster-self", "b",
                                     "--listen-address", "127.0.0.1:0", "--kv-copies", "1"}});
  nodes_.move_to(fmt::format("version = 4\na = {}\nb = {}\nc = {}\n", nodes_.node(kA).tcp_address(),
                             stranger.tcp_address(), nodes_.node(kC).tcp_address()),
                 4);
  Client next = connect("refract://" + nodes_.node(kA).tcp_address(), kSecond_ns);
  EXPECT_EQ(next.put(key_at(kB), "value").code(), Code::kUnavailable);
  EXPECT_NE(next.trouble().what.find("belongs to b and d, and this client began with a, b and c"),
            std::string::npos)
      << next.trouble().what;
}

// What a client believes does not matter: here one that asks each node for every key.
TEST_P(SharedKeysOver, of_another_node_are_refused_by_the_owner) {
  constexpr uint32_t kSome = 60;
  const auto shards = static_cast<uint32_t>(GetParam().shards);
  uint64_t taken = 0;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    for (uint32_t shard = 0; shard < shards; ++shard) {
      const auto link = ShardLink::over_tcp(fmt::format("{}/{}", nodes_.node(node).tcp_address(), shard));
      ASSERT_TRUE(link->is_open()) << link->refusal().to_string();
      for (uint32_t i = 0; i < kSome; ++i) {
        const std::string key = key_of(i);
        const bool is_its = home_of(key) == node && cluster::slot_of(key) * shards / 16'384 == shard;
        EXPECT_EQ(link->put(key, key).code(), is_its ? Code::kOk : Code::kWrongShard) << key;
        EXPECT_EQ(link->get(key).code(), is_its ? Code::kOk : Code::kWrongShard) << key;
        taken += is_its ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(taken, kSome) << "each key has one place";
}

// A thread has connections of its own, and takes the other threads' word for which nodes there are.
TEST_F(SharedKeys, are_read_by_a_new_thread_while_all_servers_are_stopped) {
  Client client = connect("refract://" + nodes_.node(kB).tcp_address());
  for (size_t i = 0; i < kKeys; ++i) ASSERT_TRUE(client.put(key_of(i), key_of(i)));
  std::vector<pid_t> servers;
  for (size_t i = 0; i < nodes_.size(); ++i) servers.push_back(nodes_.node(i).server());
  // Its way to a node on this host is a socket's path, which one of its threads was told over TCP.
  Client local = nodes_.node(kA).connect();
  ASSERT_TRUE(local.get(key_at(kA, "key/")).code() != Code::kUnavailable);
  for (const pid_t server : servers) send_signal(server, SIGSTOP);
  int found = 0;
  std::thread reader([&] {
    for (size_t i = 0; i < kKeys; ++i) {
      if (home_of(key_of(i)) == kA) found += local.get(key_of(i)).value_or("") == key_of(i) ? 1 : 0;
    }
  });
  reader.join();
  for (size_t i = 0; i < kKeys; ++i) EXPECT_EQ(client.get(key_of(i)).value_or(""), key_of(i));
  for (const pid_t server : servers) send_signal(server, SIGCONT);
  EXPECT_GT(found, 50);
}

TEST_F(SharedKeys, are_told_of_in_the_banner) {
  EXPECT_NE(
      nodes_.node(kB).output().find("  keys     of 5455 of 16384 slots; the other nodes have the rest\n"),
      std::string::npos)
      << nodes_.node(kB).output();
}

TEST_F(SharedKeys, keep_the_names_of_their_nodes) {
  nodes_.write_list(nodes_.true_list(3, "d = 192.0.2.1:4\n"));
  nodes_.hang_up();
  EXPECT_TRUE(becomes_true([&] {
    return nodes_.node(kA).errors().find("it has a, b, c and d, and the keys are at a, b and c") !=
           std::string::npos;
  })) << nodes_.node(kA).errors();
  Client client = nodes_.node(kA).connect();
  EXPECT_TRUE(told_by(client).starts_with("2 ")) << told_by(client);
}

struct Kept {
  std::string name;
  std::vector<std::string> flags;
};
void PrintTo(const Kept& kept, std::ostream* out) {
  *out << kept.name;
}

class KeptKeys : public testing::TestWithParam<Kept> {
 protected:
  [[nodiscard]] NodeOptions options(const std::string& nodes, const std::string& self) const {
    NodeOptions made{.arguments = {"--kv-copies", "1"}};
    for (std::string flag : GetParam().flags) {
      if (flag == "FOLDER") flag = folder_.path() + "/data";
      if (flag == "MEMORY") flag = "file:" + folder_.path() + "/memory";
      made.arguments.push_back(flag);
    }
    if (nodes.empty()) return made;
    for (const std::string& flag :
         {std::string("--cluster-nodes"), nodes, std::string("--cluster-self"), self}) {
      made.arguments.push_back(flag);
    }
    return made;
  }
  void expect_refusal(const NodeOptions& options, const std::string& sentence) {
    Node node(options);
    EXPECT_FALSE(node.is_up());
    EXPECT_NE(node.errors().find(sentence), std::string::npos) << node.errors();
  }

  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, KeptKeys,
                         testing::Values(Kept{.name = "log",
                                              .flags = {"--data-durability", "everysec", "--data-folder",
                                                        "FOLDER"}},
                                         Kept{.name = "files", .flags = {"--memory-backing", "MEMORY"}}),
                         [](const auto& kept) { return kept.param.name; });

TEST_P(KeptKeys, are_kept_as_one_of_these_nodes) {
  std::filesystem::create_directory(folder_.path() + "/memory");
  const std::string nodes = "a=h:1,b=h:2";
  const std::string key = [] {
    const auto list = needed(cluster::parse_member_list("a=h:1,b=h:2", cluster::ListForm::kSetting));
    const cluster::Routing routing(list);
    int i = 0;
    while (routing.home_of(cluster::slot_of(fmt::format("k{}", i))) != 0) ++i;
    return fmt::format("k{}", i);
  }();
  {
    Node node(options(nodes, "a"));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    ASSERT_TRUE(client.put(key, "kept"));
    EXPECT_EQ(node.stop(), 0);
  }
  expect_refusal(options(nodes, "b"), "as another of these nodes, than 'b'");
  expect_refusal(options("a=h:1,b=h:2,c=h:3", "a"), "with other names in cluster.nodes");
  expect_refusal(options("", ""), "was made by one of several nodes, and cluster.nodes is not set");
  Node node(options("version=2,a=elsewhere:1,b=elsewhere:2", "a"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  EXPECT_EQ(node.connect().get(key).value_or(""), "kept");
}

TEST_P(KeptKeys, of_a_node_alone_are_not_taken_for_a_part) {
  std::filesystem::create_directory(folder_.path() + "/memory");
  {
    Node node(options("", ""));
    ASSERT_TRUE(node.is_up()) << node.errors();
    EXPECT_EQ(node.stop(), 0);
  }
  expect_refusal(options("a=h:1,b=h:2", "a"),
                 "was made by a node alone, with all keys, and cluster.nodes is set");
}

TEST(SharedKeysRefused, an_address_of_several_nodes_that_do_not_share_their_keys) {
  const auto refusal = [](const std::vector<std::string>& flags) {
    NodeOptions options{.arguments = flags};
    options.arguments.insert(options.arguments.end(), {"--listen-address", "127.0.0.1:0"});
    const Node node(options);
    const auto client = Client::connect(fmt::format("refract://{0},{0}", node.tcp_address()));
    return client ? "taken" : client.error().to_string();
  };
  EXPECT_NE(refusal({}).find("has kv.copies 0"), std::string::npos) << refusal({});
  EXPECT_NE(refusal({"--kv-copies", "1"}).find("knows no others"), std::string::npos);
}

TEST_F(SharedKeys, are_all_there_after_kills_of_every_server) {
  Client client = connect(all_addresses());
  ToldWrites writes;
  Prng prng(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 7);
  for (int kill = 0; kill < 12; ++kill) {
    for (int i = 0; i < 60; ++i) (void)writes.put(client, prng.below(200), 20);
    const Node& node = nodes_.node(prng.below(3));
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    for (int i = 0; i < 60; ++i) (void)writes.put(client, prng.below(200), 20);
    ASSERT_GT(node.next_server(server), 0);
  }
  EXPECT_EQ(writes.difference(client), "");
  EXPECT_GT(writes.acknowledged(), 500U);
}

}  // namespace
}  // namespace refract::test::shared_keys_test
