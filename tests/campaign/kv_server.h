// SPDX-License-Identifier: Apache-2.0
// The serving side of a campaign: the memory that outlives the server, with the keeper that adds to it, and
// the server's process, made again after each crash.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/campaign/evictions.h"
#include "tests/campaign/kv_campaign.h"
#include "tests/campaign/model_log.h"
#include "tests/campaign/mutated_log.h"
#include "tests/campaign/mutated_pulls.h"
#include "tests/campaign/mutated_service.h"

#include "refract/base/prng.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/host.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/kv/owner/chains/chain_server.h"
#include "refract/kv/owner/parts/decisions.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/remote_server.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/owner/table/eviction.h"
#include "refract/kv/owner/table/table.h"
#include "refract/kv/owner/transactions/transaction_service.h"
#include "refract/memory/heap.h"
#include "refract/memory/pins.h"
#include "refract/memory/uses.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/runtime/shard.h"

namespace refract::campaign {

class ServerProcess;

// What the shards of a process share that takes transactions over several of them, and as a mutation what
// stands round the code that serves them: tests/transactions.
class SharedProcess {
 public:
  struct Shard {
    uint32_t index = 0;
    kv::Table& table;
    MutatedLog& log;
    const Clock& clock;
  };
  // A shard begins. The decision words of all; stay while the process lives.
  [[nodiscard]] virtual kv::Decisions& begin() = 0;
  // With what its parts take up; with a log, from its last record on.
  [[nodiscard]] virtual Result<> recover(uint32_t shard, kv::Table& table) = 0;
  // Whether the shard's log has got on since the last call.
  [[nodiscard]] virtual bool has_progressed(uint32_t shard) = 0;
  // What serves in their place; stay as long as the shard.
  [[nodiscard]] virtual rpc::Service& round_table(const Shard& shard, rpc::Service& service) = 0;
  [[nodiscard]] virtual rpc::Service& round_transactions(const Shard& shard, rpc::Service& service) = 0;
  virtual void answer_through(uint32_t shard, rpc::Server& server) = 0;
  // Of one of several nodes: how its shards ask the others, which outlives them, and what its memory is
  // called. Null: it knows of no others.
  [[nodiscard]] virtual kv::OtherNodes* other_nodes() noexcept { return nullptr; }
  [[nodiscard]] virtual uint64_t generation() const noexcept { return 0; }

 protected:
  ~SharedProcess() = default;
};

// What stays when the server dies: the space, and the pages in which clients announce their pins.
class Keeper {
 public:
  struct Options {
    uint64_t seed = 1;
    uint64_t chunks = 10;
    uint64_t chunks_max = 20;
    // The 16 bits of a stamp that a slot has room for come back within a few writes, not after 65,536.
    bool short_stamps = false;
    uint32_t shard_index = 0;
    uint32_t shard_count = 1;
    Mutation mutation = Mutation::kNone;
    kv::EvictionPolicy eviction = kv::EvictionPolicy::kNone;
    const EvictionNotes* evictions = nullptr;  // Told of what is evicted; null: no notes.
    ModelLog* log = nullptr;                   // Null: changes are in memory only. Outlives the keeper.
    SharedProcess* process = nullptr;  // Null: there are no transactions over several shards. Likewise.
  };
  Keeper(sim::World& world, sim::Host& server, const Options& options);

  // A client's page; stays where it is.
  [[nodiscard]] PinTable* add_pin_table() { return &pin_tables_.emplace_back(); }
  [[nodiscard]] sim::VisibleMemory& memory() noexcept { return memory_; }
  // As a mutation: no stamp seems ever to have been given.
  void forget_stamps() noexcept;
  [[nodiscard]] bool has_short_stamps() const noexcept { return options_.short_stamps; }
  [[nodiscard]] uint64_t region_count() const noexcept { return regions_.size(); }
  // By which the owner and all clients hash; the same for all shards of a node.
  [[nodiscard]] static uint64_t hash_seed(const Options& options) noexcept { return mix(options.seed); }

 private:
  friend class ServerProcess;

  struct Region {
    uint64_t base;
    uint64_t bytes;
  };

  // Answers in a while, by a region more or by a refusal.
  void ask(uint64_t bytes);
  void add_region(uint64_t bytes);

  sim::World& world_;
  Options options_;
  sim::VisibleMemory memory_;
  std::vector<Region> regions_;
  std::deque<PinTable> pin_tables_;
  uint64_t refusals_ = 0;
  bool is_filled_ = false;  // With what the log had, if anything.
};

// Lives in the server's host (Host::emplace). Serves only if `damage()` is empty.
class ServerProcess final : public kv::GrowthSource, public runtime::Poller {
 public:
  // `tally` gets what the process did when it ends.
  ServerProcess(sim::Host& host, Keeper& keeper, KvOutcome& tally);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() override;

  // What recovery left wrong; empty: nothing.
  [[nodiscard]] const std::string& damage() const noexcept { return damage_; }
  [[nodiscard]] Heap& heap() noexcept { return heap_; }
  [[nodiscard]] kv::Table& table() noexcept { return table_; }
  // REQUIRES: the keeper has a shared process.
  [[nodiscard]] const kv::Table::Parts& parts() const noexcept { return *parts_; }
  [[nodiscard]] const kv::TransactionService& transactions() const noexcept { return *transactions_; }
  [[nodiscard]] uint64_t reads_beside_far() noexcept { return service_->far_reads().count(); }

  [[nodiscard]] bool can_grow(uint64_t bytes) const noexcept override;
  void want(uint64_t bytes) noexcept override;
  size_t poll() noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "keeper link"; }

 private:
  // The pins of all clients, unless the mutation forgets them.
  class ClientPins final : public PinSource {
   public:
    explicit ClientPins(const Keeper& keeper) noexcept : keeper_(keeper) {}
    void recovery_is_over() noexcept { recovering_ = false; }
    void collect(PinSet& pins) noexcept override;

   private:
    const Keeper& keeper_;
    bool recovering_ = true;
  };
  // Readers that claim to have read anything.
  class AnyUses final : public UseSource {
   public:
    explicit AnyUses(uint64_t seed) noexcept : prng_(seed) {}
    void collect_uses(std::vector<uint64_t>& hashes) override;

   private:
    Prng prng_;
  };
  [[nodiscard]] StoreLog* log() noexcept;
  [[nodiscard]] Mutation mutation() const noexcept { return keeper_.options_.mutation; }
  void begin_eviction();
  void recover();
  [[nodiscard]] Result<> recover_table();
  void take_log();
  void fill_from_log();
  void recycle_stamps() noexcept;
  [[nodiscard]] size_t on_log_progress() noexcept;
  void serve();
  [[nodiscard]] SharedProcess::Shard shared_shard() noexcept;
  [[nodiscard]] rpc::Service& serve_transactions();
  void offer(const Keeper::Region& region);
  void count_lines() noexcept;

  sim::Host& host_;
  Keeper& keeper_;
  KvOutcome& tally_;
  std::string damage_;
  MutatedLog mutated_log_;
  Writer writer_;
  kv::SessionPins session_pins_;
  ClientPins client_pins_;
  kv::PinSources pins_;
  Heap heap_;
  kv::Table table_;
  kv::Decisions* decisions_ = nullptr;  // Null: it takes no transactions over several shards.
  std::optional<kv::Table::Parts> parts_;
  AnyUses uses_;
  std::optional<kv::Eviction> eviction_;
  std::optional<EvictionWitness> witness_;
  std::optional<EarlyReads> early_reads_;
  std::optional<kv::TableService> service_;
  std::optional<EarlyCompareService> early_compare_;
  std::optional<ForgetfulService> forgetful_;
  std::optional<kv::TransactionService> transactions_;
  std::optional<kv::ChainServer> chains_;
  std::optional<kv::RemoteServer> remote_;
  std::optional<rpc::ServiceTable> services_;
  std::optional<rpc::Server> server_;
  std::optional<fabric::Dispatcher> dispatcher_;
  size_t regions_taken_ = 0;
  uint64_t refusals_seen_ = 0;
  uint64_t refused_until_ns_ = 0;
  bool asked_ = false;
  uint64_t stamps_seen_ = 0;
  uint64_t lines_ = 0;
};

}  // namespace refract::campaign
