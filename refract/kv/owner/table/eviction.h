// SPDX-License-Identifier: Apache-2.0
// Makes room in a full table by taking away what was used least: docs/design/030-eviction.md.
//
//   Eviction eviction({.table = table, .heap = heap, .growth = node, .policy = ..., .samples = &shm_domain});
//
// A put that finds no buffer has some entries evicted whose buffers fit, those that look idlest among some
// hundreds. Where there are none, or others are much idler, a run of chunks is emptied, in steps: the put
// is told kNoSpace meanwhile, and is_under_way() that it is worth waiting. Buffers that readers have pinned,
// or that no slot names because a client is writing them, are never touched; nothing is evicted while the
// node can grow.
//
// Threads: used only by the shard that owns the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/slot_uses.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/memory/uses.h"

namespace refract::kv {

class Eviction final : public RoomMaker {
 public:
  // All outlive the eviction; the table asks it until it is destroyed.
  struct Parts {
    Table& table;
    Heap& heap;
    GrowthSource& growth;
    EvictionPolicy policy;         // REQUIRES: not kNone.
    UseSource* samples = nullptr;  // Null: every use is seen by the table itself.
  };
  struct Counters {
    uint64_t samples = 0;  // Uses that readers wrote down.
    uint64_t runs = 0;     // That were emptied.
    uint64_t spared = 0;   // Entries that would have gone, had no reader pinned them.
  };

  explicit Eviction(const Parts& parts);
  Eviction(const Eviction&) = delete;
  Eviction& operator=(const Eviction&) = delete;
  ~Eviction() override;

  [[nodiscard]] Code make_room(uint64_t bytes, int attempts) noexcept override;
  void make_room_for_table() noexcept override;
  // For a table that no other caller waits for. False: there cannot be room for so much.
  [[nodiscard]] bool make_room_at_once(uint64_t bytes);

  // A run is being emptied: call step() again and again, and try what waits for room when it is not.
  [[nodiscard]] bool is_under_way() const noexcept { return run_.has_value(); }
  // Evicts so many entries, or fewer.
  void step(size_t entries_max);

  // Takes over what readers have written down since the last time.
  void take_samples();

  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

  // What is done of emptying a run in one go: some ten microseconds.
  static constexpr size_t kStepEntries = 256;

 private:
  // Windows that are tried before nothing is said to go.
  static constexpr size_t kBlockedMax = 8;

  struct Candidate {
    Table::Standing standing;
    uint32_t idleness = 0;
  };
  // What one look at some buckets has found.
  struct Look {
    uint32_t idlest = 0;  // Of all.
    Table::Standing idlest_standing;
    uint64_t slots = 0;
  };

  [[nodiscard]] Look look_around(uint64_t bytes);
  [[nodiscard]] bool fits(Slot slot, uint64_t bytes) const noexcept;
  [[nodiscard]] Code evict_same_class(uint64_t bytes, size_t& evicted);
  void look_for_other_class(const Look& look, uint64_t bytes);
  [[nodiscard]] bool begin_run(const std::optional<Heap::ChunkRun>& run);
  [[nodiscard]] Code empty_run(uint64_t bytes);
  [[nodiscard]] std::optional<Heap::ChunkRun> run_for(uint64_t bytes) const noexcept;
  enum class Gone : uint8_t { kYes, kBlocked, kNotNow };
  [[nodiscard]] Gone evict_occupant(Offset buffer);
  void block_run();
  void finish_run();
  void end_run();

  Parts parts_;
  SlotUses uses_;
  Table::Hand hand_;  // Looked at next.
  std::vector<Candidate> same_class_;
  std::vector<uint64_t> hashes_;
  // The chunks that are being emptied, and what is left in the one at `chunk_`.
  std::optional<Heap::ChunkRun> run_;
  uint64_t chunk_ = 0;
  std::vector<Offset> occupants_;
  // Those that could not be: withheld as well until the search ends.
  std::vector<Heap::ChunkRun> blocked_;
  bool is_waited_for_ = false;  // By a put.
  bool has_given_up_ = false;   // The last search that was waited for: the next put is told so.
  uint64_t evicted_at_run_ = 0;
  Counters counters_;
};

}  // namespace refract::kv
