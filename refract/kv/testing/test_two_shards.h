// SPDX-License-Identifier: Apache-2.0
// Two shards of a node in one piece of memory, whose stores can be recorded, and begun again from any image.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/sim/interleavings.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_space.h"

namespace refract::kv::test {

inline constexpr uint64_t kChunksEach = 8;
inline constexpr uint64_t kBytesEach = kChunksEach * kChunkBytes;

// One of two spaces that lie behind each other, as both of a node are mapped in one process.
constexpr Offset in_both(uint32_t shard, Offset at) noexcept {
  return at.plus(shard * kBytesEach);
}

class ShiftedLog final : public StoreLog {
 public:
  explicit ShiftedLog(uint32_t shard) noexcept : shard_(shard) {}
  void stored(Offset at, std::span<const std::byte> bytes) noexcept override {
    if (list != nullptr) list->stored(in_both(shard_, at), bytes);
  }
  sim::StoreList* list = nullptr;

 private:
  uint32_t shard_;
};

// Two shards over memory that may be another's image; the home is number 0.
class TwoShards {
 public:
  TwoShards() : memory_(2 * kBytesEach / sizeof(Page)) {
    for (Half& half : halves_) {
      Writer writer(base(half.shard));
      Heap::format(writer, {.chunks_max = kChunksEach,
                            .store_area_bytes = Table::store_area_bytes(kChunksEach),
                            .hash_seed = 42,
                            .shard_index = half.shard,
                            .shard_count = 2});
      Heap heap(writer, pins_);
      heap.add({0}, kBytesEach);
      EXPECT_TRUE(Table::format(writer, heap));
    }
    open();
    for (Half& half : halves_) EXPECT_TRUE(half.table->recover());
  }
  // Of an image, not recovered.
  explicit TwoShards(std::span<const std::byte> image) : memory_(2 * kBytesEach / sizeof(Page)) {
    std::memcpy(base(0), image.data(), image.size());
    open();
  }
  TwoShards(const TwoShards&) = delete;
  TwoShards& operator=(const TwoShards&) = delete;
  ~TwoShards() {
    for (Half& half : halves_) half.parts.reset();
  }

  // In this order of shards.
  [[nodiscard]] bool recover(uint32_t first) {
    for (const uint32_t shard : {first, 1 - first}) {
      if (!halves_[shard].table->recover()) return false;
      halves_[shard].parts->take_up(std::nullopt);
    }
    return true;
  }

  void record(const std::function<void()>& operations) {
    before.assign(base(0), base(0) + 2 * kBytesEach);
    sim::StoreList list(base(0));
    for (Half& half : halves_) half.log.list = &list;
    operations();
    for (Half& half : halves_) half.log.list = nullptr;
    stores = list.stores();
  }
  // While it runs.
  [[nodiscard]] size_t stores_so_far() const noexcept {
    return halves_[0].log.list == nullptr ? 0 : halves_[0].log.list->stores().size();
  }
  [[nodiscard]] std::vector<std::byte> image_behind(size_t count) const {
    std::vector<std::byte> image = before;
    for (size_t i = 0; i < count; ++i) std::memcpy(image.data() + stores[i].at.value, &stores[i].word, 8);
    return image;
  }

  [[nodiscard]] Table& table(uint32_t shard) { return *halves_[shard].table; }
  [[nodiscard]] Table::Parts& parts(uint32_t shard) { return *halves_[shard].parts; }
  [[nodiscard]] Heap& heap(uint32_t shard) { return *halves_[shard].heap; }
  [[nodiscard]] std::byte* base(uint32_t shard) noexcept {
    return static_cast<std::byte*>(memory_.data()->bytes) + shard * kBytesEach;
  }
  void put(uint32_t shard, std::string_view key, std::string_view value) {
    (void)refract::test::needed(table(shard).put(bytes_of(key), bytes_of(value), {}));
  }

  std::optional<Decisions> decisions;
  std::vector<std::byte> before;
  std::vector<sim::Store> stores;

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  struct Half {
    explicit Half(uint32_t number) : shard(number), log(number) {}
    uint32_t shard;
    ShiftedLog log;
    std::optional<Writer> writer;
    std::optional<Heap> heap;
    std::optional<Table> table;
    std::optional<Table::Parts> parts;
  };

  void open() {
    const std::vector<Decisions::Home> homes{{.space = base(0), .log = &halves_[0].log},
                                             {.space = base(1), .log = &halves_[1].log}};
    decisions.emplace(homes);
    for (Half& half : halves_) {
      half.writer.emplace(base(half.shard), &half.log);
      half.heap.emplace(*half.writer, pins_).add({0}, kBytesEach);
      half.table.emplace(*half.writer, *half.heap, clock_);
      half.parts.emplace(*half.table, *decisions);
    }
  }

  std::vector<Page> memory_;
  NoPins pins_;
  ManualClock clock_;
  Half halves_[2] = {Half(0), Half(1)};
};

struct KeyOfTwo {
  uint32_t shard;
  std::string name;
  std::string before;
  std::string after;
};
inline const std::vector<KeyOfTwo> kKeys{{0, "replaced at home", "1", "2"},
                                         {0, "new at home", "not_found", "2"},
                                         {0, "erased at home", "1", "not_found"},
                                         {1, "replaced", "1", "2"},
                                         {1, "new", "not_found", "2"},
                                         {1, "erased", "1", "not_found"}};

// All keys of a shard.
class ChangeOfAll {
 public:
  ChangeOfAll(TwoShards& node, uint32_t shard) {
    for (const KeyOfTwo& key : kKeys) {
      if (key.shard != shard) continue;
      const bool is_erased = key.after == "not_found";
      writes_.push_back({.key = node.table(shard).hashed(bytes_of(key.name)),
                         .kind = is_erased ? WriteKind::kErase : WriteKind::kPut,
                         .value = is_erased ? std::span<const std::byte>() : bytes_of(key.after)});
    }
  }
  [[nodiscard]] TableBatch batch() { return {.conditions = {}, .writes = writes_}; }

 private:
  std::vector<BatchWrite> writes_;
};

}  // namespace refract::kv::test
