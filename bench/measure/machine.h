// SPDX-License-Identifier: Apache-2.0
// On what, and with which build, something was measured.
#pragma once

#include <string>

namespace refract::bench {

struct Machine {
  std::string commit;  // With "-dirty" where files differed from it when this was built.
  std::string compiler;
  std::string cpu;
  std::string cores;
  std::string kernel;
  std::string pages;  // Which huge pages the kernel has and grants.
  std::string memory;
  std::string date;  // UTC.
};
[[nodiscard]] Machine this_machine();
// "refract-bench COMMIT (COMPILER), 2 x CPU, Linux KERNEL"
[[nodiscard]] std::string line_of(const Machine& machine);

// Of a name in /proc/meminfo, in the file's unit; 0 where it is not there.
[[nodiscard]] unsigned long meminfo(const std::string& name);

}  // namespace refract::bench
