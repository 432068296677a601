// SPDX-License-Identifier: Apache-2.0
// The server of a published protocol of transactions on any fabric, with the keys that it is made for.
//
// Threads: its shard's.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "bench/suites/suite_store.h"

#include "refract/base/report.h"
#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/rpc/server.h"
#include "refract/runtime/task.h"
#include "refract/txn/designs/designs.h"

namespace refract::bench {

class TxnProcess {
 public:
  struct Spec {
    const txn::designs::Design* design = nullptr;
    txn::designs::Capacity capacity;
    uint64_t hash_seed = 1;
    uint64_t patience_ns = 100 * kMillisecond_ns;  // With a client that keeps others from a key.
  };
  // Before a client connects. Shard and domain outlive it.
  [[nodiscard]] static Reported<std::unique_ptr<TxnProcess>> start(const Spec& spec, runtime::Shard& shard,
                                                                   fabric::Domain& domain);
  TxnProcess(const TxnProcess&) = delete;
  TxnProcess& operator=(const TxnProcess&) = delete;
  ~TxnProcess() = default;

  // Likewise.
  [[nodiscard]] Result<> load(std::span<const std::byte> key, std::span<const std::byte> value) {
    return server_->load(key, value);
  }
  // Frees what dead clients left. Over and over while there is traffic, by one of the two:
  void keep_house_now() noexcept { server_->keep_house(); }
  // Spawned on the shard, for as long as it runs.
  [[nodiscard]] runtime::Task<> keep_house();

 private:
  TxnProcess(std::unique_ptr<Zeroes> memory, std::unique_ptr<txn::designs::Server> server,
             runtime::Shard& shard, fabric::Domain& domain);

  runtime::Shard& shard_;
  std::unique_ptr<Zeroes> memory_;
  std::unique_ptr<txn::designs::Server> server_;
  rpc::Server rpc_server_;
  fabric::Dispatcher dispatcher_;
};

// The row of that name, or which rows there are.
[[nodiscard]] Reported<const txn::designs::Design*> txn_design_of(std::string_view name);

}  // namespace refract::bench
