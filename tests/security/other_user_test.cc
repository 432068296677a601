// SPDX-License-Identifier: Apache-2.0
// What a process of another user of the host can and cannot do, and what root can. Two users are needed, so
// these tests need root, which CI is; elsewhere they count as skipped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "tests/security/neighbour.h"

#include "refract/fabric/shm/listen.h"

namespace refract::test {
namespace {

class OtherUser : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "only root can be two users";
  }
  // A node on which the owner has put something.
  [[nodiscard]] static std::unique_ptr<Node> start(std::vector<std::string> arguments = {}) {
    auto node = std::make_unique<Node>(owned(std::move(arguments)));
    EXPECT_TRUE(node->is_up()) << node->errors();
    EXPECT_TRUE(node->connect().put("key", "value"));
    return node;
  }
};

TEST_F(OtherUser, is_not_let_in_by_the_socket_and_told_why) {
  const auto node = start();
  Process stranger = run_as(kStranger, [&] {
    const auto client = Client::connect(node->socket_path());
    if (client) return 1;
    return client.error().code == Code::kAccessDenied && !attach(node->socket_path()) ? 0 : 2;
  });
  EXPECT_EQ(stranger.wait(), 0);
}

TEST_F(OtherUser, cannot_reach_into_the_node_nor_end_it) {
  const auto node = start();
  Process stranger = run_as(kStranger, [&] {
    int permitted = 0;
    for (const pid_t process : {node->keeper(), node->server()}) {
      permitted += ways_into(process);
      permitted += ::kill(process, SIGKILL) == 0 ? 1 : 0;
    }
    return permitted;
  });
  EXPECT_EQ(stranger.wait(), 0);
  EXPECT_EQ(node->connect().get("key").value_or(""), "value");
}

TEST_F(OtherUser, comes_in_over_loopback_where_the_node_asks_for_no_secret) {
  const auto node = start({"--listen-address", "127.0.0.1:0"});
  Process stranger = run_as(kStranger, [&] {
    Client client = node->connect_tcp();
    return client.get("key").value_or("") == "value" && client.put("key", "changed") ? 0 : 1;
  });
  EXPECT_EQ(stranger.wait(), 0);
  EXPECT_EQ(node->connect().get("key").value_or(""), "changed");
}

TEST_F(OtherUser, does_not_come_in_over_loopback_where_the_node_asks_for_a_secret) {
  const TemporaryFolder folder;
  const std::string secret = folder.path() + "/secret";
  ASSERT_TRUE(write_whole(secret, "correct horse battery staple"));
  ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
  ASSERT_EQ(::chown(secret.c_str(), owner(), owner()), 0);
  const auto node = start({"--listen-address", "127.0.0.1:0", "--auth-secret-file", secret});
  Process stranger = run_as(kStranger, [&] {
    const auto without = Client::connect("tcp:" + node->tcp_address());
    const auto with = Client::connect("tcp:" + node->tcp_address(), {.secret_file = secret});
    return !without && without.error().code == Code::kAccessDenied && !with ? 0 : 1;
  });
  EXPECT_EQ(stranger.wait(), 0);
  Process client = run_as(owner(), [&] {
    const auto with = Client::connect("tcp:" + node->tcp_address(), {.secret_file = secret});
    return with ? 0 : 1;
  });
  EXPECT_EQ(client.wait(), 0);
}

// A user that may write into the folder of a socket can put another there: /tmp/refract-UID made by another
// user first. The owner's clients tell it by the user that listens, before they send anything.
TEST_F(OtherUser, who_listens_in_the_nodes_place_is_told_nothing) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/node.sock";
  Process impostor = run_as(kStranger, [&] {
    const auto listener = fabric::shm::listen_at(path, 0666);
    if (!listener) return 1;
    pollfd wanted{.fd = listener->get(), .events = POLLIN, .revents = 0};
    if (::poll(&wanted, 1, static_cast<int>(kPatience_ns / 1'000'000)) != 1) return 2;
    const Descriptor accepted(::accept(listener->get(), nullptr, nullptr));
    char byte = 0;
    return ::recv(accepted.get(), &byte, 1, 0) <= 0 ? 0 : 3;
  });
  ASSERT_TRUE(becomes_true([&] { return ::access(path.c_str(), F_OK) == 0; }));
  Process client = run_as(owner(), [&] {
    // The file is there a moment before a process listens.
    Reported<Client> met = Client::connect(path);
    while (!met && met.error().code == Code::kUnavailable) {
      sleep_ms(10);
      met = Client::connect(path);
    }
    if (met) return 1;
    (void)std::fprintf(stderr, "%s\n", met.error().to_string().c_str());
    const bool names_it = met.error().what.find(std::to_string(kStranger)) != std::string::npos;
    return met.error().code == Code::kAccessDenied && names_it ? 0 : 2;
  });
  EXPECT_EQ(client.wait(), 0);
  EXPECT_EQ(impostor.wait(), 0);
}

// Where the region lies in this process, as a line of /proc/PID/maps says; 0: nowhere.
struct Place {
  uint64_t begin = 0;
  uint64_t end = 0;
};
Place region_in(pid_t process) {
  std::istringstream lines(read_whole("/proc/" + std::to_string(process) + "/maps"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("refract-region") == std::string::npos) continue;
    const size_t dash = line.find('-');
    return {.begin = std::strtoull(line.c_str(), nullptr, 16),
            .end = std::strtoull(line.c_str() + dash + 1, nullptr, 16)};
  }
  return {};
}

// No process can keep its memory from root, and no reader notices a changed byte of a value unless values are
// verified: design page 026.
TEST_F(OtherUser, who_is_root_reads_and_changes_everything) {
  const auto node = start();
  const std::string value = "a value that is not to be met by chance";
  Client client = node->connect();
  ASSERT_TRUE(client.put("key", value));
  const Place place = region_in(node->keeper());
  ASSERT_NE(place.begin, 0U) << "root may not look into other processes here: CAP_SYS_PTRACE is missing";
  const Descriptor memory(
      ::open(("/proc/" + std::to_string(node->keeper()) + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(memory);
  std::string bytes(place.end - place.begin, '\0');
  ASSERT_EQ(::pread(memory.get(), bytes.data(), bytes.size(), static_cast<off_t>(place.begin)),
            static_cast<ssize_t>(bytes.size()));
  const size_t at = bytes.find(value);
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(::pwrite(memory.get(), "A", 1, static_cast<off_t>(place.begin + at)), 1);
  EXPECT_EQ(client.get("key").value_or(""), "A" + value.substr(1));
}

}  // namespace
}  // namespace refract::test
