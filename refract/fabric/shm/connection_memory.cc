// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/shm/connection_memory.h"

#include <algorithm>

#include "refract/memory/remote_visible.h"

namespace refract::fabric::shm {

void collect_pins(const ConnectionMemory& memory, size_t pin_tables, PinSet& pins) noexcept {
  collect_pins(memory.pins, pins);
  const uint64_t in_use = std::min<uint64_t>(observe_u64(&memory.client.pin_tables), pin_tables);
  for (uint64_t table = 1; table < in_use; ++table) collect_pins(further_pins(memory)[table - 1], pins);
}

}  // namespace refract::fabric::shm
