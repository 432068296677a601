// SPDX-License-Identifier: Apache-2.0
// One object given to many nodes on a simulated network, beside one pull of an object as long, in the same
// run. The nodes are our own code from directory to transfer; their hosts have ports, and work takes no time:
// what comes out says what the order of the pieces costs, and nothing of a processor.
//
// Threads: one.
#pragma once

#include <cstdint>

#include "refract/base/report.h"
#include "refract/base/units.h"

namespace refract::bench {

struct BroadcastTestbed {
  uint32_t receivers = 16;
  uint64_t bytes = 256 * kMiB;  // Of the object; each node needs memory for it, two nodes twice as much.
  uint64_t port_bytes_per_us = 1000;  // Each way.
  uint64_t one_way_ns = 5 * kMicrosecond_ns;
  // sim::MachineOptions::interleaves
  bool interleaves = true;
  uint64_t seed = 1;
};

// Of virtual time.
struct BroadcastTimes {
  uint64_t one_ns = 0;  // A pull by one of the receivers, from its wish to the seal.
  uint64_t all_ns = 0;  // From the call of broadcast to its answer: all have it.
  uint64_t given = 0;   // Times the object that the holder gave meanwhile.
};

// Every byte at each of the receivers is compared. kSystem: memory is short; kCorrupt: other bytes came;
// kUnavailable: a receiver does not have it.
[[nodiscard]] Reported<BroadcastTimes> simulate_broadcast(const BroadcastTestbed& testbed);

}  // namespace refract::bench
