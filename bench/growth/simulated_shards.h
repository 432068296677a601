// SPDX-License-Identifier: Apache-2.0
// A node of any number of shards on the simulated network: our own store's code, a host with one core for
// each shard, and callers on hosts that take no time. What an arrival costs a core and how far the hosts are
// apart is given; all else follows from the seed.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "refract/base/histogram.h"
#include "refract/base/report.h"
#include "refract/fabric/sim/world.h"

namespace refract::bench {

struct SimulatedOptions {
  uint32_t shards = 1;
  uint64_t entries = 65'536;  // So many that each shard has about as many as the others.
  uint64_t get_core_ns = 0;   // That a call keeps the core of its shard.
  uint64_t put_core_ns = 0;
  uint64_t one_way_ns = 0;
  uint64_t seed = 1;
};

struct SimulatedTurn {
  double per_second = 0;
  Histogram latency_ns = {};
  double busy_mean = 0;  // Share of the time that cores are at work.
  double busy_most = 0;  // Of the busiest.
};

class SimulatedShards {
 public:
  // With all entries put.
  [[nodiscard]] static Reported<std::unique_ptr<SimulatedShards>> start(const SimulatedOptions& options);
  SimulatedShards(const SimulatedShards&) = delete;
  SimulatedShards& operator=(const SimulatedShards&) = delete;
  ~SimulatedShards();

  struct Load {
    bool is_get = true;
    uint32_t callers = 1;  // Each with one operation under way, uniform over the entries.
    uint64_t duration_ns = 0;
    uint64_t seed = 1;
  };
  [[nodiscard]] Reported<SimulatedTurn> run(const Load& load);

 private:
  struct ServedShard;
  struct ClientHost;
  struct Turn;

  explicit SimulatedShards(const SimulatedOptions& options);
  [[nodiscard]] Reported<> serve();
  [[nodiscard]] Reported<> connect();
  [[nodiscard]] Reported<> fill();
  [[nodiscard]] Reported<> await(Turn& turn, const char* what);

  SimulatedOptions options_;
  sim::World world_;
  std::vector<sim::Host*> shards_;
  std::vector<ClientHost*> clients_;  // Belong to their hosts.
};

}  // namespace refract::bench
