// SPDX-License-Identifier: Apache-2.0
// A model of what a table holds, and a sink that keeps what a snapshot writes.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "refract/kv/owner/snapshot/snapshot_block.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::test {

struct ModelEntry {
  uint64_t stamp = 0;
  uint64_t expires_wall_ns = 0;
  RequestId request;
  std::string value;
  bool operator==(const ModelEntry&) const = default;
};
using Model = std::map<std::string, ModelEntry>;

inline void drop_expired(Model& model, uint64_t wall_ns) {
  std::erase_if(model, [&](const auto& entry) {
    return entry.second.expires_wall_ns != 0 && entry.second.expires_wall_ns <= wall_ns;
  });
}

// Keeps what it is given, as a disk would.
class BlocksInMemory : public SnapshotSink {
 public:
  struct Kept {
    SnapshotBlockKind kind;
    uint32_t entries;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] Code write(const SnapshotBlock& block) override {
    blocks.push_back({block.kind, block.entries, {block.bytes.begin(), block.bytes.end()}});
    return Code::kOk;
  }

  // What the blocks hold. An entry that comes twice, or blocks that make no sense, make it unequal to any
  // model.
  [[nodiscard]] Model read() const {
    Model model;
    SnapshotBlockReader reader;
    for (const Kept& block : blocks) {
      if (!reader.begin({.kind = block.kind, .entries = block.entries, .bytes = block.bytes}))
        return {{"a block that makes no sense", {}}};
      SnapshotEntry entry;
      Result<> more = reader.next(entry);
      for (; more; more = reader.next(entry)) {
        const bool is_new =
            model
                .emplace(text_of(entry.key), ModelEntry{.stamp = entry.stamp,
                                                        .expires_wall_ns = entry.expires_wall_ns,
                                                        .request = entry.request,
                                                        .value = text_of(entry.value)})
                .second;
        if (!is_new) return {{"twice: " + text_of(entry.key), {}}};
      }
      if (more.error().code != Code::kNotFound) return {{"an entry that makes no sense", {}}};
    }
    if (!reader.is_complete()) return {{"pieces are missing", {}}};
    return model;
  }

  std::vector<Kept> blocks;
};

}  // namespace refract::kv::test
