// SPDX-License-Identifier: Apache-2.0
// What the doctor says about RDMA: the library, the devices and their ports, the address that would be used
// and why, and the memory that a device may pin.
#pragma once

#include <vector>

#include "refract/fabric/verbs/device.h"
#include "refract/node/doctor/doctor.h"

namespace refract::node {

// One finding "rdma"; where there are devices one "rdma device" for each, one "rdma port" for each of its
// ports, and "rdma path" and "rdma memory". Nothing here is a failure, for without RDMA a node serves by
// shared memory and TCP; but for a device that the configuration names, without which a node that listens
// does not start.
[[nodiscard]] std::vector<Finding> examine_rdma(
    const DoctorInputs& inputs, const Reported<std::vector<fabric::verbs::DeviceFacts>>& devices);

// As above, of this machine; the devices of another one, whose /proc and /sys `inputs` may name, cannot be
// asked.
[[nodiscard]] std::vector<Finding> examine_rdma(const DoctorInputs& inputs);

// What a node with this configuration would take on this machine, or why it takes none.
[[nodiscard]] Reported<fabric::verbs::DeviceChoice> rdma_choice(const DoctorInputs& inputs);

}  // namespace refract::node
