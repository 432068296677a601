// SPDX-License-Identifier: Apache-2.0
// What Table::Parts has and tells.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "refract/kv/layout/decision_words.h"
#include "refract/kv/layout/transaction_wire.h"
#include "refract/kv/owner/parts/settling.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/batch.h"

namespace refract::kv {

struct HeldPart {
  PartOf from;
  std::vector<PendingEntry> writes;
  std::vector<uint64_t> keys = {};  // Hashes of all, each once.
  bool is_wanted = false;           // One of them was refused to another.
  bool is_adopted = false;          // A recovery has found it.
  bool is_logged = false;
  uint64_t position = 0;  // Where the log has it; 0: that is confirmed.
  uint64_t slack_ns = 0;  // How long that took: others of the transaction may take as long.

  // Of a far one.
  wire::Fate fate = wire::Fate::kOpen;  // For good.
  wire::Fate seen = wire::Fate::kOpen;  // As the home has said last; kUnconfirmed, too.
  bool is_demanded = false;             // The home is to decide it.
  Offset record_at{};                   // FarPart.
  uint64_t born = 0;                    // By far_ticks_; likewise:
  uint64_t look_wanted = 0;             // the last read that has asked for a look,
  uint64_t looked = 0;                  // and when the last one that was answered left.
};

// Which parts have had their time.
struct PartOverdue {
  uint64_t now_ns = 0;
  uint64_t wanted_before_ns = 0;
  uint64_t all_before_ns = 0;
};

// What the home of a far part is to be asked.
struct PartQuestion {
  TransactionName name;
  uint64_t generation = 0;
  bool is_demanded = false;
};

// A key that a far part holds and has made no pending entry of.
struct PartBeside {
  std::span<const std::byte> key;
  bool is_written = false;
};

// A far part that a log leaves open.
struct PartRestored {
  TransactionName name;
  std::vector<ChangeLog::Change> changes;  // Marks among them. Good while it is restored.
};

// What is prepared and not settled, for a snapshot.
struct PartPrepared {
  TransactionName name;
  std::vector<ChangeLog::Change> changes;  // Good until the table is changed.
};

}  // namespace refract::kv
