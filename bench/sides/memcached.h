// SPDX-License-Identifier: Apache-2.0
// A memcached of our own, to be measured beside: one thread serves, nothing is ever evicted, and only
// programs of this host can reach it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

#include "bench/measure/beside.h"

#include "refract/base/report.h"

namespace refract::bench {

// The longest key that it takes.
inline constexpr size_t kMemcachedKeyBytesMax = 250;

class Memcached {
 public:
  struct Options {
    int cpu = -1;  // The system's number of the core that it is bound to; -1: any.
    // What it is to hold.
    uint64_t keys = 0;
    size_t key_bytes = 0;
    size_t value_bytes = 0;
  };
  // kUnsupported where the machine has no memcached; `next` says how to get it.
  [[nodiscard]] static Reported<Memcached> start(const Options& options);

  [[nodiscard]] uint16_t port() const noexcept { return port_; }
  [[nodiscard]] pid_t pid() const noexcept { return process_.pid(); }

 private:
  Memcached(test::TemporaryFolder folder, test::Process process, uint16_t port) noexcept
      : folder_(std::move(folder)), process_(std::move(process)), port_(port) {}

  test::TemporaryFolder folder_;
  test::Process process_;
  uint16_t port_;
};

}  // namespace refract::bench
