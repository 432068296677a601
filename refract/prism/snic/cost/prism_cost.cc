// SPDX-License-Identifier: Apache-2.0
// Prints what the executor takes for a hot chain, in nanoseconds: the median and the least of some rounds.
//
// Sketch: a get is a header copied and checked, one key compared, two places checked and 64 bytes copied, so
// some 150 instructions and no miss; a put has two operations, and takes and returns a buffer.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>

#include "refract/prism/snic/cost/hot_chains.h"

namespace {

using refract::prism::snic::HotChains;

constexpr uint64_t kChains = 500'000;
constexpr size_t kRounds = 9;

void measure(const char* name, HotChains& chains, std::span<const std::byte> message, double bar_ns) {
  std::array<double, kRounds> rounds{};
  for (double& round_ns : rounds) {
    const std::clock_t began = std::clock();
    size_t bytes = 0;
    for (uint64_t i = 0; i < kChains; ++i) bytes += chains.run(message);
    const double seconds = static_cast<double>(std::clock() - began) / static_cast<double>(CLOCKS_PER_SEC);
    round_ns = seconds * 1e9 / static_cast<double>(kChains);
    if (bytes == 0) fmt::print("{}: the chain did not run\n", name);
  }
  std::ranges::sort(rounds);
  fmt::print("{}: median {:.1f} ns, least {:.1f} ns, bar {:.0f} ns\n", name, rounds[kRounds / 2], rounds[0],
             bar_ns);
}

}  // namespace

int main() {
  HotChains chains;
  measure("indirect bounded READ of 64 bytes", chains, chains.get_message(), 60);
  measure("ALLOCATE of 64 bytes and COMPARE-AND-SWAP, retiring", chains, chains.put_message(), 150);
  const auto& counts = chains.counts();
  fmt::print("{} operations, {} failed\n", counts.all_operations(), counts.failed_operations);
  return counts.failed_operations == 0 ? 0 : 1;
}
