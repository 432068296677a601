// SPDX-License-Identifier: Apache-2.0
#include "tests/network/node_use.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "tests/process/node_process.h"

#include "refract/base/units.h"

namespace refract::test {

uint64_t private_bytes(pid_t process) {
  const std::string status = read_whole("/proc/" + std::to_string(process) + "/status");
  const size_t at = status.find("RssAnon:");
  return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + 8, nullptr, 10) * kKiB;
}

size_t descriptors_of(pid_t process) {
  std::error_code ignored;
  const std::filesystem::directory_iterator folder("/proc/" + std::to_string(process) + "/fd", ignored);
  return static_cast<size_t>(std::distance(begin(folder), end(folder)));
}

uint64_t threads_of(pid_t process) {
  const std::string status = read_whole("/proc/" + std::to_string(process) + "/status");
  const size_t at = status.find("Threads:");
  return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + 8, nullptr, 10);
}

size_t mappings_of(pid_t process) {
  const std::string maps = read_whole("/proc/" + std::to_string(process) + "/maps");
  return static_cast<size_t>(std::ranges::count(maps, '\n'));
}

size_t descriptors_max(pid_t process) {
  rlimit limit{};
  return ::prlimit(process, RLIMIT_NOFILE, nullptr, &limit) == 0 ? limit.rlim_cur : 0;
}

uint64_t sanitizer_bytes() {
#ifdef REFRACT_DCHECK_ON
  return 512 * kMiB;
#else
  return 0;
#endif
}

}  // namespace refract::test
