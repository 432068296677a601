// SPDX-License-Identifier: Apache-2.0
// A node whose disk fails, for real: a sync says so once, and the bytes are on no medium. Writes end, reads
// continue, and when the disk is sound again a snapshot brings everything there, without a restart.
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tests/disk/small_file_system.h"
#include "tests/disk/written_node.h"

namespace refract::test {
namespace {

class FailingDisk : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string missing;
    disk_ = ThinFileSystem::make(missing);
    if (!disk_) GTEST_SKIP() << "no device that fails: " << missing;
    it_.emplace(disk_->path() + "/data", GetParam(),
                static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()));
  }
  void start() {
    it_->start();
    ASSERT_TRUE(it_->node().is_up()) << it_->node().errors();
  }
  void write_until_it_fails() {
    ASSERT_NO_FATAL_FAILURE(start());
    Client client = it_->node().connect();
    for (int i = 0; i < 40; ++i) ASSERT_EQ(it_->put(client), Code::kOk);
    disk_->fail();
    answers_ = it_->put_until_refused(client);
    ASSERT_EQ(answers_[Code::kReadOnly], 1U) << "no write was refused: " << it_->node().errors();
    EXPECT_EQ(it_->times_said("has failed, the node takes no more writes: cannot bring to the disk"), 1U)
        << it_->node().errors();
  }
  void expect_what_is_known() {
    Client client = it_->node().connect();
    EXPECT_EQ(it_->difference(client), "") << it_->node().errors();
  }

  std::unique_ptr<ThinFileSystem> disk_;
  std::optional<WrittenNode> it_;  // Goes before its disk.
  std::map<Code, uint64_t> answers_;
};

TEST_P(FailingDisk, ends_writes_and_is_mended_by_a_snapshot_without_a_restart) {
  ASSERT_NO_FATAL_FAILURE(write_until_it_fails());
  if (std::string(GetParam()) == "always") {
    EXPECT_GT(answers_[Code::kIndeterminate], 0U);
  }
  expect_what_is_known();
  // What is tried meanwhile fails as well, and leaves nothing.
  ASSERT_TRUE(becomes_true([&] { return it_->times_said("no snapshot: ") > 0; })) << it_->node().errors();
  EXPECT_TRUE(it_->files("snapshot-").empty());
  Client client = it_->node().connect();
  EXPECT_EQ(it_->put(client), Code::kReadOnly);
  const pid_t server = it_->node().server();
  disk_->mend();
  ASSERT_TRUE(becomes_true([&] { return it_->put(client) == Code::kOk; })) << it_->node().errors();
  EXPECT_EQ(it_->node().server(), server) << "the server has died";
  EXPECT_EQ(it_->files("snapshot-").size(), 1U);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(it_->put(client), Code::kOk);
  it_->kill_everything();
  ASSERT_NO_FATAL_FAILURE(start());
  expect_what_is_known();
  EXPECT_EQ(it_->node().stop(), 0);
}

class FailingDiskServer : public FailingDisk {};

TEST_P(FailingDiskServer, is_mended_by_a_snapshot_of_the_next_server_when_the_one_that_met_it_has_died) {
  ASSERT_NO_FATAL_FAILURE(write_until_it_fails());
  const pid_t server = it_->node().server();
  send_signal(server, SIGKILL);
  ASSERT_GT(it_->node().next_server(server), 0);
  expect_what_is_known();
  disk_->mend();
  Client client = it_->node().connect();
  ASSERT_TRUE(becomes_true([&] { return it_->put(client) == Code::kOk; })) << it_->node().errors();
  it_->kill_everything();
  ASSERT_NO_FATAL_FAILURE(start());
  expect_what_is_known();
}

INSTANTIATE_TEST_SUITE_P(Modes, FailingDisk, testing::Values("everysec", "always"),
                         [](const auto& mode) { return std::string(mode.param); });
// One will do: a node waits some seconds before it tries its disk again.
INSTANTIATE_TEST_SUITE_P(Modes, FailingDiskServer, testing::Values("everysec"),
                         [](const auto& mode) { return std::string(mode.param); });

}  // namespace
}  // namespace refract::test
