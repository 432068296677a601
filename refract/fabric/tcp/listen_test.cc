// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/tcp/listen.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/client_link.h"

namespace refract::fabric::tcp {
namespace {

TEST(Listen, a_free_port_is_told) {
  const auto socket = listen("127.0.0.1:0");
  ASSERT_TRUE(socket.has_value()) << socket.error().to_string();
  const auto address = bound_address(socket->get());
  ASSERT_TRUE(address.has_value());
  EXPECT_TRUE(address->starts_with("127.0.0.1:"));
  EXPECT_EQ(*address, "127.0.0.1:" + std::to_string(bound_port(socket->get()).value()));
  EXPECT_NE(::fcntl(socket->get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::fcntl(socket->get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(Listen, a_port_that_is_taken_is_in_use) {
  const auto first = listen("127.0.0.1:0");
  ASSERT_TRUE(first.has_value());
  const std::string address = test::needed(bound_address(first->get()));
  const auto second = listen(address);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kInUse);
  EXPECT_NE(second.error().to_string().find(address), std::string::npos);
}

TEST(Listen, nonsense_is_refused_by_name) {
  for (const char* address : {"",
                              "127.0.0.1",
                              ":7400",
                              "127.0.0.1:",
                              "127.0.0.1:x",
                              "127.0.0.1:65536",
                              "127.0.0.1:-1",
                              "::1:7400",
                              "somewhere:7400",
                              "[127.0.0.1:7400",
                              "300.0.0.1:1",
                              "1.2.3:7400",
                              "[127.0.0.1]:7400",
                              "[]:7400",
                              "127:7400",
                              "0x7f.0.0.1:7400",
                              "127.0.0.01:7400",
                              "127.0.0.1.:7400",
                              "[::1%]x:7400",
                              "[host]:7400"}) {
    const auto socket = listen(address);
    ASSERT_FALSE(socket.has_value()) << address;
    EXPECT_EQ(socket.error().code, Code::kInvalidArgument) << address;
    EXPECT_FALSE(socket.error().next.empty()) << address;
  }
}

TEST(Listen, loopback_is_told_from_the_world) {
  EXPECT_TRUE(is_loopback("127.0.0.1:7400").value());
  EXPECT_TRUE(is_loopback("127.3.2.1:7400").value());
  EXPECT_TRUE(is_loopback("[::1]:7400").value());
  EXPECT_TRUE(is_loopback("[::ffff:127.0.0.1]:7400").value());
  EXPECT_FALSE(is_loopback("0.0.0.0:7400").value());
  EXPECT_FALSE(is_loopback("[::]:7400").value());
  EXPECT_FALSE(is_loopback("10.0.0.1:7400").value());
  EXPECT_FALSE(is_loopback("[::ffff:10.0.0.1]:7400").value());
  EXPECT_FALSE(is_loopback("localhost:7400").has_value());
}

TEST(NodeAddress, what_only_resembles_a_numeric_address_is_refused_with_the_reason) {
  for (const char* address :
       {"1.2.3:7400", "1.2.3.4.5:7400", "2130706433:7400", "0x7f000001:7400", "1.2.3.256:1"}) {
    const auto parsed = parse_node_address(address);
    ASSERT_FALSE(parsed.has_value()) << address;
    EXPECT_NE(parsed.error().what.find("is no IPv4 address"), std::string::npos) << parsed.error().what;
  }
  for (const char* address : {"[127.0.0.1]:7400", "[host]:7400", "[::1::]:7400", "[%eth0]:7400"}) {
    const auto parsed = parse_node_address(address);
    ASSERT_FALSE(parsed.has_value()) << address;
    EXPECT_NE(parsed.error().what.find("is no IPv6 address"), std::string::npos) << parsed.error().what;
  }
  for (const char* address : {"127.0.0.1:7400", "[::1]:7400", "[fe80::1%eth0]:7400", "1st.example:7400",
                              "4host:7400", "0xhost:7400", "example.com4:7400"}) {
    EXPECT_TRUE(parse_node_address(address).has_value()) << address;
  }
}

TEST(NodeAddress, host_port_and_shard_are_read) {
  const auto plain = parse_node_address("host.example:7400");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->place.host, "host.example");
  EXPECT_EQ(plain->place.port, "7400");
  EXPECT_EQ(plain->shard, 0u);
  const auto full = parse_node_address("[fe80::1]:1/12");
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->place.host, "fe80::1");
  EXPECT_EQ(full->shard, 12u);
  for (const char* address : {"host:7400/", "host:7400/x", "host:7400/1x", "host:7400/-1",
                              "host:7400/99999999999", "host/1", "/1", "host:7400/1/2"}) {
    EXPECT_FALSE(parse_node_address(address).has_value()) << address;
  }
}

}  // namespace
}  // namespace refract::fabric::tcp
