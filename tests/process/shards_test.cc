// SPDX-License-Identifier: Apache-2.0
// A node of several shards: each is met by itself, has its own keys and memory, and ends with the others.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "tests/process/node_process.h"
#include "tests/process/sealed.h"
#include "tests/process/shard_link.h"

#include "refract/base/hash.h"
#include "refract/base/units.h"
#include "refract/kv/layout/routing.h"

namespace refract::test::shards_test {
namespace {

constexpr uint32_t kShards = 3;

std::string nth_key(uint64_t n) {
  return "entry-" + std::to_string(n);
}

std::vector<std::unique_ptr<ShardLink>> links_to(const Node& node, uint32_t shards = kShards) {
  std::vector<std::unique_ptr<ShardLink>> links;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    links.push_back(ShardLink::over_shm(fabric::shm::shard_socket_path(node.socket_path(), shard)));
    EXPECT_TRUE(links.back()->is_open()) << links.back()->refusal().to_string();
  }
  return links;
}

uint32_t owner_of(const ShardLink& link, const std::string& key, uint32_t shards = kShards) {
  const auto bytes = std::as_bytes(std::span(key));
  return kv::KeyRouting{.shards = shards}.shard_of(bytes, hash_key(bytes, link.hash_seed()));
}

NodeOptions shards(uint32_t count, std::vector<std::string> further = {}) {
  NodeOptions options{.arguments = {"--server-shards", std::to_string(count), "--restart-limit", "1000",
                                    "--restart-backoff", "0ns"}};
  options.arguments.insert(options.arguments.end(), further.begin(), further.end());
  return options;
}

TEST(Shards, are_threads_of_one_process_and_their_pages_belong_together) {
  Node node(shards(kShards));
  ASSERT_TRUE(node.is_up()) << node.errors();
  EXPECT_NE(node.output().find("shards   3"), std::string::npos) << node.output();
  const auto links = links_to(node);
  const std::filesystem::path tasks = "/proc/" + std::to_string(node.server()) + "/task";
  std::vector<std::string> names;
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    names.push_back(read_whole(task.path().string() + "/comm"));
  }
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"refractd\n", "refractd/1\n", "refractd/2\n"}));
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    const fabric::shm::NodePage& page = links[shard]->page();
    EXPECT_EQ(page.shard_index, shard);
    EXPECT_EQ(page.shard_count, kShards);
    EXPECT_EQ(page.tcp_port, 0U);
    EXPECT_EQ(page.identity[0], links[0]->page().identity[0]);
    EXPECT_EQ(page.identity[1], links[0]->page().identity[1]);
    EXPECT_EQ(links[shard]->hash_seed(), links[0]->hash_seed());
  }
  EXPECT_EQ(node.stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(node.socket_path()));
  EXPECT_FALSE(std::filesystem::exists(node.socket_path() + ".2"));
}

TEST(Shards, have_their_own_keys_and_refuse_those_of_others) {
  Node node(shards(kShards));
  ASSERT_TRUE(node.is_up()) << node.errors();
  const auto links = links_to(node);
  std::vector<uint64_t> entries(kShards);
  for (uint64_t n = 0; n < 300; ++n) {
    const std::string key = nth_key(n);
    const uint32_t owner = owner_of(*links[0], key);
    ++entries[owner];
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      const auto put = links[shard]->put(key, sealed_value(key, n, 100));
      EXPECT_EQ(put.code(), shard == owner ? Code::kOk : Code::kWrongShard) << key << " at shard " << shard;
    }
    EXPECT_EQ(number_in(key, links[owner]->get(key).value_or("")), n);
    EXPECT_EQ(links[(owner + 1) % kShards]->get(key).code(), Code::kWrongShard);
    EXPECT_EQ(links[(owner + 1) % kShards]->erase(key).code(), Code::kWrongShard);
  }
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    EXPECT_GT(entries[shard], 50U);
    EXPECT_EQ(links[shard]->entries(), entries[shard]);
  }
}

// The whole process dies with each, also when only one thread was hit.
TEST(Shards, come_back_together_with_everything_that_was_acknowledged) {
  Node node(shards(kShards));
  ASSERT_TRUE(node.is_up()) << node.errors();
  const auto links = links_to(node);
  pid_t server = node.server();
  for (uint64_t round = 0; round < 6; ++round) {
    for (uint64_t n = 0; n < 200; ++n) {
      const std::string key = nth_key(n);
      ASSERT_TRUE(links[owner_of(*links[0], key)]->put(key, sealed_value(key, round, 50 + n * 30)));
    }
    send_signal(server, SIGKILL);
    server = node.next_server(server);
    for (uint64_t n = 0; n < 200; ++n) {
      const std::string key = nth_key(n);
      EXPECT_EQ(number_in(key, links[owner_of(*links[0], key)]->get(key).value_or("")), round) << key;
    }
  }
}

TEST(Shards, grow_each_by_itself_to_its_share_of_the_limit) {
  Node node(shards(2, {"--memory-initial", "32MiB", "--memory-limit", "200MiB"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  const auto links = links_to(node, 2);
  // Only shard 1 is filled; then shard 0 still has all of its own.
  uint64_t taken = 0;
  for (uint64_t n = 0;; ++n) {
    const std::string key = nth_key(n);
    if (owner_of(*links[0], key, 2) != 1) continue;
    const auto put = links[1]->put(key, sealed_value(key, n, 90'000));
    if (put.code() == Code::kNoSpace) break;
    ASSERT_TRUE(put) << info(put.code()).text;
    taken += 90'000;
  }
  EXPECT_GT(taken, 70 * kMiB);
  EXPECT_LT(taken, 100 * kMiB);
  EXPECT_NE(node.errors().find("shard 1: grown to 100 MiB of 100 MiB"), std::string::npos) << node.errors();
  EXPECT_EQ(node.errors().find("shard 0: grown"), std::string::npos) << node.errors();
  uint64_t others = 0;
  for (uint64_t n = 0; others < 50 * kMiB; ++n) {
    const std::string key = nth_key(n);
    if (owner_of(*links[0], key, 2) != 0) continue;
    ASSERT_TRUE(links[0]->put(key, sealed_value(key, n, 90'000)));
    others += 90'000;
  }
  EXPECT_NE(node.errors().find("shard 0: grown"), std::string::npos) << node.errors();
}

class ShardFiles : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Node> start(uint32_t count) const {
    return std::make_unique<Node>(
        shards(count, {"--memory-limit", "128MiB", "--memory-backing", "file:" + folder_.path()}));
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.path() + "/" + name; }
  void fill(const Node& node) {
    const auto links = links_to(node);
    for (uint64_t n = 0; n < 100; ++n) {
      const std::string key = nth_key(n);
      ASSERT_TRUE(links[owner_of(*links[0], key)]->put(key, sealed_value(key, n, 500)));
    }
  }
  uint64_t wrong_entries(const Node& node) {
    const auto links = links_to(node);
    uint64_t wrong = 0;
    for (uint64_t n = 0; n < 100; ++n) {
      const std::string key = nth_key(n);
      wrong += number_in(key, links[owner_of(*links[0], key)]->get(key).value_or("")) == n ? 0 : 1;
    }
    return wrong;
  }

  TemporaryFolder folder_;
};

TEST_F(ShardFiles, have_everything_again_after_a_stop) {
  auto node = start(kShards);
  ASSERT_TRUE(node->is_up()) << node->errors();
  fill(*node);
  EXPECT_EQ(node->stop(), 0);
  EXPECT_TRUE(std::filesystem::exists(file("region-000")));
  EXPECT_TRUE(std::filesystem::exists(file("region-000.1")));
  EXPECT_TRUE(std::filesystem::exists(file("region-000.2")));
  node = start(kShards);
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_NE(node->output().find("is there again"), std::string::npos) << node->output();
  EXPECT_EQ(wrong_entries(*node), 0U);
}

TEST_F(ShardFiles, of_another_number_of_shards_are_refused_and_not_touched) {
  auto node = start(kShards);
  fill(*node);
  EXPECT_EQ(node->stop(), 0);
  for (const uint32_t count : {1U, 2U, 4U}) {
    const auto other = start(count);
    EXPECT_EQ(other->process().wait(), 2);
    EXPECT_NE(other->errors().find("made with server.shards 3, and this node has " + std::to_string(count)),
              std::string::npos)
        << other->errors();
    EXPECT_NE(other->errors().find("--server-shards 3"), std::string::npos) << other->errors();
    EXPECT_EQ(other->output(), "");
  }
  EXPECT_FALSE(std::filesystem::exists(file("region-000.3")));
  node = start(kShards);
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_EQ(wrong_entries(*node), 0U);
}

TEST_F(ShardFiles, of_which_one_is_missing_or_anothers_are_refused) {
  auto node = start(kShards);
  fill(*node);
  EXPECT_EQ(node->stop(), 0);
  std::filesystem::rename(file("region-000.1"), file("away"));
  node = start(kShards);
  EXPECT_EQ(node->process().wait(), 3);
  EXPECT_NE(node->errors().find("region-000.1 is missing"), std::string::npos) << node->errors();
  std::filesystem::copy_file(file("region-000.2"), file("region-000.1"));
  node = start(kShards);
  EXPECT_EQ(node->process().wait(), 3);
  EXPECT_NE(node->errors().find("belongs to another store"), std::string::npos) << node->errors();
  std::filesystem::remove(file("region-000.1"));
  std::filesystem::rename(file("away"), file("region-000.1"));
  node = start(kShards);
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_EQ(wrong_entries(*node), 0U);
}

// A node that died while it made its files for the first time has promised nothing.
TEST_F(ShardFiles, that_were_never_finished_are_no_store) {
  auto node = start(kShards);
  EXPECT_EQ(node->stop(), 0);
  std::filesystem::remove(file("region-000"));
  std::filesystem::remove(file("region-000.1"));
  node = start(kShards);
  ASSERT_TRUE(node->is_up()) << node->errors();
  fill(*node);
  EXPECT_EQ(wrong_entries(*node), 0U);
}

}  // namespace
}  // namespace refract::test::shards_test
