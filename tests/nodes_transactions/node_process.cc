// SPDX-License-Identifier: Apache-2.0
#include "tests/nodes_transactions/node_process.h"

#include <array>
#include <cstring>
#include <span>

#include "refract/kv/layout/layout.h"

namespace refract::campaign {

NodeProcess::NodeProcess(sim::World& world, sim::Host& host, const Options& options)
    : OneProcess(world, std::array{&host},
                 {.mutation = Mutation::kNone, .words = kv::kDecisionWords, .complain = options.complain}),
      own_(options) {}

Result<> NodeProcess::recover(uint32_t shard, kv::Table& table) {
  Result<> recovered = OneProcess::recover(shard, table);
  if (recovered) take_words_away();
  return recovered;
}

// What is claimed is never given. It is not told: the image keeps what stood there, which a restart takes for
// words that were never used.
void NodeProcess::take_words_away() {
  std::byte* const space = keeper(0).memory().owner();
  const uint64_t claimed = kv::Decision::claimed(1).bits;
  for (uint64_t word = 0; word < kv::kDecisionWords; ++word) {
    const bool is_far = word >= kv::HomeWords::kFarBegin;
    const uint64_t index = is_far ? word - kv::HomeWords::kFarBegin : word;
    if (index < (is_far ? own_.words_far : own_.words_near)) continue;
    std::memcpy(space + decisions().place_of(0, word).at().value, &claimed, sizeof(claimed));
  }
}

rpc::Service& NodeProcess::round_transactions(const Shard& shard, rpc::Service& service) {
  return watch_.emplace(own_.mutation, *this, shard, service);
}

void NodeProcess::answer_through(uint32_t /*shard*/, rpc::Server& server) {
  watch_->answer_through(&server);
}

void NodeProcess::on_word(kv::DecisionPlace place, kv::Decision decision) {
  if (decision.is_committed()) committed_.emplace(place.bits, decision.number());
  for (const kv::TransactionName& name : looked_at_) {
    if (name.place == place && decision.bits == kv::Decision::aborted(name.number).bits) {
      complain("a look has decided against a transaction");
    }
  }
}

}  // namespace refract::campaign
