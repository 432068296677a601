// SPDX-License-Identifier: Apache-2.0
// Who must know of a change before the table makes it, so that it can be made again elsewhere: the log of a
// node that keeps its data on disk (docs/design/025-log.md).
//
// The table calls append() when nothing can fail any more, and publishes at once behind it. Positions count
// bytes of the log and only grow.
//
// Threads: used only by the shard that owns the table; an implementation talks to its own thread by itself.
#pragma once

#include <cstdint>
#include <span>

#include "refract/base/result.h"
#include "refract/kv/layout/contract.h"
#include "refract/memory/space.h"

namespace refract::kv {

class ChangeLog {
 public:
  enum class Kind : uint8_t { kPut = 1, kErase = 2 };

  struct Change {
    Kind kind = Kind::kPut;
    uint64_t stamp = 0;  // The entry's version; of an erasure, a stamp of its own. Higher than all before.
    uint64_t expires_wall_ns = 0;
    RequestId request = {};
    std::span<const std::byte> key = {};
    // Of a put: its bytes lie in `buffer`, and stay as they are there.
    std::span<const std::byte> value = {};
    Offset buffer{};
  };

  virtual ~ChangeLog() = default;

  // kOk: append() may be called for a key and a value of these lengths. kOverloaded: not before the log has
  // got on, of which its owner tells the service (on_log_progress). kReadOnly: the log cannot be written.
  [[nodiscard]] virtual Code room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept = 0;
  // REQUIRES: room_for() said kOk since the last append.
  virtual void append(const Change& change) noexcept = 0;

  // Where the last change ends, and up to where changes may be acknowledged.
  [[nodiscard]] virtual uint64_t appended() const noexcept = 0;
  [[nodiscard]] virtual uint64_t confirmed() const noexcept = 0;
  // What those are told that wait for confirmed(): kOk while it will come, else the code to answer with.
  [[nodiscard]] virtual Code failure() const noexcept = 0;

  // Whether the bytes of this buffer, which is replaced or erased now, are still to be read: then it must not
  // be reused before confirmed() has reached the position that is returned. 0: nobody needs it.
  [[nodiscard]] virtual uint64_t needed_until(Offset buffer) const noexcept = 0;
};

}  // namespace refract::kv
