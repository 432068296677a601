// SPDX-License-Identifier: Apache-2.0
// What a log, and the snapshot in front of it, say of transactions over several shards (docs/design/067):
// which this shard has decided as their home, and which it has prepared and not settled. A prepared change
// takes effect when the log says that it is settled; what is open at the log's end is settled when all
// shards' logs have been read. What another node decides stays open then.
//
//   LogParts parts([&](const Record& change) { ... });
//   parts.load(kind, payload), for each kSnapshotDecided and kSnapshotPrepared of the snapshot;
//   parts.take(record), for each of kPrepared, kDecided and kSettled; other records go their own way;
//   parts.settle(decided of all shards);
//
// Threads: one. Memory: what is open, and 16,384 numbers of a shard.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "refract/storage/group.h"
#include "refract/storage/record.h"
#include "refract/storage/snapshot/snapshot_file.h"

namespace refract::storage {

// By the place of the word: the last number that has happened. A place is used again only when no part asks
// for the number before; of transactions over several nodes each memory of the home has begun with all
// places, and so all numbers are kept.
class DecidedNumbers {
 public:
  void add(uint64_t place, uint64_t number);
  void add(const DecidedNumbers& others);
  [[nodiscard]] bool has(uint64_t place, uint64_t number) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return numbers_.empty() && afar_.empty(); }
  void each(const std::function<void(uint64_t place, uint64_t number)>& visit) const;

  // The payloads of a snapshot's blocks, each of `bytes_max` at most: place, number, 8 bytes each.
  [[nodiscard]] std::vector<std::vector<std::byte>> to_blocks(size_t bytes_max) const;
  // False: it is none.
  [[nodiscard]] bool add_block(std::span<const std::byte> payload);

 private:
  std::unordered_map<uint64_t, uint64_t> numbers_;
  std::set<std::pair<uint64_t, uint64_t>> afar_;
};

// What is prepared at a snapshot's moment: groups as in a log, one behind the other, cut into payloads
// anywhere.
class PreparedStream {
 public:
  // REQUIRES: what encode_group() asks for.
  void add(uint64_t place, uint64_t number, std::span<const Record> changes);
  [[nodiscard]] std::vector<std::vector<std::byte>> to_blocks(size_t bytes_max) const;

  // Reads: behind what came before. False: it is none.
  [[nodiscard]] bool add_block(std::span<const std::byte> payload,
                               const std::function<void(const Record& group)>& take);
  [[nodiscard]] bool is_complete() const noexcept { return bytes_.empty(); }

 private:
  std::vector<std::byte> bytes_;
  uint64_t position_ = 0;  // Of the first of them.
};

class LogParts {
 public:
  // Makes a change; the record is good until it returns.
  using Make = std::function<void(const Record& change)>;
  explicit LogParts(Make make) : make_(std::move(make)) {}

  [[nodiscard]] static constexpr bool concerns(const Record& record) noexcept {
    return record.kind == RecordKind::kPrepared || record.kind == RecordKind::kDecided ||
           record.kind == RecordKind::kSettled;
  }
  [[nodiscard]] static constexpr bool concerns(uint64_t block_kind) noexcept {
    return block_kind == kSnapshotDecided || block_kind == kSnapshotPrepared;
  }
  void take(const Record& record);
  // False: the block makes no sense.
  [[nodiscard]] bool load(uint64_t block_kind, std::span<const std::byte> payload);
  // False behind the last block: a part of one is missing.
  [[nodiscard]] bool is_complete() const noexcept { return prepared_.is_complete(); }

  [[nodiscard]] const DecidedNumbers& decided() const noexcept { return decided_; }
  // Whether settle() has something to do.
  [[nodiscard]] bool has_open() const noexcept;
  struct Settled {
    GroupRole name;
    bool has_happened = false;
  };
  // Ends what is open. Returns what became of each.
  [[nodiscard]] std::vector<Settled> settle(const DecidedNumbers& of_all_shards);

  struct Open {
    Record group;
    std::vector<std::byte> changes;  // Its value.
  };
  using Name = std::pair<uint64_t, uint64_t>;  // Place and number.
  // What other nodes decide. REQUIRES: settle() has been called.
  [[nodiscard]] const std::map<Name, Open>& open_afar() const noexcept { return open_; }
  // What this shard has decided, and other nodes may still ask for; by the places that they know.
  [[nodiscard]] const std::set<Name>& decided_afar() const noexcept { return decided_afar_; }

 private:
  void make_all(const Record& group) const;
  void note_decided(const Name& name);

  Make make_;
  DecidedNumbers decided_;
  PreparedStream prepared_;
  std::map<Name, Open> open_;
  std::set<Name> decided_afar_;
};

}  // namespace refract::storage
