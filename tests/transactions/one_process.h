// SPDX-License-Identifier: Apache-2.0
// The shards of a node as one process. Each is a host of the simulation with a space and stores of its own;
// what they share are the decision words, which each of them changes, and death: what kills one kills all, at
// the same moment. What a shard that is being killed does to another's words never happened.
//
// A word is only changed by locked instructions, which drain the store buffer of their core: a change is
// visible at once, behind all that the home has stored before. Where a word is taken for another range the
// home counts on what parts have stored before they were counted off, so that stands there as well.
//
// With logs a memory may go with all processes: the next one, filled from the logs, takes its place.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/campaign/kv_server.h"
#include "tests/transactions/mutated_parts.h"
#include "tests/transactions/node_logs.h"
#include "tests/transactions/shard_places.h"

#include "refract/fabric/sim/world.h"
#include "refract/kv/owner/parts/decisions.h"

namespace refract::campaign {

class OneProcess : public SharedProcess, public ShardPlaces {
 public:
  struct Options {
    Mutation mutation = Mutation::kNone;
    uint64_t words =
        kv::kDecisionWords;  // Of each shard that are in use, the first ones; all others never are.
    std::function<void(const std::string&)> complain;
  };
  // The hosts outlive it, and it outlives their processes.
  OneProcess(sim::World& world, std::span<sim::Host* const> hosts, const Options& options);

  // The next shard's; their spaces are not used before all have been added.
  void add(Keeper& keeper);
  // Null: changes are in memory only.
  void log_to(NodeLogs* logs) noexcept { node_logs_ = logs; }
  // All memories are gone. Then the next life's are added. REQUIRES: no shard lives.
  void lose_memory();
  // How many memories there have been.
  [[nodiscard]] uint64_t life() const noexcept override { return life_; }

  [[nodiscard]] kv::Decisions& begin() override;
  [[nodiscard]] Result<> recover(uint32_t shard, kv::Table& table) override;
  [[nodiscard]] bool has_progressed(uint32_t shard) override;
  [[nodiscard]] rpc::Service& round_table(const Shard& shard, rpc::Service& service) override;
  [[nodiscard]] rpc::Service& round_transactions(const Shard& shard, rpc::Service& service) override;
  void answer_through(uint32_t shard, rpc::Server& server) override;

  // REQUIRES: a process lives.
  [[nodiscard]] kv::Decisions& decisions() noexcept { return *decisions_; }
  [[nodiscard]] Keeper& keeper(uint32_t shard) noexcept override { return *keepers_[shard]; }
  [[nodiscard]] uint32_t shards() const noexcept override { return static_cast<uint32_t>(keepers_.size()); }
  // As Mutation::kWordLast: words that are committed meanwhile are told at the end of it.
  void hold_words(bool held);
  // How many parts may still look at words that are in use.
  [[nodiscard]] uint64_t parts_counted() const;

 protected:
  // A word has been changed, and all can see it.
  virtual void on_word(kv::DecisionPlace /*place*/, kv::Decision /*decision*/) {}

 private:
  // Of one shard's words.
  class WordLog final : public StoreLog {
   public:
    WordLog(OneProcess& process, uint32_t shard) : process_(process), shard_(shard) {}
    void stored(Offset at, std::span<const std::byte> bytes) noexcept override;
    void fenced() noexcept override {}
    void begin();

   private:
    [[nodiscard]] sim::VisibleMemory& memory() noexcept { return process_.keepers_[shard_]->memory(); }

    OneProcess& process_;
    const uint32_t shard_;
    std::vector<uint64_t> words_;  // As they stand.
  };
  struct Wrappers {
    std::optional<MutatedTable> table;
    std::optional<MutatedParts> parts;
  };

  [[nodiscard]] Result<> recover_now(uint32_t shard, kv::Table& table);
  void look_whether_memory_is_log();
  void settle_unconfirmed(uint32_t shard);
  void take_back();
  void die();
  void take_words_away();
  [[nodiscard]] std::span<std::byte> words_of(uint32_t shard) noexcept;

  sim::World& world_;
  const std::vector<sim::Host*> hosts_;
  const Options options_;
  std::vector<Keeper*> keepers_;
  std::deque<WordLog> logs_;
  std::deque<Wrappers> wrappers_;
  std::optional<kv::Decisions> decisions_;
  bool is_dead_ = true;
  bool holds_words_ = false;
  bool is_deaf_ = false;                           // What is stored to words is not told.
  std::vector<std::pair<uint32_t, Offset>> held_;  // Shards and places.
  NodeLogs* node_logs_ = nullptr;
  bool is_taken_back_ = true;       // Of the logs, what the last crash had not left in the memories.
  std::vector<kv::Table*> tables_;  // Of the process, by shards; null: it has not recovered.
  uint64_t life_ = 1;
  std::set<uint64_t> unconfirmed_;  // Places of words.
};

}  // namespace refract::campaign
