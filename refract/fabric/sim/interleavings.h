// SPDX-License-Identifier: Apache-2.0
// Runs a read against every moment at which the stores of an owner can become visible between its loads.
//
//   StoreList list(image.data());
//   Writer writer(image.data(), &list);
//   ... what is tested, for example an erase and a put that reuses the buffer ...
//   const InterleavingCount count = for_each_interleaving(image_before, list.stores(), {}, [&](ReaderMemory&
//   memory) {
//     const uint64_t from = memory.position();
//     const auto value = get(memory, key);
//     EXPECT_TRUE(was_current_between(value, from, memory.position()));
//   });
//   EXPECT_TRUE(count.complete);
//
// The read must depend on nothing but its loads, and end when the memory no longer changes. Only choices that
// can differ are tried: where the read begins, and for each load of a word the moments right after a store to
// this very word. A schedule that makes more visible than that gives the same values and permits less
// afterwards, so nothing is lost, and millions of schedules shrink to thousands of runs.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/fabric/sim/visible_memory.h"

namespace refract::sim {

// Writes down the stores of an owner as aligned words, in program order.
class StoreList final : public StoreLog {
 public:
  explicit StoreList(const std::byte* owner) noexcept : owner_(owner) {}
  void stored(Offset at, std::span<const std::byte> bytes) noexcept override;
  [[nodiscard]] const std::vector<Store>& stores() const noexcept { return stores_; }
  void clear() noexcept { stores_.clear(); }

 private:
  const std::byte* owner_;
  std::vector<Store> stores_;
};

struct InterleavingOptions {
  uint64_t runs_max = 20'000'000;
  uint64_t loads_max = 100'000;  // Of one run: a reader that loops for ever is a failed check.
};

struct InterleavingCount {
  uint64_t runs = 0;
  uint64_t loads_max = 0;  // Of the longest run.
  bool complete = false;   // False: runs_max came first.
};

// The search itself, depth first, by replay: each run repeats the choices of the last one but for the deepest
// that has an alternative left. The image is never copied: stores are applied and undone.
class Interleavings final : public LoadSchedule {
 public:
  Interleavings(std::span<const std::byte> base, std::span<const Store> stores,
                const InterleavingOptions& options);

  // The memory of the next run, which must then be made with it; false when all are done.
  [[nodiscard]] bool begin_run();
  [[nodiscard]] ReaderMemory memory() noexcept { return {image_.data(), image_.size(), this}; }
  [[nodiscard]] InterleavingCount count() const noexcept { return count_; }

  void before_load(Offset at) noexcept override;
  [[nodiscard]] uint64_t position() const noexcept override { return visible_; }

 private:
  struct Choice {
    uint32_t taken;
    uint32_t among;
  };
  struct WordStore {
    uint64_t at;
    uint64_t store;
    auto operator<=>(const WordStore&) const = default;
  };
  void advance_to(uint64_t position) noexcept;
  void rewind() noexcept;
  [[nodiscard]] uint32_t choose(uint32_t among);
  [[nodiscard]] bool next_choices() noexcept;

  std::vector<std::byte> image_;
  std::vector<Store> stores_;
  std::vector<uint64_t> previous_;  // What each store overwrites, all earlier ones applied.
  std::vector<WordStore> by_word_;  // Sorted: finds the stores to a word that are still to come.
  uint64_t words_stored_ = 0;       // A bit for the words that are stored to: most loads are of others.
  InterleavingOptions options_;
  InterleavingCount count_;
  std::vector<Choice> choices_;
  size_t depth_ = 0;
  uint64_t loads_ = 0;
  uint64_t visible_ = 0;
};

template <typename Read>
InterleavingCount for_each_interleaving(std::span<const std::byte> base, std::span<const Store> stores,
                                        const InterleavingOptions& options, Read&& read) {
  Interleavings all(base, stores, options);
  while (all.begin_run()) {
    ReaderMemory memory = all.memory();
    read(memory);
  }
  return all.count();
}

}  // namespace refract::sim
