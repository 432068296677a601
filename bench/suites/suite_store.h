// SPDX-License-Identifier: Apache-2.0
// A store of a published design on any fabric: what serves it, those who call it under a suite's load, and
// what a run of theirs came to. Time is the shard's clock, virtual or real.
//
// Threads: a StoreProcess, and a Caller with all that it is given, each belong to their shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "bench/load/workload.h"
#include "bench/suites/suite.h"

#include "refract/base/report.h"
#include "refract/fabric/dispatcher.h"
#include "refract/kv/designs/designs.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"
#include "refract/runtime/task.h"

namespace refract::bench {

// Zeroes on a cache line's border, of which only what is touched takes memory: a design reserves more than a
// suite fills.
class Zeroes {
 public:
  explicit Zeroes(uint64_t bytes);
  // Empty where there is not so much memory.
  [[nodiscard]] std::span<std::byte> bytes() noexcept;

 private:
  static constexpr uint64_t kLineBytes = 64;
  struct Free {
    void operator()(std::byte* block) const noexcept { std::free(block); }
  };
  uint64_t bytes_;
  std::unique_ptr<std::byte, Free> block_;
};

// The design's row, or which rows there are.
[[nodiscard]] Reported<const kv::designs::Design*> design_of(const System& system);

// A store that is to be served.
struct StoreSpec {
  const kv::designs::Design* design = nullptr;
  kv::designs::Capacity capacity;
  uint64_t hash_seed = 1;
};
[[nodiscard]] Reported<StoreSpec> spec_of(const Suite& suite, const System& system);

class StoreProcess {
 public:
  // Before a client connects. Shard and domain outlive it.
  [[nodiscard]] static Reported<std::unique_ptr<StoreProcess>> start(const StoreSpec& spec,
                                                                     runtime::Shard& shard,
                                                                     fabric::Domain& domain);
  // Does what is due besides answering calls. Over and over while there is traffic, by one of the two:
  void keep_house_now() noexcept { server_->keep_house(); }
  // Spawned on the shard, for as long as it runs. Its timers end the sleep of a server without requests.
  [[nodiscard]] runtime::Task<> keep_house();

 private:
  StoreProcess(std::unique_ptr<Zeroes> memory, std::unique_ptr<kv::designs::Server> server,
               runtime::Shard& shard, fabric::Domain& domain);

  runtime::Shard& shard_;
  std::unique_ptr<Zeroes> memory_;
  std::unique_ptr<kv::designs::Server> server_;
  rpc::Server rpc_server_;
  fabric::Dispatcher dispatcher_;
};

// Where a value of a known length goes.
class ValueRoom final : public kv::ValueSink {
 public:
  // The bytes outlive it.
  explicit ValueRoom(std::span<std::byte> room) noexcept : room_(room) {}
  [[nodiscard]] std::byte* room(uint64_t bytes) override {
    if (bytes != room_.size()) return nullptr;
    return bytes == 0 ? &nothing_ : room_.data();
  }

 private:
  std::span<std::byte> room_;
  std::byte nothing_{};
};

// Waits until the session's channel has opened, and attaches.
[[nodiscard]] runtime::Task<Result<>> attach_when_open(kv::designs::Client& client, rpc::Session& session,
                                                       runtime::Shard& shard, uint64_t deadline_ns);

// What the callers of one run share, and what came of it.
struct Run {
  Contents contents;
  uint64_t keys = 0;
  double get_share = 1;
  uint64_t check_ns = 0;  // Of virtual time, that a caller works on what it got.
  uint64_t begin_ns = 0;  // Operations count that begin and end in here.
  uint64_t end_ns = UINT64_MAX;
  uint64_t operations_max = UINT64_MAX;  // Of each caller.
  uint64_t seed = 1;
  // Filled in.
  std::vector<uint64_t> latencies_ns = {};
  size_t at_work = 0;  // Set to the callers that are started; 0: all have ended.
  Code failed = Code::kOk;
};
[[nodiscard]] Run make_run(const Suite& suite, double get_share);

// One caller with one operation under way, and a connection of its own.
class Caller {
 public:
  // `channel` has been asked for and not opened yet.
  Caller(runtime::Shard& shard, fabric::Channel& channel, const kv::designs::Design& design);

  // Each ends one caller's part in `run`, which outlives the task.
  [[nodiscard]] runtime::Task<> attach(Run& run);
  // Every `step`-th key from `first` on.
  [[nodiscard]] runtime::Task<> fill(Run& run, uint64_t first, uint64_t step);
  [[nodiscard]] runtime::Task<> work(Run& run, uint64_t number);

  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }

 private:
  struct Room;
  [[nodiscard]] uint64_t deadline() noexcept;
  [[nodiscard]] runtime::Task<Code> get(Run& run, uint64_t index, Room& room);
  [[nodiscard]] runtime::Task<Code> put(Run& run, uint64_t index, Room& room);

  runtime::Shard& shard_;
  std::unique_ptr<kv::designs::Client> client_;  // Outlives the session, whose late answers it takes.
  rpc::Session session_;
};

}  // namespace refract::bench
