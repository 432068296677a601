// SPDX-License-Identifier: Apache-2.0
// `refract-bench kv`: load of one's own choice on a node, how long its answers take, and the same load on
// stores of published designs and of others beside it, all in turns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/load/store_driver.h"
#include "bench/load/workload.h"
#include "bench/load/ycsb.h"
#include "bench/measure/references.h"

#include "refract/base/report.h"

namespace refract::bench {

enum class Provider : uint8_t { kShm, kTcp };
[[nodiscard]] std::string_view text(Provider provider) noexcept;
// Of gets; puts go to the server, but by chains where they can on that path.
enum class Path : uint8_t { kDirect, kChain, kRpc };
[[nodiscard]] std::string_view text(Path path) noexcept;

// A store of others beside which the load is put.
enum class KvPeer : uint8_t {
  kRedis,
  kMemcached,
  kCuckoo,  // Tables inside the client's process.
  kTable,
};
[[nodiscard]] constexpr bool is_in_process(KvPeer peer) noexcept {
  return peer == KvPeer::kCuckoo || peer == KvPeer::kTable;
}
[[nodiscard]] std::string_view text(KvPeer peer) noexcept;

// What a run goes over, one point after the other.
enum class Sweep : uint8_t { kNone, kRate, kDepth, kClients, kShards, kSize };
[[nodiscard]] std::string_view text(Sweep sweep) noexcept;

// The name of our own store among the designs.
inline constexpr std::string_view kOurs = "refract";

struct KvLoad {
  std::string address;  // Of a node, as a client takes it; empty: a private one, filled first.
  std::string node_program;
  Provider provider = Provider::kShm;  // Of private nodes and of the servers of other designs.
  // The stores under this load, in turns: kOurs, and names of kv::designs.
  std::vector<std::string> designs = {std::string(kOurs)};
  // By which our own store is reached, each a side of its own. None: all that the provider has.
  std::vector<Path> paths = {Path::kDirect};
  uint64_t shards = 1;         // Of a private node.
  WorkloadOptions workload;    // Of all clients together; its rate is the sum of theirs.
  const Ycsb* ycsb = nullptr;  // Whose shares the workload has; null: gets and puts of one's own choice.
  DriverOptions driver;        // Of each client. Its waiting is that of private servers too.
  size_t clients = 1;
  int turns = 1;  // Of each side; each lasts workload.seconds.
  std::vector<KvPeer> beside;
  // kRate: from a tenth of what each side can to half as much again. The others: kv_sweep.h.
  Sweep sweep = Sweep::kNone;

  [[nodiscard]] bool has(std::string_view design) const noexcept;
  [[nodiscard]] bool is_beside(KvPeer peer) const noexcept;
  // For how many keys each store needs room, those to be inserted included.
  [[nodiscard]] uint64_t keys_with_inserts() const noexcept {
    return workload.keys * (workload.insert_share > 0 ? 2 : 1);
  }
};

struct KvPoint {
  double share = 0;  // Of the side's own greatest rate.
  double offered = 0;
  WorkloadResult result;
  double drift = 0;  // Of the references round this point of all sides.

  [[nodiscard]] bool is_disturbed() const noexcept { return drift > kDriftMax; }
};

struct KvSide {
  std::string name;           // "refract", "refract chain", "pilaf", "redis".
  std::string how;            // The way that its requests go, in words.
  std::string served_by;      // Which thread of what answers them, in words.
  std::vector<double> rates;  // Operations a second, one for each turn.
  WorkloadResult sum;         // Of all turns.
  // Processor time of the server's threads in all turns, looking for requests included.
  std::optional<uint64_t> server_cpu_ns;
  std::vector<KvPoint> sweep;
  Counts server_counts;  // Of a server that is a process of its own, in all turns; the clients' are in `sum`.

  [[nodiscard]] double requests_per_operation() const noexcept;
  [[nodiscard]] std::optional<double> server_ns_per_operation() const noexcept;
};

struct KvResult {
  std::vector<KvSide> sides;  // Ours, then peers, then other designs.
  size_t base = 0;            // The side that the others are divided by: ours by calls, or the first.
  Reference before;
  Reference after;
  bool is_bound = false;  // Whether each client and server thread had a core of its own.

  // The median of its rates over that of the base.
  [[nodiscard]] double over_base(const KvSide& side) const;
};

// How far the references before and after some load on these stores lie apart, by what they are reached over.
[[nodiscard]] double drift_of(const KvLoad& load, const Reference& before, const Reference& after);

// Rejects what cannot be, in a sentence.
[[nodiscard]] Reported<> check(const KvLoad& load);
[[nodiscard]] Reported<KvResult> run_kv_load(const KvLoad& load);

}  // namespace refract::bench
