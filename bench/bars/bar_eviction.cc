// SPDX-License-Identifier: Apache-2.0
// How many of the hits of true LRU and LFU a store has that evicts, and sees one of some reads only.
//
// The store is the real one (table, heap, direct reader, page of samples), driven in one thread; the others
// are the policies by the book with as many entries. All is drawn from seeds: the figures are the same on
// every machine.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "bench/bars/bars.h"

#include "refract/kv/testing/test_cache_trace.h"

namespace refract::bench::bar_eviction {
namespace {

using kv::EvictionPolicy;
using kv::test::HitRates;
using kv::test::StoreAsCache;
using kv::test::TraceOptions;

struct Trace {
  std::string_view name;
  double exponent;
  bool has_scans;
  bool is_promised;
};
constexpr std::array kTraces = {Trace{"zipf 0.99", 0.99, false, true}, Trace{"zipf 0.8", 0.8, false, false},
                                Trace{"zipf 0.99 with scans", 0.99, true, false}};
constexpr std::array kShares = {0.01, 0.1, 0.3};

// So many such values lie in a chunk: a cache of as many chunks as the share needs has the size that is
// meant.
constexpr uint64_t kValueBytes = 2'900;
constexpr uint64_t kEntriesPerChunk = 341;
// Header, buckets, and the reserve of the table.
constexpr uint64_t kChunksOfTable = 3;
// More take long, and say nothing else.
constexpr uint64_t kKeysMax = 100'000;

HitRates rates_of(EvictionPolicy policy, double share, const std::vector<uint64_t>& trace, uint64_t keys) {
  const auto chunks = static_cast<uint64_t>(static_cast<double>(keys) * share) / kEntriesPerChunk;
  const StoreAsCache::Options options{
      .chunks = std::max<uint64_t>(chunks, 1) + kChunksOfTable, .value_bytes = kValueBytes, .policy = policy};
  return kv::test::compare_with_the_book(options, trace);
}

Reported<Outcome> measure_eviction_hit_rate(BarRun& run) {
  const uint64_t keys = std::min(run.options.entries, kKeysMax);
  Outcome outcome;
  double worst = 1;
  for (const Trace& each : kTraces) {
    const auto trace = kv::test::zipf_trace({.keys = keys,
                                             .exponent = each.exponent,
                                             .length = std::max<uint64_t>(5 * keys, 10'000),
                                             .scan_every = each.has_scans ? keys : 0,
                                             .scan_keys = keys / 10});
    for (const EvictionPolicy policy :
         {EvictionPolicy::kLeastRecentlyUsed, EvictionPolicy::kLeastOftenUsed}) {
      for (const double share : kShares) {
        const HitRates rates = rates_of(policy, share, trace, keys);
        if (rates.refused > 0) return report(Code::kNoSpace, "a put was refused by a store that evicts");
        const std::string name =
            fmt::format("{}, {}, {} entries of {} keys", each.name,
                        policy == EvictionPolicy::kLeastRecentlyUsed ? "lru" : "lfu", rates.entries, keys);
        outcome.details.push_back({name + ": ours", 100 * rates.ours, "%"});
        outcome.details.push_back({name + ": by the book", 100 * rates.by_the_book, "%"});
        if (each.is_promised) worst = std::min(worst, rates.ratio());
      }
    }
  }
  outcome.samples = {worst};
  outcome.note =
      "the worst of both policies and three sizes, capped at 1; direct reads, sampled as clients do";
  return outcome;
}

const BarRows kRows = {
    {"eviction-hit-rate", "hits of eviction / true LRU and LFU, zipf 0.99", "at least 0.97", Sense::kAtLeast,
     0.97, "x", measure_eviction_hit_rate},
};

}  // namespace
}  // namespace refract::bench::bar_eviction
