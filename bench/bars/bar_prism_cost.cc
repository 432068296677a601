// SPDX-License-Identifier: Apache-2.0
// What the executor of chains takes for a hot chain: a get that follows a bounded pointer to 64 bytes, and a
// put that allocates 64 bytes, swaps them in and retires what was there.
//
// Sketch: a get is a header copied and checked, one key compared, two places checked and 64 bytes copied, so
// some 470 instructions and no miss; a put has two operations, takes and returns a buffer, 1,650
// instructions.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "bench/bars/bars.h"

#include "refract/prism/snic/cost/hot_chains.h"

namespace refract::bench::bar_prism_cost {
namespace {

using prism::snic::HotChains;

// Long enough for the timer, short enough that most slices end before the system puts another in between.
constexpr uint64_t kSlice = 200;
constexpr uint64_t kLoadsPerChain = 16;  // So that both kinds of slice last about as long.

// Loads from the first cache, of which each says where the next one is.
class HotLoads {
 public:
  HotLoads() {
    // An odd step visits them all.
    for (uint64_t i = 0; i < next_.size(); ++i) next_[i] = (i + kStep) % next_.size();
  }
  // In ticks.
  [[nodiscard]] uint64_t run(uint64_t loads) {
    const uint64_t before = ticks_before();
    for (uint64_t i = 0; i < loads; ++i) at_ = next_[at_];
    const uint64_t ticks = ticks_after() - before;
    keep(at_);
    return ticks;
  }

 private:
  static constexpr uint64_t kStep = 401;

  std::array<uint64_t, 1024> next_{};
  uint64_t at_ = 0;
};

// One slice, in ticks.
uint64_t run_chains(HotChains& chains, std::span<const std::byte> message, uint64_t& reply_bytes) {
  const uint64_t before = ticks_before();
  for (uint64_t i = 0; i < kSlice; ++i) reply_bytes += chains.run(message);
  return ticks_after() - before;
}

// The median of slices of chains, which alternate with slices of loads.
Reported<Outcome> measure_chain(BarRun& run, bool is_put) {
  HotChains chains;
  HotLoads hot_loads;
  const std::span<const std::byte> message = is_put ? chains.put_message() : chains.get_message();
  const uint64_t slices = std::max<uint64_t>(1, run.options.operations / 20 / kSlice);
  Samples chain_slices(slices);
  Samples load_slices(slices);
  pin_to_core(0);

  return in_turns(
      run, "no network: the executor alone, on memory in the first cache", [&](uint64_t) -> Reported<Turn> {
        chain_slices.clear();
        load_slices.clear();
        uint64_t reply_bytes = 0;
        for (uint64_t slice = 0; slice < slices; ++slice) {
          chain_slices.record(run_chains(chains, message, reply_bytes));
          load_slices.record(hot_loads.run(kSlice * kLoadsPerChain));
        }
        if (reply_bytes == 0 || chains.counts().failed_operations > 0) {
          return report(Code::kCorrupt, "a chain failed");
        }
        const double chain_ns = run.timer.ns(chain_slices.quantile_ticks(0.5)) / kSlice;
        const double load_ns = run.timer.ns(load_slices.quantile_ticks(0.5)) / (kSlice * kLoadsPerChain);
        return Turn{chain_ns,
                    {{"chain", chain_ns, "ns"},
                     {"dependent load from the first cache", load_ns, "ns"},
                     {"chain / load", load_ns > 0 ? chain_ns / load_ns : 0, "x"}}};
      });
}

const BarRows kRows = {
    {"chain-read-cost", "executor: an indirect bounded READ of 64 B, hot", "under 60 ns", Sense::kAtMost, 60,
     "ns", [](BarRun& run) { return measure_chain(run, false); }},
    {"chain-swap-cost", "executor: ALLOCATE of 64 B and CAS, hot", "under 150 ns", Sense::kAtMost, 150, "ns",
     [](BarRun& run) { return measure_chain(run, true); }},
};

}  // namespace
}  // namespace refract::bench::bar_prism_cost
