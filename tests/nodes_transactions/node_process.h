// SPDX-License-Identifier: Apache-2.0
// One of several nodes: a process with one shard, whose memory and words are its own. It knows which of its
// words have committed, and what stands round its service judges answers by that.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/nodes_transactions/far_watch.h"
#include "tests/nodes_transactions/node_lines.h"
#include "tests/transactions/one_process.h"

#include "refract/fabric/sim/world.h"
#include "refract/kv/owner/parts/decisions.h"

namespace refract::campaign {

class NodeProcess final : public OneProcess {
 public:
  struct Options {
    uint32_t member = 0;
    Mutation mutation = Mutation::kNone;
    // Of near and of far words that are in use, the first ones of each.
    uint64_t words_near = kv::HomeWords::kFarBegin;
    uint64_t words_far = kv::kDecisionWords - kv::HomeWords::kFarBegin;
    std::function<void(const std::string&)> complain;
  };
  NodeProcess(sim::World& world, sim::Host& host, const Options& options);

  // Of the process that is about to begin; null: it has ended.
  void ask_through(NodeLines* lines) noexcept { lines_ = lines; }
  [[nodiscard]] NodeLines* lines() const noexcept { return lines_; }
  [[nodiscard]] uint32_t member() const noexcept { return own_.member; }

  [[nodiscard]] kv::OtherNodes* other_nodes() noexcept override { return lines_; }
  [[nodiscard]] uint64_t generation() const noexcept override { return uint64_t{own_.member} + 7; }
  [[nodiscard]] Result<> recover(uint32_t shard, kv::Table& table) override;
  [[nodiscard]] rpc::Service& round_table(const Shard& /*shard*/, rpc::Service& service) override {
    return service;
  }
  [[nodiscard]] rpc::Service& round_transactions(const Shard& shard, rpc::Service& service) override;
  void answer_through(uint32_t shard, rpc::Server& server) override;

  // By its words, ever. The name is the home's own.
  [[nodiscard]] bool has_committed(const kv::TransactionName& name) const noexcept {
    return committed_.contains({name.place.bits, name.number});
  }
  // Nothing of these may be decided while it lasts, as its home sees them.
  void begin_look(std::vector<kv::TransactionName> names) { looked_at_ = std::move(names); }
  void end_look() { looked_at_.clear(); }
  void complain(const std::string& wrong) const { own_.complain(wrong); }

 private:
  void on_word(kv::DecisionPlace place, kv::Decision decision) override;
  void take_words_away();

  const Options own_;
  NodeLines* lines_ = nullptr;
  std::optional<FarWatch> watch_;
  std::set<std::pair<uint64_t, uint64_t>> committed_;
  std::vector<kv::TransactionName> looked_at_;
};

}  // namespace refract::campaign
