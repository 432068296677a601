// SPDX-License-Identifier: Apache-2.0
// Looks through the whole space of a node for what cannot be: header, chunk table, directory, every bucket,
// overflow line, slot and entry, and what transactions under way have left.
//
// It only reads, and follows nothing that it has not checked: any bytes are a space that may be damaged. A
// server may change the table meanwhile; a bucket in which something looks wrong is looked at again, and only
// what stays wrong in every look is damage. An unfinished split, as a killed server leaves it, is none.
//
// Threads: one. Memory: in a quiet space one bit for each 16 bytes, to find two slots that name one buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "apps/inspect/space_words.h"

namespace refract::cli {

using inspect::Damage;

struct SpaceReport {
  static constexpr size_t kDamagesMax = 100;  // So many are kept; all are counted.

  uint64_t bytes = 0;
  uint64_t chunks = 0;
  uint64_t buckets = 0;
  uint64_t overflow_lines = 0;
  uint64_t entries = 0;  // Expired ones that were not swept yet are among them.
  uint64_t expiring_entries = 0;
  uint64_t content_bytes = 0;  // Keys and values.
  // Of transactions under way: entries that are not believed without a look at a decision, and parts of those
  // that other nodes decide.
  uint64_t pending_entries = 0;
  uint64_t far_parts = 0;
  uint64_t looked_again = 0;  // Buckets that changed while they were looked at.
  uint64_t damage_count = 0;
  std::vector<Damage> damages;
};

struct SpaceView {
  std::span<const std::byte> space;
  // False: there is no writer, so that what is found twice is damage.
  bool is_live = false;
  // The space as it is mapped now, when something lies behind its end; null: it cannot grow.
  std::function<std::span<const std::byte>()> grown = nullptr;
  // Waits a moment before a bucket is looked at again; null: does not.
  std::function<void()> pause = nullptr;
  // Told now and then how many buckets of how many are done; may be null.
  std::function<void(uint64_t done, uint64_t total)> tell = nullptr;
};

[[nodiscard]] SpaceReport check_space(const SpaceView& view);

}  // namespace refract::cli
