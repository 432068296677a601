// SPDX-License-Identifier: Apache-2.0
// The doctor tries each path that could work, and says what became of it.
#include "refract/node/doctor/doctor_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace refract::node {
namespace {

namespace verbs = fabric::verbs;
using testing::ElementsAre;
using testing::HasSubstr;

verbs::DeviceFacts device_named(const std::string& name) {
  verbs::DeviceFacts device{.name = name, .firmware = {}, .limits = {}, .ports = {}, .fault = {}};
  device.ports.push_back({.number = 1, .is_active = true, .state = "active", .gids = {{.interface = {}}}});
  return device;
}

std::vector<std::string> names_of(const std::vector<PortPath>& paths) {
  std::vector<std::string> names;
  for (const PortPath& path : paths) names.push_back(path.from.device + "-" + path.to.device);
  return names;
}

TEST(DoctorPaths, each_port_meets_itself_and_each_other_one) {
  std::vector<verbs::DeviceFacts> devices = {device_named("a"), device_named("b"), device_named("c")};
  EXPECT_THAT(names_of(port_paths(devices)), ElementsAre("a-a", "b-b", "c-c", "a-b", "a-c", "b-c"));
  devices[1].ports[0].is_active = false;
  EXPECT_THAT(names_of(port_paths(devices)), ElementsAre("a-a", "c-c", "a-c"));
  devices[0].fault = "it cannot be opened";
  EXPECT_THAT(names_of(port_paths(devices)), ElementsAre("c-c"));
  devices[2].ports[0].gids.clear();
  EXPECT_TRUE(port_paths(devices).empty());
}

TEST(DoctorPaths, of_many_ports_some_are_tried) {
  std::vector<verbs::DeviceFacts> devices;
  for (const char* const name : {"a", "b", "c", "d", "e", "f", "g", "h"})
    devices.push_back(device_named(name));
  EXPECT_EQ(port_paths(devices).size(), 10U);
}

TEST(DoctorPaths, what_was_measured_stands_in_the_sentence_and_as_figures) {
  const PathFigures figures{
      .read = {.ns_p50 = 2'000, .ns_p99 = 3'000},
      .message = {.ns_p50 = 5'000, .ns_p99 = 9'000},
      .large = {
          {{.request_bytes = 64 * kKiB,
            .read_bytes_per_s = 11'000'000'000,
            .write_bytes_per_s = 10'000'000'000},
           {.request_bytes = kMiB, .read_bytes_per_s = 12'000'000'000, .write_bytes_per_s = 900'000'000}}}};
  const Finding finding = finding_of("self-test verbs", "a port 1 to itself", figures);
  EXPECT_EQ(finding.health, Health::kOk);
  EXPECT_EQ(finding.found,
            "a port 1 to itself: READ of 8 B 2.0 us (p99 3.0 us), message and answer 5.0 us (p99 9.0 us); of "
            "64 KiB READ 11.0 GB/s, WRITE 10.0 GB/s; of 1 MiB READ 12.0 GB/s, WRITE 900.0 MB/s");
  EXPECT_THAT(findings_json(std::vector<Finding>{finding}),
              HasSubstr(R"("figures":{"message_ns_p50":5000,"message_ns_p99":9000,)"
                        R"("read_1024kib_bytes_per_s":12000000000,"read_64kib_bytes_per_s":11000000000,)"
                        R"("read_ns_p50":2000,"read_ns_p99":3000,"write_1024kib_bytes_per_s":900000000,)"
                        R"("write_64kib_bytes_per_s":10000000000})"));
}

TEST(DoctorPaths, a_path_that_does_not_work_is_a_warning_with_what_to_do) {
  const Reported<PathFigures> none = report(Code::kUnavailable, "a READ of 8 B failed: no answer", "ping it");
  const Finding finding = finding_of("self-test verbs", "a port 1 to b port 1", none);
  EXPECT_EQ(finding.health, Health::kWarn);
  EXPECT_EQ(finding.found, "a port 1 to b port 1: a READ of 8 B failed: no answer");
  EXPECT_EQ(finding.mend, "ping it");
  EXPECT_TRUE(finding.figures.empty());
}

TEST(DoctorPaths, this_host_has_figures_for_shared_memory_and_sockets) {
  std::vector<std::string> paths;
  SelfTestOptions options;
  options.meter.each_ns = kMillisecond_ns;
  options.on_path = [&paths](std::string_view path) { paths.emplace_back(path); };
  const std::vector<Finding> findings = self_test(options);
  ASSERT_GE(findings.size(), 2U);
  EXPECT_EQ(paths.size(), findings.size());
  EXPECT_EQ(findings[0].name, "self-test shm");
  EXPECT_EQ(findings[1].name, "self-test tcp");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(findings[i].health, Health::kOk) << findings[i].found;
    EXPECT_EQ(findings[i].figures.size(), 8U);
  }
  EXPECT_EQ(self_test_figures(), kFiguresOfPath * findings.size());
}

}  // namespace
}  // namespace refract::node
