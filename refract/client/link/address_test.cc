// SPDX-License-Identifier: Apache-2.0
#include "refract/client/link/address.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace refract::client {
namespace {

TEST(Address, a_path_may_be_written_in_three_ways) {
  EXPECT_EQ(*socket_path_of("/run/x.sock"), "/run/x.sock");
  EXPECT_EQ(*socket_path_of("shm:/run/x.sock"), "/run/x.sock");
  EXPECT_EQ(*socket_path_of("refract:///run/x.sock"), "/run/x.sock");
  EXPECT_EQ(*socket_path_of("refract:///run/x.sock?transport=shm"), "/run/x.sock");
  EXPECT_EQ(*socket_path_of("node.sock"), "node.sock");
  EXPECT_EQ(*socket_path_of("./localhost:7400"), "./localhost:7400");
  EXPECT_EQ(*socket_path_of("/run/http://x"), "/run/http://x");
  EXPECT_EQ(parse_address("relative/x.sock")->socket_path, "relative/x.sock");
}

TEST(Address, a_host_may_be_a_name_or_a_number_of_either_kind) {
  const auto name = parse_address("refract://node.example:7400");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->host, "node.example");
  EXPECT_EQ(name->port, 7400);
  EXPECT_EQ(name->preference, Preference::kAuto);
  EXPECT_FALSE(name->is_path());
  EXPECT_FALSE(name->is_loopback());
  const auto six = parse_address("refract://[::1]:65535/");
  ASSERT_TRUE(six.has_value());
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->port, 65'535);
  EXPECT_EQ(six->text(), "[::1]:65535");
  EXPECT_TRUE(six->is_loopback());
  const auto tcp = parse_address("tcp:10.0.0.7:1");
  ASSERT_TRUE(tcp.has_value());
  EXPECT_EQ(tcp->text(), "10.0.0.7:1");
  EXPECT_EQ(tcp->preference, Preference::kTcp);
}

TEST(Address, the_query_names_transport_secret_and_device) {
  const auto both = parse_address("refract://h:1?transport=tcp&secret_file=/etc/a%26b");
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->preference, Preference::kTcp);
  EXPECT_EQ(both->secret_file, "/etc/a&b");
  EXPECT_EQ(parse_address("refract://h:1?transport=auto")->preference, Preference::kAuto);
  EXPECT_EQ(parse_address("refract://h:1?transport=shm")->preference, Preference::kShm);
  EXPECT_FALSE(both->paths.has_value());
  EXPECT_EQ(parse_address("refract://h:1?path=chain&transport=tcp")->paths, Paths::kChain);
  EXPECT_EQ(parse_address("refract:///run/x.sock?path=rpc")->paths, Paths::kRpc);
  EXPECT_EQ(parse_address("refract://h:1?path=direct")->paths, Paths::kAuto);
  EXPECT_EQ(both->rdma_device, "");
  EXPECT_EQ(parse_address("refract://h:1?device=mlx5_0&transport=verbs")->rdma_device, "mlx5_0");
}

// What is written, the code, and a word that the sentence must have.
TEST(Address, what_is_wrong_is_said) {
  const std::vector<std::tuple<std::string, Code, std::string>> cases = {
      {"refract://host", Code::kInvalidArgument, "port is missing"},
      {"refract://host:", Code::kInvalidArgument, "port is missing"},
      {"refract://host:0", Code::kInvalidArgument, "'0' is no port"},
      {"refract://host:65536", Code::kInvalidArgument, "'65536' is no port"},
      {"refract://host:74x", Code::kInvalidArgument, "'74x' is no port"},
      {"refract://host:-1", Code::kInvalidArgument, "'-1' is no port"},
      {"refract://", Code::kInvalidArgument, "host is missing"},
      {"refract:///", Code::kInvalidArgument, "host is missing"},
      {"refract://?transport=shm", Code::kInvalidArgument, "host is missing"},
      {"http://x", Code::kInvalidArgument, "no scheme 'http://'"},
      {"redis://localhost:6379", Code::kInvalidArgument, "no scheme 'redis://'"},
      {"tcp://localhost:7400", Code::kInvalidArgument, "no host"},
      {"localhost:7400", Code::kInvalidArgument, "a host and a port"},
      {"refract://:7400", Code::kInvalidArgument, "host is missing"},
      {"refract://::1:7400", Code::kInvalidArgument, "brackets"},
      {"refract://[::1:7400", Code::kInvalidArgument, "not closed"},
      {"refract://[::1]7400", Code::kInvalidArgument, "colon"},
      {"refract://[127.0.0.1]:7400", Code::kInvalidArgument, "only an IPv6 address stands in brackets"},
      {"refract://a b:7400", Code::kInvalidArgument, "'a b' is no host"},
      {"refract://h:1?colour=red", Code::kInvalidArgument, "'colour'"},
      {"refract://h:1?transport=pigeon", Code::kUnsupported, "'pigeon'"},
      {"refract://h:1?transport", Code::kUnsupported, "''"},
      {"refract://h:1?path=shortest", Code::kUnsupported, "'shortest'"},
      {"refract://h:1?secret_file=", Code::kInvalidArgument, "secret_file"},
      {"refract://h:1?secret_file=%zz", Code::kInvalidArgument, "percent"},
      {"refract://h:1?device=", Code::kInvalidArgument, "''"},
      {"refract://h:1?device=a/b", Code::kInvalidArgument, "'a/b'"},
      {"refract:///run/x.sock?transport=tcp", Code::kInvalidArgument, "host and a port"},
      {"refract:///run/x.sock?transport=verbs", Code::kInvalidArgument, "host and a port"},
      {"verbs:host", Code::kInvalidArgument, "port is missing"},
      {"tcp:7400", Code::kInvalidArgument, "port is missing"},
      {"shm:", Code::kInvalidArgument, "path is missing"},
      {std::string("/run/\0x", 7), Code::kInvalidArgument, "zero byte"},
      {std::string(200, 'p'), Code::kInvalidArgument, "200 bytes"},
  };
  for (const auto& [address, code, word] : cases) {
    const auto target = parse_address(address);
    ASSERT_FALSE(target.has_value()) << address;
    EXPECT_EQ(target.error().code, code) << address;
    EXPECT_NE(target.error().what.find(word), std::string::npos) << target.error().what;
    EXPECT_FALSE(target.error().next.empty()) << address;
  }
}

TEST(Address, what_works_on_this_host_only_refuses_a_host) {
  EXPECT_EQ(socket_path_of("refract://host:7000").error().code, Code::kUnsupported);
  EXPECT_EQ(socket_path_of("tcp:host:7000").error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace refract::client
