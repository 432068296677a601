// SPDX-License-Identifier: Apache-2.0
// How long it takes until many nodes have an object that one of them has, beside one pull of it.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/bars/object_node.h"
#include "bench/sides/simulated_broadcast.h"

#include "refract/base/units.h"

namespace refract::bench::bar_broadcast {
namespace {

// --- Simulated ---

double ratio_of(const BroadcastTimes& times) {
  return static_cast<double>(times.all_ns) / static_cast<double>(times.one_ns);
}

double ms_of(uint64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

// The same on every machine, so once.
Reported<Outcome> measure_simulated(BarRun& run) {
  const uint64_t bytes = run.options.judged ? 256 * kMiB : kMiB;
  BroadcastTestbed testbed{.bytes = bytes};
  if (!run.options.judged) testbed.receivers = 4;
  const Reported<BroadcastTimes> whole = simulate_broadcast(testbed);
  if (!whole) return report(whole.error());
  testbed.bytes = bytes / 4;
  const Reported<BroadcastTimes> quarter = simulate_broadcast(testbed);
  if (!quarter) return report(quarter.error());
  testbed.interleaves = false;
  const Reported<BroadcastTimes> in_order = simulate_broadcast(testbed);
  if (!in_order) return report(in_order.error());
  Outcome outcome;
  outcome.samples = {ratio_of(*whole)};
  outcome.details = {{"one pull", ms_of(whole->one_ns), "ms"},
                     {"broadcast", ms_of(whole->all_ns), "ms"},
                     {"given by the holder", static_cast<double>(whole->given), "times"},
                     {"a quarter of the bytes", ratio_of(*quarter), "x"},
                     {"the same, ports first come, first served", ratio_of(*in_order), "x"}};
  outcome.note = fmt::format(
      "{} MiB to {} nodes, ports of {} MB/s, {} us one way, no work, simulated with seed {}; small messages "
      "pass "
      "between the packets of large ones; where they do not, READ requests wait behind whole pieces",
      bytes / kMiB, testbed.receivers, testbed.port_bytes_per_us, testbed.one_way_ns / kMicrosecond_ns,
      testbed.seed);
  return outcome;
}

// --- Over TCP ---

constexpr size_t kReceivers = 3;
constexpr uint64_t kNumber = 1;

Reported<> empty_all(ListedNodes& listed) {
  for (size_t i = 1; i < listed.nodes.size(); ++i) {
    if (const Reported<> empty = forget_copies(listed.nodes[i].objects); !empty) return empty;
  }
  return {};
}

Reported<> check_all(ListedNodes& listed, const std::vector<std::byte>& body) {
  for (ObjectNode& node : listed.nodes) {
    if (const Reported<> right = check_object(node.objects, kNumber, std::span<const std::byte>(body));
        !right)
      return right;
  }
  return {};
}

// As many pulls one after the other bring as much.
Reported<double> seconds_of_pulls(ListedNodes& listed, double& first) {
  double all = 0;
  for (size_t i = 1; i < listed.nodes.size(); ++i) {
    const Reported<double> seconds = seconds_of_pull(listed.nodes[i].objects, kNumber);
    if (!seconds) return report(seconds.error());
    if (i == 1) first = *seconds;
    all += *seconds;
  }
  return all;
}

Reported<Outcome> measure_real(BarRun& run) {
  const uint64_t bytes = (run.options.judged ? 64 : 1) * kMiB;
  Reported<ListedNodes> listed = start_listed_nodes(run, kReceivers + 1, bytes + 64 * kMiB);
  if (!listed) return report(listed.error());
  std::vector<std::byte> body(bytes);
  fill_body(body, kNumber);
  if (const Reported<> made = put_listed(listed->nodes[0].objects, kNumber, body); !made)
    return report(made.error());
  if (const Reported<> there = await_others(listed->nodes[0].objects, kNumber + 1); !there)
    return report(there.error());
  if (const Reported<> empty = empty_all(*listed); !empty) return report(empty.error());
  return in_turns(
      run,
      fmt::format("{} MiB to {} nodes over loopback, where they share the host's cores; 'refract-bench "
                  "object-mpi --broadcast' has MPI_Bcast beside it",
                  bytes / kMiB, kReceivers),
      [&](uint64_t) -> Reported<Turn> {
        const Reported<double> ours = seconds_of_broadcast(listed->nodes[0].objects, kNumber);
        if (!ours) return report(ours.error());
        if (const Reported<> right = check_all(*listed, body); !right) return report(right.error());
        if (const Reported<> empty = empty_all(*listed); !empty) return report(empty.error());
        double one = 0;
        const Reported<double> pulls = seconds_of_pulls(*listed, one);
        if (!pulls) return report(pulls.error());
        if (const Reported<> empty = empty_all(*listed); !empty) return report(empty.error());
        return Turn{*ours / *pulls,
                    {{"broadcast", *ours * 1e3, "ms"},
                     {fmt::format("{} pulls, one after the other", kReceivers), *pulls * 1e3, "ms"},
                     {"one pull", one * 1e3, "ms"},
                     {"broadcast / one pull", *ours / one, "x"}}};
      },
      {.over = Over::kTcp});
}

const BarRows kRows = {
    {"object-broadcast", "broadcast of 64 MiB to 3 nodes over tcp / a pull by each", "at most 1.20",
     Sense::kAtMost, 1.2, "x", measure_real},
    {"sim-broadcast", "broadcast of 256 MiB to 16 nodes / one pull, simulated", "at most 1.20",
     Sense::kAtMost, 1.2, "x", measure_simulated},
};

}  // namespace
}  // namespace refract::bench::bar_broadcast
