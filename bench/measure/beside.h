// SPDX-License-Identifier: Apache-2.0
// Programs that the bench runs beside itself, and how long all of them have waited for cores.
#pragma once

#include <cstdint>

#include "refract/base/report.h"
#include "refract/base/testing/processes/process.h"

namespace refract::bench {

// Without the settings that the caller has for nodes of its own. On the core with this number of the
// system's; -1: on all that the bench had at its start. Ends by SIGTERM; its output begins an empty file.
[[nodiscard]] Reported<test::Process> start_beside(test::Process::Program program, int cpu = -1);

// How long this process, and all that it started, have waited for cores so far.
[[nodiscard]] uint64_t family_waited_ns();

}  // namespace refract::bench
