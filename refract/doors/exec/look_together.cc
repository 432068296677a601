// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/exec/look_together.h"

#include <utility>

#include "refract/txn/attempts.h"

namespace refract::doors::redis {

using runtime::Task;

namespace {

// Whether the key is still as it was read. kInvalidated: that cannot be told.
Code look_again(Store& store, const Watch& read) {
  const Result<Got> now = store.client->exists_at_once(read.key);
  if (!now && now.code() != Code::kNotFound) return Code::kInvalidated;
  return (now ? now->version : 0) == read.version ? Code::kOk : Code::kConflict;
}

}  // namespace

// A version is never used twice: what has its version still has had it since it was read, and so at every
// moment between the last read and the first second look. What was absent may have come and gone; but one
// that is looked at first of all is absent at that moment, at which all else stands. Of two that cannot be
// said.
Looked look_together_at_once(Store& store, std::span<const Watch> reads) {
  const Watch* absent = nullptr;
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].version != 0) continue;
    if (absent != nullptr && absent->key != reads[i].key) return {.code = Code::kInvalidated};
    if (std::exchange(absent, &reads[i]) != nullptr) continue;
    if (const Code code = look_again(store, reads[i]); code != Code::kOk) return {.code = code, .failed = i};
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i].version == 0) continue;
    if (const Code code = look_again(store, reads[i]); code != Code::kOk) return {.code = code, .failed = i};
  }
  return {};
}

Task<Looked> look_together(Store& store, std::span<const Watch> reads) {
  const Looked looked = look_together_at_once(store, reads);
  if (looked.code != Code::kInvalidated) co_return looked;
  Batch batch;
  for (const Watch& read : reads) {
    if (read.version == 0) {
      batch.if_absent(read.key);
    } else {
      batch.if_version(read.key, read.version);
    }
  }
  const Result<> held = co_await store.client->commit(batch);
  if (held) co_return Looked();
  if (!txn::Attempts::is_conflict(held.code())) co_return Looked{.code = held.code()};
  const bool is_known = held.code() != Code::kConflict;
  co_return Looked{.code = Code::kConflict, .failed = is_known ? batch.failed() : reads.size()};
}

}  // namespace refract::doors::redis
