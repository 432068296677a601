// SPDX-License-Identifier: Apache-2.0
// A node whose disk is full: what was acknowledged is there, whatever happens then; writes are refused, reads
// continue; and when there is room, so do writes, without a restart.
//
// A disk is full in two ways here: a small file system is filled to its last byte, for which the test needs a
// mount namespace; and the kernel refuses the node's processes any further byte in a file (RLIMIT_FSIZE), for
// which it needs nothing.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/disk/small_file_system.h"
#include "tests/disk/written_node.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

// The log's first file has 64 MiB from the start on; there is no room for a second one.
constexpr uint64_t kFullBytes = 96 * kMiB;
constexpr uint64_t kRoomyBytes = 512 * kMiB;

enum class Lack : uint8_t { kFileSystem, kFileSize };

struct Case {
  const char* durability;
  Lack lack;
};

void PrintTo(const Case& given, std::ostream* out) {
  *out << given.durability << (given.lack == Lack::kFileSystem ? "_file_system" : "_file_size");
}

class FullDisk : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().lack == Lack::kFileSystem) {
      const std::string missing = enter_mount_namespace();
      if (!missing.empty()) GTEST_SKIP() << "no small file system: " << missing;
      file_system_.emplace(kFullBytes);
    }
    const std::string path = file_system_ ? file_system_->path() : folder_.path();
    it_.emplace(path + "/data", GetParam().durability,
                static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()));
  }

  void take_room_away() {
    if (file_system_) return file_system_->fill();
    // Where the log is by then, and less than a snapshot takes. What the node says goes to a file, too.
    limit_file_size(kMiB);
  }
  void give_room() {
    if (file_system_) return file_system_->resize(kRoomyBytes);
    limit_file_size(RLIM_INFINITY);
  }
  void limit_file_size(rlim_t bytes) {
    const auto set = [bytes](pid_t process) {
      const rlimit limit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
      if (process > 0) (void)::prlimit(process, RLIMIT_FSIZE, &limit, nullptr);
    };
    // The keeper first: a server that it starts from now on inherits it, and one that it has just started is
    // seen.
    set(it_->node().keeper());
    pid_t server = -1;
    do {
      server = it_->node().server();
      set(server);
    } while (server != it_->node().server());
  }
  void start_and_write(const std::string& snapshot_every = "0ns") {
    it_->start(snapshot_every);
    ASSERT_TRUE(it_->node().is_up()) << it_->node().errors();
    Client client = it_->node().connect();
    for (int i = 0; i < 40; ++i) ASSERT_EQ(it_->put(client), Code::kOk);
  }
  void fill_up() {
    ASSERT_NO_FATAL_FAILURE(start_and_write());
    take_room_away();
    Client client = it_->connect();
    answers_ = it_->put_until_refused(client);
    ASSERT_EQ(answers_[Code::kReadOnly], 1U) << "no write was refused: " << it_->node().errors();
    for (const auto& [code, times] : answers_) {
      const bool is_expected = code == Code::kOk || code == Code::kReadOnly || code == Code::kIndeterminate;
      EXPECT_TRUE(is_expected) << info(code).text << ", " << times << " times";
    }
  }
  void start_again() {
    it_->start();
    ASSERT_TRUE(it_->node().is_up()) << it_->node().errors();
  }
  void expect_what_is_known() {
    Client client = it_->node().connect();
    EXPECT_EQ(it_->difference(client), "") << it_->node().errors();
  }
  void expect_that_writes_go_on() {
    Client client = it_->connect();
    ASSERT_TRUE(becomes_true([&] { return it_->put(client) == Code::kOk; })) << it_->node().errors();
    Client patient = it_->node().connect();
    // A short one may be taken before the node has looked for room again, and a long one be refused behind
    // it.
    const auto takes_many = [&] {
      for (int i = 0; i < 20; ++i) {
        if (it_->put(patient) != Code::kOk) return false;
      }
      return true;
    };
    ASSERT_TRUE(becomes_true(takes_many)) << it_->node().errors();
  }

  TemporaryFolder folder_;
  std::optional<SmallFileSystem> file_system_;
  std::optional<WrittenNode> it_;  // Goes before its disk.
  std::map<Code, uint64_t> answers_;
};

TEST_P(FullDisk, refuses_writes_serves_reads_and_goes_on_when_there_is_room) {
  ASSERT_NO_FATAL_FAILURE(fill_up());
  // A client that waits for the disk does not know whether it will be kept; with everysec the ring keeps what
  // is taken.
  if (std::string(GetParam().durability) == "always") {
    EXPECT_GT(answers_[Code::kIndeterminate], 0U);
  }
  expect_what_is_known();
  Client client = it_->node().connect();
  // Refused before it is looked for. With everysec a long value is refused while the ring takes short
  // records.
  const Code erased = client.erase("no such key").code();
  const bool is_everysec = std::string(GetParam().durability) == "everysec";
  EXPECT_TRUE(erased == Code::kReadOnly || (is_everysec && erased == Code::kNotFound)) << text(erased);
  // A while, in which the node looks again and again.
  sleep_ms(1'500);
  EXPECT_EQ(it_->times_said("waits for room"), 1U) << "once is enough:\n" << it_->node().errors();
  EXPECT_LE(it_->times_said("no room for its next segment"), 1U) << it_->node().errors();
  const pid_t server = it_->node().server();
  give_room();
  expect_that_writes_go_on();
  EXPECT_EQ(it_->node().server(), server) << "the server has died";
  expect_what_is_known();
  it_->kill_everything();
  ASSERT_NO_FATAL_FAILURE(start_again());
  expect_what_is_known();
  EXPECT_EQ(it_->node().stop(), 0);
}

TEST_P(FullDisk, has_every_acknowledged_write_when_it_is_killed_while_full) {
  ASSERT_NO_FATAL_FAILURE(fill_up());
  it_->kill_everything();
  give_room();
  ASSERT_NO_FATAL_FAILURE(start_again());
  expect_what_is_known();
  expect_that_writes_go_on();
}

TEST_P(FullDisk, has_every_acknowledged_write_when_the_server_alone_dies_while_full) {
  ASSERT_NO_FATAL_FAILURE(fill_up());
  const pid_t server = it_->node().server();
  send_signal(server, SIGKILL);
  ASSERT_GT(it_->node().next_server(server), 0);
  expect_what_is_known();
  give_room();
  expect_that_writes_go_on();
  expect_what_is_known();
}

TEST_P(FullDisk, says_what_is_missing_when_it_is_stopped_while_full_and_has_it_later) {
  ASSERT_NO_FATAL_FAILURE(fill_up());
  EXPECT_NE(it_->node().stop(), 0);
  EXPECT_EQ(it_->times_said("the last changes are not on the disk"), 1U) << it_->node().errors();
  EXPECT_EQ(it_->times_said("mend the disk, then start the node again"), 1U) << it_->node().errors();
  give_room();
  ASSERT_NO_FATAL_FAILURE(start_again());
  expect_what_is_known();
  EXPECT_EQ(it_->node().stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, FullDisk,
                         testing::Values(Case{"everysec", Lack::kFileSystem},
                                         Case{"always", Lack::kFileSystem}, Case{"everysec", Lack::kFileSize},
                                         Case{"always", Lack::kFileSize}),
                         [](const auto& given) { return testing::PrintToString(given.param); });

// A node waits some seconds before it tries the next one, so that each way and each durability comes once.
class FullDiskSnapshot : public FullDisk {};

TEST_P(FullDiskSnapshot, leaves_the_snapshot_before_and_nothing_half_when_there_is_no_room_for_one) {
  ASSERT_NO_FATAL_FAILURE(start_and_write("100ms"));
  ASSERT_TRUE(becomes_true([&] {
    const std::vector<std::string> files = it_->files("snapshot-");
    return files.size() == 1 && !files.front().ends_with(".part");
  }));
  take_room_away();
  Client client = it_->connect();
  (void)it_->put(client);
  ASSERT_TRUE(becomes_true([&] { return it_->times_said("no snapshot: ") > 0; })) << it_->node().errors();
  // Which one failed may have been under way before: what is there now stays, until there is room.
  const std::vector<std::string> before = it_->files("snapshot-");
  ASSERT_EQ(before.size(), 1U);
  EXPECT_FALSE(before.front().ends_with(".part"));
  expect_what_is_known();
  give_room();
  ASSERT_TRUE(
      becomes_true([&] { return it_->put(client) == Code::kOk && it_->files("snapshot-") != before; }));
  it_->kill_everything();
  ASSERT_NO_FATAL_FAILURE(start_again());
  expect_what_is_known();
}

INSTANTIATE_TEST_SUITE_P(Ways, FullDiskSnapshot,
                         testing::Values(Case{"everysec", Lack::kFileSystem},
                                         Case{"always", Lack::kFileSize}),
                         [](const auto& given) { return testing::PrintToString(given.param); });

class FullDiskAtStart : public FullDisk {};

// Of all ways: dead beside its ring, stopped, and as a host's crash leaves it.
TEST_P(FullDiskAtStart, serves_reads_refuses_writes_and_goes_on_when_there_is_room) {
  ASSERT_NO_FATAL_FAILURE(fill_up());
  for (const bool is_stopped : {false, true}) {
    if (is_stopped) {
      // Not all of it can be brought to the disk.
      EXPECT_NE(it_->node().stop(), 0);
    } else {
      it_->kill_everything();
    }
    ASSERT_NO_FATAL_FAILURE(start_again());
    expect_what_is_known();
    Client client = it_->connect();
    EXPECT_EQ(it_->put_until_refused(client)[Code::kReadOnly], 1U) << it_->node().errors();
    EXPECT_EQ(client.erase("key-1").code(), Code::kReadOnly);
    expect_what_is_known();
  }
  give_room();
  expect_that_writes_go_on();
  expect_what_is_known();
  it_->kill_everything();
  ASSERT_NO_FATAL_FAILURE(start_again());
  expect_what_is_known();
}

// Its rings are empty, its log needs a new file, and there is no room for one.
TEST_P(FullDiskAtStart, serves_reads_also_when_it_had_been_stopped_with_everything_on_the_disk) {
  ASSERT_NO_FATAL_FAILURE(start_and_write());
  EXPECT_EQ(it_->node().stop(), 0);
  take_room_away();
  ASSERT_NO_FATAL_FAILURE(start_again());
  expect_what_is_known();
  Client client = it_->connect();
  EXPECT_EQ(it_->put(client), Code::kReadOnly);
  EXPECT_EQ(it_->times_said("waits for room"), 1U) << it_->node().errors();
  // The death of the server, or of all processes, takes nothing away, and makes no damage.
  const pid_t server = it_->node().server();
  send_signal(server, SIGKILL);
  ASSERT_GT(it_->node().next_server(server), 0);
  expect_what_is_known();
  EXPECT_EQ(it_->put(client), Code::kReadOnly);
  it_->kill_everything();
  ASSERT_NO_FATAL_FAILURE(start_again());
  expect_what_is_known();
  give_room();
  expect_that_writes_go_on();
  expect_what_is_known();
  EXPECT_EQ(it_->node().stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, FullDiskAtStart,
                         testing::Values(Case{"everysec", Lack::kFileSystem},
                                         Case{"always", Lack::kFileSystem}),
                         [](const auto& given) { return testing::PrintToString(given.param); });

}  // namespace
}  // namespace refract::test
