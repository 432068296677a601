// SPDX-License-Identifier: Apache-2.0
// The list of nodes in a file: read at the start, and again.
#include "refract/node/config/cluster_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "refract/base/testing/needed.h"
#include "refract/base/testing/processes/files.h"

namespace refract::node {
namespace {

using test::needed;
using testing::HasSubstr;

class ClusterNodes : public testing::Test {
 protected:
  ClusterNodes() {
    config_.cluster_nodes = "file:" + path_;
    config_.cluster_self = "a";
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string refusal() const {
    const auto members = load_members(config_);
    return members ? "taken" : members.error().what;
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/nodes";
  NodeConfig config_;
};

TEST_F(ClusterNodes, are_read_from_the_file_with_the_nodes_own_name) {
  write("version = 3\na = h:1\nb = h:2\n");
  const cluster::Members members = needed(load_members(config_));
  EXPECT_EQ(members.list().version, 3U);
  EXPECT_EQ(members.self_name(), "a");
}

TEST_F(ClusterNodes, are_read_again_and_what_is_refused_changes_nothing) {
  write("version = 3\na = h:1\n");
  cluster::Members members = needed(load_members(config_));
  const cluster::MemberList before = members.list();
  for (const char* text : {"", "version = 4\n", "version = 2\na = h:1\n", "version = 3\na = h:2\n",
                           "version = 4\nb = h:1\n", "a = h:1\n"}) {
    write(text);
    reload_members(config_, members);
    EXPECT_EQ(members.list(), before) << text;
  }
  std::filesystem::remove(path_);
  reload_members(config_, members);
  EXPECT_EQ(members.list(), before);
  write("version = 4\na = h:1\nb = h:2\n");
  reload_members(config_, members);
  EXPECT_EQ(members.list().version, 4U);
}

TEST_F(ClusterNodes, that_are_refused_are_named_with_setting_file_and_line) {
  EXPECT_EQ(refusal(), "cluster.nodes: cannot read " + path_ + ": No such file or directory");
  write("version = 1\na=h\n");
  EXPECT_THAT(refusal(), HasSubstr("cluster.nodes: " + path_ + ": line 2: 'h' of node 'a' is no HOST:PORT"));
  write("version = 1\nb=h:1\n");
  EXPECT_EQ(refusal(), "cluster.nodes: this node's name, 'a', is not in the list, which has b");
  // One byte more than a list may have, and far more.
  for (const size_t bytes : {cluster::kListTextBytesMax + 1, 10 * cluster::kListTextBytesMax}) {
    write(std::string(bytes, '\n'));
    EXPECT_THAT(refusal(), HasSubstr("a list has at most 131072 bytes"));
  }
}

}  // namespace
}  // namespace refract::node
