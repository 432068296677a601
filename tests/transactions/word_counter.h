// SPDX-License-Identifier: Apache-2.0
// A client that takes all decision words which a shard has to give, over as many sessions as that takes.
#pragma once

#include <cstdint>
#include <deque>

#include "tests/transactions/stage.h"

#include "refract/fabric/sim/world.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::campaign {

// Lives in its host (Host::emplace), whose dispatcher stands before it.
class WordCounter {
 public:
  WordCounter(TransactionStage& stage, sim::Host& host) noexcept : stage_(stage), host_(host) {}

  // Of the shard; its sessions close at the end.
  [[nodiscard]] runtime::Task<> count(uint32_t shard, bool is_far = false);
  [[nodiscard]] bool is_done() const noexcept { return is_done_; }
  [[nodiscard]] uint64_t words() const noexcept { return words_; }

 private:
  // How many one more session is given.
  [[nodiscard]] runtime::Task<uint64_t> count_of_session(uint32_t shard, bool is_far);

  TransactionStage& stage_;
  sim::Host& host_;
  std::deque<rpc::Session> sessions_;
  uint64_t words_ = 0;
  bool is_done_ = false;
};

}  // namespace refract::campaign
