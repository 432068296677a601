// SPDX-License-Identifier: Apache-2.0
// A node hosts a store of counters beside its keys: what was acknowledged survives what keys survive, from
// the same log and the same snapshots, and a node without that store keeps its hands off.
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

#include "refract/base/object_bytes.h"
#include "refract/base/prng.h"
#include "refract/node/observe/watcher.h"

namespace refract::test {
namespace {

using Arguments = std::vector<std::string>;

class CounterClient {
 public:
  explicit CounterClient(std::unique_ptr<ShardLink> link) : link_(std::move(link)) {
    EXPECT_TRUE(link_->is_open()) << link_->refusal().to_string();
  }
  static CounterClient over_shm(const Node& node) {
    return CounterClient(ShardLink::over_shm(node.socket_path()));
  }
  static CounterClient over_tcp(const Node& node) {
    return CounterClient(ShardLink::over_tcp(node.tcp_address() + "/0"));
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

class Hosted : public testing::Test {
 protected:
  [[nodiscard]] static std::unique_ptr<Node> start(const Arguments& further, bool has_counters = true) {
    NodeOptions options{.arguments = {"--memory-limit", "64MiB", "--memory-initial", "8MiB",
                                      "--restart-backoff", "0ns", "--listen-address", "127.0.0.1:0"}};
    options.arguments.insert(options.arguments.end(), further.begin(), further.end());
    if (has_counters) options.program = COUNTER_NODE_PATH;
    return std::make_unique<Node>(std::move(options));
  }
  static void expect_refused(const Arguments& arguments, const std::string& why) {
    const auto node = start(arguments, false);
    EXPECT_FALSE(node->is_up());
    (void)node->process().wait();
    EXPECT_NE(node->errors().find(why), std::string::npos) << node->errors();
  }
  [[nodiscard]] std::string path(const char* name) const { return folder_.path() + "/" + name; }

  TestFolder folder_;
};

TEST_F(Hosted, is_reached_over_shared_memory_and_tcp_beside_the_keys) {
  const auto node = start({});
  ASSERT_TRUE(node->is_up()) << node->errors();
  CounterClient near = CounterClient::over_shm(*node);
  CounterClient far = CounterClient::over_tcp(*node);
  EXPECT_EQ(near.read("visits"), 0U);
  EXPECT_EQ(near.add("visits", 2), 2U);
  EXPECT_EQ(far.add("visits", 3), 5U);
  EXPECT_EQ(far.add("errors", 1), 1U);
  EXPECT_TRUE(near.link().put("visits", "a key").has_value());
  EXPECT_EQ(near.read("visits"), 5U);
  EXPECT_EQ(*far.link().get("visits"), "a key");
  EXPECT_FALSE(near.add("", 1)) << "malformed";
}

TEST_F(Hosted, is_counted_in_what_the_shard_tells_of_itself) {
  const auto node = start({});
  ASSERT_TRUE(node->is_up()) << node->errors();
  CounterClient client = CounterClient::over_shm(*node);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.add(i % 2 == 0 ? "even" : "odd", 1));
  EXPECT_EQ(client.counted("counter.counters"), 2U);
  EXPECT_EQ(client.counted("counter.adds"), 5U);
}

TEST_F(Hosted, survives_the_death_of_the_server_in_the_memory_that_the_keeper_has) {
  const auto node = start({});
  ASSERT_TRUE(node->is_up()) << node->errors();
  uint64_t total = 0;
  for (int death = 0; death < 5; ++death) {
    CounterClient client = CounterClient::over_shm(*node);
    EXPECT_EQ(client.read("visits"), total);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(client.add("visits", 3), total += 3);
    // Keys take what a store has not marked: nothing of the counters may be among that.
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(client.link().put("key" + std::to_string(i), std::string(4'000, 'k')).has_value());
    }
    const pid_t before = node->server();
    send_signal(before, SIGKILL);
    ASSERT_GT(node->next_server(before), 0);
  }
  EXPECT_EQ(CounterClient::over_shm(*node).read("visits"), total);
}

struct Ran {
  int code;
  std::string text;  // Output and errors.
};

class HostedOnDisk : public Hosted, public testing::WithParamInterface<const char*> {
 protected:
  [[nodiscard]] Arguments on_disk() const {
    return {"--data-durability", GetParam(), "--data-folder", path("data")};
  }
  [[nodiscard]] Ran run_client(Arguments arguments) const {
    arguments.insert(arguments.begin(), REFRACT_PATH);
    Process process = Process::execute(
        {.arguments = arguments, .output_path = path("output"), .errors_path = path("errors")});
    const int code = process.wait();
    return {.code = code, .text = read_whole(path("output")) + read_whole(path("errors"))};
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, HostedOnDisk, testing::Values("everysec", "always"),
                         [](const auto& mode) { return std::string(mode.param); });

// What is read behind a death lies between what was acknowledged and what was asked for.
TEST_P(HostedOnDisk, survives_the_death_of_server_and_of_all_processes_at_any_moment) {
  Prng prng(GetParam() == std::string("always") ? 1 : 2);
  uint64_t total = 0;
  for (int death = 0; death < 12; ++death) {
    const auto node = start(on_disk());
    ASSERT_TRUE(node->is_up()) << node->errors();
    ASSERT_EQ(CounterClient::over_shm(*node).read("visits"), total) << "death " << death;
    bool is_acknowledged = true;
    std::atomic<bool> is_connected = false;
    std::thread adding([&] {
      CounterClient client = CounterClient::over_shm(*node);
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
    const uint64_t found = CounterClient::over_shm(now).read("visits").value_or(0);
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
    CounterClient client = CounterClient::over_shm(*node);
    ASSERT_EQ(client.add("before", 7), 7U);
    ASSERT_EQ(client.add("both", 1), 1U);
    ASSERT_TRUE(client.link().put("key", "value").has_value());
    ASSERT_TRUE(client.save()) << node->errors();
    ASSERT_EQ(client.add("both", 1), 2U);
    node->kill_everything();
  }
  const auto node = start(on_disk());
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_NE(node->errors().find("a snapshot and 1 changes"), std::string::npos)
      << "what the snapshot has is not read from the log: " << node->errors();
  CounterClient client = CounterClient::over_shm(*node);
  EXPECT_EQ(client.read("before"), 7U);
  EXPECT_EQ(client.read("both"), 2U);
  EXPECT_EQ(*client.link().get("key"), "value");
}

TEST_P(HostedOnDisk, is_not_touched_by_a_node_that_does_not_host_it) {
  {
    const auto node = start(on_disk());
    ASSERT_TRUE(node->is_up()) << node->errors();
    ASSERT_EQ(CounterClient::over_shm(*node).add("visits", 7), 7U);
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  expect_refused(on_disk(), "the disk has a change of a store \"counter\", which this program does not host");
  {
    const auto node = start(on_disk());
    ASSERT_TRUE(node->is_up()) << node->errors();
    CounterClient client = CounterClient::over_shm(*node);
    EXPECT_EQ(client.read("visits"), 7U);
    ASSERT_TRUE(client.save()) << node->errors();
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  expect_refused(on_disk(),
                 "the disk has a snapshot's block of a store \"counter\", which this program does not host");
  const auto node = start(on_disk());
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_EQ(CounterClient::over_shm(*node).read("visits"), 7U);
}

TEST_P(HostedOnDisk, is_sound_for_a_check_and_left_out_by_a_salvage_which_says_so) {
  for (const bool is_saved : {false, true}) {
    const auto node = start(on_disk());
    ASSERT_TRUE(node->is_up()) << node->errors();
    CounterClient client = CounterClient::over_shm(*node);
    ASSERT_TRUE(client.add("visits", 7));
    ASSERT_TRUE(client.link().put("key", "value").has_value());
    ASSERT_TRUE(!is_saved || client.save()) << node->errors();
    EXPECT_EQ(node->stop(), 0) << node->errors();
    const Ran check = run_client({"check", path("data")});
    EXPECT_EQ(check.code, 0) << check.text;
    const std::string copy = path(is_saved ? "copy of both" : "copy of the log");
    const Ran salvage = run_client({"restore", "--salvage", path("data"), "--to", copy});
    EXPECT_NE(salvage.text.find("what stores beside the keys have is left out"), std::string::npos)
        << salvage.text;
    const auto rest = start({"--data-durability", GetParam(), "--data-folder", copy}, false);
    ASSERT_TRUE(rest->is_up()) << rest->errors();
    EXPECT_EQ(rest->connect().get("key").value_or(""), "value");
  }
}

TEST_P(HostedOnDisk, comes_into_a_folder_that_a_node_without_it_made) {
  {
    const auto node = start(on_disk(), false);
    ASSERT_TRUE(node->is_up()) << node->errors();
    ASSERT_TRUE(node->connect().put("key", "value"));
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  const auto node = start(on_disk());
  ASSERT_TRUE(node->is_up()) << node->errors();
  CounterClient client = CounterClient::over_shm(*node);
  EXPECT_EQ(*client.link().get("key"), "value");
  EXPECT_EQ(client.read("visits"), 0U);
  EXPECT_EQ(client.add("visits", 1), 1U);
}

TEST_F(Hosted, has_a_name_in_the_space_which_a_node_without_it_refuses) {
  const Arguments in_files = {"--memory-backing", "file:" + path("memory")};
  std::filesystem::create_directory(path("memory"));
  {
    const auto node = start(in_files, false);
    ASSERT_TRUE(node->is_up()) << node->errors();
    ASSERT_TRUE(node->connect().put("key", "value"));
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  for (uint64_t total = 1; total <= 2; ++total) {
    const auto node = start(in_files);
    ASSERT_TRUE(node->is_up()) << node->errors();
    CounterClient client = CounterClient::over_shm(*node);
    EXPECT_EQ(client.add("visits", 1), total);
    EXPECT_EQ(*client.link().get("key"), "value");
    EXPECT_EQ(node->stop(), 0) << node->errors();
  }
  expect_refused(in_files, "the memory has a store \"counter\", which this program does not host");
  const auto node = start(in_files);
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_EQ(CounterClient::over_shm(*node).read("visits"), 2U);
}

}  // namespace
}  // namespace refract::test
