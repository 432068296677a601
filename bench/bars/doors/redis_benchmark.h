// SPDX-License-Identifier: Apache-2.0
// redis-benchmark, as Debian has it: a client of one thread that others wrote, a process for each turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "refract/base/report.h"

namespace refract::bench {

struct BenchmarkLoad {
  std::vector<std::string> command;  // {"-t", "get"}, or the words of a command.
  uint64_t keys = 1;                 // numbered_key(), drawn for each __rand_int__.
  size_t value_bytes = 64;           // Of its own SETs.
  size_t connections = 50;
  size_t in_flight = 1;  // Of each.
};

// {"-t", "get"} and the like.
[[nodiscard]] std::vector<std::string> benchmark_test(std::string name);
// {"MGET", key, key, ...}, or with `value_bytes` {"MSET", key, value, ...}: so many keys.
[[nodiscard]] std::vector<std::string> benchmark_command(std::string name, size_t keys,
                                                         size_t value_bytes = 0);

class RedisBenchmark {
 public:
  // Against the server at a port of loopback. `requests`: of the first run; later ones have as many as take
  // about that time. kUnsupported: the machine has no redis-benchmark.
  [[nodiscard]] static Reported<RedisBenchmark> of(uint16_t port, BenchmarkLoad load, uint64_t requests,
                                                   double seconds);

  // Requests a second, as it says itself. An error that the server replies with is an error here.
  [[nodiscard]] Reported<double> rate();

 private:
  RedisBenchmark(uint16_t port, BenchmarkLoad load, uint64_t requests, double seconds) noexcept
      : port_(port), load_(std::move(load)), requests_(requests), seconds_(seconds) {}

  uint16_t port_;
  BenchmarkLoad load_;
  uint64_t requests_;
  double seconds_;
};

}  // namespace refract::bench
