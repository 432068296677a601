// SPDX-License-Identifier: Apache-2.0
// The call that erases all entries which are older than a moment (docs/design/077, section 6): method kClear
// of numbered_wire.h, in the same form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "refract/kv/layout/wire.h"

namespace refract::kv::wire {

// One step, over any connection. A client that has begun asks again, with what the last reply said, until it
// is over. A step that is repeated erases nothing younger. kInvalidated: the memory is another one.
struct ClearRequest {
  uint64_t generation;  // Of the memory that has given the stamp. 0, of the first step: it is given now.
  uint64_t stamp;       // The moment: entries with a lower one go. Likewise.
  uint64_t cursor;      // Where the walk is (scan_cursor.h).
};
static_assert(sizeof(ClearRequest) == 24 && offsetof(ClearRequest, cursor) == 16);

struct ClearReply {
  uint64_t generation;
  uint64_t stamp;
  uint64_t next;    // The next step's cursor. 0: it is over, unless it waits.
  uint64_t erased;  // By this step.
  uint32_t waits;   // 1: for a key that a transaction holds, or for the log: again in a while. Else 0.
  uint32_t reserved;

  [[nodiscard]] constexpr bool is_over() const noexcept { return next == 0 && waits == 0; }
};
static_assert(sizeof(ClearReply) == 40 && offsetof(ClearReply, waits) == 32);

// Nothing: it makes no sense.
[[nodiscard]] inline std::optional<ClearRequest> take_clear_request(
    std::span<const std::byte> body) noexcept {
  const auto request = take<ClearRequest>(body);
  if (!request || !body.empty()) return std::nullopt;
  const bool begins = request->generation == 0 && request->stamp == 0 && request->cursor == 0;
  const bool continues = request->generation != 0 && request->stamp != 0;
  return begins || continues ? request : std::nullopt;
}
[[nodiscard]] inline std::optional<ClearReply> take_clear_reply(std::span<const std::byte> body) noexcept {
  const auto reply = take<ClearReply>(body);
  const bool is_sound = reply && body.empty() && reply->generation != 0 && reply->stamp != 0 &&
                        reply->waits <= 1 && reply->reserved == 0;
  return is_sound ? reply : std::nullopt;
}

}  // namespace refract::kv::wire
