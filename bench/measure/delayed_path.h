// SPDX-License-Identifier: Apache-2.0
// A path with delay and a bounded rate: a network namespace of our own, which only a pair of TUN devices
// joins to the world, with packets held back between them. (Netem does the same, in kernels that have it.)
// Nothing of it outlives the process, however that ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/held_packets.h"

#include "refract/base/report.h"
#include "refract/memory/host/descriptor.h"

namespace refract::bench {

class DelayedPath {
 public:
  struct Options {
    uint64_t round_trip_ns = 10'000'000;   // Half of it each way.
    uint64_t bytes_per_s = 1'000'000'000;  // Each way, headers included.
    bool large_packets = true;             // See open_tun.
    PacketFates* fates = nullptr;          // Outlives the path. Null: see HeldPackets.
  };
  // kUnsupported: not root, or no iproute2 or TUN devices; `next` says what would help. One at a time in a
  // process.
  [[nodiscard]] static Reported<DelayedPath> create(const Options& options);

  // Of this end, as the far end reaches it.
  [[nodiscard]] const std::string& near_address() const noexcept { return near_address_; }
  // Of the far end, without a port.
  [[nodiscard]] const std::string& far_address() const noexcept { return far_address_; }
  // A second one of the far end, which leads there by the same packets.
  [[nodiscard]] const std::string& other_far_address() const noexcept { return other_far_address_; }
  // The far end's network, for setns(). As long as the path lives.
  [[nodiscard]] std::string far_network() const;
  // What starts a program at the far end. As long as the path lives.
  [[nodiscard]] std::vector<std::string> launcher() const;
  // Bytes a second of one plain connection from the far end to here, with large buffers, over `seconds`; the
  // time in which it speeds up is left out.
  [[nodiscard]] Reported<double> stream_rate(double seconds) const;

 private:
  DelayedPath() = default;

  Descriptor namespace_;
  std::string near_address_;
  std::string far_address_;
  std::string other_far_address_;
  std::unique_ptr<HeldPackets> packets_;
};

}  // namespace refract::bench
