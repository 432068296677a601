// SPDX-License-Identifier: Apache-2.0
// A path with delay and a bounded rate: a network namespace of our own, which only a pair of TUN devices
// joins to the world, with packets held back between them. (Netem does the same, in kernels that have it.)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/held_packets.h"

#include "refract/base/report.h"

namespace refract::bench {

class DelayedPath {
 public:
  struct Options {
    uint64_t round_trip_ns = 10'000'000;   // Half of it each way.
    uint64_t bytes_per_s = 1'000'000'000;  // Each way, headers included.
  };
  // kUnsupported: not root, or no iproute2 or TUN devices; `next` says what would help.
  [[nodiscard]] static Reported<DelayedPath> create(const Options& options);
  DelayedPath(DelayedPath&& other) noexcept;
  DelayedPath& operator=(DelayedPath&& other) noexcept;
  DelayedPath(const DelayedPath&) = delete;
  DelayedPath& operator=(const DelayedPath&) = delete;
  // Takes the namespace and its devices away. What runs in there must have ended.
  ~DelayedPath();

  // Of the far end, without a port.
  [[nodiscard]] const std::string& far_address() const noexcept { return far_address_; }
  // What starts a program at the far end.
  [[nodiscard]] std::vector<std::string> launcher() const { return {"ip", "netns", "exec", name_}; }
  // Bytes a second of one plain connection from the far end to here, with large buffers, over `seconds`; the
  // time in which it speeds up is left out.
  [[nodiscard]] Reported<double> stream_rate(double seconds) const;

 private:
  DelayedPath(std::string name, std::string far_address) noexcept
      : name_(std::move(name)), far_address_(std::move(far_address)) {}

  std::string name_;  // Of the namespace; empty: moved from.
  std::string far_address_;
  std::unique_ptr<HeldPackets> packets_;
};

}  // namespace refract::bench
