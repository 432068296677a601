// SPDX-License-Identifier: Apache-2.0
// Our transactions on the simulated network, as AsyncClient has them over one: reads are calls, one for each
// shard; one shard commits by one call, several by the coordinator's round trips.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/txn/sim_txn_node.h"
#include "bench/txn/txn_side.h"

#include "refract/fabric/dispatcher.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/rpc/session.h"
#include "refract/txn/changes.h"
#include "refract/txn/coordinator.h"

namespace refract::bench {

// The connections of one host, to each shard of each node, which its clients share. Lives in its host.
class SimTxnLinks final : public txn::ShardAccess {
 public:
  SimTxnLinks(sim::Host& host, const SimTxnPlaces& places);
  SimTxnLinks(const SimTxnLinks&) = delete;
  SimTxnLinks& operator=(const SimTxnLinks&) = delete;
  ~SimTxnLinks();

  [[nodiscard]] Reported<> connect();
  // Code::kUnavailable: a session could not be opened.
  [[nodiscard]] runtime::Task<Code> open();
  [[nodiscard]] kv::RpcClient& owner_of(uint32_t shard) noexcept { return links_[shard]->rpc; }
  [[nodiscard]] runtime::Shard& shard() noexcept { return host_.shard(); }

  [[nodiscard]] uint32_t shard_of(std::span<const std::byte> key) const noexcept override {
    return places_.number_of(key);
  }
  [[nodiscard]] uint64_t node_of(uint32_t shard) const noexcept override {
    return shard / places_.shards + 1;
  }
  [[nodiscard]] kv::wire::FarPlace place_of(uint32_t shard) const noexcept override {
    return {.member = static_cast<uint16_t>(shard / places_.shards),
            .shard = static_cast<uint16_t>(shard % places_.shards)};
  }
  [[nodiscard]] kv::TransactionCalls* at(uint32_t shard) noexcept override {
    return &links_[shard]->transactions;
  }
  [[nodiscard]] runtime::Task<bool> await(uint32_t /*shard*/, uint64_t /*deadline_ns*/) override {
    co_return true;
  }

 private:
  struct Link {
    Link(fabric::Channel& channel, runtime::Shard& shard)
        : session(channel, shard), rpc(session, shard), transactions(session, shard) {}
    rpc::Session session;
    kv::RpcClient rpc;
    kv::TransactionCalls transactions;
  };

  sim::Host& host_;
  const SimTxnPlaces places_;
  fabric::Dispatcher dispatcher_;
  std::vector<std::unique_ptr<Link>> links_;
};

class SimTxnClient final : public TryingTxnClient {
 public:
  SimTxnClient(SimTxnLinks& links, const TxnMix& mix, uint64_t seed)
      : TryingTxnClient(links.shard(), seed), links_(links), mix_(mix), pauses_(seed + 1) {}

  [[nodiscard]] size_t read_max() const noexcept override { return 512; }
  [[nodiscard]] runtime::Task<Code> read(std::span<const uint64_t> entries,
                                         std::span<int64_t> amounts) override;

 private:
  struct Reading;

  [[nodiscard]] runtime::Task<Code> attempt(const TxnPlan& plan, Try& tried, TxnEffect& effect) override;
  [[nodiscard]] runtime::Task<Code> commit(Try& tried);
  [[nodiscard]] runtime::Task<Code> change_over_shards(kv::RpcBatch& batch, Try& tried);

  SimTxnLinks& links_;
  const TxnMix mix_;
  Prng pauses_;
  txn::Changes changes_;
};

}  // namespace refract::bench
