// SPDX-License-Identifier: Apache-2.0
// What a keeper refuses before anything runs, and that a refusal leaves nothing behind; what its banners say
// of the data. Nothing is forked here: tests/process does that.
#include "refract/node/keeper/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <filesystem>
#include <string>

#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/node/keeper/banner.h"

namespace refract::node {
namespace {

namespace fs = std::filesystem;

using test::needed;
using testing::HasSubstr;
using testing::Not;

class OfKeeper : public testing::Test {
 protected:
  OfKeeper() {
    set_log_level(LogLevel::kError);
    config_.socket_path = folder_.path() + "/node.sock";
    config_.memory_limit_bytes = 64 * kMiB;
    config_.memory_initial_bytes = 8 * kMiB;
    config_.clients_max = 4;
    config_.rdma_device = "";
  }
  ~OfKeeper() override {
    set_log_level(LogLevel::kInfo);
    // A keeper takes it from its process.
    prctl(PR_SET_DUMPABLE, 1);
  }

  void expect_refused(Code code, const std::string& why) {
    const auto opened = Keeper::open(config_);
    ASSERT_FALSE(opened) << why;
    EXPECT_EQ(opened.error().code, code) << opened.error().what;
    EXPECT_THAT(opened.error().what, HasSubstr(why));
    EXPECT_FALSE(fs::exists(config_.socket_path)) << "left behind";
  }
  [[nodiscard]] std::string started() {
    const auto keeper = needed(Keeper::open(config_));
    return start_banner(*keeper, "refract");
  }

  test::Folder folder_;
  NodeConfig config_;
};

TEST_F(OfKeeper, a_device_that_is_not_there_is_refused_where_clients_would_come_by_it) {
  config_.rdma_device = "no_such_device";
  EXPECT_TRUE(Keeper::open(config_)) << "without an address none would";
  config_.listen_address = "127.0.0.1:0";
  expect_refused(Code::kUnsupported, "rdma.device: ");
}

TEST_F(OfKeeper, a_secret_that_is_missing_short_or_readable_by_others_is_refused) {
  config_.auth_secret_file = folder_.path() + "/secret";
  config_.listen_address = "127.0.0.1:0";
  EXPECT_FALSE(Keeper::open(config_)) << "missing";
  folder_.write("secret", std::string(64, 's'));
  fs::permissions(config_.auth_secret_file, fs::perms::owner_all | fs::perms::others_read);
  EXPECT_FALSE(Keeper::open(config_)) << "others may read it";
  fs::permissions(config_.auth_secret_file, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(Keeper::open(config_));
  folder_.write("secret", "short");
  EXPECT_FALSE(Keeper::open(config_)) << "short";
  EXPECT_FALSE(fs::exists(config_.socket_path));
}

TEST_F(OfKeeper, a_cluster_secret_is_read_as_that_of_clients_where_there_is_a_list) {
  config_.cluster_secret_file = folder_.path() + "/secret";
  EXPECT_TRUE(Keeper::open(config_)) << "without a list it is of no effect";
  config_.cluster_nodes = "me=h:1,you=h:2";
  config_.cluster_self = "me";
  expect_refused(Code::kNotFound, "cluster.secret_file: cannot open secret file " + folder_.path());
  folder_.write("secret", std::string(64, 's'));
  fs::permissions(config_.cluster_secret_file, fs::perms::owner_all | fs::perms::others_read);
  expect_refused(Code::kInvalidArgument, "can be reached by others");
  fs::permissions(config_.cluster_secret_file, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(Keeper::open(config_));
}

TEST_F(OfKeeper, the_password_of_a_directory_is_read_likewise) {
  config_.cluster_nodes = "me=h:1,you=h:2";
  config_.cluster_self = "me";
  config_.objects_directory = "redis://h:1";
  config_.objects_directory_secret_file = folder_.path() + "/redis";
  expect_refused(Code::kNotFound, "objects.directory_secret_file: cannot open secret file " + folder_.path());
  folder_.write("redis", std::string(64, 's'));
  fs::permissions(config_.objects_directory_secret_file, fs::perms::owner_all | fs::perms::others_read);
  expect_refused(Code::kInvalidArgument, "can be reached by others");
  fs::permissions(config_.objects_directory_secret_file, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(Keeper::open(config_));
}

TEST_F(OfKeeper, an_address_of_another_host_is_refused) {
  config_.listen_address = "192.0.2.1:7400";
  EXPECT_FALSE(Keeper::open(config_));
  EXPECT_FALSE(fs::exists(config_.socket_path));
}

TEST_F(OfKeeper, a_refused_data_folder_leaves_no_socket_and_no_folder) {
  config_.durability = Durability::kAlways;
  config_.data_folder = folder_.path() + "/a/b";
  expect_refused(Code::kNotFound, "there is no " + folder_.path() + "/a");
  EXPECT_FALSE(fs::exists(folder_.path() + "/a"));
}

TEST_F(OfKeeper, takes_its_share_of_memory_for_each_shard_and_a_socket_each) {
  config_.server_shards = 2;
  const auto keeper = needed(Keeper::open(config_));
  EXPECT_EQ(keeper->memory().bytes, 8 * kMiB);
  EXPECT_EQ(keeper->memory().bytes_max, 64 * kMiB);
  EXPECT_FALSE(keeper->memory().existed);
  EXPECT_TRUE(fs::exists(config_.socket_path));
  EXPECT_TRUE(fs::exists(config_.socket_path + ".1"));
  EXPECT_FALSE(keeper->was_ready()) << "nothing runs yet";
}

TEST_F(OfKeeper, objects_have_a_socket_and_memory_of_their_own_and_the_banner_says_so) {
  EXPECT_THAT(started(), Not(HasSubstr("objects")));
  EXPECT_FALSE(fs::exists(config_.socket_path + ".1"));
  config_.objects_limit_bytes = 4 * kGiB;
  config_.durability = Durability::kEverySecond;
  config_.data_folder = folder_.path() + "/data";
  const auto keeper = needed(Keeper::open(config_));
  EXPECT_TRUE(fs::exists(config_.socket_path + ".1"));
  EXPECT_EQ(keeper->memory().bytes_max, 64 * kMiB) << "that of keys";
  EXPECT_THAT(start_banner(*keeper, "refract"),
              HasSubstr("objects  up to 4 GiB, in memory only: lost when the node stops"));
}

TEST_F(OfKeeper, says_where_the_data_are_and_what_loses_them) {
  EXPECT_THAT(started(), HasSubstr("in memory only: lost when the node stops"));
  config_.memory_backing = {.kind = BackingKind::kFile, .folder = folder_.path()};
  EXPECT_THAT(started(), HasSubstr("lost if the host crashes"));
  config_.memory_backing = {};
  config_.data_folder = folder_.path() + "/data";
  config_.durability = Durability::kEverySecond;
  EXPECT_THAT(started(), HasSubstr("on the disk a second later"));
  config_.durability = Durability::kAlways;
  EXPECT_THAT(started(), HasSubstr("acknowledged when it is on the disk"));
  EXPECT_THAT(started(), HasSubstr("what the node held before is there again"));
}

TEST_F(OfKeeper, its_lines_to_copy_name_the_socket_and_who_may_come_by_tcp) {
  config_.listen_address = "127.0.0.1:0";
  const auto keeper = needed(Keeper::open(config_));
  const std::string text = start_banner(*keeper, "refract");
  EXPECT_THAT(text, HasSubstr("$ refract --socket " + config_.socket_path + " put"));
  EXPECT_THAT(text, HasSubstr("tcp      " + keeper->tcp_address() + " (programs of this host)"));
  EXPECT_THAT(keeper->tcp_address(), Not(HasSubstr(":0"))) << "the port that it got";
}

TEST_F(OfKeeper, its_last_words_promise_only_what_stays) {
  const auto last_words = [this] { return stop_banner(*needed(Keeper::open(config_))); };
  EXPECT_THAT(last_words(), HasSubstr("are gone"));
  config_.memory_backing = {.kind = BackingKind::kFile, .folder = folder_.path()};
  EXPECT_THAT(last_words(), HasSubstr("start with the same --memory-backing"));
  config_.memory_backing = {};
  config_.data_folder = folder_.path() + "/data";
  config_.durability = Durability::kAlways;
  EXPECT_THAT(last_words(), HasSubstr("start with the same --data-folder"));
}

}  // namespace
}  // namespace refract::node
