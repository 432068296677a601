// SPDX-License-Identifier: Apache-2.0
// A client with names of others' transactions: it tells their parts what became of them, the truth or not,
// asks homes, and takes words that it does not use. What it is told has to agree with what the homes' words
// say.
#pragma once

#include <cstdint>
#include <deque>

#include "tests/nodes_transactions/several_nodes.h"
#include "tests/transactions/reach.h"
#include "tests/transactions/stage.h"

#include "refract/base/prng.h"
#include "refract/runtime/task.h"

namespace refract::campaign {

// Lives in its host (Host::emplace), whose dispatcher stands before it.
class Meddler {
 public:
  Meddler(TransactionStage& stage, SeveralNodes& nodes, sim::Host& host);
  Meddler(const Meddler&) = delete;
  Meddler& operator=(const Meddler&) = delete;
  ~Meddler();

  // Both end with the others' work.
  [[nodiscard]] runtime::Task<> stay_connected();
  [[nodiscard]] runtime::Task<> work();

 private:
  [[nodiscard]] bool is_over() const noexcept { return stage_.is_over() || stage_.operations_left == 0; }
  [[nodiscard]] runtime::Task<> ask_home(kv::TransactionName name);
  [[nodiscard]] runtime::Task<> tell_part(kv::TransactionName name);
  [[nodiscard]] runtime::Task<> take_words();
  [[nodiscard]] runtime::Task<Code> call(Reach& reach, kv::wire::TransactionMethod method,
                                         std::vector<std::byte> head);
  void judge(const kv::TransactionName& name, Code code, const char* who);

  TransactionStage& stage_;
  SeveralNodes& nodes_;
  sim::Host& host_;
  Prng prng_;
  std::deque<Reach> reaches_;
  std::deque<kv::TransactionName> old_names_;
};

}  // namespace refract::campaign
