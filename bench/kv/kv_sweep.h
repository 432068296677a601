// SPDX-License-Identifier: Apache-2.0
// A load at one value after the other of depth, clients, shards or the values' size: how sides compare is
// another thing at each of them, and one point proves little.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/kv/kv_load.h"

namespace refract::bench {

struct KvSweepPoint {
  uint64_t at = 0;    // The depth, or whatever is gone over.
  uint64_t keys = 0;  // Fewer than asked for where values are large.
  KvResult result;    // Of all sides, in turns, between references of its own.
  double drift = 0;   // Of those.

  // Then it is no result.
  [[nodiscard]] bool is_disturbed() const noexcept { return drift > kDriftMax; }
};

struct KvSweep {
  Sweep over = Sweep::kDepth;
  bool is_bound = false;  // At all points or at none, so that they can be compared.
  std::vector<KvSweepPoint> points;
};

// The values that a sweep goes over. None for kNone and kRate, which are run_kv_load's.
[[nodiscard]] std::vector<uint64_t> values_of(Sweep sweep);
// The load at one of them.
[[nodiscard]] KvLoad load_at(const KvLoad& load, uint64_t value);
// Rejects what cannot be at one of the points, in a sentence.
[[nodiscard]] Reported<> check_sweep(const KvLoad& load);
[[nodiscard]] Reported<KvSweep> run_kv_sweep(const KvLoad& load);

}  // namespace refract::bench
