// SPDX-License-Identifier: Apache-2.0
// What the doctor says about the node's sockets: those on which clients of this host meet it, and TCP.
#pragma once

#include <vector>

#include "refract/node/doctor/doctor.h"

namespace refract::node {

// One finding "socket"; with a listen_address also those of "port", "secret", "backlog" and "tcp buffers".
[[nodiscard]] std::vector<Finding> examine_network(const DoctorInputs& inputs);

}  // namespace refract::node
