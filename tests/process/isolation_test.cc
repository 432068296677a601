// SPDX-License-Identifier: Apache-2.0
// A node of an ordinary user, and what a client of the same user cannot do to its memory.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tests/process/load.h"
#include "tests/process/node_process.h"

namespace refract::test {
namespace {

constexpr uid_t kNobody = 65'534;

bool become_nobody() {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

#define REFUSED(what)                                       \
  do {                                                      \
    if (what) {                                             \
      (void)std::fprintf(stderr, "permitted: %s\n", #what); \
      ++permitted;                                          \
    }                                                       \
  } while (false)

// Every way from outside into another process's memory that needs no more rights than its user's.
int reach_into(pid_t process) {
  int permitted = 0;
  const std::string folder = "/proc/" + std::to_string(process);
  REFUSED(::open((folder + "/mem").c_str(), O_RDWR | O_CLOEXEC) >= 0);
  REFUSED(::open((folder + "/fd/3").c_str(), O_RDWR | O_CLOEXEC) >= 0);
  REFUSED(::opendir((folder + "/fd").c_str()) != nullptr);
  REFUSED(::opendir((folder + "/map_files").c_str()) != nullptr);
  REFUSED(::ptrace(PTRACE_SEIZE, process, nullptr, nullptr) == 0);
  return permitted;
}

// Every way to write into the memory that a client was handed: its own descriptors and mappings.
int write_received() {
  int permitted = 0;
  int regions = 0;
  for (int descriptor = 3; descriptor < 64; ++descriptor) {
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    char target[256] = {};
    if (::readlink(link.c_str(), target, sizeof(target) - 1) <= 0) continue;
    if (std::string(target).find("refract-region") == std::string::npos) continue;
    ++regions;
    REFUSED(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) != MAP_FAILED);
    REFUSED(::pwrite(descriptor, "x", 1, 0) == 1);
    REFUSED(::ftruncate(descriptor, 0) == 0);
    const int again = ::open(link.c_str(), O_RDWR | O_CLOEXEC);
    if (again < 0) continue;
    REFUSED(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED);
    REFUSED(::pwrite(again, "x", 1, 0) == 1);
    REFUSED(::ftruncate(again, 0) == 0);
    (void)::close(again);
  }
  // And by the mapping's own name in /proc.
  DIR* maps = ::opendir("/proc/self/map_files");
  if (maps != nullptr) {
    while (const dirent* entry = ::readdir(maps)) {
      const std::string link = std::string("/proc/self/map_files/") + entry->d_name;
      char target[256] = {};
      if (::readlink(link.c_str(), target, sizeof(target) - 1) <= 0) continue;
      if (std::string(target).find("refract-region") == std::string::npos) continue;
      ++regions;
      const int again = ::open(link.c_str(), O_RDWR | O_CLOEXEC);
      if (again < 0) continue;
      REFUSED(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) != MAP_FAILED);
      REFUSED(::pwrite(again, "x", 1, 0) == 1);
      (void)::close(again);
    }
    (void)::closedir(maps);
  }
  (void)std::fprintf(stderr, "%d ways into regions tried\n", regions);
  return permitted;
}

TEST(Isolation, a_client_of_the_same_user_can_neither_write_the_regions_nor_reach_into_the_node) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Node node({.before = [] {
    if (!become_nobody()) ::_exit(125);
  }});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const pid_t server = node.server();
  Process hostile = Process::run([&] {
    if (!become_nobody()) return 125;
    // A change of the user makes a process undumpable, and its own descriptors a secret.
    (void)::prctl(PR_SET_DUMPABLE, 1);
    Client client = node.connect();
    if (!client.put("key", "value") || client.get("key").value_or("") != "value") return 124;
    if (!client.route().direct) return 123;
    return reach_into(node.keeper()) + reach_into(server) + write_received();
  });
  EXPECT_EQ(hostile.wait(), 0);
  Client client = node.connect();
  EXPECT_EQ(client.get("key").value_or(""), "value");
  EXPECT_EQ(node.server(), server);
  EXPECT_EQ(node.stop(), 0);
}

TEST(Isolation, a_socket_directory_without_permission_is_refused_with_a_sentence) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const TemporaryFolder folder;
  ASSERT_EQ(::mkdir((folder.path() + "/closed").c_str(), 0700), 0);
  Node node({.before =
                 [] {
                   if (!become_nobody()) ::_exit(125);
                 },
             .socket_path = folder.path() + "/closed/node.sock"});
  EXPECT_EQ(node.process().wait(), 1);
  EXPECT_NE(node.errors().find(folder.path() + "/closed"), std::string::npos) << node.errors();
  EXPECT_NE(node.errors().find("ermission"), std::string::npos) << node.errors();
  EXPECT_EQ(node.output(), "");
}

}  // namespace
}  // namespace refract::test
