// SPDX-License-Identifier: Apache-2.0
// The files of a node's rings when others handle them: copied, removed, cut, and in the way of what is not
// theirs. Nothing that was acknowledged is lost without a word, and no node is kept from starting.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/process/told_writes.h"

namespace refract::test {
namespace {

namespace fs = std::filesystem;

// As cp -a does.
// As "cp -r" does: a file that the node removes meanwhile is left out of the copy, and the others are copied.
void copy(const std::string& from, const std::string& to) {
  fs::create_directory(to);
  for (const fs::directory_entry& file : fs::directory_iterator(from)) {
    std::error_code failure;
    fs::copy(file.path(), fs::path(to) / file.path().filename(), fs::copy_options::recursive, failure);
    EXPECT_TRUE(!failure || failure == std::errc::no_such_file_or_directory)
        << file.path() << ": " << failure.message();
  }
}

class NodeRings : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::string data() const { return folder_.path() + "/data"; }
  [[nodiscard]] std::string ring() const { return data() + "/ring-000"; }
  [[nodiscard]] std::string log() const { return data() + "/log-000-0000000000001000"; }
  [[nodiscard]] NodeOptions options(const std::string& folder) const {
    return durable_node(folder, GetParam());
  }
  static void write(ToldWrites& writes, const Node& node, int count = 40) {
    Client client = node.connect();
    for (int i = 0; i < count; ++i) ASSERT_TRUE(writes.put(client, static_cast<uint64_t>(i) % 13, 300));
  }
  static void expect(const ToldWrites& writes, const Node& node) {
    Client client = node.connect();
    EXPECT_EQ(writes.difference(client), "") << node.errors();
  }
  static bool says(const Node& node, const std::string& words) {
    return node.errors().find(words) != std::string::npos;
  }

  TemporaryFolder folder_;
  ToldWrites writes_;
};

// Both are written to, the copy is stopped, and the original killed: each has its own.
TEST_P(NodeRings, of_a_copy_that_was_made_while_the_node_served_are_the_copys_own) {
  Node first(options(data()));
  ASSERT_TRUE(first.is_up()) << first.errors();
  write(writes_, first);
  copy(data(), data() + "-copy");
  std::optional<Node> second(std::in_place, options(data() + "-copy"));
  ASSERT_TRUE(second->is_up()) << second->errors();
  EXPECT_TRUE(says(*second, "is a copy, made of the folder of a node that had not been stopped"))
      << second->errors();
  ToldWrites copied = writes_;
  expect(copied, *second);
  write(writes_, first);
  write(copied, *second);
  EXPECT_EQ(second->stop(), 0);
  write(writes_, first);
  first.kill_everything();
  Node again(options(data()));
  ASSERT_TRUE(again.is_up()) << again.errors();
  expect(writes_, again);
  second.emplace(options(data() + "-copy"));
  ASSERT_TRUE(second->is_up()) << second->errors();
  EXPECT_FALSE(says(*second, "is a copy")) << "it is a folder of its own by now";
  expect(copied, *second);
}

// A host that dies at once after such a start, before anything more is synced, must not let a version come
// twice: so a file says with which stamp the start began.
TEST_P(NodeRings, that_a_start_takes_up_leave_the_first_new_version_on_the_disk) {
  const auto last_file = [this] {
    std::string last;
    for (const fs::directory_entry& entry : fs::directory_iterator(data())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("log-000-")) last = std::max(last, name);
    }
    return data() + "/" + last;
  };
  uint64_t highest = 0;
  for (int life = 0; life < 3; ++life) {
    Node node(options(data()));
    ASSERT_TRUE(node.is_up()) << node.errors();
    Client client = node.connect();
    if (life > 0) {
      const std::string header = read_whole(last_file()).substr(0, 512);
      uint64_t first_stamp = 0;
      std::memcpy(&first_stamp, header.data() + 48, sizeof(first_stamp));
      EXPECT_GT(first_stamp, highest + (uint64_t{1} << 31)) << last_file();
      const auto version = client.put("key", "value");
      ASSERT_TRUE(version);
      EXPECT_GE(*version, first_stamp);
    }
    const auto version = client.put("key", "another");
    ASSERT_TRUE(version);
    highest = *version;
    node.kill_everything();
  }
}

TEST_P(NodeRings, of_a_node_that_was_killed_are_complete_in_a_copy_too) {
  {
    Node node(options(data()));
    ASSERT_TRUE(node.is_up()) << node.errors();
    write(writes_, node);
    node.kill_everything();
  }
  copy(data(), data() + "-copy");
  fs::rename(data(), data() + "-moved");
  for (const char* which : {"-copy", "-moved"}) {
    Node node(options(data() + which));
    ASSERT_TRUE(node.is_up()) << node.errors();
    expect(writes_, node);
    node.kill_everything();
    Node again(options(data() + which));
    ASSERT_TRUE(again.is_up()) << again.errors();
    expect(writes_, again);
  }
}

TEST_P(NodeRings, whose_name_was_removed_get_it_back_while_the_node_runs) {
  {
    Node node(options(data()));
    ASSERT_TRUE(node.is_up()) << node.errors();
    write(writes_, node);
    ASSERT_TRUE(fs::remove(ring()));
    ASSERT_TRUE(becomes_true([&] { return says(node, "have their names again"); })) << node.errors();
    EXPECT_TRUE(fs::exists(ring()));
    expect(writes_, node);
    Client client = node.connect();
    ASSERT_TRUE(becomes_true([&] { return writes_.put(client, 1); })) << node.errors();
    // Under another name it is lost as well, and another file in its place is not it.
    fs::rename(ring(), data() + "/elsewhere");
    ASSERT_TRUE(write_whole(ring(), "something else"));
    ASSERT_TRUE(becomes_true([&] { return fs::file_size(ring()) > 100; })) << node.errors();
    ASSERT_TRUE(becomes_true([&] { return writes_.put(client, 2); })) << node.errors();
    write(writes_, node);
    node.kill_everything();
  }
  Node again(options(data()));
  ASSERT_TRUE(again.is_up()) << again.errors();
  expect(writes_, again);
  EXPECT_EQ(again.stop(), 0);
}

// At the very moment of the removal, before anything could be mended.
TEST_P(NodeRings, whose_name_is_gone_are_held_for_the_next_server) {
  Node node(options(data()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  write(writes_, node);
  const pid_t server = node.server();
  ASSERT_TRUE(fs::remove(ring()));
  send_signal(server, SIGKILL);
  ASSERT_GT(node.next_server(server), 0);
  expect(writes_, node);
  Client client = node.connect();
  ASSERT_TRUE(becomes_true([&] { return writes_.put(client, 3); })) << node.errors();
}

TEST_P(NodeRings, that_are_cut_short_while_the_node_runs_cost_a_snapshot_and_nothing_else) {
  {
    Node node(options(data()));
    ASSERT_TRUE(node.is_up()) << node.errors();
    write(writes_, node);
    fs::resize_file(ring(), 4096);
    Client client = node.connect({.timeout_ns = 2'000'000'000});
    (void)writes_.put(client, 5);
    ASSERT_TRUE(becomes_true([&] { return writes_.put(client, 5); })) << node.errors();
    EXPECT_TRUE(says(node, "was cut or written over")) << node.errors();
    expect(writes_, node);
    node.kill_everything();
  }
  Node again(options(data()));
  ASSERT_TRUE(again.is_up()) << again.errors();
  expect(writes_, again);
}

// As where a copy shares the blocks of a ring, and its disk is full: the next server would end likewise.
TEST_P(NodeRings, whose_file_system_refuses_a_store_go_on_in_memory) {
  // In a build with the address sanitizer its handler would make an exit of the signal.
  const char* const sanitizer = std::getenv("ASAN_OPTIONS");
  const std::string with_signal =
      (sanitizer != nullptr ? sanitizer + std::string(":") : "") + "handle_sigbus=0";
  ASSERT_EQ(::setenv("ASAN_OPTIONS", with_signal.c_str(), 1), 0);
  {
    Node node(options(data()));
    ASSERT_TRUE(node.is_up()) << node.errors();
    write(writes_, node);
    send_signal(node.server(), SIGBUS);
    ASSERT_TRUE(becomes_true([&] { return says(node, "from now on the ring lies in memory"); }));
    Client client = node.connect();
    ASSERT_TRUE(becomes_true([&] { return writes_.put(client, 7); })) << node.errors();
    write(writes_, node);
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    ASSERT_GT(node.next_server(server), 0);
    expect(writes_, node);
    ASSERT_TRUE(becomes_true([&] { return writes_.put(client, 8); })) << node.errors();
    ASSERT_EQ(node.stop(), 0) << node.errors();
  }
  {
    Node node(options(data()));
    ASSERT_TRUE(node.is_up()) << node.errors();
    expect(writes_, node);
    send_signal(node.server(), SIGBUS);
    ASSERT_TRUE(becomes_true([&] { return says(node, "from now on the ring lies in memory"); }));
    node.kill_everything();
  }
  Node node(options(data()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  const bool was_promised = std::string(GetParam()) == "always";
  EXPECT_EQ(says(node, "what it acknowledged in its last second may be missing"), !was_promised)
      << node.errors();
  expect(writes_, node);
}

// Copies while the node is written to as fast as it goes: each either is the store at one moment, or is
// refused with words; and the original is as if nothing had been.
TEST_P(NodeRings, of_copies_that_were_made_in_the_midst_of_writing_are_of_one_moment_or_refused) {
  Node node(options(data()));
  ASSERT_TRUE(node.is_up()) << node.errors();
  std::atomic<bool> is_over = false;
  // Two keys, always one behind the other: a store that has the second one later than the first is of no
  // moment.
  std::thread writer([&] {
    Client client = node.connect();
    for (uint64_t number = 1; !is_over; ++number) {
      const std::string value = std::to_string(number) + std::string(500, '.');
      if (!client.put("first", value) || !client.put("second", value)) break;
    }
  });
  int served = 0;
  for (int i = 0; i < 4; ++i) {
    sleep_ms(50);
    const std::string name = data() + "-" + std::to_string(i);
    copy(data(), name);
    Node other(options(name));
    if (!other.is_up()) {
      EXPECT_TRUE(says(other, "before an operator has decided") || says(other, "is damaged"))
          << other.errors();
      continue;
    }
    ++served;
    Client client = other.connect();
    const auto first = client.get("first");
    const auto second = client.get("second");
    const uint64_t at_first = first ? std::stoull(*first) : 0;
    const uint64_t at_second = second ? std::stoull(*second) : 0;
    EXPECT_TRUE(at_first == at_second || at_first == at_second + 1) << at_first << ", " << at_second;
    EXPECT_EQ(other.stop(), 0) << other.errors();
    Node again(options(name));
    EXPECT_TRUE(again.is_up()) << again.errors();
  }
  is_over = true;
  writer.join();
  std::printf("%d of 4 copies are of one moment\n", served);
  Client client = node.connect();
  const auto second = client.get("second");
  ASSERT_TRUE(second);
  node.kill_everything();
  Node after(options(data()));
  ASSERT_TRUE(after.is_up()) << after.errors();
  EXPECT_EQ(after.connect().get("second").value(), *second);
}

// A start that refuses what it finds leaves it as it is, so that the next one refuses it as well.
TEST_P(NodeRings, of_a_log_that_is_refused_stay_as_they_were) {
  {
    Node node(options(data()));
    ASSERT_TRUE(node.is_up()) << node.errors();
    write(writes_, node);
    // Until the first ones are in the log's file; the later ones are in the ring alone.
    ASSERT_TRUE(becomes_true([&] { return read_whole(log()).find("key-1") != std::string::npos; }));
    write(writes_, node);
    node.kill_everything();
  }
  {
    std::fstream file(log(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(512 + 70);
    file.put('!');
  }
  const std::string before = read_whole(log()) + read_whole(ring());
  for (int i = 0; i < 2; ++i) {
    Node node(options(data()));
    EXPECT_FALSE(node.is_up());
    EXPECT_TRUE(says(node, "nothing is served before an operator has decided")) << node.errors();
    EXPECT_TRUE(read_whole(log()) + read_whole(ring()) == before) << "in start " << i;
  }
}

// What was acknowledged may have been in it alone: with always it was not.
TEST_P(NodeRings, that_are_gone_with_the_node_are_named) {
  {
    Node node(options(data()));
    ASSERT_TRUE(node.is_up()) << node.errors();
    write(writes_, node);
    // Before the keeper is told of it.
    send_signal(node.keeper(), SIGSTOP);
    ASSERT_TRUE(fs::remove(ring()));
    node.kill_everything();
  }
  Node again(options(data()));
  EXPECT_TRUE(says(again, ring() + ": No such file or directory")) << again.errors();
  if (std::string(GetParam()) == "always") {
    ASSERT_TRUE(again.is_up()) << again.errors();
    expect(writes_, again);
    return;
  }
  EXPECT_FALSE(again.is_up());
  EXPECT_TRUE(says(again, "refract restore --salvage " + data())) << again.errors();
}

TEST_P(NodeRings, of_a_node_that_was_stopped_may_be_anything) {
  const auto start_and_stop = [&](const char* what) {
    Node node(options(data()));
    ASSERT_TRUE(node.is_up()) << what << node.errors();
    expect(writes_, node);
    write(writes_, node, 5);
    ASSERT_EQ(node.stop(), 0) << what << node.errors();
  };
  ASSERT_NO_FATAL_FAILURE(start_and_stop("at first"));
  fs::remove(ring());
  ASSERT_NO_FATAL_FAILURE(start_and_stop("a ring that is gone"));
  ASSERT_TRUE(write_whole(ring(), "no ring"));
  ASSERT_NO_FATAL_FAILURE(start_and_stop("another file"));
  fs::remove(ring());
  fs::create_symlink("/etc/passwd", ring());
  ASSERT_NO_FATAL_FAILURE(start_and_stop("a link"));
  fs::resize_file(ring(), 1000);
  ASSERT_NO_FATAL_FAILURE(start_and_stop("a ring cut short"));
  ASSERT_TRUE(write_whole(ring() + ".new", "half a ring"));
  fs::remove(ring());
  ASSERT_NO_FATAL_FAILURE(start_and_stop("what a death has left"));
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(ring().c_str(), 4711, 4711), 0);
    ASSERT_NO_FATAL_FAILURE(start_and_stop("another user's"));
  }
  fs::remove(ring());
  fs::create_directory(ring());
  ASSERT_NO_FATAL_FAILURE(start_and_stop("a folder, which only a person can move away"));
  EXPECT_TRUE(fs::is_directory(ring()));
}

TEST_P(NodeRings, are_not_shared_with_a_second_node_whatever_was_removed) {
  Node first(options(data()));
  ASSERT_TRUE(first.is_up()) << first.errors();
  write(writes_, first);
  ASSERT_TRUE(fs::remove(data() + "/lock"));
  Node second(options(data()));
  EXPECT_FALSE(second.is_up());
  EXPECT_TRUE(says(second, "another process uses the folder")) << second.errors();
  write(writes_, first);
  first.kill_everything();
  Node again(options(data()));
  ASSERT_TRUE(again.is_up()) << again.errors();
  expect(writes_, again);
}

// A container: its /dev/shm is small, its own, and ends with it. The folder does not.
TEST_P(NodeRings, do_not_need_the_memory_of_a_container_that_ends_with_it) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root mounts anything";
  NodeOptions inside = options(data());
  inside.before = [] {
    const bool is_private = ::unshare(CLONE_NEWNS) == 0 &&
                            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                            ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1M") == 0;
    if (!is_private) ::_exit(125);
  };
  {
    Node node(inside);
    ASSERT_TRUE(node.is_up()) << node.errors();
    write(writes_, node);
    node.kill_everything();
  }
  Node again(options(data()));
  ASSERT_TRUE(again.is_up()) << again.errors();
  expect(writes_, again);
}

INSTANTIATE_TEST_SUITE_P(Modes, NodeRings, testing::Values("everysec", "always"),
                         [](const auto& mode) { return std::string(mode.param); });

}  // namespace
}  // namespace refract::test
