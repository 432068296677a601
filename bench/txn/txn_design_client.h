// SPDX-License-Identifier: Apache-2.0
// One client of a published protocol: sessions to all of its servers.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/suites/txn_process.h"
#include "bench/txn/txn_side.h"

#include "refract/fabric/channel.h"
#include "refract/rpc/session.h"
#include "refract/txn/designs/design.h"

namespace refract::bench {

class DesignTxnClient final : public TryingTxnClient {
 public:
  struct Parts {
    const txn::designs::Design& design;
    const TxnMix& mix;
    runtime::Shard& shard;
    const Clock& clock;
    std::span<fabric::Channel* const> channels;  // Asked for and not opened yet, one for each server.
    uint16_t number = 1;
  };
  explicit DesignTxnClient(const Parts& parts);
  ~DesignTxnClient() override = default;

  // Waits until its channels are open.
  [[nodiscard]] runtime::Task<Code> attach(uint64_t patience_ns);
  // Takes the part that outlives the channels.
  [[nodiscard]] std::unique_ptr<txn::designs::Client> take_client() noexcept { return std::move(client_); }

  [[nodiscard]] size_t read_max() const noexcept override { return txn::designs::kKeysMax; }
  [[nodiscard]] runtime::Task<Code> read(std::span<const uint64_t> entries,
                                         std::span<int64_t> amounts) override;

 private:
  [[nodiscard]] runtime::Task<Code> attempt(const TxnPlan& plan, Try& tried, TxnEffect& effect) override;
  // Of `entries`, in that order.
  [[nodiscard]] runtime::Task<Code> fetch(txn::designs::Transaction& transaction,
                                          std::span<const uint64_t> entries, std::span<int64_t> amounts,
                                          uint64_t deadline_ns);

  const TxnMix mix_;
  std::unique_ptr<txn::designs::Client> client_;  // Outlives the sessions, whose late answers it takes.
  std::vector<std::unique_ptr<rpc::Session>> sessions_;
  std::vector<std::byte> value_;
};

// Those of the workload's entries that belong to one of the servers.
[[nodiscard]] Reported<> load_txn_share(TxnProcess& process, const TxnMix& mix, size_t server,
                                        size_t servers);
// What a server of a design has to have room for.
[[nodiscard]] txn::designs::Capacity txn_capacity(const TxnLoad& load);

}  // namespace refract::bench
