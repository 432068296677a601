// SPDX-License-Identifier: Apache-2.0
// A node hosts a store of counters beside its keys: what was acknowledged survives what keys survive, from
// the same log and the same snapshots, and a node without that store keeps its hands off. With one shard and
// with two, each of which has counters of its own; with and without eviction, which never takes a counter.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/hosted/counter_store.h"
#include "tests/process/node_process.h"
#include "tests/process/shard_link.h"

#include "refract/base/hash.h"
#include "refract/base/object_bytes.h"
#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/fabric/shm/node_page.h"
#include "refract/kv/layout/routing.h"
#include "refract/node/observe/watcher.h"

namespace refract::test {
namespace {

using Arguments = std::vector<std::string>;

struct Setup {
  const char* name;
  uint32_t shards = 1;
  const char* eviction = "none";
  const char* durability = "none";
};

std::string name_of(const testing::TestParamInfo<Setup>& setup) {
  return setup.param.name;
}

// Of one shard.
class CounterClient {
 public:
  explicit CounterClient(std::unique_ptr<ShardLink> link) : link_(std::move(link)) {
    EXPECT_TRUE(link_->is_open()) << link_->refusal().to_string();
  }
  static CounterClient over_shm(const Node& node, uint32_t shard = 0) {
    return CounterClient(ShardLink::over_shm(fabric::shm::shard_socket_path(node.socket_path(), shard)));
  }
  static CounterClient over_tcp(const Node& node, uint32_t shard = 0) {
    return CounterClient(ShardLink::over_tcp(node.tcp_address() + "/" + std::to_string(shard)));
  }

  // What the node answers; nothing: it does not, or with a code.
  std::optional<uint64_t> add(std::string_view name, uint64_t step) { return call(kMethodAdd, name, step); }
  std::optional<uint64_t> read(std::string_view name) { return call(kMethodRead, name, 0); }
  uint64_t counted(std::string_view name) {
    const auto state = watcher().state();
    if (!state) return UINT64_MAX;
    for (const auto& [counter, count] : state->counters) {
      if (counter == name) return count;
    }
    return UINT64_MAX;
  }
  // Has a snapshot written, and waits for it.
  bool save() {
    const auto attempt = watcher().want_snapshot();
    return attempt && becomes_true([&] {
             const auto state = watcher().state();
             return state && state->data.snapshots.written_attempt >= *attempt;
           });
  }
  ShardLink& link() { return *link_; }

 private:
  observe::Watcher watcher() { return {link_->session(), link_->shard(), kPatience_ns}; }
  std::optional<uint64_t> call(uint16_t method, std::string_view name, uint64_t step) {
    CounterWords words{.value = step};
    name.copy(words.name.data(), words.name.size() - 1);
    const runtime::OpResult result = link_->session().call_and_wait(
        {.method = method, .head = object_bytes(words)}, link_->shard().refresh_now() + kPatience_ns);
    uint64_t value = 0;
    if (result.code != Code::kOk || result.bytes.size() != sizeof(value)) return std::nullopt;
    std::memcpy(&value, result.bytes.data(), sizeof(value));
    return value;
  }

  std::unique_ptr<ShardLink> link_;
};

// The clients are those of the last shard, unless another one is named.
class Hosted : public testing::TestWithParam<Setup> {
 protected:
  [[nodiscard]] static std::unique_ptr<Node> start(const Arguments& further, bool has_counters = true) {
    NodeOptions options{.arguments = {"--memory-limit", "64MiB", "--memory-initial", "16MiB",
                                      "--restart-backoff", "0ns", "--listen-address", "127.0.0.1:0",
                                      "--server-shards", std::to_string(GetParam().shards),
                                      "--memory-eviction", GetParam().eviction}};
    options.arguments.insert(options.arguments.end(), further.begin(), further.end());
    if (has_counters) options.program = COUNTER_NODE_PATH;
    return std::make_unique<Node>(std::move(options));
  }
  [[nodiscard]] static CounterClient near(const Node& node) {
    return CounterClient::over_shm(node, GetParam().shards - 1);
  }
  [[nodiscard]] static CounterClient far(const Node& node) {
    return CounterClient::over_tcp(node, GetParam().shards - 1);
  }
  // A key that lies in the shard of these clients.
  [[nodiscard]] static std::string key(CounterClient& client, const std::string& begin) {
    std::string key = begin;
    const auto shard_of_it = [&] {
      const auto bytes = std::as_bytes(std::span(key));
      const kv::KeyRouting routing{.shards = GetParam().shards};
      return routing.shard_of(bytes, hash_key(bytes, client.link().hash_seed()));
    };
    while (shard_of_it() != GetParam().shards - 1) key += '+';
    return key;
  }
  [[nodiscard]] static bool evicts() { return GetParam().eviction != std::string("none"); }
  static void expect_refused(const Arguments& arguments, const std::string& why) {
    const auto node = start(arguments, false);
    EXPECT_FALSE(node->is_up());
    (void)node->process().wait();
    EXPECT_NE(node->errors().find(why), std::string::npos) << node->errors();
  }
  [[nodiscard]] std::string path(const char* name) const { return folder_.path() + "/" + name; }

  TemporaryFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(
    Setups, Hosted,
    testing::Values(Setup{.name = "one_shard"}, Setup{.name = "one_shard_evicting", .eviction = "lru"},
                    Setup{.name = "two_shards", .shards = 2},
                    Setup{.name = "two_shards_evicting", .shards = 2, .eviction = "lfu"}),
    name_of);

TEST_P(Hosted, is_reached_over_shared_memory_and_tcp_beside_the_keys) {
  const auto node = start({});
  ASSERT_TRUE(node->is_up()) << node->errors();
  CounterClient near = Hosted::near(*node);
  CounterClient far = Hosted::far(*node);
  EXPECT_EQ(near.read("visits"), 0U);
  EXPECT_EQ(near.add("visits", 2), 2U);
  EXPECT_EQ(far.add("visits", 3), 5U);
  EXPECT_EQ(far.add("errors", 1), 1U);
  const std::string visits = key(near, "visits");
  EXPECT_TRUE(near.link().put(visits, "a key").has_value());
  EXPECT_EQ(near.read("visits"), 5U);
  EXPECT_EQ(needed(far.link().get(visits)), "a key");
  EXPECT_FALSE(near.add("", 1)) << "malformed";
}

TEST_P(Hosted, each_shard_has_counters_of_its_own) {
  const auto node = start({});
  ASSERT_TRUE(node->is_up()) << node->errors();
  for (uint32_t shard = 0; shard < GetParam().shards; ++shard) {
    EXPECT_EQ(CounterClient::over_shm(*node, shard).add("visits", shard + 1), shard + 1);
  }
  for (uint32_t shard = 0; shard < GetParam().shards; ++shard) {
    CounterClient far = CounterClient::over_tcp(*node, shard);
    EXPECT_EQ(far.read("visits"), shard + 1);
    EXPECT_EQ(far.counted("counter.adds"), 1U);
  }
}

TEST_P(Hosted, is_counted_in_what_the_shard_tells_of_itself) {
  const auto node = start({});
  ASSERT_TRUE(node->is_up()) << node->errors();
  CounterClient client = near(*node);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.add(i % 2 == 0 ? "even" : "odd", 1));
  EXPECT_EQ(client.counted("counter.counters"), 2U);
  EXPECT_EQ(client.counted("counter.adds"), 5U);
}

TEST_P(Hosted, survives_the_death_of_the_server_in_the_memory_that_the_keeper_has) {
  const auto node = start({});
  ASSERT_TRUE(node->is_up()) << node->errors();
  uint64_t total = 0;
  for (int death = 0; death < 5; ++death) {
    CounterClient client = death % 2 == 0 ? near(*node) : far(*node);
    EXPECT_EQ(client.read("visits"), total);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(client.add("visits", 3), total += 3);
    // Keys take what a store has not marked: nothing of the counters may be among that.
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(client.link().put(key(client, std::to_string(i)), std::string(4'000, 'k')).has_value());
    }
    const pid_t before = node->server();
    send_signal(before, SIGKILL);
    ASSERT_GT(node->next_server(before), 0);
  }
  EXPECT_EQ(near(*node).read("visits"), total);
}

// Keys fill the memory: they are evicted, or refused, and the counters stand and grow in both.
TEST_P(Hosted, stands_beside_keys_that_fill_the_memory) {
  const auto node = start({});
  ASSERT_TRUE(node->is_up()) << node->errors();
  CounterClient client = near(*node);
  for (uint64_t i = 0; i < 64; ++i) ASSERT_EQ(client.add("counter" + std::to_string(i), i + 1), i + 1);
  const std::string value(100'000, 'k');
  int refused = 0;
  for (int i = 0; i < 700; ++i) {
    const auto put = client.link().put(key(client, std::to_string(i)), value);
    ASSERT_TRUE(put.has_value() || put.code() == Code::kNoSpace) << text(put.code());
    refused += put.has_value() ? 0 : 1;
  }
  EXPECT_EQ(refused == 0, evicts()) << refused;
  EXPECT_EQ(evicts(), client.counted("eviction.entries") - 1 < 700) << "UINT64_MAX: not counted";
  const pid_t before = node->server();
  send_signal(before, SIGKILL);
  ASSERT_GT(node->next_server(before), 0);
  CounterClient next = far(*node);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(next.add("counter" + std::to_string(i), 1), i + 2);
  EXPECT_FALSE(next.add("one more", 1)) << "all places are taken";
}

struct Ran {
  int code;
  std::string text;  // Output and errors.
};

class HostedOnDisk : public Hosted {
 protected:
  [[nodiscard]] Arguments on_disk() const {
    return {"--data-durability", GetParam().durability, "--data-folder", path("data")};
  }
  [[nodiscard]] Ran run_client(Arguments arguments) const {
    arguments.insert(arguments.begin(), REFRACT_PATH);
    Process process = Process::execute(
        {.arguments = arguments, .output_path = path("output"), .errors_path = path("errors")});
    const int code = process.wait();
    return {.code = code, .text = read_whole(path("output")) + read_whole(path("errors"))};
  }
};

INSTANTIATE_TEST_SUITE_P(
    Setups, HostedOnDisk,
    testing::Values(
        Setup{.name = "everysec", .durability = "everysec"}, Setup{.name = "always", .durability = "always"},
        Setup{
            .name = "everysec_two_shards_evicting", .shards = 2, .eviction = "lru", .durability = "everysec"},
        Setup{.name = "always_two_shards", .shards = 2, .durability = "always"}),
    name_of);

// What is read behind a death lies between what was acknowledged and what was asked for.
TEST_P(HostedOnDisk, survives_the_death_of_server_and_of_all_processes_at_any_moment) {
  Prng prng(GetParam().name == std::string("always") ? 1 : 2);
  uint64_t total = 0;
  for (int death = 0; death < 6; ++death) {
    const auto node = start(on_disk());
    ASSERT_TRUE(node->is_up()) << node->errors();
    ASSERT_EQ(near(*node).read("visits"), total) << "death " << death;
    bool is_acknowledged = true;
    std::atomic<bool> is_connected = false;
    std::thread adding([&] {
      CounterClient client = death % 2 == 0 ? near(*node) : far(*node);
      is_connected = true;
      while (is_acknowledged) {
        is_acknowledged = client.add("visits", 1) == total + 1;
        if (is_acknowledged) ++total;
      }
    });
    // The death comes beside writes, not before the client has come.
    EXPECT_TRUE(becomes_true([&] { return is_connected.load(); }));
    sleep_ms(1 + prng.below(100));
    if (death % 3 == 2) {
      const pid_t before = node->server();
      send_signal(before, SIGKILL);
      EXPECT_GT(node->next_server(before), 0);
    } else {
      node->kill_everything();
    }
    adding.join();
    const auto again = death % 3 == 2 ? nullptr : start(on_disk());
    const Node& now = again ? *again : *node;
    const uint64_t found = near(now).read("visits").value_or(0);
    EXPECT_GE(found, total) << "acknowledged, death " << death << ", " << now.errors();
    EXPECT_LE(found, total + 1) << "asked for, death " << death;
    total = found;
    (again ? again : node)->kill_everything();
  }
  EXPECT_GT(total, 0U);
}

TEST_P(HostedOnDisk, survives_in_a_snapshot_and_in_the_log_behind_it) {
  {
    const auto node = start(on_disk());
    ASSERT_TRUE(node->is_up()) << node->errors();
    CounterClient client = near(*node);
    ASSERT_EQ(client.add("before", 7), 7U);
    ASSERT_EQ(client.add("both", 1), 1U);
    ASSERT_TRUE(client.link().put(key(client, "key"), "value").has_value());
    ASSERT_TRUE(client.save()) << node->errors();
    ASSERT_EQ(client.add("both", 1), 2U);
    node->kill_everything();
  }
  const auto node = start(on_disk());
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_NE(node->errors().find("a snapshot and 1 changes"), std::string::npos)
      << "what the snapshot has is not read from the log: " << node->errors();
  CounterClient client = near(*node);
  EXPECT_EQ(client.read("before"), 7U);
  EXPECT_EQ(client.read("both"), 2U);
  EXPECT_EQ(needed(client.link().get(key(client, "key"))), "value");
}

TEST_P(HostedOnDisk, is_not_touched_by_a_node_that_does_not_host_it) {
  {
    const auto node = start(on_disk());
    ASSERT_TRUE(node->is_up()) << node->errors();
    ASSERT_EQ(near(*node).add("visits", 7), 7U);
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  expect_refused(on_disk(), "the disk has a change of a store \"counter\", which this program does not host");
  {
    const auto node = start(on_disk());
    ASSERT_TRUE(node->is_up()) << node->errors();
    CounterClient client = near(*node);
    EXPECT_EQ(client.read("visits"), 7U);
    ASSERT_TRUE(client.save()) << node->errors();
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  expect_refused(on_disk(),
                 "the disk has a snapshot's block of a store \"counter\", which this program does not host");
  const auto node = start(on_disk());
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_EQ(near(*node).read("visits"), 7U);
}

TEST_P(HostedOnDisk, is_sound_for_a_check_and_left_out_by_a_salvage_which_says_so) {
  for (const bool is_saved : {false, true}) {
    const auto node = start(on_disk());
    ASSERT_TRUE(node->is_up()) << node->errors();
    CounterClient client = near(*node);
    ASSERT_TRUE(client.add("visits", 7));
    const std::string with_value = key(client, "key");
    ASSERT_TRUE(client.link().put(with_value, "value").has_value());
    ASSERT_TRUE(!is_saved || client.save()) << node->errors();
    EXPECT_EQ(node->stop(), 0) << node->errors();
    const Ran check = run_client({"check", path("data")});
    EXPECT_EQ(check.code, 0) << check.text;
    const std::string copy = path(is_saved ? "copy of both" : "copy of the log");
    const Ran salvage = run_client({"restore", "--salvage", path("data"), "--to", copy});
    EXPECT_NE(salvage.text.find("what stores beside the keys have is left out"), std::string::npos)
        << salvage.text;
    const auto rest = start({"--data-durability", GetParam().durability, "--data-folder", copy}, false);
    ASSERT_TRUE(rest->is_up()) << rest->errors();
    EXPECT_EQ(needed(rest->connect().get(with_value)), "value");
  }
}

TEST_P(HostedOnDisk, comes_into_a_folder_that_a_node_without_it_made) {
  {
    const auto node = start(on_disk(), false);
    ASSERT_TRUE(node->is_up()) << node->errors();
    CounterClient client = near(*node);
    ASSERT_TRUE(node->connect().put(key(client, "key"), "value"));
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  const auto node = start(on_disk());
  ASSERT_TRUE(node->is_up()) << node->errors();
  CounterClient client = near(*node);
  EXPECT_EQ(needed(client.link().get(key(client, "key"))), "value");
  EXPECT_EQ(client.read("visits"), 0U);
  EXPECT_EQ(client.add("visits", 1), 1U);
}

TEST_P(Hosted, has_a_name_in_the_space_which_a_node_without_it_refuses) {
  const Arguments in_files = {"--memory-backing", "file:" + path("memory")};
  std::filesystem::create_directory(path("memory"));
  {
    const auto node = start(in_files, false);
    ASSERT_TRUE(node->is_up()) << node->errors();
    CounterClient client = near(*node);
    ASSERT_TRUE(node->connect().put(key(client, "key"), "value"));
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  for (uint64_t total = 1; total <= 2; ++total) {
    const auto node = start(in_files);
    ASSERT_TRUE(node->is_up()) << node->errors();
    CounterClient client = near(*node);
    EXPECT_EQ(client.add("visits", 1), total);
    EXPECT_EQ(needed(client.link().get(key(client, "key"))), "value");
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  expect_refused(in_files, "the memory has a store \"counter\", which this program does not host");
  const auto node = start(in_files);
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_EQ(near(*node).read("visits"), 2U);
}

}  // namespace
}  // namespace refract::test
