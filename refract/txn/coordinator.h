// SPDX-License-Identifier: Apache-2.0
// Commits changes of several shards, of one node or of several, at one moment: docs/design/066, 070.
// PRISM-TX's shape (SOSP 2021, section 8) without clocks; one shard, the home, decides.
//
//   round trip 1   the other shards prepare: conditions hold, writes are pending
//   round trip 2   the home does the same for its own keys, and decides
//   not awaited    the others settle
//
// Where the home has a row of a function, its own keys are prepared in round trip 1 as well, and round trip 2
// is the decision alone: then what the rows have answered is here before it is decided, and no kill of the
// home's process loses it (docs/design/079).
//
// After refusals (Effort::goes_in_order) the shards are asked one by one, in the order of their numbers, the
// home last: then no two transactions hold what the other one asks for next.
//
// Threads: used only by the shard of its caller.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/kv/calls/rpc_types.h"
#include "refract/kv/calls/task_team.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"
#include "refract/txn/attempts.h"

namespace refract::txn {

// How a coordinator reaches the shards.
class ShardAccess {
 public:
  [[nodiscard]] virtual uint32_t shard_of(std::span<const std::byte> key) const noexcept = 0;
  // Of the node that this shard is reached at, which tells nodes apart: another one has another memory. 0: it
  // is not reached now.
  [[nodiscard]] virtual uint64_t node_of(uint32_t shard) const noexcept = 0;
  // Which node has it, by its place among all, and which of its shards it is.
  [[nodiscard]] virtual kv::wire::FarPlace place_of(uint32_t shard) const noexcept {
    return {.member = 0, .shard = static_cast<uint16_t>(shard)};
  }
  // Null: it cannot be reached now. Stays while the coordinator works.
  [[nodiscard]] virtual kv::TransactionCalls* at(uint32_t shard) noexcept = 0;
  // Waits for it. False: it did not come in time.
  [[nodiscard]] virtual runtime::Task<bool> await(uint32_t shard, uint64_t deadline_ns) = 0;

 protected:
  ~ShardAccess() = default;
};

class Coordinator {
 public:
  struct Terms {
    Effort effort;
    uint64_t deadline_ns = 0;
  };
  // All outlive it. It is for one attempt.
  Coordinator(ShardAccess& shards, runtime::Shard& shard, kv::RpcBatch& batch, const Terms& terms);
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;
  ~Coordinator() = default;

  // A condition's code, or the batch's own (RpcClient::change), which the batch is told of. kConflict:
  // another transaction is in the way. kUnavailable: a shard could not be reached; what refused_by() says.
  // After these nothing has changed, and nothing will. kIndeterminate: the home could not be asked any more.
  [[nodiscard]] runtime::Task<Result<>> run();
  [[nodiscard]] uint32_t unreached() const noexcept { return unreached_; }
  // The answer to the decision was lost, and the home was asked for it.
  [[nodiscard]] bool has_learned() const noexcept { return is_learned_; }

  // Holds the keys of the batch, which has conditions alone: what they are stays, until release(), or until
  // others have waited for them for too long, which is not told. Nothing is decided. Codes as of run().
  [[nodiscard]] runtime::Task<Result<>> hold();
  // Not awaited.
  void release();

 private:
  struct Part {
    uint32_t shard = 0;
    std::vector<kv::RpcCondition> conditions;
    std::vector<kv::RpcBatchWrite> writes;
    std::vector<uint32_t> origins;  // Of conditions, then of writes: their places in the caller's batch.
    kv::RpcBatch batch;
    kv::TransactionCalls* calls = nullptr;
    Result<> outcome;
    kv::TransactionCalls::Held held;
    bool is_asked = false;
    kv::wire::FarPlace place{};
    bool is_far = false;  // On another node than the home.

    // In the caller's batch; SIZE_MAX: the part as a whole.
    [[nodiscard]] size_t failed() const noexcept {
      return batch.failed < origins.size() ? origins[batch.failed] : SIZE_MAX;
    }
  };

  void divide();
  [[nodiscard]] Part& part_of(uint32_t shard);
  // False: `unreached_` cannot be.
  [[nodiscard]] bool reach();
  // The home's own items as well, where the lost answer to a decision could not be told again otherwise.
  [[nodiscard]] bool is_prepared(const Part& part) const noexcept {
    return !is_decided_at_home_ || is_home_prepared_ || &part != parts_.front().get();
  }
  // A name of the home; then all are prepared.
  [[nodiscard]] runtime::Task<Result<>> begin();
  [[nodiscard]] runtime::Task<> prepare(Part& part);
  [[nodiscard]] runtime::Task<> prepare_in(Part& part, kv::TaskTeam& team);
  [[nodiscard]] runtime::Task<> prepare_all();
  [[nodiscard]] runtime::Task<> prepare_in_order();
  [[nodiscard]] kv::TransactionName name_for(const Part& part) const noexcept;
  [[nodiscard]] kv::TransactionCalls::Terms terms(const Part& part) const noexcept {
    return {.name = name_for(part),
            .begun_ns = terms_.effort.begun_ns,
            .deadline_ns = terms_.deadline_ns,
            .generation = generation_};
  }
  void find_far();
  // When the first entry expires that a prepared part on the home's node stands on; 0: none does.
  [[nodiscard]] uint64_t expires_wall_ns() const noexcept;
  // Likewise of the others, by the home's clock, or before.
  [[nodiscard]] uint64_t expires_afar_wall_ns(const kv::TransactionCalls::Home& home) const noexcept;
  [[nodiscard]] bool has_expiry_afar() const noexcept;
  // Whether, without a decision, all that the parts stand on was there when the last one looked.
  [[nodiscard]] bool stood_together() const noexcept;
  [[nodiscard]] static bool is_worse(const Part& one, const Part& other) noexcept;
  // What the parts say together: kOk, or why not.
  [[nodiscard]] Result<> verdict();
  [[nodiscard]] runtime::Task<Result<>> decide(Part& home);
  [[nodiscard]] runtime::Task<Code> learn_outcome(uint64_t sent_ns);
  void settle();
  void end(bool is_refused);
  void tell_failed(const Part& part) noexcept;
  // `is_home_known`: the answer to its decision has come.
  void tell_written(bool is_home_known) noexcept;

  ShardAccess& shards_;
  runtime::Shard& shard_;
  kv::RpcBatch& batch_;
  const Terms terms_;
  std::vector<std::unique_ptr<Part>> parts_;  // By their shards; the home first.
  bool is_decided_at_home_ = false;           // False: it has no writes, and all of it is on one node.
  bool is_home_prepared_ = false;             // All is told before the decision, which is then that alone.
  kv::TransactionName name_;
  std::vector<kv::wire::FarPlace> far_places_;  // Parts that write on other nodes than the home's.
  uint64_t generation_ = 0;                     // Of the home's memory.
  kv::wire::Fate fate_ = kv::wire::Fate::kOpen;
  uint64_t opened_ns_ = 0;   // Of the home's session, likewise.
  bool is_learned_ = false;  // The decision's answer was lost, and has been asked for.
  uint32_t unreached_ = 0;
  uint64_t node_ = 0;
};

}  // namespace refract::txn
