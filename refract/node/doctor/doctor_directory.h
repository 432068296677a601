// SPDX-License-Identifier: Apache-2.0
// Whether the Redis that is to have the directory answers, with the password that the node would say.
#pragma once

#include "refract/node/doctor/doctor.h"

namespace refract::node {

// REQUIRES: inputs.directory is not empty.
[[nodiscard]] Finding examine_directory(const DoctorInputs& inputs);

}  // namespace refract::node
