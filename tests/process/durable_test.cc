// SPDX-License-Identifier: Apache-2.0
// A node that keeps its data in a log: everything is killed at any moment, and what was acknowledged is
// there.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/node_process.h"

#include "refract/base/prng.h"
#include "refract/base/testing/turns.h"

namespace refract::test {
namespace {

namespace fs = std::filesystem;

NodeOptions durable(const std::string& folder, const std::string& durability,
                    std::vector<std::string> further = {}) {
  // With little memory, whose taking and giving back is most of what a start takes.
  NodeOptions options{.arguments = {"--data-durability", durability, "--data-folder", folder,
                                    "--memory-limit", "64MiB", "--memory-initial", "8MiB",
                                    "--restart-backoff", "0ns"}};
  options.arguments.insert(options.arguments.end(), further.begin(), further.end());
  return options;
}

std::string value_of(uint64_t key, uint64_t round) {
  return std::to_string(key) + "/" + std::to_string(round) + "/" +
         std::string(20 + key % 300, static_cast<char>('a' + round % 26));
}

uint64_t rounds() {
  const char* const wanted = std::getenv("REFRACT_DURABLE_ROUNDS");
  return wanted == nullptr ? turns(50, 8) : std::strtoull(wanted, nullptr, 10);
}

// What a client may find: the last value that was acknowledged, or one that was asked for since.
struct Known {
  uint64_t acknowledged = 0;  // A round; 0: none.
  uint64_t asked = 0;
};

class Durable : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] const std::string& folder() const { return folder_.path(); }
  [[nodiscard]] std::string data() const { return folder_.path() + "/data"; }
  [[nodiscard]] size_t rings() const {
    return static_cast<size_t>(std::ranges::count_if(fs::directory_iterator(data()), [](const auto& entry) {
      return entry.path().filename().string().starts_with("ring-");
    }));
  }

 private:
  TemporaryFolder folder_;
};

TEST_P(Durable, keeps_every_acknowledged_write_when_everything_is_killed_at_any_moment) {
  constexpr uint64_t kKeys = 400;
  std::map<uint64_t, Known> known;
  Prng prng(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 17);
  uint64_t round = 0;
  for (uint64_t life = 0; life < rounds(); ++life) {
    // Each other life has snapshots, for deaths in the middle of one, and for a log that does not grow for
    // ever.
    Node node(durable(data(), GetParam(), {"--data-snapshot-every", life % 2 == 0 ? "0ns" : "20ms"}));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    for (const auto& [key, each] : known) {
      const auto found = client.get("key-" + std::to_string(key));
      if (each.acknowledged == 0 && found.code() == Code::kNotFound) continue;
      ASSERT_TRUE(found) << "key " << key << " in life " << life;
      bool is_known = false;
      for (uint64_t one = each.acknowledged; one <= each.asked && !is_known; ++one) {
        is_known = one > 0 && *found == value_of(key, one);
      }
      ASSERT_TRUE(is_known) << "key " << key << " in life " << life << ": " << *found;
    }
    std::atomic<bool> is_over = false;
    // From another thread, so that it falls between any two stores of the server.
    std::thread killer([&, wait_ms = 5 + prng.below(120)] {
      sleep_ms(wait_ms);
      node.kill_everything();
      is_over = true;
    });
    while (!is_over) {
      const uint64_t key = prng.below(kKeys);
      Known& each = known[key];
      each.asked = ++round;
      if (client.put("key-" + std::to_string(key), value_of(key, round))) each.acknowledged = round;
    }
    killer.join();
  }
  EXPECT_GT(round, 0U);
}

TEST_P(Durable, keeps_what_was_written_before_and_after_a_crash_of_the_server_alone) {
  {
    Node node(durable(data(), GetParam()));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    ASSERT_TRUE(client.put("before", "1"));
    ASSERT_TRUE(client.put("erased", "1"));
    const std::string large(3'000'000, 'L');
    ASSERT_TRUE(client.put("large", large));
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    ASSERT_GT(node.next_server(server), 0);
    ASSERT_TRUE(becomes_true([&] { return client.put("after", "2").has_value(); }));
    ASSERT_TRUE(client.erase("erased"));
    node.kill_everything();
  }
  Node node(durable(data(), GetParam()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  EXPECT_EQ(client.get("before").value(), "1");
  EXPECT_EQ(client.get("after").value(), "2");
  EXPECT_EQ(client.get("erased").code(), Code::kNotFound);
  EXPECT_EQ(client.get("large").value(), std::string(3'000'000, 'L'));
  EXPECT_EQ(node.stop(), 0);
}

TEST_P(Durable, keeps_everything_and_its_empty_rings_when_it_is_stopped) {
  uint64_t version = 0;
  {
    Node node(durable(data(), GetParam(), {"--server-shards", "2"}));
    ASSERT_TRUE(node.is_up()) << node.errors();
    EXPECT_EQ(rings(), 2U);
    EXPECT_NE(node.output().find("data     in " + data()), std::string::npos) << node.output();
    Client client = node.connect();
    for (uint64_t key = 0; key < 500; ++key) {
      const auto put = client.put("key-" + std::to_string(key), value_of(key, 1), {.ttl_ns = 0});
      ASSERT_TRUE(put);
      version = std::max(version, *put);
    }
    EXPECT_EQ(node.stop(), 0);
  }
  EXPECT_EQ(rings(), 2U) << "so that no full disk keeps a node from starting";
  Node node(durable(data(), GetParam(), {"--server-shards", "2"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  for (uint64_t key = 0; key < 500; ++key) {
    EXPECT_EQ(client.get("key-" + std::to_string(key)).value(), value_of(key, 1));
  }
  const auto put = client.put("key-1", "later");
  ASSERT_TRUE(put);
  EXPECT_GT(*put, version) << "versions only grow";
  EXPECT_EQ(node.stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, Durable, testing::Values("everysec", "always"),
                         [](const auto& mode) { return std::string(mode.param); });

class DurableNode : public Durable {};

TEST_F(DurableNode, is_there_again_from_a_snapshot_and_what_the_log_has_behind_it) {
  const std::vector<std::string> often{"--data-snapshot-every", "100ms"};
  const auto snapshots = [&] {
    return std::ranges::count_if(fs::directory_iterator(data()), [](const auto& entry) {
      // One that is being written has a longer name.
      const std::string name = entry.path().filename();
      return name.starts_with("snapshot-0") && name.find('.') == std::string::npos;
    });
  };
  {
    Node node(durable(data(), "everysec", often));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    for (uint64_t key = 0; key < 2'000; ++key) {
      ASSERT_TRUE(client.put("key-" + std::to_string(key), value_of(key, 1)));
    }
    ASSERT_TRUE(client.erase("key-7"));
    ASSERT_TRUE(becomes_true([&] { return snapshots() == 1; }));
    for (uint64_t key = 0; key < 100; ++key) {
      ASSERT_TRUE(client.put("key-" + std::to_string(key), value_of(key, 2)));
    }
    ASSERT_TRUE(client.erase("key-1999"));
    node.kill_everything();
  }
  Node node(durable(data(), "everysec"));
  ASSERT_TRUE(node.is_up()) << node.errors();
  EXPECT_NE(node.errors().find("from a snapshot and"), std::string::npos) << node.errors();
  Client client = node.connect();
  for (uint64_t key = 0; key < 1'999; ++key) {
    EXPECT_EQ(client.get("key-" + std::to_string(key)).value(), value_of(key, key < 100 ? 2 : 1));
  }
  EXPECT_EQ(client.get("key-1999").code(), Code::kNotFound);
  EXPECT_EQ(node.stop(), 0);
}

// Readers need no server: they must not be let to memory that is still being filled.
TEST_F(DurableNode, tells_nobody_that_a_key_is_missing_while_it_reads_its_data) {
  constexpr uint64_t kKeys = 100'000;
  {
    Node node(durable(data(), "everysec"));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    std::vector<std::string> keys;
    std::vector<PutItem> puts(kKeys);
    for (uint64_t key = 0; key < kKeys; ++key) keys.push_back("key-" + std::to_string(key));
    for (uint64_t key = 0; key < kKeys; ++key) puts[key].key = puts[key].value = keys[key];
    client.multi_put(puts);
    for (const PutItem& put : puts) ASSERT_TRUE(put.result);
    EXPECT_EQ(node.stop(), 0);
  }
  NodeOptions options = durable(data(), "everysec");
  options.socket_path = folder() + "/early.sock";
  std::atomic<bool> is_up = false;
  uint64_t wrong = 0;
  uint64_t right = 0;
  std::thread early([&] {
    const std::string last = "key-" + std::to_string(kKeys - 1);
    for (bool is_last = false; !is_last && wrong == 0;) {
      is_last = is_up;
      auto client = Client::connect(options.socket_path);
      if (!client) continue;
      const auto got = client->get(last);
      (got && *got == last ? right : wrong) += 1;
    }
  });
  Node node(options);
  is_up = true;
  early.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(right, 0U);
  EXPECT_EQ(node.stop(), 0);
}

TEST_F(DurableNode, refuses_a_folder_that_another_node_has_or_that_was_made_with_other_shards) {
  {
    Node first(durable(data(), "everysec"));
    ASSERT_TRUE(first.is_up()) << first.errors();
    Node second(durable(data(), "everysec"));
    EXPECT_FALSE(second.is_up());
    EXPECT_NE(second.errors().find(data()), std::string::npos) << second.errors();
    EXPECT_EQ(first.stop(), 0);
  }
  Node other(durable(data(), "everysec", {"--server-shards", "2"}));
  EXPECT_FALSE(other.is_up());
  EXPECT_NE(other.errors().find("was made with server.shards 1, and this node has 2"), std::string::npos)
      << other.errors();
}

TEST_F(DurableNode, serves_nothing_from_a_log_that_is_damaged_and_says_where) {
  {
    Node node(durable(data(), "always"));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    for (uint64_t key = 0; key < 50; ++key) ASSERT_TRUE(client.put("key-" + std::to_string(key), "value"));
    EXPECT_EQ(node.stop(), 0);
  }
  std::string log;
  for (const auto& entry : fs::directory_iterator(data())) {
    if (entry.path().filename().string().starts_with("log-")) log = entry.path();
  }
  ASSERT_FALSE(log.empty());
  {
    std::fstream file(log, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(512 + 700);
    file.put('!');
  }
  Node node(durable(data(), "always"));
  EXPECT_FALSE(node.is_up());
  EXPECT_NE(node.errors().find(log), std::string::npos) << node.errors();
  EXPECT_NE(node.errors().find("nothing on the disk was changed"), std::string::npos) << node.errors();
}

}  // namespace
}  // namespace refract::test
