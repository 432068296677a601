// SPDX-License-Identifier: Apache-2.0
// The stores that a load compares: what serves them, and how a client of each is made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/kv/kv_load.h"
#include "bench/load/byte_table.h"
#include "bench/sides/memcached.h"
#include "bench/sides/rivals.h"
#include "bench/suites/suite_ends.h"

namespace refract::bench {

class KvStores {
 public:
  // Returns when all of them serve and are filled, but for a node that was named. `is_bound`: servers sit on
  // core 1 and those behind it. The load outlives it.
  [[nodiscard]] static Reported<std::unique_ptr<KvStores>> start(const KvLoad& load, bool is_bound);
  KvStores(const KvStores&) = delete;
  KvStores& operator=(const KvStores&) = delete;
  ~KvStores() = default;

  struct Side {
    std::string name;
    std::string how;
    std::string served_by;
    std::function<Reported<std::unique_ptr<StoreDriver>>(const DriverOptions&)> connect;
    // Processor time that the server has taken so far; null: not known.
    std::function<uint64_t()> server_cpu_ns;
    // The process that serves, and nothing but this side; null: there is none.
    std::function<pid_t()> server_pid;
  };
  // In the order in which they take their turns.
  [[nodiscard]] const std::vector<Side>& sides() const noexcept { return sides_; }
  [[nodiscard]] size_t base() const noexcept { return base_; }

 private:
  static constexpr size_t kServerCore = 1;

  KvStores(const KvLoad& load, bool is_bound)
      : load_(load), is_bound_(is_bound), contents_(load.workload.key_bytes, load.workload.value_bytes) {}

  [[nodiscard]] Reported<> start_ours();
  [[nodiscard]] Reported<> start_design(const std::string& name);
  // kv_peers.cc
  [[nodiscard]] Reported<> start_peer(KvPeer peer);
  [[nodiscard]] Reported<> start_redis();
  [[nodiscard]] Reported<> start_memcached();
  [[nodiscard]] Reported<> start_table(KvPeer peer);
  // Where a peer's server sits, as the system counts; -1: anywhere.
  [[nodiscard]] int server_cpu() const;
  [[nodiscard]] Reported<std::unique_ptr<StoreDriver>> connect_ours(Path path,
                                                                    const DriverOptions& options) const;

  const KvLoad& load_;
  bool is_bound_;
  Contents contents_;
  std::optional<Rivals> node_;
  std::optional<Redis> redis_;
  std::optional<Memcached> memcached_;
  std::vector<std::unique_ptr<ByteTable>> tables_;
  std::vector<std::unique_ptr<RealServer>> servers_;
  std::vector<Side> sides_;
  size_t base_ = 0;
};

// The paths by which the load reaches our own store.
[[nodiscard]] std::vector<Path> paths_of(const KvLoad& load);

}  // namespace refract::bench
