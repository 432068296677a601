// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/counters.h"

#include <fmt/core.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace refract::bench {
namespace {

Descriptor open_counter(pid_t thread, uint64_t what, bool with_kernel) {
  perf_event_attr attributes = {};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = what;
  attributes.exclude_kernel = with_kernel ? 0 : 1;
  attributes.exclude_hv = 1;
  const long descriptor = ::syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
  return Descriptor(static_cast<int>(descriptor));
}

std::optional<uint64_t> count_of(const Descriptor& counter) {
  uint64_t count = 0;
  if (::read(counter.get(), &count, sizeof(count)) != sizeof(count)) return std::nullopt;
  return count;
}

}  // namespace

Counters Counters::of_this_thread() {
  Counters counters;
  counters.add(0);
  return counters;
}

Counters Counters::of_process(pid_t pid) {
  Counters counters;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(fmt::format("/proc/{}/task", pid), error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    pid_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc()) {
      counters.add(thread);
    }
  }
  return counters;
}

void Counters::add(pid_t thread) {
  for (const bool with_kernel : {true, false}) {
    Pair pair{.cycles = open_counter(thread, PERF_COUNT_HW_CPU_CYCLES, with_kernel),
              .instructions = open_counter(thread, PERF_COUNT_HW_INSTRUCTIONS, with_kernel),
              .has_kernel = with_kernel};
    if (pair.cycles.get() < 0 || pair.instructions.get() < 0) continue;
    pairs_.push_back(std::move(pair));
    return;
  }
  is_complete_ = false;
}

Counts Counters::during(uint64_t operations) const {
  if (pairs_.empty() || !is_complete_) return {};
  Counts sum{.operations = operations};
  for (const Pair& pair : pairs_) {
    const std::optional<uint64_t> cycles = count_of(pair.cycles);
    const std::optional<uint64_t> instructions = count_of(pair.instructions);
    if (!cycles || !instructions) return {};
    sum += {.cycles = *cycles, .instructions = *instructions, .has_kernel = pair.has_kernel};
  }
  return sum;
}

}  // namespace refract::bench
