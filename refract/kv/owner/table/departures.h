// SPDX-License-Identifier: Apache-2.0
// Who is told, besides readers, that an entry is about to leave its place in the table: a snapshot that has
// not read it yet (docs/design/027-snapshots.md).
//
// Threads: called by the shard that owns the table alone.
#pragma once

#include <cstdint>

#include "refract/kv/layout/layout.h"

namespace refract::kv {

class Departures {
 public:
  virtual ~Departures() = default;

  // The entry that `slot` names is replaced or removed by the owner's next store to that slot.
  virtual void departing(Slot slot) noexcept = 0;
  // Its buffer is to be retired now. True: it is still needed, and comes back to Table::retire later. Asked
  // once for each departure, and perhaps for buffers that never departed.
  [[nodiscard]] virtual bool keeps(Offset buffer) noexcept = 0;
  // The heap has no room. True: something was given back, so that it is worth another try.
  [[nodiscard]] virtual bool gives_way() noexcept = 0;
};

}  // namespace refract::kv
