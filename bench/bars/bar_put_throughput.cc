// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/open_addressing.h"
#include "bench/load/put_lanes.h"

#include "refract/base/units.h"

namespace refract::bench::bar_put_throughput {
namespace {

constexpr size_t kInFlight = 16;
// Gets between two turns of the puts beside them: the server has work for longer than they take.
constexpr uint64_t kGetsATurn = 32;
constexpr size_t kPutsBeside = 64;

// Updates of random entries of the table, in millions a second.
double update_rate(OpenAddressing& table, uint64_t entries, uint64_t operations, uint64_t seed) {
  Draw draw(seed, entries);
  const uint64_t start_ns = now_ns();
  for (uint64_t i = 0; i < operations; ++i) {
    const uint64_t index = draw.next();
    table.put(Key::of(index), Value::of(index));
  }
  return static_cast<double>(operations) * 1e3 / static_cast<double>(now_ns() - start_ns);
}

Reported<double> put_rate(PutLanes& lanes, uint64_t duration_ns) {
  lanes.begin(kInFlight);
  const uint64_t before = lanes.done();
  const uint64_t start_ns = now_ns();
  uint64_t end_ns = start_ns;
  while (end_ns - start_ns < duration_ns) {
    for (int turn = 0; turn < 64; ++turn) lanes.turn();
    end_ns = now_ns();
  }
  const uint64_t puts = lanes.done() - before;
  lanes.end();
  if (lanes.trouble() != Code::kOk) return failed("put", lanes.trouble());
  return static_cast<double>(puts) * 1e3 / static_cast<double>(end_ns - start_ns);
}

// Gets in millions a second, of their own time: what the puts beside them take of this core does not count.
Reported<double> get_rate_beside(Client& client, PutLanes& lanes, uint64_t entries, uint64_t operations,
                                 uint64_t seed) {
  Draw draw(seed, entries);
  uint64_t wrong = 0;
  uint64_t took_ns = 0;
  Value value = {};
  for (uint64_t i = 0; i < operations; i += kGetsATurn) {
    lanes.turn();
    const uint64_t start_ns = now_ns();
    for (uint64_t get = 0; get < kGetsATurn; ++get) {
      const uint64_t index = draw.next();
      const Key key = Key::of(index);
      const bool found = client.get_into(key.text(), value.writable_bytes()).has_value();
      wrong += uint64_t{!found || !value.is_whole_of(index)};
    }
    took_ns += now_ns() - start_ns;
  }
  if (wrong != 0) return report(Code::kCorrupt, fmt::format("{} gets were torn or wrong", wrong));
  const uint64_t gets = round_up(operations, kGetsATurn);
  return static_cast<double>(gets) * 1e3 / static_cast<double>(took_ns);
}

Reported<Outcome> measure_put_16(BarRun& run) {
  if (core_count() < 2) return report(Code::kUnsupported, "client and server need a core each");
  const uint64_t entries = run.options.entries;
  Reported<LoadedNode> loaded = start_loaded_node(run, entries);
  if (!loaded) return report(loaded.error());
  Reported<OpenAddressing> table = OpenAddressing::create(entries);
  if (!table) return report(table.error());
  for (uint64_t i = 0; i < entries; ++i) table->put(Key::of(i), Value::of(i));
  pin_to_core(0);
  Reported<std::unique_ptr<PutLanes>> lanes = PutLanes::connect(loaded->node.socket_path(), entries);
  if (!lanes) return report(lanes.error());

  const auto slice_ns = static_cast<uint64_t>(run.options.slice_seconds * 1e9);
  return in_turns(
      run, fmt::format("random ones of {} entries replaced; AsyncClient on core 0, server on 1", entries),
      [&](uint64_t turn) {
        return ratio_of({.ours = {"put", put_rate(**lanes, slice_ns)},
                         .theirs = {"table", update_rate(*table, entries, run.options.operations, turn)},
                         .unit = "M/s"});
      });
}

Reported<Outcome> measure_get_under_puts(BarRun& run) {
  if (core_count() < 2) return report(Code::kUnsupported, "client and server need a core each");
  const uint64_t entries = run.options.entries;
  Reported<LoadedNode> loaded = start_loaded_node(run, entries);
  if (!loaded) return report(loaded.error());
  pin_to_core(0);
  Reported<std::unique_ptr<PutLanes>> lanes = PutLanes::connect(loaded->node.socket_path(), entries);
  if (!lanes) return report(lanes.error());

  const uint64_t operations = run.options.operations / 4;
  return in_turns(
      run, fmt::format("{} puts in flight, of the same keys; every byte of every value checked", kPutsBeside),
      [&](uint64_t turn) -> Reported<Turn> {
        const Reported<double> quiet =
            get_rate_beside(loaded->client, **lanes, entries, operations, 2 * turn);
        (*lanes)->begin(kPutsBeside);
        const uint64_t before = (*lanes)->done();
        const Reported<double> busy =
            get_rate_beside(loaded->client, **lanes, entries, operations, 2 * turn + 1);
        const uint64_t puts = (*lanes)->done() - before;
        (*lanes)->end();
        Reported<Turn> found = ratio_of({.ours = {"busy", busy}, .theirs = {"quiet", quiet}, .unit = "M/s"});
        if (!found) return found;
        found->details.push_back(
            {"puts a get", static_cast<double>(puts) / static_cast<double>(operations), ""});
        return found;
      });
}

const BarRows kRows = {
    {"get-under-puts", "get on shm while the server puts / quiet", "at least 0.90", Sense::kAtLeast, 0.9, "x",
     measure_get_under_puts},
    {"put-16", "put on shm, 16 in flight / update of the in-process table", "at least 0.50", Sense::kAtLeast,
     0.5, "x", measure_put_16},
};

}  // namespace
}  // namespace refract::bench::bar_put_throughput
