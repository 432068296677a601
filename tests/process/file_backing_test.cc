// SPDX-License-Identifier: Apache-2.0
// A node over files finds everything again after a stop and after its keeper was killed; and it does not
// serve files that are damaged as if they were sound.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>

#include "tests/process/load.h"
#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/kv/layout/layout.h"

namespace refract::test {
namespace {

constexpr uint64_t kEntries = 400;

std::string nth_key(uint64_t n) {
  return "entry-" + std::to_string(n);
}

class FileBacking : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Node> start() const {
    return std::make_unique<Node>(
        NodeOptions{.arguments = {"--memory-initial", "64MiB", "--memory-limit", "128MiB", "--memory-backing",
                                  "file:" + folder_.path(), "--restart-backoff", "1ms"}});
  }
  static void fill(const Node& node) {
    Client client = node.connect();
    for (uint64_t n = 0; n < kEntries; ++n) {
      ASSERT_TRUE(client.put(nth_key(n), sealed_value(nth_key(n), n, 16 + n * 20)));
    }
  }
  static uint64_t wrong_entries(const Node& node) {
    Client client = node.connect();
    uint64_t wrong = 0;
    for (uint64_t n = 0; n < kEntries; ++n) {
      const auto value = client.get(nth_key(n));
      wrong += value && number_in(nth_key(n), *value) == n ? 0 : 1;
    }
    return wrong;
  }
  // The files as if the host had booted since: what they say of the boot is another one's.
  void pretend_another_boot(const std::string& folder) const {
    const uint64_t boot_at = offsetof(SpaceHeader, time) + offsetof(SpaceTime, boot);
    std::string whole = read_whole(folder + "/region-000");
    ASSERT_GT(whole.size(), sizeof(SpaceHeader));
    whole[boot_at] = static_cast<char>(whole[boot_at] ^ 1);
    ASSERT_TRUE(write_whole(folder + "/region-000", whole));
  }
  [[nodiscard]] static std::unique_ptr<Node> start_on(const std::string& folder,
                                                      const std::string& limit = "128MiB") {
    return std::make_unique<Node>(NodeOptions{.arguments = {"--memory-initial", "64MiB", "--memory-limit",
                                                            limit, "--memory-backing", "file:" + folder}});
  }
  void expect_refused(const std::string& folder, const std::string& why) const {
    const std::string before = read_whole(folder + "/region-000");
    const auto node = start_on(folder);
    EXPECT_EQ(node->process().wait(), 3) << node->errors();
    EXPECT_NE(node->errors().find(why), std::string::npos) << node->errors();
    EXPECT_NE(node->errors().find("refract load"), std::string::npos) << node->errors();
    EXPECT_EQ(node->output(), "");
    EXPECT_TRUE(read_whole(folder + "/region-000") == before) << "what was refused was changed";
  }
  [[nodiscard]] std::string region() const { return folder_.path() + "/region-000"; }
  void overwrite(uint64_t offset, const std::string& bytes) const {
    const int file = ::open(region().c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    EXPECT_EQ(::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
    (void)::close(file);
  }
  [[nodiscard]] uint64_t word_at(uint64_t offset) const {
    uint64_t word = 0;
    const int file = ::open(region().c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(::pread(file, &word, sizeof(word), static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof(word)));
    (void)::close(file);
    return word;
  }

  TemporaryFolder folder_;
};

TEST_F(FileBacking, has_everything_again_after_a_stop) {
  auto node = start();
  ASSERT_TRUE(node->is_up()) << node->errors();
  fill(*node);
  EXPECT_EQ(node->stop(), 0);
  EXPECT_NE(node->output().find("The data stay in " + folder_.path()), std::string::npos) << node->output();
  node = start();
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_NE(node->output().find("is there again"), std::string::npos) << node->output();
  EXPECT_EQ(wrong_entries(*node), 0U);
  Client client = node->connect();
  EXPECT_EQ(leak_after_erasing_all(client), "");
}

TEST_F(FileBacking, has_every_acknowledged_write_again_after_its_keeper_was_killed) {
  const SharedLedger ledger;
  Prng prng(4);
  for (int round = 0; round < 4; ++round) {
    std::unique_ptr<Node> node = start();
    // The dead server's lock on the files may outlive its keeper for a moment.
    ASSERT_TRUE(becomes_true([&] {
      if (!node->is_up()) node = start();
      return node->is_up();
    })) << node->errors();
    Client client = node->connect();
    ASSERT_EQ(differences(client, *ledger, 1), "");
    settle_pending(client, *ledger, 0);
    Process load =
        Process::run([&] { return run_load(node->socket_path(), *ledger, {.large_bytes = 300'000}); });
    const uint64_t goal = ledger.operations() + 50 + prng.below(300);
    ASSERT_TRUE(becomes_true([&] { return ledger.operations() >= goal; }));
    const pid_t server = node->server();
    node->process().kill_now();
    EXPECT_TRUE(becomes_true([&] { return state_of(server) == '\0' || state_of(server) == 'Z'; }));
    load.kill_now();
  }
  auto node = start();
  ASSERT_TRUE(node->is_up()) << node->errors();
  Client client = node->connect();
  EXPECT_EQ(differences(client, *ledger, 1), "");
  EXPECT_EQ(leak_after_erasing_all(client), "");
}

// The pages of a file reach the disk in any order: after a crash of the host anything may be half there, and
// no check of the table would see it in a value.
TEST_F(FileBacking, what_a_crash_of_the_host_left_is_refused_and_what_a_stop_left_is_not) {
  auto node = start();
  ASSERT_TRUE(node->is_up()) << node->errors();
  fill(*node);
  EXPECT_EQ(node->stop(), 0);
  pretend_another_boot(folder_.path());
  // A start that is refused for another reason leaves things as they are.
  EXPECT_NE(start_on(folder_.path(), "64MiB")->process().wait(), 0);
  node = start();
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_EQ(wrong_entries(*node), 0U);
  node->kill_everything();
  node = start();
  ASSERT_TRUE(node->is_up()) << "the processes died, not the host: " << node->errors();
  EXPECT_EQ(wrong_entries(*node), 0U);
  node->kill_everything();
  pretend_another_boot(folder_.path());
  expect_refused(folder_.path(), "was running when its host went down");
}

// A file that is copied while it changes is the file of no moment.
TEST_F(FileBacking, a_copy_of_a_running_nodes_files_is_refused_and_one_of_a_stopped_ones_is_not) {
  const TemporaryFolder copies;
  const auto copy = [&](const std::string& name) {
    const std::string folder = copies.path() + "/" + name;
    std::filesystem::copy(folder_.path(), folder, std::filesystem::copy_options::recursive);
    return folder;
  };
  auto node = start();
  ASSERT_TRUE(node->is_up()) << node->errors();
  fill(*node);
  const std::string of_running = copy("running");
  EXPECT_EQ(node->stop(), 0);
  const std::string of_stopped = copy("stopped");
  expect_refused(of_running, "copies of a running node's");
  const auto again = start_on(of_stopped);
  ASSERT_TRUE(again->is_up()) << again->errors();
  EXPECT_EQ(wrong_entries(*again), 0U);
}

TEST_F(FileBacking, two_nodes_do_not_share_files) {
  const auto node = start();
  ASSERT_TRUE(node->is_up()) << node->errors();
  const auto other = start();
  EXPECT_EQ(other->process().wait(), 1);
  EXPECT_NE(other->errors().find("belongs to a running node"), std::string::npos) << other->errors();
  fill(*node);
  EXPECT_EQ(wrong_entries(*node), 0U);
}

TEST_F(FileBacking, a_damaged_header_is_refused_with_a_sentence) {
  {
    const auto node = start();
    fill(*node);
    EXPECT_EQ(node->stop(), 0);
  }
  overwrite(0, "not a space of ours, whatever it is");
  const auto node = start();
  EXPECT_EQ(node->process().wait(), 1);
  EXPECT_NE(node->errors().find("does not begin with a space's header"), std::string::npos) << node->errors();
  EXPECT_EQ(node->output(), "");
}

TEST_F(FileBacking, a_short_file_is_refused_with_a_sentence) {
  {
    const auto node = start();
    fill(*node);
    EXPECT_EQ(node->stop(), 0);
  }
  ASSERT_EQ(::truncate(region().c_str(), 3 << 20), 0);
  const auto node = start();
  // What is left may parse as a smaller space: then it must have been found that entries are missing.
  const int code = node->process().wait();
  EXPECT_TRUE(code == 1 || code == 3) << code;
  EXPECT_NE(node->errors().find(code == 1 ? "refractd: " : "not started again"), std::string::npos)
      << node->errors();
  EXPECT_EQ(node->output(), "");
}

// Flips a word that recovery must not believe; then no server serves, and reads do not lie.
TEST_F(FileBacking, damaged_buckets_and_buffers_are_never_served_and_make_no_crash_loop) {
  {
    const auto node = start();
    fill(*node);
    EXPECT_EQ(node->stop(), 0);
  }
  // The first slot of the table, and the stamp of the buffer that it names.
  const SpaceHeader header = [&] {
    const std::string whole = read_whole(region());
    SpaceHeader read{};
    std::memcpy(&read, whole.data(), sizeof(read));
    return read;
  }();
  const uint64_t buckets = word_at(header.store_area);
  uint64_t slot_at = buckets;
  while (word_at(slot_at) == 0) slot_at += 8;
  const uint64_t slot = word_at(slot_at);
  const uint64_t stamp_at = kv::Slot{slot}.buffer().value;
  for (const uint64_t at : {stamp_at, slot_at, header.store_area}) {
    const uint64_t sound = word_at(at);
    const uint64_t damaged = sound ^ 0x0000'00FF'F0F0'F000ULL;
    overwrite(at, std::string(reinterpret_cast<const char*>(&damaged), sizeof(damaged)));
    const auto node = start();
    EXPECT_EQ(node->process().wait(), 3) << node->errors();
    EXPECT_NE(node->errors().find("damaged at offset"), std::string::npos) << node->errors();
    EXPECT_NE(node->errors().find("refract check --path " + folder_.path()), std::string::npos);
    EXPECT_EQ(node->output(), "") << "a node that cannot serve is not ready";
    overwrite(at, std::string(reinterpret_cast<const char*>(&sound), sizeof(sound)));
  }
  const auto node = start();
  ASSERT_TRUE(node->is_up()) << node->errors();
  EXPECT_EQ(wrong_entries(*node), 0U);
}

}  // namespace
}  // namespace refract::test
