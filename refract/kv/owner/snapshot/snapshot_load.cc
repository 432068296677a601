// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/snapshot/snapshot_load.h"

#include <span>

namespace refract::kv {

Result<> SnapshotLoader::load(const SnapshotBlock& block) {
  if (const Result<> begun = reader_.begin(block); !begun) return begun;
  return resume();
}

Result<> SnapshotLoader::resume() {
  while (true) {
    if (const Result<> applied = apply(); !applied) return applied;
    SnapshotEntry entry;
    Result<> more;
    while (batch_.size() < kBatch && (more = reader_.next(entry))) {
      batch_.push_back({.kind = ChangeLog::Kind::kPut,
                        .stamp = entry.stamp,
                        .expires_wall_ns = entry.expires_wall_ns,
                        .request = entry.request,
                        .key = entry.key,
                        .value = entry.value,
                        .buffer = {}});
    }
    entries_ += batch_.size();
    if (more) continue;
    if (more.error().code != Code::kNotFound) return more;
    return apply();
  }
}

Result<> SnapshotLoader::apply() {
  applied_ += replay_.apply(std::span(batch_).subspan(applied_));
  if (applied_ < batch_.size()) return fail(Code::kNoSpace);
  batch_.clear();
  applied_ = 0;
  return {};
}

}  // namespace refract::kv
