// SPDX-License-Identifier: Apache-2.0
// What a table says of itself and of its entries: Table has these under the names without the prefix.
#pragma once

#include <cstdint>
#include <span>

#include "refract/kv/contract.h"
#include "refract/kv/layout.h"

namespace refract::kv {

struct TableStats {
  uint64_t entries = 0;
  uint64_t expiring_entries = 0;  // Among them, those with a time to live.
  uint64_t buckets = 0;
  uint64_t overflow_lines = 0;
  uint64_t splits = 0;
  uint64_t expired = 0;  // Removed because their time had come.
  uint64_t evicted = 0;  // Removed so that others had room.
  uint64_t evicted_bytes = 0;
};

// A value on its way into the table: its buffer, which nobody else sees.
struct TableDraft {
  Offset buffer{};
  Lengths lengths{};
  uint64_t hash = 0;
};

// As the owner sees it.
struct TableEntry {
  uint64_t version = 0;
  Offset buffer;
  uint64_t buffer_bytes = 0;
  std::span<const std::byte> value;
  uint64_t expires_wall_ns = 0;
  RequestId request;  // Of the put that made it, if that had one.
};

struct TableDamage {
  Offset at;
  const char* what = nullptr;
};

}  // namespace refract::kv
