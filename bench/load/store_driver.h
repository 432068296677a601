// SPDX-License-Identifier: Apache-2.0
// One client of a store, as a workload sees it.
//
// Up to `depth` operations are in flight at a time. They go out in batches: a batch begins when all of its
// operations are due and there is room for it, so a batch of 1 is a sliding window, and one of `depth` waits
// for the last answer before it asks again.
//
// Threads: made, used and destroyed by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/load/workload.h"

#include "refract/base/report.h"
#include "refract/base/units.h"

namespace refract::bench {

// What a client does while it has nothing to do. Under a rate it polls in any case, because who sleeps is
// late.
enum class Waiting : uint8_t {
  kAdaptive,  // Looks for 20 us, then sleeps.
  kPolling,   // Never sleeps.
  kBlocking,  // Sleeps at once.
};
[[nodiscard]] constexpr uint64_t spin_ns_of(Waiting waiting, bool has_rate) noexcept {
  if (has_rate || waiting == Waiting::kPolling) return kForever_ns;
  return waiting == Waiting::kBlocking ? 0 : 20 * kMicrosecond_ns;
}
[[nodiscard]] std::string_view text(Waiting waiting) noexcept;

struct DriverOptions {
  size_t depth = 1;
  size_t batch = 1;  // REQUIRES: at most `depth`.
  Waiting waiting = Waiting::kAdaptive;
  bool has_rate = false;  // Its workloads have one.
  bool has_scans = false;
};

class StoreDriver {
 public:
  virtual ~StoreDriver() = default;
  // From Workload::begin to its end, all operations answered. May be called again. An error is one that no
  // workload expects, such as a lost connection.
  [[nodiscard]] virtual Reported<> run(Workload& workload) = 0;
  // Messages, and READs by the network, that its operations have sent since it was connected. One operation
  // sends them one after the other, so they are its round trips.
  [[nodiscard]] virtual uint64_t requests_sent() const noexcept = 0;
};

// How often the two steps of a kReplace are tried before it counts as refused.
inline constexpr uint32_t kRetriesMax = 10'000;

using DriverFactory = std::function<Reported<std::unique_ptr<StoreDriver>>()>;

// Runs the workload and takes its result; wrong values are an error.
[[nodiscard]] Reported<WorkloadResult> run_workload(StoreDriver& driver, Workload& workload);

// Several clients, each with its workload and on a thread of its own, which begin at the same moment.
// `cores`: where client k sits is cores[k]; empty: anywhere.
[[nodiscard]] Reported<WorkloadResult> run_clients(const std::vector<WorkloadOptions>& workloads,
                                                   const Timer& timer, const DriverFactory& connect,
                                                   const std::vector<size_t>& cores);

}  // namespace refract::bench
