// SPDX-License-Identifier: Apache-2.0
// FaRM's object: how it is read without its primary's knowledge, and how it is written meanwhile.
//
// A READ takes each line at one moment and the lines in any order. It has one whole object if the header is
// not locked and each line has the header's version. So a writer, which has locked the object,
//   (O1) takes the version of every line away, by 0, which is no object's version;
//   (O2) then stores the bytes, (O3) then each line's new version, (O4) and the header, unlocked, at last.
//
// Threads: any; a writer's is the owner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "refract/memory/writer.h"
#include "refract/txn/designs/farm/layout.h"

namespace refract::txn::farm {

// What a READ of an object gave.
struct Object {
  Header header;
  std::vector<std::byte> key;
  std::vector<std::byte> value;
};
// Nothing: it is locked, or was being written. `checks_lines` is false for tests of what goes wrong then.
[[nodiscard]] std::optional<Object> object_in(designs::Bytes bytes, bool checks_lines = true);

// What writing cannot do without. Tests break each, and find out.
struct StoreRules {
  bool hides_versions = true;   // (O1)
  bool unlocks_at_last = true;  // (O4), else before (O2).
};

struct Fresh {
  Offset at;
  designs::Bytes key;
  designs::Bytes value;
  uint64_t version = 0;
  bool stays_locked = false;
};
// REQUIRES: the object is locked, or new; key and value fit.
void store_object(Writer& writer, uint64_t object_bytes, const Fresh& fresh, const StoreRules& rules = {});

}  // namespace refract::txn::farm
