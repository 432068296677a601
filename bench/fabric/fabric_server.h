// SPDX-License-Identifier: Apache-2.0
// The end of `refract-bench fabric` that is measured against: it lets one client in at a time, does what the
// client orders (fabric_orders.h) and polls all the while, but sleeps when told to rest.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "bench/fabric/fabric_ends.h"

#include "refract/base/report.h"

namespace refract::bench {

struct FabricServerOptions {
  const FabricRow* row = nullptr;
  std::string address;
  int core = -1;  // To sit on, as pin_to_core counts; -1: anywhere.
  std::function<void(const std::string& address)> on_ready;  // Called once, with where clients find it.
  const std::atomic<bool>* stop = nullptr;                   // Null: serves until the process ends.
};

// Returns when told to stop, or why it cannot serve. Control path; the calling thread is the shard.
[[nodiscard]] Reported<> serve_fabric(const FabricServerOptions& options);

}  // namespace refract::bench
