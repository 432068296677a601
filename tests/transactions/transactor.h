// SPDX-License-Identifier: Apache-2.0
// A client whose transactions span the shards of a node, and which reads and writes the same keys plainly in
// between; all that it asks and is told is written down.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/campaign/model.h"
#include "tests/transactions/reach.h"
#include "tests/transactions/stage.h"

#include "refract/base/prng.h"
#include "refract/base/testing/serialisability/history.h"
#include "refract/runtime/task.h"
#include "refract/txn/changes.h"
#include "refract/txn/coordinator.h"

namespace refract::campaign {

// Lives in its host (Host::emplace), whose dispatcher stands before it.
class Transactor final : private txn::ShardAccess, private WordSource {
 public:
  struct Options {
    std::string name;
    fabric::Domain* domain = nullptr;
    double stall_chance = 0;
    bool maps_all = true;  // Else the words of other shards are not in its reach.
  };
  Transactor(TransactionStage& stage, sim::Host& host, const Options& options);
  Transactor(const Transactor&) = delete;
  Transactor& operator=(const Transactor&) = delete;
  ~Transactor();

  // Opens its sessions, and opens them again; ends with work(), read_all() or demand().
  [[nodiscard]] runtime::Task<> stay_connected();
  // Takes its share of the run's operations.
  [[nodiscard]] runtime::Task<> work();
  // Reads all keys by all ways, and writes all of them at one moment. No other client works.
  [[nodiscard]] runtime::Task<> read_all();
  // As a janitor: ends transactions of others, or asks for them, until the others' work is done.
  [[nodiscard]] runtime::Task<> demand();
  // Puts what none reads, until the others' work is done.
  [[nodiscard]] runtime::Task<> fill_up();
  // Looks all the time at what expires, and beside what has, until the others' work is done.
  [[nodiscard]] runtime::Task<> watch();

 private:
  using Kind = serialisability::Kind;
  using Found = serialisability::Found;
  using Operation = serialisability::Operation;
  using Outcome = serialisability::Outcome;
  enum class Way : uint8_t { kDirect, kView, kCall, kExists, kChain, kRemote, kMany };
  static constexpr uint64_t kWays = 7;

  // What a read found.
  struct Seen {
    Code code = Code::kUnavailable;
    uint64_t version = 0;
    std::optional<int64_t> value;
    [[nodiscard]] bool is_answer() const noexcept { return code == Code::kOk || code == Code::kNotFound; }
  };

  // txn::ShardAccess
  [[nodiscard]] uint32_t shard_of(std::span<const std::byte> key) const noexcept override {
    return stage_.shard_of(key);
  }
  [[nodiscard]] uint64_t node_of(uint32_t shard) const noexcept override {
    if (!reaches_[shard].is_open()) return 0;
    return reaches_[shard].life() + uint64_t{stage_.process.place_of(shard).member} * 1'000;
  }
  [[nodiscard]] kv::wire::FarPlace place_of(uint32_t shard) const noexcept override {
    return stage_.process.place_of(shard);
  }
  [[nodiscard]] kv::TransactionCalls* at(uint32_t shard) noexcept override {
    return reaches_[shard].is_open() ? &reaches_[shard].calls() : nullptr;
  }
  [[nodiscard]] runtime::Task<bool> await(uint32_t shard, uint64_t deadline_ns) override;
  // WordSource
  [[nodiscard]] std::optional<uint64_t> word_at(kv::DecisionPlace place) noexcept override;

  [[nodiscard]] uint64_t connect_pause_ns() const noexcept;
  [[nodiscard]] runtime::Task<bool> connected();
  [[nodiscard]] runtime::Task<> step();
  [[nodiscard]] runtime::Task<> churn_words();
  [[nodiscard]] runtime::Task<> fill_with_large();
  [[nodiscard]] runtime::Task<> fill_with_many(uint64_t first);
  void finish();

  [[nodiscard]] size_t begin();
  void end(size_t record, Outcome outcome);
  void note(size_t record, const std::string& key, const Seen& seen);
  [[nodiscard]] Outcome outcome_of(Code code);

  [[nodiscard]] std::string any_key();
  [[nodiscard]] static bool is_number(const std::string& key) noexcept { return key[0] == 'n'; }
  [[nodiscard]] std::string new_value(const std::string& key, int64_t& number);
  [[nodiscard]] std::optional<int64_t> number_in(const std::string& key, const std::string& value);
  [[nodiscard]] Reach& reach_of(const std::string& key);

  // transactor_leases.cc
  [[nodiscard]] uint64_t draw_ttl_ns(const std::string& key);
  void note_lease(size_t record, size_t operation, uint64_t ttl_ns);
  void end_leases(size_t record, Outcome outcome);

  // transactor_reads.cc
  [[nodiscard]] runtime::Task<Seen> read(std::string key, Way way);
  [[nodiscard]] Way draw_way() noexcept { return static_cast<Way>(prng_.below(kWays)); }
  [[nodiscard]] runtime::Task<Seen> ask(std::string key, Way way);
  [[nodiscard]] std::optional<Seen> look(const std::string& key, Way way);
  [[nodiscard]] runtime::Task<> get(std::string key, Way way);
  [[nodiscard]] runtime::Task<> scan();
  void list(const std::string& key, uint64_t version, uint64_t began_ns);
  [[nodiscard]] runtime::Task<> put();
  [[nodiscard]] runtime::Task<> put_many();
  [[nodiscard]] runtime::Task<> erase();

  // transactor_commits.cc
  [[nodiscard]] runtime::Task<> transact(bool is_read_only);
  [[nodiscard]] runtime::Task<bool> run_body(size_t record, bool is_read_only);
  [[nodiscard]] runtime::Task<bool> read_into(size_t record, std::string key);
  [[nodiscard]] runtime::Task<Result<>> validate();
  void change_some(const std::string& key);
  [[nodiscard]] runtime::Task<Result<>> commit(kv::RpcBatch& batch);
  [[nodiscard]] runtime::Task<> commit_and_note(size_t record);
  [[nodiscard]] bool is_over_shards(const kv::RpcBatch& batch) const noexcept;
  void ask_for_more(size_t record, txn::Changes::Request& request);
  void draw_rows(txn::Changes::Request& request);
  void note_writes(size_t record, const txn::Changes::Request& request);
  void note_told(Operation& told, const kv::RpcBatchWrite& write);
  void make_trouble();
  [[nodiscard]] runtime::Task<> close_later(uint32_t shard, uint64_t after_ns);

  TransactionStage& stage_;
  sim::Host& host_;
  const Options options_;
  Prng prng_;
  uint32_t client_number_;
  std::deque<Reach> reaches_;                 // One for each shard.
  std::map<std::string, uint64_t> versions_;  // Last seen.
  txn::Changes changes_;                      // Of the transaction at hand.
  std::string asked_key_;                     // Likewise: of a condition without a read,
  std::string read_key_;                      // and of a row that reads.
  std::deque<int64_t> addends_;               // Arguments of its functions.
  // Likewise: writes that may expire, and the erasures that stand in the history for that.
  struct Lease {
    size_t record = 0;
    size_t operation = 0;
    size_t erasure = 0;
  };
  std::vector<Lease> leases_;
  bool is_connecting_ = true;
  bool is_finished_ = false;
};

}  // namespace refract::campaign
