// SPDX-License-Identifier: Apache-2.0
// A node whose keys are routed by their slots: kv.copies 1.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/process/node_process.h"
#include "tests/process/shard_link.h"

#include "refract/cluster/slot.h"
#include "refract/fabric/shm/node_page.h"

namespace refract::test::slots_test {
namespace {

constexpr uint32_t kShards = 3;

// The rule in words of its own: slots in as many ranges as there are shards.
uint32_t owner_of(const std::string& key) {
  return cluster::slot_of(key) * kShards / 16'384;
}

std::unique_ptr<Node> start(const std::string& copies, std::vector<std::string> further = {}) {
  NodeOptions options{.arguments = {"--server-shards", std::to_string(kShards), "--kv-copies", copies,
                                    "--listen-address", "127.0.0.1:0", "--memory-limit", "128MiB",
                                    "--restart-backoff", "0ns"}};
  options.arguments.insert(options.arguments.end(), further.begin(), further.end());
  return std::make_unique<Node>(std::move(options));
}

std::vector<std::string> some_keys() {
  std::vector<std::string> keys;
  for (int n = 0; n < 60; ++n) {
    keys.push_back("order:{" + std::to_string(n) + "}");
    keys.push_back("item:{" + std::to_string(n) + "}");
    keys.push_back("entry-" + std::to_string(n));
  }
  return keys;
}

class Slots : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<std::unique_ptr<ShardLink>> links_to(const Node& node) {
    std::vector<std::unique_ptr<ShardLink>> links;
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      links.push_back(GetParam() == std::string("tcp")
                          ? ShardLink::over_tcp(node.tcp_address() + "/" + std::to_string(shard))
                          : ShardLink::over_shm(fabric::shm::shard_socket_path(node.socket_path(), shard)));
      EXPECT_TRUE(links.back()->is_open()) << links.back()->refusal().to_string();
    }
    return links;
  }
};

TEST_P(Slots, lie_in_one_shard_each_and_the_others_refuse_their_keys) {
  const auto node = start("1");
  ASSERT_TRUE(node->is_up()) << node->errors();
  const auto links = links_to(*node);
  std::vector<uint64_t> entries(kShards);
  for (const std::string& key : some_keys()) {
    ++entries[owner_of(key)];
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      const Code wanted = shard == owner_of(key) ? Code::kOk : Code::kWrongShard;
      EXPECT_EQ(links[shard]->put(key, key).code(), wanted) << key << " at shard " << shard;
      EXPECT_EQ(links[shard]->get(key).code(), wanted) << key << " at shard " << shard;
    }
  }
  for (uint32_t shard = 0; shard < kShards; ++shard) EXPECT_EQ(links[shard]->entries(), entries[shard]);
  EXPECT_EQ(owner_of("order:{42}"), owner_of("item:{42}"));
}

// What a client puts stands where the links look for it, and the other way round; each way of it goes to
// the right shard at once.
TEST_P(Slots, are_where_clients_go_by_every_way) {
  const auto node = start("1");
  ASSERT_TRUE(node->is_up()) << node->errors();
  const auto links = links_to(*node);
  const std::vector<std::string> keys = some_keys();
  const bool is_tcp = GetParam() == std::string("tcp");
  Client client = is_tcp ? node->connect_tcp() : node->connect();
  for (const std::string& key : keys) {
    ASSERT_TRUE(client.put(key, key));
    EXPECT_EQ(links[owner_of(key)]->get(key).value_or(""), key);
  }
  const ClientCounters before = client.counters();
  std::vector<GetItem> gets;
  for (const std::string& key : keys) {
    std::array<std::byte, 64> room;
    EXPECT_EQ(client.get(key).value_or(""), key);
    EXPECT_TRUE(client.get_into(key, room)) << key;
    EXPECT_TRUE(client.exists(key)) << key;
    EXPECT_TRUE(client.view(key)) << key;
    client.announce(key);
    gets.push_back({.key = key});
  }
  client.multi_get(gets);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(gets[i].value, keys[i]);
  if (!is_tcp) {
    EXPECT_EQ(client.counters().messages_sent, before.messages_sent) << "they are read directly";
    EXPECT_EQ(client.counters().rereads, before.rereads) << "each by its first look";
  }
  EXPECT_EQ(client.get("nothing").code(), Code::kNotFound);
  EXPECT_EQ(client.view("nothing").code(), Code::kNotFound);
  EXPECT_EQ(client.exists("nothing").code(), Code::kNotFound);
  for (const std::string& key : keys) EXPECT_TRUE(client.erase(key)) << key;
  for (const auto& link : links) EXPECT_EQ(link->entries(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Transports, Slots, testing::Values("shm", "tcp"),
                         [](const auto& each) { return std::string(each.param); });

class KeptStore : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::unique_ptr<Node> start_on_it(const std::string& copies) const {
    if (GetParam() == std::string("memory")) {
      return start(copies, {"--memory-backing", "file:" + folder_.path()});
    }
    return start(copies, {"--data-durability", "everysec", "--data-folder", folder_.path() + "/data"});
  }

  TemporaryFolder folder_;
};

// Each value, over memory in files and over a data folder: the other one is refused by a sentence that says
// both and the ways out, nothing is touched, and the store is there again with its own.
TEST_P(KeptStore, keeps_the_copies_it_was_made_with) {
  for (const std::string copies : {"0", "1"}) {
    const std::string other = copies == "0" ? "1" : "0";
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::filesystem::remove_all(entry.path());
    }
    auto node = start_on_it(copies);
    ASSERT_TRUE(node->is_up()) << node->errors();
    Client client = node->connect();
    for (const std::string& key : some_keys()) ASSERT_TRUE(client.put(key, key));
    EXPECT_EQ(node->stop(), 0);
    const auto refused = start_on_it(other);
    ASSERT_FALSE(refused->is_up()) << copies;
    EXPECT_EQ(refused->process().wait(), 2);
    for (const std::string& word : {"made with kv.copies " + copies + ", and this node has " + other,
                                    "start with --kv-copies " + copies, std::string("refract dump"),
                                    std::string("load it into a node on an empty folder"), folder_.path()}) {
      EXPECT_NE(refused->errors().find(word), std::string::npos) << word << ": " << refused->errors();
    }
    node = start_on_it(copies);
    ASSERT_TRUE(node->is_up()) << node->errors();
    Client again = node->connect();
    for (const std::string& key : some_keys()) EXPECT_EQ(again.get(key).value_or(""), key);
    EXPECT_EQ(node->stop(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, KeptStore, testing::Values("memory", "log"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace refract::test::slots_test
