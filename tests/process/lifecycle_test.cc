// SPDX-License-Identifier: Apache-2.0
// How a node starts, is refused, ends, and lives in containers.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "tests/process/load.h"
#include "tests/process/node_process.h"

namespace refract::test {
namespace {

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Lifecycle, ctrl_c_ends_both_processes_and_says_what_happens_to_the_data) {
  Node node;
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect({.timeout_ns = 200'000'000});
  ASSERT_TRUE(client.put("key", "value"));
  const pid_t server = node.server();
  node.process().signal_group(SIGINT);
  EXPECT_EQ(node.process().wait(), 0);
  EXPECT_TRUE(becomes_true([&] { return state_of(server) == '\0' || state_of(server) == 'Z'; }));
  EXPECT_TRUE(says(node.output(), "are gone")) << node.output();
  EXPECT_FALSE(says(node.errors(), "killed")) << node.errors();
  // A put that was sent before the end was noticed is indeterminate; the next is not even sent.
  EXPECT_TRUE(becomes_true([&] { return client.put("key", "other").code() == Code::kUnavailable; }));
}

TEST(Lifecycle, a_killed_keeper_takes_its_server_along) {
  Node node;
  ASSERT_TRUE(node.is_up()) << node.errors();
  const pid_t server = node.server();
  node.process().kill_now();
  EXPECT_TRUE(becomes_true([&] { return state_of(server) == '\0' || state_of(server) == 'Z'; }));
  // Its socket is still there, and in no node's way.
  Node next({.socket_path = node.socket_path()});
  ASSERT_TRUE(next.is_up()) << next.errors();
  Client client = next.connect();
  EXPECT_TRUE(client.put("key", "value"));
}

TEST(Lifecycle, a_second_node_on_the_same_socket_is_refused_and_the_first_not_disturbed) {
  Node node;
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value"));
  Node second({.socket_path = node.socket_path()});
  EXPECT_EQ(second.process().wait(), 1);
  EXPECT_TRUE(says(second.errors(), node.socket_path())) << second.errors();
  EXPECT_EQ(second.output(), "");
  EXPECT_TRUE(client.put("key", "other"));
  EXPECT_TRUE(node.connect().ping());
}

TEST(Lifecycle, takes_as_many_descriptors_as_it_may_have) {
  Node node({.before = [] {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = 64;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
  }});
  ASSERT_TRUE(node.is_up()) << node.errors();
  std::vector<Client> clients;
  for (int i = 0; i < 60; ++i)
    clients.push_back(node.connect({.timeout_ns = kPatience_ns, .populate = false}));
  for (Client& client : clients) EXPECT_TRUE(client.ping());
}

TEST(Lifecycle, more_memory_than_there_is_is_refused_with_a_sentence) {
  Node node({.arguments = {"--memory-limit", "60TiB", "--memory-initial", "50TiB"}});
  EXPECT_NE(node.process().wait(), 0);
  EXPECT_TRUE(says(node.errors(), "memory.limit")) << node.errors();
  EXPECT_EQ(node.output(), "");
}

TEST(Lifecycle, a_bad_configuration_is_refused_with_file_line_and_what_was_expected) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/refractd.toml";
  ASSERT_TRUE(write_whole(file, "[restart]\n\nlimit = \"many\"\n"));
  Node node({.arguments = {"--config", file}});
  EXPECT_EQ(node.process().wait(), 2);
  EXPECT_TRUE(says(node.errors(), file + ":3")) << node.errors();
  EXPECT_TRUE(says(node.errors(), "restart.limit")) << node.errors();
  Node misspelt({.arguments = {"--memory-limt", "1GiB"}});
  EXPECT_EQ(misspelt.process().wait(), 2);
  EXPECT_TRUE(says(misspelt.errors(), "--memory-limit")) << misspelt.errors();
}

// Found out once, before there is any server, and not by one server after the other.
TEST(Lifecycle, a_device_that_is_named_and_not_there_is_refused_before_there_is_a_server) {
  Node node({.arguments = {"--listen-address", "127.0.0.1:0", "--rdma-device", "mlx5_77"}});
  EXPECT_EQ(node.process().wait(), 1);
  EXPECT_EQ(node.output(), "");
  const std::string errors = node.errors();
  const std::string what = "rdma.device: there is no RDMA device named 'mlx5_77'";
  ASSERT_TRUE(says(errors, what)) << errors;
  EXPECT_EQ(errors.find("mlx5_77"), errors.rfind("mlx5_77")) << errors;
  EXPECT_FALSE(says(errors, "server was")) << errors;
}

TEST(Lifecycle, a_node_that_listens_says_once_how_rdma_is) {
  Node node(
      {.arguments = {"--listen-address", "127.0.0.1:0", "--server-shards", "2", "--rdma-device", "none"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const std::string errors = node.errors();
  const std::string what = "no client comes by RDMA: rdma.device is none";
  ASSERT_TRUE(says(errors, what)) << errors;
  EXPECT_EQ(errors.find(what), errors.rfind(what)) << errors;
  Node local({.arguments = {"--rdma-device", "mlx5_77"}});
  ASSERT_TRUE(local.is_up()) << local.errors();
  EXPECT_TRUE(says(local.errors(), "without listen.address no client comes by RDMA")) << local.errors();
}

TEST(Lifecycle, as_process_1_of_a_namespace_it_reaps_orphans_and_stops_on_sigterm) {
  const TemporaryFolder folder;
  Process probe =
      Process::execute({.arguments = {"unshare", "--pid", "--ipc", "--fork", "--mount-proc", "true"},
                        .output_path = "/dev/null",
                        .errors_path = "/dev/null"});
  if (probe.wait() != 0) GTEST_SKIP() << "no PID namespace may be made here";
  // Process 1 leaves an orphan behind and then becomes refractd.
  Node node({.launcher = {"unshare", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                          "(sleep 0.2 & exec true) ; exec \"$@\"", "sh"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const pid_t keeper = node.server();  // The child of unshare.
  pid_t server = -1;
  ASSERT_TRUE(becomes_true([&] {
    for (const pid_t child : children_of(keeper)) {
      if (says(read_whole("/proc/" + std::to_string(child) + "/comm"), "refractd")) server = child;
    }
    return server > 0;
  }));
  // This client lives in other PID and IPC namespaces than the node.
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value"));
  EXPECT_EQ(client.get("key").value(), "value");
  EXPECT_TRUE(client.route().direct);
  send_signal(server, SIGKILL);
  ASSERT_TRUE(put_in_the_end(client, "key", "other"));
  // The orphan and the dead server are gone: the new server is the only child.
  EXPECT_TRUE(becomes_true([&] { return children_of(keeper, /*with_ended=*/true).size() == 1; }));
  send_signal(keeper, SIGTERM);
  EXPECT_EQ(node.process().wait(), 0);
  EXPECT_TRUE(says(node.output(), "Stopped.")) << node.output();
}

// Connects, and leaves with or without a word; some stay and never read.
TEST(Lifecycle, garbage_on_the_socket_and_thousands_of_connects_are_no_trouble) {
  Node node({.arguments = {"--clients-max", "64"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value"));
  const pid_t server = node.server();
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(node.socket_path().size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, node.socket_path().data(), node.socket_path().size());
  const std::string garbage(300, '\xA5');
  std::vector<int> silent;
  for (int i = 0; i < 3'000; ++i) {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ASSERT_GE(socket, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      if (i % 3 == 0) (void)::send(socket, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    }
    if (i % 100 == 0) {
      silent.push_back(socket);
    } else {
      (void)::close(socket);
    }
    if (i % 500 == 0) {
      EXPECT_EQ(client.get("key").value(), "value");
    }
  }
  EXPECT_TRUE(client.put("key", "other"));
  EXPECT_EQ(node.connect().get("key").value(), "other");
  for (const int socket : silent) (void)::close(socket);
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(node.connect().ping());
  EXPECT_EQ(node.server(), server);
  EXPECT_EQ(node.stop(), 0);
}

}  // namespace
}  // namespace refract::test
