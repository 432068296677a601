// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/idleness.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <array>
#include <ctime>

#include "refract/base/units.h"

namespace refract::bench {
namespace {

// Of this process, without the system calls that use_of() takes, which would count as use.
test::ProcessUse own_use() {
  timespec time = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  test::ProcessUse use;
  use.cpu_ns = static_cast<uint64_t>(time.tv_sec) * kSecond_ns + static_cast<uint64_t>(time.tv_nsec);
  use.context_switches = static_cast<uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw);
  return use;
}

}  // namespace

Outcome measure_idleness(const PrivateNode& node, uint64_t duration_ns,
                         const std::function<void(uint64_t)>& idle) {
  idle(300 * kMillisecond_ns);

  const std::array<pid_t, 2> others = {node.keeper(), node.server()};
  std::array<test::ProcessUse, 3> before = {test::use_of(others[0]), test::use_of(others[1]), {}};
  const uint64_t start_ns = now_ns();
  before[2] = own_use();
  idle(duration_ns);
  std::array<test::ProcessUse, 3> after = {{{}, {}, own_use()}};
  const double seconds = static_cast<double>(now_ns() - start_ns) * 1e-9;
  for (size_t i = 0; i < others.size(); ++i) after[i] = test::use_of(others[i]);

  Outcome outcome;
  double total_ms = 0;
  constexpr std::array<const char*, 3> kNames = {"keeper", "server", "client"};
  for (size_t i = 0; i < kNames.size(); ++i) {
    const double ms = static_cast<double>(after[i].cpu_ns - before[i].cpu_ns) * 1e-6;
    const uint64_t switches = after[i].context_switches - before[i].context_switches;
    total_ms += ms;
    outcome.details.push_back({kNames[i], ms, "ms"});
    outcome.details.push_back({fmt::format("{} woken", kNames[i]), static_cast<double>(switches), "times"});
  }
  outcome.samples = {total_ms / seconds};
  outcome.note = fmt::format("over {:.1f} s; the client is this program", seconds);
  return outcome;
}

}  // namespace refract::bench
