// SPDX-License-Identifier: Apache-2.0
// Sides take turns under a load, between references.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/kv/kv_load.h"
#include "bench/kv/kv_sides.h"
#include "bench/load/inserted_keys.h"

namespace refract::bench {

// What the turns of a run share.
struct KvRun {
  Timer timer;
  References& references;
  const KvStores& stores;
  bool is_bound = false;  // Clients and servers have cores of their own.
};

class KvTurns {
 public:
  // `most`: no load that is measured has more clients.
  KvTurns(const KvRun& run, const KvLoad& most);

  // All turns of all sides, and the sweep of rates if that is wanted. May be called again, with another load
  // on the same stores.
  [[nodiscard]] Reported<KvResult> measure(const KvLoad& load);

 private:
  // One store under a load.
  struct Side {
    const KvStores::Side* store = nullptr;
    std::vector<InsertedKeys> inserted;  // Of each client, in all turns.
    KvSide found;
  };

  [[nodiscard]] Reported<> take_turn(const KvLoad& load, Side& side, uint64_t seed);
  [[nodiscard]] Reported<> sweep_rates(const KvLoad& load);
  [[nodiscard]] Reported<WorkloadResult> run(const KvLoad& load, Side& side, double rate, uint64_t seed);

  KvRun run_;
  std::vector<Side> sides_;
};

}  // namespace refract::bench
