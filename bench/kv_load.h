// SPDX-License-Identifier: Apache-2.0
// `refract-bench kv`: load of one's own choice on a node, how long its answers take, and the same load on a
// Redis beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/references.h"
#include "bench/store_driver.h"
#include "bench/workload.h"

#include "refract/base/report.h"

namespace refract::bench {

enum class Provider : uint8_t { kShm, kTcp };
// Of gets; puts go to the server, but by chains where they can on that path.
enum class Path : uint8_t { kDirect, kChain, kRpc };

struct KvLoad {
  std::string address;  // Of a node, as a client takes it; empty: a private one, filled first.
  std::string node_program;
  Provider provider = Provider::kShm;  // Of a private node.
  Path path = Path::kDirect;           // Over tcp kDirect is kRpc.
  uint64_t shards = 1;                 // Of a private node.
  WorkloadOptions workload;            // Of all clients together; its rate is the sum of theirs.
  DriverOptions driver;                // Of each client. Its waiting is that of a private server too.
  size_t clients = 1;
  int turns = 1;  // Of either side; each lasts workload.seconds.
  bool beside_redis = false;
  bool sweep = false;  // Of rates, from a tenth of what the side can to half as much again.
};

struct KvPoint {
  double share = 0;  // Of the side's own greatest rate.
  double offered = 0;
  WorkloadResult result;
};

struct KvSide {
  std::string name;           // "refract", "redis".
  std::string how;            // The way that its requests go, in words.
  std::vector<double> rates;  // Operations a second, one for each turn.
  WorkloadResult sum;         // Of all turns.
  std::vector<KvPoint> sweep;
};

struct KvResult {
  std::vector<KvSide> sides;  // Ours, then Redis.
  Reference before;
  Reference after;
  bool is_bound = false;  // Whether each client and server thread had a core of its own.
};

// Rejects what cannot be, in a sentence.
[[nodiscard]] Reported<> check(const KvLoad& load);
[[nodiscard]] Reported<KvResult> run_kv_load(const KvLoad& load);

// kv_results.cc
[[nodiscard]] std::string lines_of(const KvLoad& load, const KvResult& result);
[[nodiscard]] std::string json_of(const KvLoad& load, const KvResult& result);

}  // namespace refract::bench
