// SPDX-License-Identifier: Apache-2.0
// The main job: a program makes a large object, and eight others read that one copy, each in namespaces of
// its own, as containers are, that share with the node nothing but the folder of its socket; also while the
// server is killed.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/objects/object_node.h"
#include "tests/process/load.h"

#include "refract/base/testing/processes/files.h"
#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr uint64_t kBytes = 64 * kMiB;
constexpr int kReaders = 8;

// A mount namespace whose /dev/shm is empty and its own, and new ones of processes, IPC and network: nothing
// is found of the node but its socket.
bool enter_container() {
  if (::unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS) != 0) return false;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1M") == 0;
}

// In such a place; -1: none may be made.
int run_contained(const std::function<int()>& body) {
  if (!enter_container()) return -1;
  const pid_t first = ::fork();  // Process 1 of its namespace.
  if (first == 0) {
    ::_exit(::mount("proc", "/proc", "proc", 0, nullptr) == 0 ? body() : 100);
  }
  int status = 0;
  if (first < 0 || ::waitpid(first, &status, 0) != first) return 101;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 102;
}

// What this process has mapped of memory that it shares with the node, and what it has of its own, in bytes.
struct Resident {
  uint64_t shared = 0;
  uint64_t own = 0;
};
Resident resident() {
  std::ifstream status("/proc/self/status");
  Resident found;
  for (std::string line; std::getline(status, line);) {
    const auto value = [&] { return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) * kKiB; };
    if (line.starts_with("RssShmem:")) found.shared = value();
    if (line.starts_with("RssAnon:")) found.own = value();
  }
  return found;
}

// 0: all was right, while `server` was there and after it was killed.
int read_one_copy(const std::string& socket, Ledger& ledger, int reader) {
  if (::getpid() != 1) return 2;
  const uint64_t own_before = resident().own;  // What the fork brought along.
  auto client = Client::connect(socket, {.timeout_ns = kPatience_ns});
  if (!client) return 3;
  auto objects = client->objects();
  if (!objects) return 4;
  const auto weights = objects->get("weights", Objects::kForever);
  if (!weights || weights->is_copy() || number_of(*weights) != 1) return 5;
  const Resident now = resident();
  // number_of() makes the expected bytes, and gives them back.
  if (now.shared < kBytes || now.own > own_before + kBytes / 2) {
    (void)std::fprintf(stderr, "%llu shared, %llu own, %llu of these before\n",
                       static_cast<unsigned long long>(now.shared), static_cast<unsigned long long>(now.own),
                       static_cast<unsigned long long>(own_before));
    return 6;
  }
  ledger.clients[reader].operations.store(1);
  while (!ledger.stop.load()) {
    const auto again = objects->get("weights");
    if (!again || again->birth() != weights->birth() || again->body().data() != weights->body().data())
      return 7;
    if (again->digest() != weights->digest()) return 8;
    ledger.clients[reader].operations.fetch_add(1);
  }
  return number_of(*weights) == 1 ? 0 : 9;
}

TEST(ObjectNamespaces, eight_programs_read_one_copy_also_while_the_server_is_killed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may make namespaces everywhere";
  Process trial = Process::run([] { return run_contained([] { return 0; }); });
  if (trial.wait() != 0) GTEST_SKIP() << "no process may make namespaces here";
  const TemporaryFolder folder;
  NodeOptions options = with_objects("128MiB");
  options.socket_path = folder.path() + "/node.sock";
  Node node(options);
  ASSERT_TRUE(node.is_up()) << node.errors();
  const SharedLedger ledger;
  std::vector<Process> readers;
  for (int reader = 0; reader < kReaders; ++reader) {
    readers.push_back(Process::run([&, reader] {
      return run_contained([&] { return read_one_copy(options.socket_path, *ledger, reader); });
    }));
  }
  // One makes it, contained as well, and ends.
  Process maker = Process::run([&] {
    return run_contained([&] {
      ObjectClient making = open_objects(node);
      return put_sealed(making.objects, "weights", 1, kBytes) ? 0 : 1;
    });
  });
  ASSERT_EQ(maker.wait(), 0);
  const auto all_have = [&](uint64_t operations) {
    return becomes_true([&] {
      for (int reader = 0; reader < kReaders; ++reader) {
        if (!readers[static_cast<size_t>(reader)].is_running()) return true;
        if (ledger->clients[reader].operations.load() < operations) return false;
      }
      return true;
    });
  };
  ASSERT_TRUE(all_have(1));
  ObjectClient opened = open_objects(node);
  EXPECT_EQ(opened.objects.stat().value().held_bytes, kBytes);
  EXPECT_EQ(opened.objects.stat().value().used, kBytes) << "one copy";
  for (int i = 0; i < 3; ++i) {
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    ASSERT_GT(node.next_server(server), 0);
  }
  send_signal(node.server(), SIGSTOP);
  uint64_t most = 0;
  for (int reader = 0; reader < kReaders; ++reader)
    most = std::max(most, ledger->clients[reader].operations.load());
  ASSERT_TRUE(all_have(most + 2));
  send_signal(node.server(), SIGCONT);
  ledger->stop.store(true);
  for (Process& reader : readers) EXPECT_EQ(reader.wait(), 0);
  EXPECT_EQ(opened.objects.stat().value().used, kBytes);
  EXPECT_EQ(leak_after_removing_all(opened.objects), "");
}

}  // namespace
}  // namespace refract::test
