// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/machine.h"

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/utsname.h>

#include <ctime>
#include <fstream>

#include "bench/commit.h"
#include "bench/measure/measure.h"

namespace refract::bench {
namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// Of "always [madvise] never", the word in brackets.
std::string chosen(const std::string& choices) {
  const size_t open = choices.find('[');
  const size_t close = choices.find(']');
  if (open == std::string::npos || close == std::string::npos) return "unknown";
  return choices.substr(open + 1, close - open - 1);
}

}  // namespace

unsigned long meminfo(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string found;
  unsigned long value = 0;
  for (std::string unit; file >> found >> value; std::getline(file, unit)) {
    if (found == name + ":") return value;
  }
  return 0;
}

Machine this_machine() {
  utsname system = {};
  ::uname(&system);
  const std::string transparent = "/sys/kernel/mm/transparent_hugepage/";
  return {.commit = kCommit,
          .compiler = kCompiler,
          .cpu = cpu_model(),
          .cores = fmt::format("{}", core_count()),
          .kernel = system.release,
          .pages = fmt::format(
              "4 KiB; transparent: {}, for shared memory: {}; hugetlb: {} of {} KiB, {} free",
              chosen(first_line(transparent + "enabled")), chosen(first_line(transparent + "shmem_enabled")),
              meminfo("HugePages_Total"), meminfo("Hugepagesize"), meminfo("HugePages_Free")),
          .memory = fmt::format("{} MiB", meminfo("MemTotal") / 1024),
          .date = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)))};
}

std::string line_of(const Machine& machine) {
  return fmt::format("refract-bench {} ({}), {} x {}, Linux {}", machine.commit, machine.compiler,
                     machine.cores, machine.cpu, machine.kernel);
}

}  // namespace refract::bench
