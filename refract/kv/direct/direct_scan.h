// SPDX-License-Identifier: Apache-2.0
// How a client scans the table by itself: whole buckets, each read again when it was split meanwhile. Buckets
// with more lines than readers follow are scanned by the owner, in pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/kv/direct/table_view.h"
#include "refract/kv/layout/scan_cursor.h"

namespace refract::kv {

struct ScannedKey {
  std::vector<std::byte> key;
  uint64_t version = 0;
  uint64_t value_bytes = 0;
};

template <typename Memory>
class DirectScan {
 public:
  using View = TableView<Memory>;

  DirectScan(View& view, const Clock& clock) noexcept : view_(view), clock_(clock) {}

  // Visits the keys of the cursor's bucket and moves the cursor behind it. kInvalidated: ask the owner for
  // what follows.
  template <typename Visit>
  [[nodiscard]] Code next_bucket(uint64_t& cursor, Visit&& visit) {
    for (int attempt = 0; attempt < View::kAttempts; ++attempt) {
      std::vector<ScannedKey> keys;
      const uint64_t count = view_.observe_count();
      if (count == 0) return Code::kCorrupt;
      const ScanStep step = scan_step(cursor, count);
      const Code code = collect(view_.bucket_at(step.bucket), keys);
      if (code == Code::kCorrupt || code == Code::kTooLarge) {
        return code == Code::kTooLarge ? Code::kInvalidated : code;
      }
      if (code != Code::kOk || view_.observe_count() != count) continue;
      for (const ScannedKey& key : keys) visit(key);
      cursor = step.next;
      return Code::kOk;
    }
    return Code::kInvalidated;
  }

 private:
  // kTooLarge: there are more lines than readers follow.
  [[nodiscard]] Code collect(Offset line, std::vector<ScannedKey>& keys) {
    for (int hop = 0; line; ++hop) {
      if (hop == kLinesWalked) return Code::kTooLarge;
      if (!view_.is_inside(line, kLineBytes)) return Code::kCorrupt;
      for (uint64_t i = 0; i < kSlotsPerBucket; ++i) {
        ScannedKey key;
        Code code = Code::kInvalidated;
        for (int attempt = 0; attempt < View::kAttempts && code == Code::kInvalidated; ++attempt) {
          code = read_key(line.plus(i * sizeof(Slot)), key);
        }
        // One that is just coming forward stands in two lines.
        const bool is_again = hop > 0 && code == Code::kOk &&
                              std::ranges::find(keys, key.version, &ScannedKey::version) != keys.end();
        if (code == Code::kOk && !is_again) keys.push_back(std::move(key));
        if (code == Code::kInvalidated || code == Code::kCorrupt) return code;
      }
      line = line_at(view_.memory().observe(line.plus(kOverflowWord * sizeof(Slot))));
    }
    return Code::kOk;
  }

  // kNotFound: the slot is free, or its entry has expired.
  [[nodiscard]] Code read_key(Offset slot_at, ScannedKey& key) {
    typename View::Seen seen{.slot_at = slot_at, .slot = Slot{view_.memory().observe(slot_at)}};
    if (!seen.slot) return Code::kNotFound;
    Code code = Code::kOk;
    if (!view_.see(seen, code)) return code;
    if (seen.lengths.is_pending()) [[unlikely]] {
      code = view_.settle(seen);
      if (code == Code::kNotFound && !view_.is_current(seen)) code = Code::kInvalidated;
      if (code != Code::kOk) return code;
    }
    key.key.resize(seen.lengths.key_bytes);
    view_.memory().copy(key.key.data(), seen.slot.buffer().plus(seen.lengths.key_at()), key.key.size());
    key.version = seen.stamp;
    key.value_bytes = seen.lengths.value_bytes;
    const bool expires = (seen.lengths.flags & Lengths::kExpires) != 0;
    const uint64_t expiry =
        expires ? view_.memory().observe(seen.slot.buffer().plus(kExpiryAt)) : ~uint64_t{0};
    if (!view_.is_current(seen)) return Code::kInvalidated;
    return expires && clock_.wall_ns() >= expiry ? Code::kNotFound : Code::kOk;
  }

  View& view_;
  const Clock& clock_;
};

}  // namespace refract::kv
