// SPDX-License-Identifier: Apache-2.0
// A shard's log as docs/design/025-log.md promises it, in a simulated world: a ring that outlives the server
// and not the host, a disk that is written and synced some time later and fails now and then, values that are
// read from their buffers when they are written.
//
// A record is one more store of the owner, behind those that the space has seen: a crash of the server that
// falls before it takes it back, too. What others have been told of is not taken back (make_visible).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/campaign/mutation.h"

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"

namespace refract::campaign {

enum class Durability : uint8_t { kNone, kEverySecond, kAlways };

class ModelLog final : public kv::ChangeLog {
 public:
  struct Options {
    Durability durability = Durability::kAlways;
    Mutation mutation = Mutation::kNone;
    // The recorder's, for the moments at which records are appended.
    std::function<uint64_t()> moment;
    std::function<void(const std::string&)> complain;
  };
  ModelLog(sim::World& world, sim::Host& server, const Options& options);

  // The server has died, and the next one finds this space as the crash left it.
  void server_restarted(sim::VisibleMemory& memory);
  // The host has died: what was not synced may be lost, from some record on.
  struct Lost {
    std::string key;
    uint64_t stamp = 0;
    bool erases = false;
    uint64_t appended = 0;  // The moment.
  };
  [[nodiscard]] std::vector<Lost> host_crashed();

  // The server's part, at each start: its last record for Table::recover; null: there is none.
  [[nodiscard]] const Change* last_change();
  // Fills a new table. False: the memory is full; call again with more.
  [[nodiscard]] bool replay_into(kv::Table& table, Heap& heap);
  // What a table holds that is not what the records say; empty: it is the same.
  [[nodiscard]] std::string compare(kv::Table& table, const Clock& clock) const;

  [[nodiscard]] Code room_for(uint64_t key_bytes, uint64_t value_bytes) const noexcept override;
  void append(const Change& change) noexcept override;
  [[nodiscard]] Code room_for_group(uint64_t changes, uint64_t bytes) const noexcept override;
  void append_group(uint64_t number, std::span<const Change> changes) noexcept override;
  [[nodiscard]] uint64_t appended() const noexcept override { return end_of(records_.size()); }
  [[nodiscard]] uint64_t confirmed() const noexcept override;
  [[nodiscard]] Code failure() const noexcept override { return failed_ ? Code::kIndeterminate : Code::kOk; }
  [[nodiscard]] uint64_t needed_until(Offset buffer) const noexcept override;

  struct Counts {
    uint64_t records = 0;
    uint64_t by_reference = 0;
    uint64_t taken_back = 0;  // By crashes of the server that fell before them.
    uint64_t redone = 0;      // Records whose change the table lacked after a crash.
    uint64_t lost = 0;        // In crashes of the host.
    uint64_t refused = 0;     // Writes for which there was no room.
    uint64_t failures = 0;    // Of the disk.
    uint64_t held = 0;        // Buffers that were needed when they were replaced.

    void add(const Counts& other) noexcept;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  // The version that the last change met before recovery; 0: no entry.
  void count_redone(uint64_t version_before) noexcept;

 private:
  struct Record {
    Kind kind = Kind::kPut;
    uint64_t stamp = 0;
    uint64_t expires_wall_ns = 0;
    kv::RequestId request = {};
    std::string key;
    std::string value;
    Offset buffer{};
    uint64_t value_bytes = 0;
    bool is_reference = false;  // Its value is still in its buffer.
    bool is_void = false;       // It was replaced before its value could be read: by a later record.
    uint64_t end = 0;
    uint64_t store_position = 0;  // Of the space, when it was appended.
    uint64_t server = 0;          // Which one appended it.
    uint64_t moment = 0;
    uint64_t group = 0;  // Its number, which its records share; 0: it is alone.
  };

  // Whether a cut in front of this record would leave a part of its group.
  [[nodiscard]] bool splits_group(size_t index) const noexcept {
    return index > 0 && index < records_.size() && records_[index].group != 0 &&
           records_[index].group == records_[index - 1].group;
  }
  [[nodiscard]] static Change change_of(const Record& record);
  [[nodiscard]] uint64_t end_of(size_t count) const noexcept {
    return count == 0 ? base_ : records_[count - 1].end;
  }
  void work();
  void write_some(size_t count);

  sim::World& world_;
  sim::Host& server_;
  Options options_;
  Prng prng_;
  sim::VisibleMemory* memory_ = nullptr;
  std::deque<Record> records_;
  size_t written_ = 0;
  size_t synced_ = 0;
  uint64_t base_ = 0;
  uint64_t servers_ = 0;
  size_t replayed_ = 0;
  uint64_t first_stamp_ = 0;  // On the disk.
  bool failed_ = false;
  Change last_;
  std::vector<uint64_t> last_group_;
  mutable Counts counts_;
};

}  // namespace refract::campaign
