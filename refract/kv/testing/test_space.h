// SPDX-License-Identifier: Apache-2.0
// A space with a table in ordinary memory, for tests of what works on one.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/check.h"
#include "refract/base/clock.h"
#include "refract/kv/owner/table/table.h"
#include "refract/kv/testing/test_bodies.h"
#include "refract/memory/heap.h"

namespace refract::kv::test {

class NoPins final : public PinSource {
 public:
  void collect(PinSet&) noexcept override {}
};

struct SpaceOptions {
  uint64_t chunks = 16;  // Populated at once.
  uint64_t chunks_max = 64;
  uint64_t hash_seed = 42;
  uint32_t shard_index = 0;
  uint32_t shard_count = 1;
  uint32_t copies = 0;
  PinSource* pins = nullptr;
};

// Owns the bytes; the heap and the table over them can be dropped and made again, as a restart does.
class Space {
 public:
  explicit Space(const SpaceOptions& options = {}, StoreLog* log = nullptr)
      : options_(options), memory_(options.chunks_max * kChunkBytes / sizeof(Page)), log_(log) {
    Writer writer(base());
    Heap::format(writer, {.chunks_max = options_.chunks_max,
                          .store_area_bytes = Table::store_area_bytes(options_.chunks_max),
                          .hash_seed = options_.hash_seed,
                          .shard_index = options_.shard_index,
                          .shard_count = options_.shard_count,
                          .copies = options_.copies});
    open();
    REFRACT_CHECK(Table::format(*writer_, *heap_).has_value());
    restart();
  }

  // Forgets all private state and recovers from the bytes, and from the log's last change where there is one.
  void restart() { REFRACT_CHECK(try_restart().has_value()); }
  [[nodiscard]] Result<> try_restart(const ChangeLog::Change* last = nullptr) {
    open();
    table_ = std::make_unique<Table>(*writer_, *heap_, clock_);
    return table_->recover(last);
  }
  void add_chunks(uint64_t count) {
    heap_->add({heap_->end()}, count * kChunkBytes);
    options_.chunks += count;
  }

  [[nodiscard]] std::byte* base() noexcept { return static_cast<std::byte*>(memory_.data()->bytes); }
  [[nodiscard]] const std::byte* base() const noexcept { return memory_.data()->bytes; }
  [[nodiscard]] uint64_t bytes() const noexcept { return options_.chunks * kChunkBytes; }
  [[nodiscard]] Table& table() noexcept { return *table_; }
  [[nodiscard]] Heap& heap() noexcept { return *heap_; }
  [[nodiscard]] Writer& writer() noexcept { return *writer_; }
  [[nodiscard]] ManualClock& clock() noexcept { return clock_; }

 private:
  // As devices want it, which read it for remote clients.
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };

  void open() {
    table_.reset();
    writer_ = std::make_unique<Writer>(base(), log_);
    heap_ = std::make_unique<Heap>(*writer_, options_.pins != nullptr ? *options_.pins : no_pins_);
    heap_->add({0}, options_.chunks * kChunkBytes);
  }

  SpaceOptions options_;
  std::vector<Page> memory_;
  StoreLog* log_;
  NoPins no_pins_;
  ManualClock clock_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<Table> table_;
};

// Keys that all fall into one bucket of so many.
inline std::vector<std::string> keys_of_bucket(const Table& table, uint64_t bucket, uint64_t buckets,
                                               size_t count) {
  std::vector<std::string> keys;
  for (int number = 0; keys.size() < count; ++number) {
    const std::string key = "of one bucket " + std::to_string(number);
    if (bucket_index(table.hash(bytes_of(key)), buckets) == bucket) keys.push_back(key);
  }
  return keys;
}

// A new table whose next new entry splits bucket 0, then brings forward what is left in its overflow line.
struct LongBucket {
  // Of bucket 0, with the value "here".
  std::vector<std::string> staying;
  std::vector<std::string> leaving;
  std::vector<std::string> coming;  // Those that stay, and stand behind the first line.

  explicit LongBucket(Table& table) {
    constexpr size_t kEntriesBeforeSplit = 84;
    const std::vector<std::string> keys = keys_of_bucket(table, 0, 16, 12);
    for (size_t i = 0; i < keys.size(); ++i) {
      REFRACT_CHECK(table.put(bytes_of(keys[i]), bytes_of("here"), {}).has_value());
      const bool stays = bucket_index(table.hash(bytes_of(keys[i])), 17) == 0;
      (stays ? staying : leaving).push_back(keys[i]);
      if (stays && i >= kSlotsPerBucket) coming.push_back(keys[i]);
    }
    for (int number = 0; table.stats().entries < kEntriesBeforeSplit; ++number) {
      const std::string key = "other " + std::to_string(number);
      if (bucket_index(table.hash(bytes_of(key)), 16) == 0) continue;
      REFRACT_CHECK(table.put(bytes_of(key), bytes_of("v"), {}).has_value());
    }
    REFRACT_CHECK(table.stats().buckets == 16 && !coming.empty() && !leaving.empty());
  }
};

}  // namespace refract::kv::test
