// SPDX-License-Identifier: Apache-2.0
// A node that listens on TCP: which client is let in, what is refused before anything is made, and what
// clients on a socket see of a server that is killed or stopped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "tests/process/node_process.h"
#include "tests/process/sealed.h"
#include "tests/process/shard_link.h"

#include "refract/base/boot_id.h"
#include "refract/base/hash.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/kv/layout/routing.h"

namespace refract::test::tcp_test {
namespace {

std::string nth_key(uint64_t n) {
  return "entry-" + std::to_string(n);
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

NodeOptions listening(std::vector<std::string> further = {}) {
  NodeOptions options{.arguments = {"--listen-address", "127.0.0.1:0", "--restart-limit", "1000",
                                    "--restart-backoff", "0ns"}};
  options.arguments.insert(options.arguments.end(), further.begin(), further.end());
  return options;
}

class SecretFile {
 public:
  explicit SecretFile(const std::string& text, mode_t mode = 0600) {
    EXPECT_TRUE(write_whole(path(), text));
    EXPECT_EQ(::chmod(path().c_str(), mode), 0);
  }
  [[nodiscard]] std::string path() const { return folder_.path() + "/secret"; }

 private:
  TemporaryFolder folder_;
};

uint32_t owner_of(uint64_t hash_seed, const std::string& key, uint32_t shards) {
  const auto bytes = std::as_bytes(std::span(key));
  return kv::KeyRouting{.shards = shards}.shard_of(bytes, hash_key(bytes, hash_seed));
}

TEST(Tcp, the_banner_names_the_address_and_the_welcome_tells_who_is_there) {
  Node node(listening({"--server-shards", "2"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::string address = node.tcp_address();
  ASSERT_TRUE(address.starts_with("127.0.0.1:")) << node.output();
  const auto local = ShardLink::over_shm(fabric::shm::shard_socket_path(node.socket_path(), 1));
  const auto remote = ShardLink::over_tcp(address + "/1");
  ASSERT_TRUE(remote->is_open()) << remote->refusal().to_string();
  const fabric::tcp::NodeFacts& facts = remote->facts();
  const fabric::shm::NodePage& page = local->page();
  EXPECT_EQ(address, "127.0.0.1:" + std::to_string(page.tcp_port));
  EXPECT_EQ(facts.identity[0], page.identity[0]);
  EXPECT_EQ(facts.identity[1], page.identity[1]);
  EXPECT_EQ(facts.incarnation, page.incarnation);
  EXPECT_EQ(facts.hash_seed, local->hash_seed());
  EXPECT_EQ(facts.shard_index, 1U);
  EXPECT_EQ(facts.shard_count, 2U);
  EXPECT_EQ(facts.socket_path, node.socket_path() + ".1");
  EXPECT_EQ(facts.boot_id, host_boot_id().value_or(BootId{}));
  const auto absent = ShardLink::over_tcp(address + "/2");
  EXPECT_FALSE(absent->is_open()) << "there are shards 0 and 1";
}

TEST(Tcp, both_providers_see_one_store) {
  Node node(listening());
  ASSERT_TRUE(node.is_up()) << node.errors();
  const auto local = ShardLink::over_shm(node.socket_path());
  const auto remote = ShardLink::over_tcp(node.tcp_address());
  ASSERT_TRUE(remote->is_open()) << remote->refusal().to_string();
  for (const uint64_t bytes : {16ULL, 400ULL, 70'000ULL, 5'000'000ULL}) {
    const std::string key = "of " + std::to_string(bytes);
    ASSERT_TRUE(remote->put(key, sealed_value(key, 1, bytes))) << bytes;
    EXPECT_EQ(number_in(key, local->get(key).value_or("")), 1U) << bytes;
    ASSERT_TRUE(local->put(key, sealed_value(key, 2, bytes))) << bytes;
    EXPECT_EQ(number_in(key, remote->get(key).value_or("")), 2U) << bytes;
    EXPECT_TRUE(remote->erase(key)) << bytes;
    EXPECT_EQ(local->get(key).code(), Code::kNotFound) << bytes;
  }
}

TEST(Tcp, clients_come_back_by_themselves_after_each_kill_and_find_what_was_acknowledged) {
  constexpr uint32_t kShards = 2;
  Node node(listening({"--server-shards", "2"}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::string address = node.tcp_address();
  std::vector<std::unique_ptr<ShardLink>> links;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    links.push_back(ShardLink::over_tcp(address + "/" + std::to_string(shard)));
    ASSERT_TRUE(links.back()->is_open()) << links.back()->refusal().to_string();
  }
  const uint64_t seed = links[0]->facts().hash_seed;
  pid_t server = node.server();
  for (uint64_t round = 0; round < 8; ++round) {
    for (uint64_t n = 0; n < 100; ++n) {
      const std::string key = nth_key(n);
      const uint64_t bytes = n % 20 == 0 ? 300'000 : 50 + n * 30;
      ASSERT_TRUE(links[owner_of(seed, key, kShards)]->put(key, sealed_value(key, round, bytes)));
    }
    send_signal(server, SIGKILL);
    server = node.next_server(server);
    for (uint64_t n = 0; n < 100; ++n) {
      const std::string key = nth_key(n);
      EXPECT_EQ(number_in(key, links[owner_of(seed, key, kShards)]->get(key).value_or("")), round) << key;
    }
    EXPECT_EQ(node.tcp_address(), address);
  }
  EXPECT_GT(links[0]->facts().incarnation, 8U);
}

// The listening socket is the keeper's, so that no client is refused while there is no server.
TEST(Tcp, who_connects_while_the_server_is_away_waits_and_is_served) {
  Node node(listening());
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::string address = node.tcp_address();
  const pid_t server = node.server();
  send_signal(server, SIGSTOP);
  ASSERT_TRUE(becomes_true([&] { return state_of(server) == 'T'; }));
  Process client = Process::run([&] {
    const auto link = ShardLink::over_tcp(address);
    return link->is_open() && link->put("key", "value") ? 0 : 1;
  });
  sleep_ms(300);
  EXPECT_TRUE(client.is_running());
  send_signal(server, SIGKILL);
  EXPECT_EQ(client.wait(), 0);
}

TEST(Tcp, the_secret_decides_who_is_let_in) {
  const SecretFile file("correct horse battery staple\n");
  Node node(listening({"--auth-secret-file", file.path()}));
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::string address = node.tcp_address();
  EXPECT_TRUE(says(node.output(), "know the secret in " + file.path())) << node.output();
  const auto secret = fabric::tcp::read_secret(file.path());
  ASSERT_TRUE(secret) << secret.error().to_string();
  const auto knows = ShardLink::over_tcp(address, &*secret);
  ASSERT_TRUE(knows->is_open()) << knows->refusal().to_string();
  EXPECT_TRUE(knows->put("key", "value"));
  const auto has_none = ShardLink::over_tcp(address);
  EXPECT_FALSE(has_none->is_open());
  EXPECT_EQ(has_none->refusal().code, Code::kAccessDenied) << has_none->refusal().to_string();
  const SecretFile other("incorrect horse battery staple\n");
  const auto wrong = needed(fabric::tcp::read_secret(other.path()));
  const auto guesses = ShardLink::over_tcp(address, &wrong);
  EXPECT_FALSE(guesses->is_open());
  EXPECT_EQ(guesses->refusal().code, Code::kAccessDenied) << guesses->refusal().to_string();
  EXPECT_EQ(knows->get("key").value_or(""), "value");
  // Nothing of it in what every user can read.
  for (const std::string place : {"/cmdline", "/environ", "/comm"}) {
    EXPECT_FALSE(says(read_whole("/proc/" + std::to_string(node.keeper()) + place), "battery")) << place;
  }
  EXPECT_FALSE(says(node.errors() + node.output(), "battery"));
}

// Each refusal comes before a socket, a file or a banner.
class TcpRefused : public testing::Test {
 protected:
  void expect_refused(const std::vector<std::string>& arguments, int code, const std::string& sentence) {
    const TemporaryFolder files;
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--memory-backing", "file:" + files.path()});
    Node node({.arguments = all});
    EXPECT_EQ(node.process().wait(), code) << node.errors();
    EXPECT_TRUE(says(node.errors(), sentence)) << node.errors();
    EXPECT_EQ(node.output(), "");
    EXPECT_TRUE(std::filesystem::is_empty(files.path()));
    EXPECT_FALSE(std::filesystem::exists(node.socket_path()));
  }
};

TEST_F(TcpRefused, a_port_in_use) {
  const auto taken = fabric::tcp::listen("127.0.0.1:0");
  ASSERT_TRUE(taken) << taken.error().to_string();
  const std::string address = needed(fabric::tcp::bound_address(taken->get()));
  expect_refused({"--listen-address", address}, 1, "another program listens on " + address);
}

// As the server of a keeper that was killed does.
TEST(Tcp, a_port_that_is_given_up_a_moment_later_is_waited_for) {
  auto taken = fabric::tcp::listen("127.0.0.1:0");
  ASSERT_TRUE(taken) << taken.error().to_string();
  const std::string address = needed(fabric::tcp::bound_address(taken->get()));
  std::thread leaver([&] {
    sleep_ms(200);
    *taken = Descriptor();
  });
  Node node({.arguments = {"--listen-address", address}});
  leaver.join();
  EXPECT_TRUE(node.is_up()) << node.errors();
}

TEST_F(TcpRefused, an_address_of_another_host) {
  const SecretFile secret("0123456789abcdef");
  expect_refused({"--listen-address", "192.0.2.1:7400", "--auth-secret-file", secret.path()}, 1,
                 "this host has no such address");
}

TEST_F(TcpRefused, other_hosts_without_a_secret) {
  expect_refused({"--listen-address", "0.0.0.0:0"}, 2, "--auth-secret-file");
}

TEST_F(TcpRefused, a_secret_that_is_missing_or_short_or_readable_by_others) {
  const TemporaryFolder folder;
  const std::vector<std::string> listen = {"--listen-address", "0.0.0.0:0", "--auth-secret-file"};
  const auto with = [&](const std::string& path) {
    std::vector<std::string> all = listen;
    all.push_back(path);
    return all;
  };
  const std::string missing = folder.path() + "/none";
  expect_refused(with(missing), 1, missing);
  const SecretFile open("0123456789abcdef", 0644);
  expect_refused(with(open.path()), 2, "chmod 600 " + open.path());
  const SecretFile too_short("0123456789abcde\n");
  expect_refused(with(too_short.path()), 2, too_short.path());
}

}  // namespace
}  // namespace refract::test::tcp_test
