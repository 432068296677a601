// SPDX-License-Identifier: Apache-2.0
// The entries that a store's files give, key by key with the youngest change of each, in this process's own
// memory, and on their way into a fresh snapshot: for tools, which have no node and no table.
//
// Changes of one key may come in any order, but an erasure behind the puts that it is to take away.
//
// Threads: one. Memory: keys and values, and some 100 bytes an entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "refract/base/report.h"
#include "refract/base/secret_hash.h"
#include "refract/kv/owner/ports.h"
#include "refract/storage/disk.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::node {

class KeptEntries {
 public:
  // One that is not younger than what is kept of its key changes nothing.
  void apply(const kv::ChangeLog::Change& change);
  [[nodiscard]] uint64_t count() const noexcept { return entries_.size(); }

  // The snapshot's file, complete and synced. REQUIRES: no entry has facts.stamp or one above.
  [[nodiscard]] Reported<storage::SnapshotTotals> write(storage::Disk& disk,
                                                        const storage::SnapshotFacts& facts) const;

 private:
  struct Kept {
    uint64_t stamp = 0;
    std::vector<std::byte> buffer;  // As in a table (kv/layout/layout.h).
  };
  std::unordered_map<std::string, Kept, SecretHasher, std::equal_to<>> entries_;
};

}  // namespace refract::node
