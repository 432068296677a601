// SPDX-License-Identifier: Apache-2.0
// A space's memory in which one server process after another is killed behind any store, for tests of
// numbered writes. Whole memories are not copied for that: what was stored is undone.
//
// Threads: one.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/fabric/sim/interleavings.h"
#include "refract/kv/owner/numbered/numbered_turn.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::test {

using Stores = std::vector<sim::Store>;

// A space's memory, which outlives its owners.
class KilledMemory {
 public:
  static constexpr uint64_t kBytes = 8 * kChunkBytes;

  KilledMemory() : pages_(kBytes / sizeof(Page)) {}
  void format() {
    Writer writer(base());
    Heap::format(writer, {.chunks_max = 8, .store_area_bytes = Table::store_area_bytes(8), .hash_seed = 42});
  }
  [[nodiscard]] std::byte* base() noexcept { return pages_.front().bytes; }
  void copy(KilledMemory& other) { std::memcpy(base(), other.base(), kBytes); }
  void apply(const sim::Store& store) {
    std::memcpy(base() + store.at.value, &store.word, sizeof(store.word));
  }
  // What was stored there is as it is in the other one again.
  void undo(const Stores& stores, KilledMemory& other) {
    for (const sim::Store& store : stores) {
      std::memcpy(base() + store.at.value, other.base() + store.at.value, sizeof(store.word));
    }
  }
  [[nodiscard]] uint64_t& word(Offset at) { return *reinterpret_cast<uint64_t*>(base() + at.value); }

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  std::vector<Page> pages_;
};

// A server process on it, whose stores are written down.
class KilledOwner {
 public:
  static constexpr uint64_t kConnection = 7;
  static constexpr SecretDigest kSecret{1, 2};

  KilledOwner(KilledMemory& memory, const Clock& clock)
      : list_(memory.base()), writer_(memory.base(), &list_), heap_(writer_, pins_), clock_(clock) {
    heap_.add({0}, KilledMemory::kBytes);
  }
  // A new one, with a session.
  void format() {
    REFRACT_CHECK(Table::format(writer_, heap_).has_value());
    REFRACT_CHECK(try_start(nullptr).has_value());
    REFRACT_CHECK(table_->sessions().begin(kConnection, kSecret).has_value());
  }
  [[nodiscard]] Result<> try_start(const ChangeLog::Change* last) {
    table_ = std::make_unique<Table>(writer_, heap_, clock_);
    turn_ = std::make_unique<Table::NumberedTurn>(*table_);
    return table_->recover(last);
  }
  [[nodiscard]] Table& table() { return *table_; }
  [[nodiscard]] Heap& heap() { return heap_; }
  [[nodiscard]] sim::StoreList& list() { return list_; }
  [[nodiscard]] NumberedSession& session() {
    NumberedSession* const session = table_->sessions().of(kConnection);
    REFRACT_CHECK(session != nullptr);
    return *session;
  }
  [[nodiscard]] NumberedOutcome execute(const NumberedOperation& operation) {
    return turn_->execute(&session(), operation);
  }
  void put(std::string_view key, std::string_view value) {
    REFRACT_CHECK(table_->put(bytes_of(key), bytes_of(value), {}).has_value());
  }
  [[nodiscard]] std::string value_of(std::string_view key) {
    const auto entry = table_->find(bytes_of(key));
    return entry ? text_of(entry->value) : "nothing";
  }

 private:
  NoPins pins_;
  sim::StoreList list_;
  Writer writer_;
  Heap heap_;
  const Clock& clock_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<Table::NumberedTurn> turn_;
};

// Evicts what the test says, for a buffer that the heap lacks.
class Evictor final : public RoomMaker {
 public:
  Evictor(Table& table, std::vector<std::string> keys) : table_(table), keys_(std::move(keys)) {
    table.evict_by(this, nullptr);
  }
  [[nodiscard]] Code make_room(uint64_t, int attempts) noexcept override {
    if (attempts > 0) return Code::kNoSpace;
    for (const std::string& key : keys_) {
      const Table::Standing standing = table_.standing(table_.hashed(bytes_of(key)));
      REFRACT_CHECK(standing.slot && table_.evict(standing) == Code::kOk);
    }
    return Code::kOk;
  }
  void make_room_for_table() noexcept override {}

 private:
  Table& table_;
  std::vector<std::string> keys_;
};

}  // namespace refract::kv::test
