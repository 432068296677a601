// SPDX-License-Identifier: Apache-2.0
// What a space keeps of transactions whose parts lie on several nodes (docs/design/070), beside pending
// entries: a list of buffers from TableRoot::far_parts on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "refract/base/units.h"

namespace refract::kv {

// A buffer that no slot names: a part of a transaction whose home is another node, so that a killed owner has
// it again (docs/design/070). Behind it stand the keys that it holds beside those that it has made pending.
// Where `generation` is 0 it is a decision of this home instead, which an earlier memory has made.
struct FarPart {
  uint64_t stamp;  // 0, as of a buffer that is being written: for a reader that was led here long ago.
  uint64_t next;   // Offset of the next one; 0: none.
  uint64_t decision_at;
  uint64_t number;
  uint64_t generation;
  uint64_t fate;  // wire::Fate, stored before the part is settled: then that is finished. 0: it is open.
  uint64_t first_stamp;  // Of those for its keys, which a log gives them.
  uint32_t keys;
  uint32_t bytes;  // Of all that follows.
};
static_assert(sizeof(FarPart) == 64 && offsetof(FarPart, fate) == 40 && offsetof(FarPart, bytes) == 60);
struct FarKey {  // | key | zero bytes up to a multiple of eight
  uint32_t bytes;
  uint32_t is_written;  // 1: there was nothing to erase. 0: it was read.
};
static_assert(sizeof(FarKey) == 8);
[[nodiscard]] constexpr uint64_t far_key_bytes(uint64_t key_bytes) noexcept {
  return round_up(sizeof(FarKey) + key_bytes, sizeof(uint64_t));
}

}  // namespace refract::kv
