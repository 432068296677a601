// SPDX-License-Identifier: Apache-2.0
// The doctor's self-test: each provider between two ends in this process, and each RDMA port with itself and
// with each other one, with what they carry.
//
// Changes nothing and leaves nothing behind: a socket in a folder of its own, a free port of the loop-back
// interface. Some seconds of one core.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/fabric/verbs/device.h"
#include "refract/node/doctor/doctor.h"
#include "refract/node/doctor/path_meter.h"

namespace refract::node {

struct SelfTestOptions {
  MeterOptions meter = {};
  // How many figures are taken, and of what, before the first of each path.
  std::function<void(std::string_view path)> on_path = {};
};

// Of this machine: a finding "self-test shm", "self-test tcp", and one "self-test verbs" for each path
// between active ports. A path that does not work is a warning; its figures are missing.
[[nodiscard]] std::vector<Finding> self_test(const SelfTestOptions& options);

// How many figures that takes at most, for a progress line.
[[nodiscard]] uint64_t self_test_figures();

// From one active port to another, or to itself.
struct PortPath {
  fabric::verbs::DeviceWish from;
  fabric::verbs::DeviceWish to;
};
// Each port with itself, then each two of them; of many ports the first few.
[[nodiscard]] std::vector<PortPath> port_paths(std::span<const fabric::verbs::DeviceFacts> devices);

// What became of one path; for a person, `path` is what lies between: "rxe0 to rxe1".
[[nodiscard]] Finding finding_of(std::string_view name, std::string_view path,
                                 const Reported<PathFigures>& figures);

}  // namespace refract::node
