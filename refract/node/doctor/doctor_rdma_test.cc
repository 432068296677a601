// SPDX-License-Identifier: Apache-2.0
// The doctor says which RDMA devices there are, which path a node would take, and what keeps it from that.
//
// Method: devices as a host might have them, one thing after the other wrong with them. The devices of this
// host are asked once, whatever they are.
#include "refract/node/doctor/doctor_rdma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "refract/base/units.h"
#include "refract/memory/testing/fake_system.h"

namespace refract::node {
namespace {

namespace verbs = fabric::verbs;
using testing::HasSubstr;

verbs::GidFacts ipv4_address(uint32_t index, uint8_t host) {
  return {.index = index,
          .gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, host},
          .kind = verbs::GidKind::kRoce2Ipv4,
          .interface = "eth7"};
}

verbs::DeviceFacts healthy_device() {
  verbs::DeviceFacts device{.name = "mlx5_0", .firmware = "16.35", .limits = {}, .ports = {}, .fault = {}};
  device.limits = {.region_bytes_max = kGiB << 10,
                   .regions_max = 1000,
                   .queue_pairs_max = 500,
                   .work_requests_max = 8192,
                   .completions_max = 100'000,
                   .receives_max = 4096,
                   .reads_in_max = 16,
                   .reads_out_max = 16,
                   .has_atomics = true,
                   .atomics_coherent_with_cpu = false};
  device.ports.push_back({.number = 1,
                          .is_active = true,
                          .state = "active",
                          .link_layer = verbs::LinkLayer::kEthernet,
                          .mtu_bytes = 4096,
                          .mtu_bytes_max = 4096,
                          .lid = 0,
                          .gids = {ipv4_address(3, 5)}});
  return device;
}

struct DoctorRdma : testing::Test {
  test::FakeSystem system;
  DoctorInputs inputs;
  std::vector<verbs::DeviceFacts> devices = {healthy_device()};

  DoctorRdma() {
    inputs.memory_limit_bytes = 4 * kMiB;
    inputs.system = system.root();
    system.write("sys/class/infiniband/mlx5_0/fw_ver", "16.35\n");
    system.write("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  }

  void expect(const std::vector<Finding>& findings, std::string_view name, Health health,
              const std::string& found, const std::string& mend) const {
    for (const Finding& one : findings) {
      if (one.name != name) continue;
      EXPECT_EQ(one.health, health) << name << ": " << one.found;
      EXPECT_THAT(one.found, HasSubstr(found));
      EXPECT_THAT(one.mend, HasSubstr(mend));
      EXPECT_EQ(one.mend.empty(), health == Health::kOk) << name;
      return;
    }
    ADD_FAILURE() << "no finding is called " << name;
  }
  void expect(std::string_view name, Health health, const std::string& found, const std::string& mend) const {
    expect(examine_rdma(inputs, devices), name, health, found, mend);
  }
};

TEST_F(DoctorRdma, a_healthy_device_has_nothing_to_mend_and_its_path_a_reason) {
  for (const Finding& found : examine_rdma(inputs, devices)) {
    EXPECT_EQ(found.health, Health::kOk) << found.name << ": " << found.found;
    EXPECT_EQ(found.mend, "") << found.name;
  }
  expect("rdma", Health::kOk, "1 device: mlx5_0", "");
  expect("rdma device", Health::kOk, "mlx5_0, firmware 16.35: 500 queue pairs of 8192 requests", "");
  expect("rdma port", Health::kOk,
         "mlx5_0 port 1: Ethernet, active, MTU 4096 of 4096; addresses 3 10.77.0.5 (RoCE v2 IPv4)", "");
  expect("rdma path", Health::kOk, "address 3 (10.77.0.5, RoCE v2 IPv4), MTU 4096: the first", "");
}

TEST_F(DoctorRdma, a_host_without_device_is_healthy_and_one_that_hides_it_is_not) {
  devices.clear();
  expect("rdma", Health::kOk, "no device on this host", "");
  test::FakeSystem bare;
  inputs.system = bare.root();
  EXPECT_EQ(examine_rdma(inputs, devices).size(), 1U);
  expect("rdma", Health::kOk, "clients read over shared memory and TCP", "");
  bare.write("sys/class/infiniband/mlx5_0/fw_ver", "16.35\n");
  expect("rdma", Health::kWarn, "no program can reach it", "modprobe ib_uverbs");
}

TEST_F(DoctorRdma, a_missing_library_matters_where_the_kernel_has_rdma) {
  const Reported<std::vector<verbs::DeviceFacts>> none =
      report(Code::kUnsupported, "RDMA needs libibverbs.so.1: no such file", "apt-get install libibverbs1");
  expect(examine_rdma(inputs, none), "rdma", Health::kWarn, "libibverbs.so.1", "apt-get install libibverbs1");
  const test::FakeSystem bare;
  inputs.system = bare.root();
  expect(examine_rdma(inputs, none), "rdma", Health::kOk, "libibverbs.so.1", "");
}

TEST_F(DoctorRdma, a_device_that_cannot_be_opened_or_lacks_what_we_use_is_named) {
  devices[0].limits.has_atomics = false;
  expect("rdma device", Health::kWarn, "it has no atomics", "another device");
  devices[0].limits.receives_max = 0;
  expect("rdma device", Health::kWarn, "it has no atomics and shared receive queues", "another device");
  devices[0].fault = "it cannot be opened: Permission denied";
  expect("rdma device", Health::kWarn, "mlx5_0: it cannot be opened", "/dev/infiniband/uverbs*");
}

TEST_F(DoctorRdma, a_port_that_is_down_or_slow_has_the_command_that_mends_it) {
  devices[0].ports[0].mtu_bytes = 1024;
  expect("rdma port", Health::kWarn, "MTU 1024 of 4096", "ip link set dev eth7 mtu 4200");
  devices[0].ports[0].is_active = false;
  devices[0].ports[0].state = "down";
  expect("rdma port", Health::kWarn, "Ethernet, down", "ip link set dev eth7 up");
  expect("rdma path", Health::kWarn, "no RDMA device has an active port", "mlx5_0 (port 1 down)");
  devices[0].ports[0].link_layer = verbs::LinkLayer::kInfiniBand;
  expect("rdma port", Health::kWarn, "InfiniBand, down", "opensm");
}

TEST_F(DoctorRdma, the_device_that_the_configuration_names_is_looked_for) {
  inputs.rdma_device = "mlx5_7";
  expect("rdma path", Health::kWarn, "no RDMA device named 'mlx5_7'", "mlx5_0");
  inputs.listen_address = "127.0.0.1:7400";
  expect("rdma path", Health::kFail, "no RDMA device named 'mlx5_7'", "mlx5_0");
  inputs.rdma_device = "mlx5_0";
  expect("rdma path", Health::kOk, "the device that was named", "");
  inputs.rdma_device = "";
  expect("rdma path", Health::kOk, "rdma.device is none", "");
  inputs.rdma_device = "mlx5_7";
  devices.clear();
  expect("rdma path", Health::kFail, "no RDMA device named 'mlx5_7'", "no RDMA device");
}

TEST_F(DoctorRdma, an_address_that_no_router_passes_on_is_a_warning) {
  devices[0].ports[0].gids[0].kind = verbs::GidKind::kRoce2LinkLocal;
  expect("rdma path", Health::kWarn, "RoCE v2 link-local", "ip addr add ADDRESS dev eth7");
  devices[0].ports[0].gids.clear();
  expect("rdma port", Health::kWarn, "addresses none", "ip addr add ADDRESS dev INTERFACE");
}

TEST_F(DoctorRdma, memory_that_cannot_be_pinned_is_seen) {
  expect("rdma memory", Health::kOk, "8 MiB may be pinned, memory.limit 4 MiB", "");
  inputs.memory_limit_bytes = kGiB;
  expect("rdma memory", Health::kWarn, "8 MiB may be pinned, memory.limit 1 GiB", "ulimit -l unlimited");
  system.write("proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
  expect("rdma memory", Health::kOk, "all memory may be pinned", "");
  devices[0].limits.region_bytes_max = 256 * kMiB;
  expect("rdma memory", Health::kOk, "in registrations of 256 MiB", "");
  inputs.backing = {BackingKind::kFile, "/var/lib/refract"};
  expect("rdma memory", Health::kWarn, "files in /var/lib/refract", "memfd: or hugetlb:");
}

TEST(DoctorRdmaHere, this_host_can_be_asked_and_nothing_of_it_fails) {
  const DoctorInputs inputs;
  for (const Finding& found : examine_rdma(inputs)) EXPECT_NE(found.health, Health::kFail) << found.found;
}

}  // namespace
}  // namespace refract::node
