// SPDX-License-Identifier: Apache-2.0
#include "bench/load/store_driver.h"

#include <fmt/core.h>

#include <barrier>
#include <thread>

namespace refract::bench {

std::string_view text(Waiting waiting) noexcept {
  return waiting == Waiting::kPolling ? "polling" : waiting == Waiting::kBlocking ? "blocking" : "adaptive";
}

Reported<WorkloadResult> run_workload(StoreDriver& driver, Workload& workload) {
  const uint64_t requests_before = driver.requests_sent();
  workload.begin();
  if (const Reported<> ran = driver.run(workload); !ran) return report(ran.error());
  WorkloadResult result = workload.end();
  result.requests = driver.requests_sent() - requests_before;
  if (result.wrong == 0) return result;
  return report(Code::kCorrupt,
                fmt::format("{} of {} gets brought the wrong value", result.wrong, result.operations));
}

Reported<WorkloadResult> run_clients(const std::vector<WorkloadOptions>& workloads, const Timer& timer,
                                     const DriverFactory& connect, const std::vector<size_t>& cores) {
  std::vector<Reported<WorkloadResult>> results(workloads.size());
  std::barrier all_connected(static_cast<ptrdiff_t>(workloads.size()));
  const auto client = [&](size_t k) {
    if (!cores.empty()) {
      pin_to_core(cores[k]);
    } else {
      unpin();
    }
    Workload workload(workloads[k], timer);
    const Reported<std::unique_ptr<StoreDriver>> driver = connect();
    all_connected.arrive_and_wait();
    const Counters counters = Counters::of_this_thread();
    results[k] = driver ? run_workload(**driver, workload) : report(driver.error());
    if (results[k]) results[k]->counts = counters.during(results[k]->operations);
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(workloads.size());
    for (size_t k = 0; k < workloads.size(); ++k) threads.emplace_back(client, k);
  }
  WorkloadResult sum;
  for (const Reported<WorkloadResult>& result : results) {
    if (!result) return report(result.error());
    sum.add_beside(*result);
  }
  return sum;
}

}  // namespace refract::bench
