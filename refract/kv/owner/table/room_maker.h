// SPDX-License-Identifier: Apache-2.0
// Who makes room where the memory is full, so that a put need not fail: docs/design/030-eviction.md.
//
// Threads: called by the shard that owns the table alone.
#pragma once

#include <cstdint>

#include "refract/base/result.h"

namespace refract::kv {

class RoomMaker {
 public:
  virtual ~RoomMaker() = default;

  // The heap has no room for `bytes`, and `attempts` calls of this for the same buffer have not helped. kOk:
  // entries have left the table, so that it is worth another try. Else what to fail with: kNoSpace, which
  // also says that room is on its way, or what the log says.
  [[nodiscard]] virtual Code make_room(uint64_t bytes, int attempts) noexcept = 0;
  // The table wants a chunk for buckets or lines, and none is left. Room will come, if it can be had.
  virtual void make_room_for_table() noexcept = 0;
};

}  // namespace refract::kv
