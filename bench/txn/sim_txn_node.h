// SPDX-License-Identifier: Apache-2.0
// Nodes of ours on the simulated network: the code that serves keys and transactions in a real one, each
// shard on a host with one core. The shards of a node share its port.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/suites/suite_store.h"
#include "bench/txn/txn_plan.h"

#include "refract/base/report.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/owner/parts/decisions.h"

namespace refract::bench {

// Where a key lies.
struct SimTxnPlaces {
  uint32_t nodes = 1;
  uint32_t shards = 1;  // Of each node.

  [[nodiscard]] uint32_t node_of(std::span<const std::byte> key) const noexcept;
  [[nodiscard]] uint32_t shard_of(std::span<const std::byte> key) const noexcept;  // Of its node.
  [[nodiscard]] uint32_t number_of(std::span<const std::byte> key) const noexcept {
    return node_of(key) * shards + shard_of(key);
  }
  [[nodiscard]] static std::string host_name(uint32_t node, uint32_t shard);
};

// The memory of one node. Outlives its processes.
class SimTxnNode {
 public:
  SimTxnNode(const TxnMix& mix, const SimTxnPlaces& places, uint32_t member);
  SimTxnNode(const SimTxnNode&) = delete;
  SimTxnNode& operator=(const SimTxnNode&) = delete;
  ~SimTxnNode();

  // Serves a shard on a host, with its entries.
  [[nodiscard]] Reported<> serve(sim::Host& host, uint32_t shard);

 private:
  class Lines;
  struct Process;

  const TxnMix mix_;
  const SimTxnPlaces places_;
  const uint32_t member_;
  uint64_t chunks_ = 0;
  std::vector<std::unique_ptr<Zeroes>> spaces_;
  std::unique_ptr<kv::Decisions> decisions_;
};

}  // namespace refract::bench
