// SPDX-License-Identifier: Apache-2.0
// A node grows while it serves, says so when it is full, and loses nothing then; and it refuses to grow
// beyond what its cgroup or its file system have.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/process/limited_cgroup.h"
#include "tests/process/load.h"
#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/units.h"

namespace refract::test::growth_test {
namespace {

std::string nth_key(uint64_t n) {
  return "entry-" + std::to_string(n);
}

// How many entries of so many bytes were taken before the first refusal, which must be kNoSpace.
uint64_t fill(Client& client, uint64_t bytes) {
  for (uint64_t n = 0;; ++n) {
    const auto put = client.put(nth_key(n), sealed_value(nth_key(n), n, bytes));
    if (put) continue;
    EXPECT_EQ(put.code(), Code::kNoSpace) << info(put.code()).text;
    return n;
  }
}

uint64_t wrong_entries(Client& client, uint64_t count) {
  uint64_t wrong = 0;
  for (uint64_t n = 0; n < count; ++n) {
    const auto value = client.get(nth_key(n));
    wrong += value && number_in(nth_key(n), *value) == n ? 0 : 1;
  }
  return wrong;
}

TEST(Growth, goes_to_the_limit_and_nothing_that_was_acknowledged_is_lost) {
  Node node({.arguments = {"--memory-initial", "16MiB", "--memory-limit", "200MiB"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client attached = node.connect();
  ASSERT_EQ(attached.get("nothing").code(), Code::kNotFound);
  Client writer = node.connect();
  const uint64_t count = fill(writer, 90'000);
  EXPECT_GT(count * 90'000, 150 * kMiB);
  EXPECT_EQ(writer.stat().value().bytes_total, 200 * kMiB);
  // Full is no state of its own: the next one is refused as clearly, and what is there can be replaced.
  EXPECT_EQ(writer.put("one more", std::string(90'000, 'x')).code(), Code::kNoSpace);
  EXPECT_EQ(wrong_entries(attached, count), 0U);
  EXPECT_GT(attached.route().regions, 1U);
  EXPECT_TRUE(attached.route().direct);
  for (uint64_t n = count / 2; n < count; ++n) ASSERT_TRUE(writer.erase(nth_key(n)));
  EXPECT_TRUE(writer.put("one more", std::string(90'000, 'x')));
  EXPECT_TRUE(writer.put("large", std::string(20 << 20, 'y')));
  EXPECT_EQ(wrong_entries(attached, count / 2), 0U);
  const pid_t server = node.server();
  send_signal(server, SIGKILL);
  ASSERT_TRUE(put_in_the_end(writer, "after", "the crash"));
  EXPECT_EQ(wrong_entries(attached, count / 2), 0U);
  EXPECT_EQ(leak_after_erasing_all(writer), "");
}

TEST(Growth, makes_a_region_for_a_value_that_fits_into_none) {
  Node node({.arguments = {"--memory-initial", "16MiB", "--memory-limit", "400MiB"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client attached = node.connect();
  ASSERT_EQ(attached.get("huge").code(), Code::kNotFound);
  Client client = node.connect();
  ASSERT_TRUE(client.put("huge", sealed_value("huge", 1, 110'000'000)));
  EXPECT_EQ(number_in("huge", attached.get("huge").value()), 1U);
  EXPECT_EQ(client.put("too huge", std::string(390 << 20, 'x')).code(), Code::kNoSpace);
  EXPECT_EQ(number_in("huge", attached.view("huge").value().text()), 1U);
}

TEST(Growth, stops_at_the_cgroups_limit_with_a_sentence_that_names_it) {
  const LimitedCgroup cgroup(200 * kMiB);
  if (cgroup.path().empty()) GTEST_SKIP() << "no memory cgroup may be made here";
  Node node({.arguments = {"--memory-initial", "16MiB", "--memory-limit", "180MiB"},
             .before = [&] { cgroup.join(); }});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const pid_t server = node.server();
  // A neighbour takes most of what the node was to have.
  const SharedLedger shared;
  Process neighbour = Process::run([&]() -> int {
    cgroup.join();
    std::string taken(100 * kMiB, 'n');
    shared->clients[0].operations.store(taken.size());
    for (;;) sleep_ms(taken.size());
  });
  ASSERT_TRUE(becomes_true([&] { return shared.operations() > 0; }));
  Client client = node.connect();
  const uint64_t count = fill(client, 50'000);
  EXPECT_GT(count, 100U);
  EXPECT_NE(node.errors().find("refract-test-"), std::string::npos) << node.errors();
  EXPECT_NE(node.errors().find("cannot grow"), std::string::npos) << node.errors();
  EXPECT_EQ(wrong_entries(client, count), 0U);
  EXPECT_EQ(node.server(), server) << "a server was killed because memory was short";
  EXPECT_TRUE(node.process().is_running());
  neighbour.kill_now();
  EXPECT_EQ(node.stop(), 0);
}

// A file system of a few MiB, where this process may mount one.
class TinyFileSystem {
 public:
  explicit TinyFileSystem(const char* options) {
    is_mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options) == 0;
  }
  TinyFileSystem(const TinyFileSystem&) = delete;
  TinyFileSystem& operator=(const TinyFileSystem&) = delete;
  ~TinyFileSystem() {
    if (is_mounted_) (void)::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool is_mounted() const noexcept { return is_mounted_; }
  [[nodiscard]] const std::string& path() const noexcept { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  bool is_mounted_ = false;
};

TEST(Growth, onto_a_full_file_system_is_no_space_and_no_crash) {
  const TinyFileSystem tiny("size=40m");
  if (!tiny.is_mounted()) GTEST_SKIP() << "no file system may be mounted here";
  Node node({.arguments = {"--memory-initial", "16MiB", "--memory-limit", "200MiB", "--memory-backing",
                           "file:" + tiny.path()}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const pid_t server = node.server();
  Client client = node.connect();
  const uint64_t count = fill(client, 50'000);
  EXPECT_GT(count, 100U);
  EXPECT_NE(node.errors().find(tiny.path()), std::string::npos) << node.errors();
  EXPECT_EQ(wrong_entries(client, count), 0U);
  EXPECT_EQ(node.server(), server);
  EXPECT_EQ(node.stop(), 0);
}

TEST(Growth, a_start_on_a_full_file_system_is_refused_with_a_sentence) {
  const TinyFileSystem tiny("size=4m");
  if (!tiny.is_mounted()) GTEST_SKIP() << "no file system may be mounted here";
  Node node({.arguments = {"--memory-initial", "16MiB", "--memory-limit", "200MiB", "--memory-backing",
                           "file:" + tiny.path()}});
  EXPECT_EQ(node.process().wait(), 1);
  EXPECT_NE(node.errors().find("does not fit into " + tiny.path()), std::string::npos) << node.errors();
  EXPECT_TRUE(std::filesystem::is_empty(tiny.path()));
}

}  // namespace
}  // namespace refract::test::growth_test
