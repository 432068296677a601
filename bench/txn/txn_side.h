// SPDX-License-Identifier: Apache-2.0
// A store under a load of transactions: what serves it, and the clients that reach it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/txn/txn_load.h"

#include "refract/base/report.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"
#include "refract/txn/attempts.h"

namespace refract::bench {

// What became of one transaction.
struct TxnAnswer {
  Code code = Code::kOk;  // kConflict, kDeadlineExceeded: it did not commit within its time.
  uint64_t attempts = 0;
  TxnEffect effect = {};
};

// One client, with one transaction under way.
class TxnClient {
 public:
  TxnClient() = default;
  TxnClient(const TxnClient&) = delete;
  TxnClient& operator=(const TxnClient&) = delete;
  virtual ~TxnClient() = default;

  // Attempts until it has committed, or `patience_ns` are over.
  [[nodiscard]] virtual runtime::Task<TxnAnswer> execute(const TxnPlan& plan, uint64_t patience_ns) = 0;
  // Up to read_max() entries, while no transaction is under way.
  [[nodiscard]] virtual size_t read_max() const noexcept = 0;
  [[nodiscard]] virtual runtime::Task<Code> read(std::span<const uint64_t> entries,
                                                 std::span<int64_t> amounts) = 0;
};

// One whose transactions are single attempts, which are repeated here as our client repeats its own.
class TryingTxnClient : public TxnClient {
 public:
  TryingTxnClient(runtime::Shard& shard, uint64_t seed) noexcept : shard_(shard), seeds_(seed) {}
  [[nodiscard]] runtime::Task<TxnAnswer> execute(const TxnPlan& plan, uint64_t patience_ns) final;

 protected:
  struct Try {
    txn::Effort effort;
    uint64_t deadline_ns = 0;
  };
  // What it did is `effect`, if kOk. kConflict: nothing.
  [[nodiscard]] virtual runtime::Task<Code> attempt(const TxnPlan& plan, Try& tried, TxnEffect& effect) = 0;
  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }

 private:
  runtime::Shard& shard_;
  Prng seeds_;
};

class TxnSide {
 public:
  TxnSide(std::string name, const TxnLoad& load) : name_(std::move(name)), load_(load) {}
  TxnSide(const TxnSide&) = delete;
  TxnSide& operator=(const TxnSide&) = delete;
  virtual ~TxnSide() = default;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& how() const noexcept { return how_; }
  [[nodiscard]] virtual size_t clients() const noexcept = 0;
  [[nodiscard]] virtual TxnClient& client(size_t i) noexcept = 0;
  [[nodiscard]] virtual runtime::Shard& shard_of(size_t i) noexcept = 0;
  // Runs on that client's shard.
  virtual void spawn(size_t i, runtime::Task<> task) = 0;
  // False: nothing will happen any more.
  [[nodiscard]] virtual bool run_until(const std::function<bool()>& done) = 0;
  // Which node has a group of entries, where there are several; null: it makes no difference.
  [[nodiscard]] virtual TxnPlans::NodeOf nodes() const { return nullptr; }

  // One turn of all clients.
  [[nodiscard]] Reported<TxnTurn> take_turn(const TxnPlans& plans, uint64_t seed);
  // Of all entries, as they are now.
  [[nodiscard]] Reported<int64_t> sum();

 protected:
  [[nodiscard]] const TxnLoad& load() const noexcept { return load_; }
  void set_how(std::string how) { how_ = std::move(how); }
  [[nodiscard]] std::unexpected<Report> failed(std::string_view doing, Code code) const;

 private:
  std::string name_;
  std::string how_;
  const TxnLoad& load_;
};

// Started and filled. The load outlives them. `is_bound`: servers sit on core 1 and those behind it.
using StartedTxnSide = Reported<std::unique_ptr<TxnSide>>;
[[nodiscard]] StartedTxnSide start_our_txn_side(const TxnLoad& load, bool is_bound);
[[nodiscard]] StartedTxnSide start_txn_design(const TxnLoad& load, const std::string& name, bool is_bound);
[[nodiscard]] StartedTxnSide start_txn_redis(const TxnLoad& load, bool is_bound);
// On the simulator, ours or a design.
[[nodiscard]] StartedTxnSide start_simulated_txn_side(const TxnLoad& load, const std::string& name);

}  // namespace refract::bench
