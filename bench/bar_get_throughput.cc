// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars.h"
#include "bench/loaded_node.h"
#include "bench/machine.h"
#include "bench/open_addressing.h"

namespace refract::bench {
namespace {

// The same draws, keys and check as get_rate(), from a table in this process.
Reported<double> table_rate(const OpenAddressing& table, uint64_t entries, uint64_t operations,
                            uint64_t seed) {
  Draw draw(seed, entries);
  uint64_t wrong = 0;
  const uint64_t start_ns = now_ns();
  Value value = {};
  for (uint64_t i = 0; i < operations; ++i) {
    const uint64_t index = draw.next();
    wrong += uint64_t{!table.get(Key::of(index), value) || !value.is_of(index)};
  }
  const uint64_t duration_ns = now_ns() - start_ns;
  if (wrong != 0) return report(Code::kCorrupt, "the in-process table lost entries: a bug of refract-bench");
  return static_cast<double>(operations) * 1e3 / static_cast<double>(duration_ns);
}

Reported<Outcome> measure_on(BarRun& run, const std::string& backing) {
  const uint64_t entries = run.options.entries;
  Reported<LoadedNode> loaded = start_loaded_node(run, entries, backing);
  if (!loaded) return report(loaded.error());
  Reported<OpenAddressing> table = OpenAddressing::create(entries);
  if (!table) return report(table.error());
  for (uint64_t i = 0; i < entries; ++i) table->put(Key::of(i), Value::of(i));

  Reported<Outcome> outcome = in_block(run, [&](Outcome& block) -> Reported<> {
    std::vector<double> ours;
    std::vector<double> theirs;
    for (int turn = 0; turn <= run.options.alternations; ++turn) {
      const auto seed = static_cast<uint64_t>(turn);
      const Reported<double> get = get_rate(loaded->client, entries, run.options.operations, seed);
      if (!get) return report(get.error());
      const Reported<double> reference = table_rate(*table, entries, run.options.operations, seed);
      if (!reference) return report(reference.error());
      if (turn == 0) continue;  // Warms caches and translations.
      ours.push_back(*get);
      theirs.push_back(*reference);
      block.samples.push_back(*get / *reference);
    }
    block.details = {{"get", spread_of(ours).median, "M/s"}, {"table", spread_of(theirs).median, "M/s"}};
    block.note = fmt::format(
        "{} entries, uniform; node on {}, table of {} slots on transparent huge pages", entries,
        backing == "hugetlb:" ? "huge pages (hugetlb:)" : "4 KiB pages (memfd:)", table->slot_count());
    return {};
  });
  return outcome;
}

}  // namespace

Reported<Outcome> measure_get_throughput(BarRun& run) {
  return measure_on(run, "memfd:");
}

Reported<Outcome> measure_get_throughput_on_huge_pages(BarRun& run) {
  const uint64_t wanted = node_memory_bytes(run.options.entries) / (meminfo("Hugepagesize") * 1024 + 1) + 1;
  const uint64_t free_pages = meminfo("HugePages_Free");
  if (free_pages < wanted) {
    return report(
        Code::kUnsupported, fmt::format("{} huge pages are free, {} are needed", free_pages, wanted),
        fmt::format("as root: sysctl vm.nr_hugepages={}", wanted + meminfo("HugePages_Total") - free_pages));
  }
  return measure_on(run, "hugetlb:");
}

}  // namespace refract::bench
