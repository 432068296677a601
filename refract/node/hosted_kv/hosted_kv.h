// SPDX-License-Identifier: Apache-2.0
// The key-value store as a shard hosts it: table, eviction, service, chains, and reads from afar where the
// host has an RDMA device.
//
// Threads: the shard's.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "refract/kv/owner/chains/chain_server.h"
#include "refract/kv/owner/numbered/numbered_service.h"
#include "refract/kv/owner/service/domain_windows.h"
#include "refract/kv/owner/service/remote_server.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/owner/table/eviction.h"
#include "refract/kv/owner/table/table.h"
#include "refract/kv/owner/transactions/transaction_service.h"
#include "refract/node/hosted/hosted_store.h"
#include "refract/node/hosted_kv/kv_contents.h"

namespace refract::node {

class HostedKv final : public HostedStore {
 public:
  explicit HostedKv(const HostParts& parts);

  [[nodiscard]] Result<> mark_live(const storage::Record* last) override;
  void mark_pinned() override { table_.mark_pinned(recovery_); }
  [[nodiscard]] Result<> finish_recovery() override;
  [[nodiscard]] std::optional<Damage> damage() override;
  [[nodiscard]] bool make_room(uint64_t bytes) override;
  [[nodiscard]] uint64_t entry_count() const noexcept override { return table_.stats().entries; }

  [[nodiscard]] std::unique_ptr<StoreFilling> begin_filling(const Grow& grow) override {
    return std::make_unique<KvFilling>(table_, parts_.heap, grow,
                                       transaction_parts_ ? &*transaction_parts_ : nullptr);
  }
  [[nodiscard]] std::unique_ptr<StoreSnapshot> begin_snapshot(const StoreSnapshot::Options& options) override;
  void begin_logging() override;
  size_t on_log_progress() noexcept override;

  void serve(std::vector<HostedMethods>& methods) override;
  void answer_through(rpc::Server* server) noexcept override;
  void on_region(Offset start, uint64_t bytes) override;
  void on_memory_added() noexcept override;
  void on_growth_refused() noexcept override { service_->on_growth_refused(); }

  void add_counters(const observe::AddCounter& add) const override;
  void tell(observe::ShardState& state) const override;

 private:
  void make_eviction();
  void take_last(const storage::Record& last);
  // Another memory has another one; not 0.
  [[nodiscard]] uint64_t generation() const noexcept;
  void add_transaction_counters(const observe::AddCounter& add) const;
  void add_chain_counters(const observe::AddCounter& add) const;
  void add_log_counters(const observe::AddCounter& add) const;
  void add_eviction_counters(const observe::AddCounter& add) const;
  void add_numbered_counters(const observe::AddCounter& add) const;

  const HostParts parts_;
  std::unique_ptr<const cluster::SlotSet> slots_;  // This node's, where others have the rest; else null.
  const kv::KeyRouting routing_;
  kv::SessionPins session_pins_;
  kv::Table table_;
  std::optional<kv::Table::Parts> transaction_parts_;  // Where the node takes transactions over its shards.
  std::optional<kv::ChangeLog::Change> last_;          // Of the log, where the memory may lack it.
  std::vector<uint64_t> last_group_;                   // What that refers to.
  std::optional<kv::TransactionName> last_decided_;    // The log's last record says that this has happened.
  kv::Table::Recovery recovery_;
  std::unique_ptr<kv::Eviction> eviction_;    // Null: what does not fit is refused.
  std::optional<kv::DomainWindows> windows_;  // Where sessions come over a network.
  std::unique_ptr<kv::TableService> service_;
  std::unique_ptr<kv::TransactionService> transactions_;
  std::unique_ptr<kv::NumberedService> numbered_;
  std::unique_ptr<kv::ChainServer> chains_;
  std::unique_ptr<kv::RemoteServer> remote_;  // Where there is RDMA.
};

// The first row.
[[nodiscard]] std::unique_ptr<HostedStore> host_kv(const HostParts& parts);
inline constexpr StoreRow kKvRow = {
    .name = "kv",
    .make = host_kv,
    .value_of = value_in_table,
    .area = {.bytes = kv::Table::store_area_bytes, .format = kv::Table::format}};

}  // namespace refract::node
