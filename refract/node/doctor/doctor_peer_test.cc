// SPDX-License-Identifier: Apache-2.0
// The path to a node is followed as far as it leads. Nodes that are there are met in tests/cli.
#include "refract/node/doctor/doctor_peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/listen.h"

namespace refract::node {
namespace {

using testing::HasSubstr;

TEST(DoctorPeer, a_place_is_a_host_with_or_without_port) {
  EXPECT_EQ(peer_address("db.example").value(), "db.example:7400");
  EXPECT_EQ(peer_address("10.0.0.7:1234").value(), "10.0.0.7:1234");
  EXPECT_EQ(peer_address("::1").value(), "[::1]:7400");
  EXPECT_EQ(peer_address("[::1]").value(), "[::1]:7400");
  EXPECT_EQ(peer_address("[fd77::2]:80").value(), "[fd77::2]:80");
  for (const char* const wrong : {"", "host:", "host:0", ":7400", "a b", "[::1", "host:99999"}) {
    const auto address = peer_address(wrong);
    ASSERT_FALSE(address) << wrong;
    EXPECT_EQ(address.error().code, Code::kInvalidArgument);
    EXPECT_THAT(address.error().next, HasSubstr("--peer HOST"));
  }
}

TEST(DoctorPeer, a_place_that_is_none_is_one_failure) {
  const std::vector<Finding> findings = examine_peer({.place = "a b", .options = {}});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].health, Health::kFail);
}

TEST(DoctorPeer, where_nobody_listens_the_path_ends_there) {
  std::string place;
  {
    const auto socket = fabric::tcp::listen("127.0.0.1:0");
    ASSERT_TRUE(socket) << socket.error().to_string();
    place = test::needed(fabric::tcp::bound_address(socket->get()));
  }
  std::vector<std::string> steps;
  const std::vector<Finding> findings = examine_peer(
      {.place = place, .options = {}, .on_step = [&](std::string_view step) { steps.emplace_back(step); }});
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].health, Health::kOk);
  EXPECT_EQ(findings[1].name, "peer connection");
  EXPECT_EQ(findings[1].health, Health::kFail);
  EXPECT_THAT(findings[1].found, HasSubstr(place + " is there, and no process listens"));
  EXPECT_THAT(findings[1].mend, HasSubstr("--listen-address"));
  EXPECT_EQ(steps.size(), 2U);
}

// It waits in the backlog, and no greeting comes.
TEST(DoctorPeer, one_who_listens_and_is_no_node_fails_the_handshake) {
  const auto socket = fabric::tcp::listen("127.0.0.1:0");
  ASSERT_TRUE(socket) << socket.error().to_string();
  const std::vector<Finding> findings =
      examine_peer({.place = test::needed(fabric::tcp::bound_address(socket->get())),
                    .options = {.timeout_ns = 100 * kMillisecond_ns}});
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[2].name, "peer handshake");
  EXPECT_EQ(findings[2].health, Health::kFail);
  EXPECT_FALSE(findings[2].mend.empty());
}

}  // namespace
}  // namespace refract::node
