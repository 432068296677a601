// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/beside.h"

#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/measure/measure.h"

namespace refract::bench {
namespace {

// In the child, in place: no lock, which another thread of the parent may have held.
void forget_settings() {
  char** kept = environ;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("REFRACT_")) *kept++ = *entry;
  }
  *kept = nullptr;
}

}  // namespace

Reported<test::Process> start_beside(test::Process::Program program, int cpu) {
  std::error_code ignored;
  std::filesystem::remove(program.output_path, ignored);
  program.last_signal = SIGTERM;
  program.before = [cpu] {
    forget_settings();
    // The bench sits on one core; what it starts may use all, unless it is bound itself.
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (cpu >= 0) CPU_SET(cpu, &cores);
    for (size_t i = 0; cpu < 0 && i < core_count(); ++i) CPU_SET(core_number(i), &cores);
    (void)::sched_setaffinity(0, sizeof(cores), &cores);
  };
  return test::Process::start(program);
}

uint64_t family_waited_ns() {
  uint64_t waited_ns = 0;
  std::vector<pid_t> family = {::getpid()};
  for (size_t i = 0; i < family.size(); ++i) {
    waited_ns += test::use_of(family[i]).waited_ns;
    const std::vector<pid_t> children = test::children_of(family[i], /*with_ended=*/true);
    family.insert(family.end(), children.begin(), children.end());
  }
  return waited_ns;
}

}  // namespace refract::bench
