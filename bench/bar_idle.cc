// SPDX-License-Identifier: Apache-2.0
#include "bench/bars.h"
#include "bench/idleness.h"
#include "bench/loaded_node.h"

namespace refract::bench {

// "None" cannot be told from a housekeeping timer now and then, so the limit is a thousandth of a core: a
// process that looks for work once a millisecond is above it, one that wakes up once a second far below.
Reported<Outcome> measure_idle(BarRun& run) {
  Reported<LoadedNode> loaded = start_loaded_node(run, 1'000);
  if (!loaded) return report(loaded.error());
  return measure_idleness(loaded->node, run.options.idle_ns, sleep_ns);
}

}  // namespace refract::bench
