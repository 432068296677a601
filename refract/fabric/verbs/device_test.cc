// SPDX-License-Identifier: Apache-2.0
// What is chosen from what was found, and that a host without RDMA is told so. No device is needed.
#include "refract/fabric/verbs/device.h"

#include <gtest/gtest.h>

#include "refract/fabric/verbs/library.h"

namespace refract::fabric::verbs {
namespace {

GidFacts gid(uint32_t index, GidKind kind) {
  return {.index = index, .gid = {0xfd, 0x77}, .kind = kind, .interface = "eth0"};
}

DeviceFacts device(std::string name, bool is_active, std::vector<GidFacts> gids) {
  DeviceFacts facts{.name = std::move(name), .firmware = {}, .limits = {}, .ports = {}, .fault = {}};
  facts.ports.push_back({.number = 1,
                         .is_active = is_active,
                         .state = is_active ? "active" : "down",
                         .link_layer = LinkLayer::kEthernet,
                         .mtu_bytes = 4096,
                         .mtu_bytes_max = 4096,
                         .gids = std::move(gids)});
  return facts;
}

std::vector<DeviceFacts> two_devices() {
  return {device("down0", false, {gid(0, GidKind::kRoce2Ipv4)}),
          device("up1", true,
                 {gid(0, GidKind::kRoce2LinkLocal), gid(1, GidKind::kRoce1), gid(2, GidKind::kRoce2Ipv6),
                  gid(3, GidKind::kRoce2Ipv4)})};
}

TEST(VerbsDevice, the_first_device_with_an_active_port_is_chosen_and_roce_2_over_ipv4) {
  const std::vector<DeviceFacts> devices = two_devices();
  const auto choice = choose(devices, {});
  ASSERT_TRUE(choice.has_value()) << choice.error().to_string();
  EXPECT_EQ(choice->device, "up1");
  EXPECT_EQ(choice->port, 1);
  EXPECT_EQ(choice->gid.index, 3u);
  EXPECT_EQ(choice->mtu_bytes, 4096u);
  EXPECT_NE(choice->why.find("IPv4"), std::string::npos) << choice->why;
}

TEST(VerbsDevice, lesser_addresses_are_taken_in_the_order_of_their_reach) {
  std::vector<DeviceFacts> devices = two_devices();
  const GidKind order[] = {GidKind::kRoce2Ipv4, GidKind::kRoce2Ipv6, GidKind::kRoce2LinkLocal,
                           GidKind::kRoce1};
  for (const GidKind kind : order) {
    const auto choice = choose(devices, {});
    ASSERT_TRUE(choice.has_value());
    EXPECT_EQ(choice->gid.kind, kind);
    std::erase_if(devices[1].ports[0].gids, [kind](const GidFacts& each) { return each.kind == kind; });
  }
  EXPECT_EQ(choose(devices, {}).error().code, Code::kUnsupported) << "no address is left";
}

TEST(VerbsDevice, what_the_operator_names_is_taken_or_refused_with_a_reason) {
  const std::vector<DeviceFacts> devices = two_devices();
  const auto named = choose(devices, {.device = "up1", .port = 1, .gid_index = 1, .mtu_bytes = 1024});
  ASSERT_TRUE(named.has_value()) << named.error().to_string();
  EXPECT_EQ(named->gid.kind, GidKind::kRoce1);
  EXPECT_EQ(named->mtu_bytes, 1024u);
  const std::vector<DeviceWish> refused = {{.device = "mlx9"},
                                           {.device = "down0"},
                                           {.device = "up1", .port = 2},
                                           {.device = "up1", .gid_index = 7},
                                           {.device = {}, .mtu_bytes = 1500},
                                           {.device = {}, .mtu_bytes = 8192}};
  for (const DeviceWish& wish : refused) {
    const auto choice = choose(devices, wish);
    ASSERT_FALSE(choice.has_value());
    EXPECT_EQ(choice.error().code, Code::kUnsupported);
    EXPECT_NE(choice.error().next.find("up1"), std::string::npos) << choice.error().to_string();
  }
}

TEST(VerbsDevice, a_host_without_device_is_told_so) {
  const auto choice = choose({}, {});
  ASSERT_FALSE(choice.has_value());
  EXPECT_NE(choice.error().next.find("no RDMA device"), std::string::npos);
}

TEST(VerbsDevice, addresses_are_written_as_people_know_them) {
  const GidFacts four{.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1}, .interface = {}};
  EXPECT_EQ(four.to_string(), "10.77.0.1");
  const GidFacts six{.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, .interface = {}};
  EXPECT_EQ(six.to_string(), "fe80::1");
}

// Whatever this host has: a list, or a sentence that says what to install; and a domain that cannot be is
// refused with one.
TEST(VerbsDevice, the_library_is_optional_and_its_absence_is_a_sentence) {
  const auto devices = list_devices();
  if (!devices) {
    EXPECT_EQ(devices.error().code, Code::kUnsupported);
    EXPECT_FALSE(devices.error().next.empty());
    EXPECT_EQ(OpenDevice::open({}).error().code, Code::kUnsupported);
    return;
  }
  const auto missing = OpenDevice::open({.device = "no such device"});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace refract::fabric::verbs
