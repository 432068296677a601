// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "bench/bars/bars.h"
#include "bench/bars/loaded_node.h"
#include "bench/load/entry.h"

#include "refract/base/units.h"

namespace refract::bench::bar_views {
namespace {

constexpr uint64_t kHotKeys = 1000;

// ns a key, one key after the other.
template <typename Look>
Reported<double> mean_ns(const BarRun& run, uint64_t entries, uint64_t seed, Look look) {
  Draw draw(seed, entries);
  uint64_t right = 0;
  const uint64_t start_ns = now_ns();
  for (uint64_t i = 0; i < run.options.operations; ++i) {
    right += uint64_t{look(Key::of(draw.next()))};
  }
  const uint64_t taken_ns = now_ns() - start_ns;
  if (right != run.options.operations) return report(Code::kCorrupt, "a view or a look found something else");
  return static_cast<double>(taken_ns) / static_cast<double>(run.options.operations);
}

// What holding a value costs beside finding it: exists() finds the entry, and protects nothing.
Reported<Outcome> measure(BarRun& run, uint64_t entries) {
  Reported<LoadedNode> loaded = start_loaded_node(run, entries);
  if (!loaded) return report(loaded.error());
  Client& client = loaded->client;
  return in_turns(
      run, fmt::format("{} keys, uniform, one after the other; the value's bytes are not read", entries),
      [&](uint64_t turn) -> Reported<Turn> {
        const Reported<double> view = mean_ns(run, entries, turn, [&](const Key& key) {
          const Result<View> held = client.view(key.text());
          return held.has_value() && held->bytes().size() == sizeof(Value);
        });
        if (!view) return report(view.error());
        const Reported<double> look = mean_ns(
            run, entries, turn, [&](const Key& key) { return client.exists(key.text()).has_value(); });
        if (!look) return report(look.error());
        return Turn{*view - *look, {{"view", *view, "ns"}, {"exists", *look, "ns"}}};
      });
}

const BarRows kRows = {
    {"view", "view held on shm, beside finding the entry alone", "within 15 ns", Sense::kAtMost, 15, "ns",
     [](BarRun& run) { return measure(run, run.options.entries); }},
    {"view-hot", "the same of one of 1000 keys", "within 8 ns", Sense::kAtMost, 8, "ns",
     [](BarRun& run) { return measure(run, std::min(kHotKeys, run.options.entries)); }},
};

}  // namespace
}  // namespace refract::bench::bar_views
