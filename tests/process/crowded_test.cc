// SPDX-License-Identifier: Apache-2.0
// Forty thousand keys that were chosen to fall into one bucket, in a real node: a list, a copy, a check and a
// restart meet nothing but entries.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/process/node_process.h"
#include "tests/process/shard_link.h"

#include "refract/base/testing/keys_of_hash.h"

namespace refract::test::crowded_test {
namespace {

constexpr uint64_t kKeys = 40'000;
constexpr int kBits = 24;

class Crowded : public testing::Test {
 protected:
  [[nodiscard]] NodeOptions durable(const std::string& durability) const {
    return {.arguments = {"--data-durability", durability, "--data-folder", folder.path() + "/data",
                          "--memory-limit", "128MiB", "--restart-backoff", "0ns"}};
  }
  // Its output; what it said instead, if it failed.
  [[nodiscard]] std::string refract(const Node& node, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {REFRACT_PATH, "--socket", node.socket_path()});
    const std::string output = folder.path() + "/command.out";
    const std::string errors = folder.path() + "/command.err";
    Process command =
        Process::execute({.arguments = arguments, .output_path = output, .errors_path = errors});
    EXPECT_EQ(command.wait(), 0) << arguments[3] << ": " << read_whole(output) << read_whole(errors);
    return read_whole(output);
  }
  // Every key once, with its value.
  void expect_all(Client& client, uint64_t keys) {
    std::vector<GetItem> items(keys);
    for (uint64_t i = 0; i < keys; ++i) items[i].key = names[i];
    client.multi_get(items);
    for (uint64_t i = 0; i < keys; ++i) {
      ASSERT_TRUE(items[i].result) << i;
      ASSERT_EQ(items[i].value, value_of(i));
    }
    std::map<std::string, int> listed;
    uint64_t cursor = 0;
    do {
      const auto page = client.scan(cursor, 1'000);
      ASSERT_TRUE(page) << listed.size() << " keys were listed";
      for (const ScanEntry& entry : page->entries) ++listed[entry.key];
      cursor = page->next;
    } while (cursor != 0);
    EXPECT_EQ(listed.size(), keys);
    for (uint64_t i = 0; i < keys; ++i) ASSERT_EQ(listed[names[i]], 1);
  }
  // What people and their scripts do with a node.
  void expect_tools_work(const Node& node, uint64_t keys) {
    const std::string dump = folder.path() + "/dump";
    (void)refract(node, {"dump", "--no-progress", "--overwrite", "--format", "jsonl", "--output", dump});
    EXPECT_GT(std::filesystem::file_size(dump), keys * 16);
    const std::string checked = refract(node, {"check", "--no-progress"});
    EXPECT_NE(checked.find(std::to_string(keys / 1000) + ",000"), std::string::npos) << checked;
    (void)refract(node, {"snapshot", "--no-progress"});
  }
  void put_all(const Node& node, Client& client) {
    const KeysOfHash key_of(ShardLink::over_shm(node.socket_path())->hash_seed());
    std::vector<PutItem> puts;
    std::vector<std::string> values(kKeys);
    for (uint64_t i = 0; i < kKeys; ++i) {
      names.push_back(key_of.of_bucket(i, 0x123, kBits));
      values[i] = value_of(i);
    }
    for (uint64_t i = 0; i < kKeys; ++i) puts.push_back({.key = names[i], .value = values[i]});
    client.multi_put(puts);
    for (const PutItem& put : puts) ASSERT_TRUE(put.result);
  }
  static std::string value_of(uint64_t key) { return "value " + std::to_string(key); }

  TemporaryFolder folder;
  std::vector<std::string> names;
};

TEST_F(Crowded, keys_are_listed_copied_checked_and_there_after_every_kind_of_restart) {
  {
    Node node(durable("everysec"));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    put_all(node, client);
    expect_all(client, kKeys);
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    ASSERT_GT(node.next_server(server), 0);
    expect_all(client, kKeys);
    node.kill_everything();
  }
  {
    // From the log alone, then from a snapshot and the log.
    Node node(durable("everysec"));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    expect_all(client, kKeys);
    expect_tools_work(node, kKeys);
    ASSERT_TRUE(client.put(names[7], value_of(7)));
    node.kill_everything();
  }
  Node node(durable("everysec"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  expect_all(client, kKeys);
  // And they go again, from the beginning of the chain, where readers look, to its end.
  for (uint64_t i = 0; i < kKeys / 2; ++i) ASSERT_TRUE(client.erase(names[i]));
  names.erase(names.begin(), names.begin() + kKeys / 2);
  EXPECT_EQ(client.stat().value().entries, kKeys / 2);
  (void)refract(node, {"check", "--no-progress"});
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test::crowded_test
