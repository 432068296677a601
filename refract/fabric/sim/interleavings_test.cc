// SPDX-License-Identifier: Apache-2.0
#include "refract/fabric/sim/interleavings.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "refract/base/prng.h"

namespace refract::sim {
namespace {

constexpr Offset kX{8};
constexpr Offset kY{16};

std::vector<std::byte> zeroes(size_t bytes) {
  return std::vector<std::byte>(bytes);
}

TEST(Interleavings, loads_see_stores_in_program_order_and_everything_that_permits) {
  const std::vector<Store> stores = {{kX, 1}, {kY, 1}};
  using Seen = std::set<std::pair<uint64_t, uint64_t>>;
  Seen y_then_x;
  Seen x_then_y;
  for_each_interleaving(zeroes(64), stores, {}, [&](const ReaderMemory& memory) {
    const uint64_t y = memory.observe(kY);
    const uint64_t x = memory.observe(kX);
    y_then_x.emplace(x, y);
  });
  for_each_interleaving(zeroes(64), stores, {}, [&](const ReaderMemory& memory) {
    const uint64_t x = memory.observe(kX);
    const uint64_t y = memory.observe(kY);
    x_then_y.emplace(x, y);
  });
  EXPECT_EQ(y_then_x, (Seen{{0, 0}, {1, 0}, {1, 1}})) << "who sees y sees x";
  EXPECT_EQ(x_then_y, (Seen{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

// All schedules, one by one, without the reduction: the number of stores that each load finds.
void for_each_schedule(const std::vector<Store>& stores, size_t loads,
                       const std::function<void(const std::vector<size_t>&)>& call) {
  std::vector<size_t> found(loads);
  const std::function<void(size_t, size_t)> descend = [&](size_t load, size_t least) {
    if (load == loads) return call(found);
    for (found[load] = least; found[load] <= stores.size(); ++found[load]) descend(load + 1, found[load]);
  };
  descend(0, 0);
}

// Method: random stores and loads of few words; the set of values read must equal that of all schedules.
TEST(Interleavings, the_reduction_loses_no_outcome) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Prng prng(seed);
    std::vector<Store> stores(1 + prng.below(6));
    for (size_t i = 0; i < stores.size(); ++i) stores[i] = {Offset{8 * prng.below(3)}, 100 + i};
    std::array<uint64_t, 5> loads;
    for (uint64_t& load : loads) load = prng.below(3);

    std::set<std::vector<uint64_t>> expected;
    for_each_schedule(stores, loads.size(), [&](const std::vector<size_t>& found) {
      std::vector<uint64_t> values;
      for (size_t i = 0; i < loads.size(); ++i) {
        uint64_t value = 0;
        for (size_t store = 0; store < found[i]; ++store) {
          if (stores[store].at.value == 8 * loads[i]) value = stores[store].word;
        }
        values.push_back(value);
      }
      expected.insert(values);
    });
    std::set<std::vector<uint64_t>> seen;
    const InterleavingCount count =
        for_each_interleaving(zeroes(24), stores, {}, [&](const ReaderMemory& memory) {
          std::vector<uint64_t> values;
          for (const uint64_t load : loads) values.push_back(memory.observe(Offset{8 * load}));
          seen.insert(values);
        });
    EXPECT_TRUE(count.complete);
    EXPECT_EQ(seen, expected) << "seed " << seed;
  }
}

TEST(Interleavings, the_interval_of_a_read_is_as_tight_as_its_values_allow) {
  std::vector<Store> stores;
  for (uint64_t i = 1; i <= 10; ++i) stores.push_back({kX, i});
  uint64_t runs = 0;
  for_each_interleaving(zeroes(64), stores, {}, [&](const ReaderMemory& memory) {
    const uint64_t from = memory.position();
    const uint64_t value = memory.observe(kX);
    EXPECT_GE(value, from);
    EXPECT_EQ(value, memory.position());
    ++runs;
  });
  EXPECT_EQ(runs, 66u) << "11 beginnings, and from each all later values";
}

TEST(Interleavings, store_lists_hold_words_in_order_with_their_neighbours) {
  std::vector<std::byte> image(64, std::byte{0xaa});
  StoreList list(image.data());
  Writer writer(image.data(), &list);
  const std::array<std::byte, 10> bytes{};
  writer.copy(Offset{4}, bytes);
  writer.publish(Offset{32}, 7);
  ASSERT_EQ(list.stores().size(), 3u);
  EXPECT_EQ(list.stores()[0].at, Offset{0});
  EXPECT_EQ(list.stores()[0].word, 0x00000000'aaaaaaaa);
  EXPECT_EQ(list.stores()[1].word, 0xaaaa0000'00000000);
  EXPECT_EQ(list.stores()[2].at, Offset{32});
}

// A tiny store: slot word {buffer offset}, buffers of {stamp, 3 words of value}, where the slot's high half
// holds the stamp that the buffer must have. Returns 0 for "nothing", kRetry for "changed meanwhile".
constexpr uint64_t kRetry = ~uint64_t{0};

struct Reading {
  bool check_before = true;
  bool check_after = true;
};

uint64_t read_value(const ReaderMemory& memory, const Reading& reading) {
  const uint64_t slot = memory.observe(kX);
  if (slot == 0) return 0;
  const Offset buffer{slot & 0xffffffff};
  if (reading.check_before && memory.observe(buffer) != slot >> 32) return kRetry;
  std::array<uint64_t, 3> value;
  memory.copy(value.data(), buffer.plus(8), sizeof(value));
  if (reading.check_after && memory.observe(buffer) != slot >> 32) return kRetry;
  return value[0] == value[1] && value[1] == value[2] ? value[0] : 0xdead;
}

void put(Writer& writer, uint64_t buffer, uint64_t stamp, uint64_t value) {
  const std::array<uint64_t, 3> words = {value, value, value};
  writer.publish(Offset{buffer}, stamp);
  writer.copy(Offset{buffer + 8}, std::as_bytes(std::span(words)));
  writer.publish(kX, stamp << 32 | buffer);
}

// The value 1 lies in buffer 64. Value 2 goes to buffer 128, then value 3 reuses buffer 64 at once.
struct Scene {
  std::vector<std::byte> base = zeroes(256);
  std::vector<Store> stores;

  Scene() {
    Writer first(base.data());
    put(first, 64, 1, 1);
    std::vector<std::byte> image = base;
    StoreList list(image.data());
    Writer writer(image.data(), &list);
    put(writer, 128, 2, 2);
    put(writer, 64, 3, 3);
    stores = list.stores();
  }

  std::set<uint64_t> values(const Reading& reading) const {
    std::set<uint64_t> seen;
    const InterleavingCount count = for_each_interleaving(
        base, stores, {}, [&](const ReaderMemory& memory) { seen.insert(read_value(memory, reading)); });
    EXPECT_TRUE(count.complete);
    return seen;
  }
};

TEST(Interleavings, a_reader_that_checks_the_stamp_before_and_after_is_never_torn) {
  EXPECT_EQ(Scene().values({}), (std::set<uint64_t>{1, 2, 3, kRetry}));
}

TEST(Interleavings, a_reader_without_the_second_stamp_check_is_caught) {
  EXPECT_TRUE(Scene().values({.check_after = false}).contains(0xdead));
}

// The slot's stamp is compared after the copy, so the check before it only saves trusting a wrong length.
TEST(Interleavings, a_reader_without_any_stamp_check_is_caught) {
  EXPECT_TRUE(Scene().values({.check_before = false, .check_after = false}).contains(0xdead));
}

TEST(Interleavings, a_writer_that_publishes_before_it_has_copied_is_caught) {
  std::vector<std::byte> base = zeroes(256);
  std::vector<std::byte> image = base;
  StoreList list(image.data());
  Writer writer(image.data(), &list);
  const std::array<uint64_t, 3> words = {2, 2, 2};
  writer.publish(Offset{128}, 2);
  writer.publish(kX, uint64_t{2} << 32 | 128);
  writer.copy(Offset{136}, std::as_bytes(std::span(words)));
  std::set<uint64_t> seen;
  for_each_interleaving(base, list.stores(), {},
                        [&](const ReaderMemory& memory) { seen.insert(read_value(memory, {})); });
  EXPECT_TRUE(seen.contains(0xdead));
}

TEST(Interleavings, a_bound_ends_the_search_and_says_so) {
  std::vector<Store> stores;
  for (uint64_t i = 0; i < 30; ++i) stores.push_back({kX, i});
  uint64_t runs = 0;
  const InterleavingCount count =
      for_each_interleaving(zeroes(64), stores, {.runs_max = 100'000}, [&](const ReaderMemory& memory) {
        for (int i = 0; i < 12; ++i) static_cast<void>(memory.observe(kX));
        ++runs;
      });
  EXPECT_FALSE(count.complete);
  EXPECT_EQ(count.runs, 100'000u);
  EXPECT_EQ(runs, count.runs);
  EXPECT_EQ(count.loads_max, 12u);
}

}  // namespace
}  // namespace refract::sim
