// SPDX-License-Identifier: Apache-2.0
// A shard's log in a simulated world: the real records by their positions, in a ring that outlives the
// process, on a disk that gets them some time later and syncs them later still.
//
// An append is one store of the owner among those to its space: what a crash takes back of these, it takes
// back of the log, and another shard knows of a record when it could see that store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/campaign/model_log.h"
#include "tests/campaign/mutation.h"

#include "refract/base/prng.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/owner/ports.h"
#include "refract/storage/group.h"
#include "refract/storage/log/common_end.h"
#include "refract/storage/record.h"

namespace refract::campaign {

class MemoryLog final : public kv::ChangeLog, public kv::PartLog {
 public:
  struct Options {
    uint32_t shards = 1;
    Durability durability = Durability::kAlways;
    Mutation mutation = Mutation::kNone;
    uint64_t pace_ns = 50'000;  // Of the log's thread, at most.
    double sync_chance = 0.5;   // At each step of it.
    // Where the logs of all shards stand, as this shard's owner can see it.
    std::function<std::vector<storage::LogStand>()> stands;
  };
  MemoryLog(sim::World& world, sim::Host& host, const Options& options);

  struct Kept {
    std::vector<std::byte> bytes;
    uint64_t position = 0;
    uint64_t store = 0;    // The number of the append among the owner's stores,
    uint64_t process = 0;  // of this process.
    uint64_t moment_ns = 0;
    [[nodiscard]] uint64_t end() const noexcept { return position + bytes.size(); }
  };
  [[nodiscard]] const std::deque<Kept>& records() const noexcept { return records_; }
  // As it was appended; the spans belong to the log.
  [[nodiscard]] static storage::Record read(const Kept& kept);

  // Its memory is as the crash left it.
  void process_died();
  // The next process stores there.
  void take_up(sim::VisibleMemory& memory);
  // For Table::recover; null: there is none. What was decided by it; nothing: it is another record.
  [[nodiscard]] const Change* last_change();
  [[nodiscard]] std::optional<kv::TransactionName> last_decided() const;

  // Of the host: what was not synced ends at some record.
  void lose_tail();
  // Of the files: for a start that finds no ring.
  [[nodiscard]] storage::LogReading reading() const;
  void cut_at(uint64_t position);
  // Behind everything that the lost ring can have held.
  void begin_again(bool is_cut);
  // While it has no owner.
  void tell_settled(const storage::GroupRole& name, uint64_t stamp, bool has_happened);
  void sync_all();

  // By another thread, at this moment.
  [[nodiscard]] storage::LogStand stand() const noexcept;
  // Whether there is news for those who wait, since the last call.
  [[nodiscard]] bool has_progressed();

  [[nodiscard]] Code room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept override;
  void append(const Change& change) noexcept override;
  [[nodiscard]] Code room_for_group(uint64_t changes, uint64_t bytes) const noexcept override;
  void append_group(uint64_t number, std::span<const Change> changes) noexcept override;
  void append_prepared(const kv::TransactionName& name, uint64_t number,
                       std::span<const Change> changes) noexcept override;
  void append_decided(const kv::TransactionName& name, uint64_t number,
                      std::span<const Change> changes) noexcept override;
  void append_settled(const kv::TransactionName& name, uint64_t stamp, bool has_happened) noexcept override;
  [[nodiscard]] uint64_t appended() const noexcept override { return end_of(records_.size()); }
  [[nodiscard]] uint64_t confirmed() const noexcept override;
  [[nodiscard]] Code failure() const noexcept override { return Code::kOk; }
  [[nodiscard]] uint64_t needed_until(Offset) const noexcept override { return 0; }

  struct Counts {
    uint64_t records = 0;
    uint64_t taken_back = 0;  // By crashes of the process that fell before them.
    uint64_t lost = 0;        // By the host's death,
    uint64_t cut = 0;         // and because of what another log had lost.
    uint64_t refused = 0;     // Writes for which there was no room.
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  [[nodiscard]] uint64_t end_of(size_t count) const noexcept;
  void add_group(const storage::GroupRole& role, uint64_t number, std::span<const Change> changes);
  void add(std::vector<std::byte> bytes);
  void forget_from(size_t count);
  void schedule();
  void work();

  sim::World& world_;
  sim::Host& host_;
  const Options options_;
  Prng prng_;
  sim::VisibleMemory* memory_ = nullptr;
  std::deque<Kept> records_;
  size_t written_ = 0;  // So many; likewise below.
  size_t syncing_ = 0;
  size_t synced_ = 0;
  uint64_t base_ = 0;         // Where the segment begins that a start has begun.
  uint64_t highest_end_ = 0;  // That any record had.
  std::vector<storage::LogGap> gaps_;
  uint64_t process_ = 0;
  bool is_full_ = false;
  bool is_scheduled_ = false;
  mutable bool confirms_next_ = false;  // As Mutation::kForgetEarly.
  struct Told {
    uint64_t confirmed = 0;
    uint64_t written = 0;
    bool is_full = false;
    friend bool operator==(const Told&, const Told&) = default;
  };
  Told told_;
  Change last_;
  std::vector<uint64_t> last_group_;
  mutable Counts counts_;
};

}  // namespace refract::campaign
