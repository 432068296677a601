// SPDX-License-Identifier: Apache-2.0
// Two shards whose owners put, replace, erase, evict, split and reuse at their full rate, and readers that
// look into the memory of both meanwhile, copy long values together and pin: threads of one process, so that
// the thread sanitizer sees both sides of every word. All that they share goes through remote_visible.h;
// nothing is suppressed. Without the sanitizer it checks what the soak test does, in small.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/turns.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/owner/table/eviction.h"
#include "refract/kv/testing/test_space.h"
#include "refract/memory/copy_team.h"
#include "refract/memory/pins.h"
#include "refract/memory/uses.h"

namespace refract::kv {
namespace {

using test::bytes_of;

constexpr uint64_t kPuts = refract::test::turns(100'000, 6'000);
constexpr uint64_t kLongEvery = 1'500;
constexpr uint64_t kKeys = 3'000;
constexpr size_t kReaders = 2;
// Shared by a team of threads, and streamed past the caches.
constexpr size_t kLongBytes = CopyTeam::kBytesMin + 12'345;

unsigned many_cores() noexcept {
  return 8;
}

std::string key_of(uint64_t key) {
  return fmt::format("key-{:06}", key);
}

// Words that follow from key and number: a mixture of two values, or another key's, is neither.
std::string value_of(uint64_t key, uint64_t number, size_t bytes) {
  std::string value(bytes, '\0');
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    const uint64_t word = at == 0 ? number : mix(key ^ number << 20 ^ at << 44);
    std::memcpy(value.data() + at, &word, 8);
  }
  return value;
}

class ReadersPins final : public PinSource {
 public:
  void collect(PinSet& pins) noexcept override {
    store_load_fence();
    for (const PinTable& table : tables) collect_pins(table, pins);
  }
  std::array<PinTable, kReaders> tables{};
};

class ReadersUses final : public UseSource {
 public:
  void collect_uses(std::vector<uint64_t>& hashes) override {
    for (size_t i = 0; i < kReaders; ++i) readers_[i].collect(tables[i], hashes);
  }
  std::array<UseTable, kReaders> tables{};

 private:
  std::array<UseReader, kReaders> readers_;
};

class NeverGrows final : public GrowthSource {
 public:
  [[nodiscard]] bool can_grow(uint64_t) const noexcept override { return false; }
  void want(uint64_t) noexcept override {}
};

// A space with its owner: the first of two shards evicts, the second erases what it put.
class Owned {
 public:
  explicit Owned(uint32_t index)
      : index_(index),
        space_({.chunks = 26, .chunks_max = 26, .shard_index = index, .shard_count = 2, .pins = &pins}) {
    if (index != 0) return;
    eviction_.emplace(Eviction::Parts{.table = space_.table(),
                                      .heap = space_.heap(),
                                      .growth = growth_,
                                      .policy = EvictionPolicy::kLeastRecentlyUsed,
                                      .samples = &uses});
  }

  // Before the readers.
  void put_long_ones() {
    for (const uint64_t key : {kKeys, kKeys + 1}) {
      (void)space_.table().put(bytes_of(key_of(key)), bytes_of(value_of(key, 0, kLongBytes)), {});
    }
  }
  void work() {
    Prng prng(17 + index_);
    for (uint64_t number = 1; number <= kPuts; ++number) {
      const bool is_long = number % kLongEvery == 0;
      const uint64_t key = is_long ? kKeys + number / kLongEvery % 2 : prng.below(kKeys);
      const size_t bytes = is_long ? kLongBytes : 16 + 8 * prng.below(300);
      if (eviction_) eviction_->step(Eviction::kStepEntries);
      (void)space_.table().put(bytes_of(key_of(key)), bytes_of(value_of(key, number, bytes)), {});
      if (index_ != 0 && prng.chance(0.3)) (void)space_.table().erase(bytes_of(key_of(prng.below(kKeys))), 0);
    }
    is_over.store(true);
  }

  [[nodiscard]] const std::byte* base() const noexcept { return space_.base(); }
  [[nodiscard]] uint64_t bytes() const noexcept { return space_.bytes(); }
  [[nodiscard]] const Clock& clock() noexcept { return space_.clock(); }
  [[nodiscard]] Table& table() noexcept { return space_.table(); }

  ReadersPins pins;
  ReadersUses uses;
  std::atomic<bool> is_over = false;

 private:
  uint32_t index_;
  NeverGrows growth_;
  test::Space space_;
  std::optional<Eviction> eviction_;
};

class Reader {
 public:
  Reader(size_t number, std::deque<Owned>& owners, CopyTeam& team) : prng_(100 + number) {
    for (Owned& owner : owners) {
      Side& side = sides_.emplace_back();
      side.owner = &owner;
      side.pins = PinWriter(&owner.pins.tables[number]);
      side.uses = UseWriter(&owner.uses.tables[number]);
      side.memory.emplace(owner.base(), owner.bytes(), &side.pins, &team);
      side.reader.emplace(*side.memory, owner.clock());
    }
  }

  void work() {
    for (int i = 0; i < 4; ++i) get(sides_[1], kKeys);
    for (uint64_t reads = 0; !(sides_[0].owner->is_over.load() && sides_[1].owner->is_over.load()); ++reads) {
      Side& side = sides_[reads % sides_.size()];
      const uint64_t key = prng_.chance(0.002) ? kKeys + prng_.below(2) : prng_.below(kKeys);
      prng_.chance(0.2) ? view(side, key) : get(side, key);
    }
  }

  uint64_t found = 0;
  std::string trouble;

 private:
  struct Side {
    Owned* owner = nullptr;
    PinWriter pins;
    UseWriter uses;
    std::optional<MappedMemory> memory;
    std::optional<DirectReader<MappedMemory>> reader;
  };

  void get(Side& side, uint64_t key) {
    const std::string name = key_of(key);
    const uint64_t hash = side.reader->hash(bytes_of(name));
    const auto sink = [this](uint64_t bytes) {
      value_.resize(bytes);
      return reinterpret_cast<std::byte*>(value_.data());
    };
    if (prng_.chance(0.1)) side.uses.write(hash);
    if (side.reader->get(bytes_of(name), hash, sink).code == Code::kOk) check(key, value_);
  }
  void view(Side& side, uint64_t key) {
    const std::string name = key_of(key);
    const auto pinned = side.reader->pin(bytes_of(name), side.reader->hash(bytes_of(name)));
    if (pinned.found.code != Code::kOk) return;
    value_.resize(pinned.found.value_bytes);
    side.memory->copy(value_.data(), pinned.value, value_.size());
    check(key, value_);
    side.reader->unpin(pinned.pin);
  }
  void check(uint64_t key, const std::string& value) {
    ++found;
    uint64_t number = 0;
    std::memcpy(&number, value.data(), sizeof(number));
    if (value == value_of(key, number, value.size()) || !trouble.empty()) return;
    trouble = fmt::format("read {}: {} bytes of {} are what no writer put", found, value.size(), key_of(key));
  }

  Prng prng_;
  std::deque<Side> sides_;
  std::string value_;
};

TEST(SharedMemory, owners_and_readers_in_threads_of_one_process_agree_on_every_word) {
  std::deque<Owned> owners;
  for (const uint32_t index : {0U, 1U}) owners.emplace_back(index).put_long_ones();
  CopyTeam team({.free_cores = &many_cores});
  std::deque<Reader> readers;
  for (size_t i = 0; i < kReaders; ++i) readers.emplace_back(i, owners, team);
  {
    std::vector<std::jthread> threads;
    for (Reader& reader : readers) threads.emplace_back([&reader] { reader.work(); });
    for (Owned& owner : owners) threads.emplace_back([&owner] { owner.work(); });
  }
  for (const Reader& reader : readers) {
    EXPECT_EQ(reader.trouble, "");
    EXPECT_GT(reader.found, 0U);
  }
  EXPECT_GT(team.helpers(), 0U);
  for (Owned& owner : owners) EXPECT_FALSE(owner.table().validate().has_value());
  EXPECT_GT(owners[0].table().stats().evicted + owners[1].table().stats().splits, 0U);
}

}  // namespace
}  // namespace refract::kv
