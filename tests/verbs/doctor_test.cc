// SPDX-License-Identifier: Apache-2.0
// The doctor sees the devices that are there, tries each path between them, and follows the path to a node.
// What it says about devices that are not well is shown beside it, on devices made up for that.
#include "refract/node/doctor/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/process/node_process.h"

#include "refract/fabric/verbs/device_names.h"
#include "refract/node/doctor/doctor_paths.h"
#include "refract/node/doctor/doctor_peer.h"

namespace refract::test {
namespace {

using node::Finding;
using node::Health;

Finding finding_named(const std::vector<Finding>& findings, std::string_view name) {
  const auto found = std::ranges::find(findings, name, &Finding::name);
  return found == findings.end() ? Finding{} : *found;
}

bool says(const Finding& finding, std::string_view what) {
  return finding.found.find(what) != std::string::npos;
}

NodeOptions listening() {
  return {.arguments = {"--listen-address", "127.0.0.1:0", "--memory-limit", "64MiB"}};
}

node::PeerInputs peer_of(const Node& node) {
  return {.place = node.tcp_address(), .options = {.timeout_ns = kPatience_ns}, .each_ns = 1'000'000};
}

TEST(DoctorMachine, the_doctor_names_the_devices_the_path_and_what_a_small_mtu_costs) {
  const std::vector<Finding> findings = node::examine({.memory_limit_bytes = 1 << 20});
  const auto find = [&findings](std::string_view name) { return finding_named(findings, name); };
  EXPECT_TRUE(says(find("rdma"), "rxe0")) << find("rdma").found;
  EXPECT_TRUE(says(find("rdma path"), "10.77.0.1, RoCE v2 IPv4"));
  EXPECT_EQ(find("rdma memory").health, Health::kOk) << find("rdma memory").found;
  const char* const mtu = std::getenv("REFRACT_VERBS_MTU");
  const bool is_small = mtu != nullptr && std::string(mtu) == "1024";
  EXPECT_EQ(find("rdma port").health, is_small ? Health::kWarn : Health::kOk);
  EXPECT_EQ(find("rdma port").mend.empty(), !is_small);
}

TEST(DoctorMachine, each_port_is_tried_with_itself_and_with_the_other_one) {
  node::SelfTestOptions options;
  options.meter = {.each_ns = 1'000'000, .patience_ns = kPatience_ns};
  const std::vector<Finding> findings = node::self_test(options);
  size_t tried = 0;
  for (const Finding& finding : findings) {
    if (finding.name != "self-test verbs") continue;
    ++tried;
    EXPECT_EQ(finding.health, Health::kOk) << finding.found;
    EXPECT_EQ(finding.figures.size(), 8u) << finding.found;
    for (const node::Figure& figure : finding.figures) EXPECT_GT(figure.value, 0u) << figure.name;
  }
  const size_t devices = fabric::verbs::device_names().size();
  EXPECT_EQ(tried, devices + devices * (devices - 1) / 2);
  EXPECT_EQ(node::self_test_figures(), node::kFiguresOfPath * findings.size());
  const bool names_the_pair = says(findings.back(), "rxe0 port 1 to rxe1 port 1");
  EXPECT_EQ(names_the_pair, devices == 2) << findings.back().found;
}

TEST(DoctorMachine, the_path_to_a_node_beyond_shared_memory_is_rdma) {
  Node node(listening());
  ASSERT_TRUE(node.is_up()) << node.errors();
  // As from another container.
  ASSERT_EQ(std::rename(node.socket_path().c_str(), (node.socket_path() + ".elsewhere").c_str()), 0);
  const std::vector<Finding> findings = node::examine_peer(peer_of(node));
  const Finding verbs = finding_named(findings, "peer verbs");
  EXPECT_EQ(verbs.health, Health::kOk) << verbs.found;
  EXPECT_TRUE(says(verbs, "through rxe0 port 1 from 10.77.0.1 to 10.77.0.1 (RoCE v2 IPv4), MTU "))
      << verbs.found;
  EXPECT_EQ(verbs.figures.size(), 4u);
  for (const node::Figure& figure : verbs.figures) EXPECT_GT(figure.value, 0u) << figure.name;
  const Finding last = finding_named(findings, "verdict");
  EXPECT_TRUE(last.found.starts_with("verbs: ")) << last.found;
  EXPECT_TRUE(says(last, "not shm: ")) << last.found;
  EXPECT_EQ(node.stop(), 0);
}

TEST(DoctorMachine, a_node_without_rdma_is_a_warning_and_the_verdict_says_why) {
  NodeOptions options = listening();
  options.arguments.insert(options.arguments.end(), {"--rdma-device", "none"});
  Node node(options);
  ASSERT_TRUE(node.is_up()) << node.errors();
  ASSERT_EQ(std::rename(node.socket_path().c_str(), (node.socket_path() + ".elsewhere").c_str()), 0);
  node::PeerInputs inputs = peer_of(node);
  inputs.options.timeout_ns = 20'000'000'000;
  const std::vector<Finding> findings = node::examine_peer(inputs);
  const Finding verbs = finding_named(findings, "peer verbs");
  EXPECT_EQ(verbs.health, Health::kWarn) << verbs.found;
  EXPECT_FALSE(verbs.mend.empty());
  const Finding last = finding_named(findings, "verdict");
  EXPECT_TRUE(last.found.starts_with("tcp: ")) << last.found;
  EXPECT_TRUE(says(last, "not verbs: ")) << last.found;
}

// Pulled out as one pulls a plug, and put back whatever becomes of the test.
class DeadLink {
 public:
  DeadLink() { run("ip link set veth0 down"); }
  DeadLink(const DeadLink&) = delete;
  DeadLink& operator=(const DeadLink&) = delete;
  ~DeadLink() { run("ip link set veth0 up && bash /run/verbs-vm/network-script again veth0"); }

 private:
  static void run(const char* command) { EXPECT_EQ(std::system(command), 0) << command; }
};

TEST(DoctorMachine, ports_that_are_down_are_said_and_tcp_is_taken) {
  if (fabric::verbs::device_names().size() != 2) GTEST_SKIP() << "only the machine with the cable has a plug";
  Node node(listening());
  ASSERT_TRUE(node.is_up()) << node.errors();
  ASSERT_EQ(std::rename(node.socket_path().c_str(), (node.socket_path() + ".elsewhere").c_str()), 0);
  {
    const DeadLink dead;
    const std::vector<Finding> here = node::examine({.memory_limit_bytes = 1 << 20});
    EXPECT_EQ(finding_named(here, "rdma port").health, Health::kWarn);
    EXPECT_TRUE(says(finding_named(here, "rdma path"), "no RDMA device has an active port"));
    node::PeerInputs inputs = peer_of(node);
    inputs.options.timeout_ns = 20'000'000'000;
    const std::vector<Finding> findings = node::examine_peer(inputs);
    const Finding verbs = finding_named(findings, "peer verbs");
    EXPECT_EQ(verbs.health, Health::kWarn);
    EXPECT_TRUE(says(verbs, "no RDMA device has an active port")) << verbs.found;
    EXPECT_TRUE(verbs.mend.find("port 1 down") != std::string::npos) << verbs.mend;
    const Finding last = finding_named(findings, "verdict");
    EXPECT_TRUE(last.found.starts_with("tcp: ")) << last.found;
    EXPECT_TRUE(says(last, "port 1 down")) << last.found;
    // Found out by a server, since the device is there; and by one alone, since the next would fare alike.
    NodeOptions named = listening();
    named.arguments.insert(named.arguments.end(), {"--rdma-device", "rxe0"});
    Node refused(named);
    EXPECT_EQ(refused.process().wait(), 1);
    const std::string errors = refused.errors();
    const std::string what = "rxe0 has no active port";
    ASSERT_NE(errors.find(what), std::string::npos) << errors;
    EXPECT_EQ(errors.find(what), errors.rfind(what)) << errors;
    EXPECT_NE(errors.find("cannot run as the configuration asks"), std::string::npos) << errors;
  }
}

}  // namespace
}  // namespace refract::test
