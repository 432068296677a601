// SPDX-License-Identifier: Apache-2.0
// A transaction over two shards, store by store: readers whose loads of both spaces fall anywhere between
// them, and the next server after a kill behind any of them, and behind any of its own.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "refract/base/testing/turns.h"
#include "refract/fabric/sim/interleavings.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/owner/parts/home_words.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/testing/test_sim_reader_memory.h"
#include "refract/kv/testing/test_two_shards.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::in_both;
using test::kBytesEach;
using test::kKeys;
using Change = test::ChangeOfAll;
using Key = test::KeyOfTwo;
using Node = test::TwoShards;

// A reader of one of the spaces, which reaches the words of both.
class OfShard {
 public:
  OfShard(const sim::ReaderMemory& both, uint32_t shard) noexcept : both_(both), shard_(shard) {}

  [[nodiscard]] uint64_t observe(Offset at) noexcept { return both_.observe(in_both(shard_, at)); }
  [[nodiscard]] std::optional<uint64_t> observe_word(DecisionPlace place, uint64_t /*number*/) noexcept {
    return both_.observe(in_both(place.shard(), place.at()));
  }
  void copy(void* target, Offset at, size_t bytes) noexcept {
    both_.copy(target, in_both(shard_, at), bytes);
  }
  [[nodiscard]] bool equals(Offset at, std::span<const std::byte> bytes) {
    return both_.equals(in_both(shard_, at), bytes);
  }
  [[nodiscard]] uint32_t match(Offset bucket, uint8_t fingerprint) noexcept {
    return both_.match(in_both(shard_, bucket), fingerprint);
  }
  void prefetch(Offset) const noexcept {}
  [[nodiscard]] uint64_t bytes() const noexcept { return kBytesEach; }
  [[nodiscard]] PinWriter* pins() const noexcept { return nullptr; }

 private:
  SimReaderMemory both_;
  uint32_t shard_;
};

template <typename Memory>
std::string read(Memory& memory, const std::string& key) {
  const ManualClock clock;
  DirectReader reader(memory, clock);
  std::string value;
  const Found found = reader.get(bytes_of(key), reader.hash(bytes_of(key)), [&](uint64_t bytes) {
    value.assign(bytes, '?');
    return reinterpret_cast<std::byte*>(value.data());
  });
  return found.code == Code::kOk ? value : std::string(text(found.code));
}

enum class Fate : uint8_t { kCommitted, kAborted };

// The whole life of a transaction, recorded.
void record(Node& node, Fate fate) {
  for (const Key& key : kKeys) {
    if (key.before != "not_found") node.put(key.shard, key.name, key.before);
  }
  node.decisions->recovered();
  node.decisions->recovered();
  HomeWords words(*node.decisions, 0, 0);
  const std::vector<HomeWords::Given> given = words.give(7, 1, 0);
  ASSERT_EQ(given.size(), 1U);
  const TransactionName name{.place = given[0].place, .number = given[0].first};
  node.record([&] {
    Change there(node, 1);
    TableBatch part = there.batch();
    ASSERT_TRUE(node.parts(1).prepare(part, {.name = name}));
    Change here(node, 0);
    TableBatch home = here.batch();
    if (fate == Fate::kCommitted) {
      ASSERT_TRUE(node.parts(0).decide(home, name));
    }
    ASSERT_EQ(node.parts(1).settle(name), fate == Fate::kCommitted ? Code::kOk : Code::kConflict);
    // Buffers that were replaced are used again.
    node.heap(0).reclaim();
    node.heap(1).reclaim();
    node.put(1, "another", "3");
    node.put(0, "another", "3");
  });
}

class Image final : public MappedSpaces {
 public:
  explicit Image(const std::vector<std::byte>& both) noexcept : both_(both) {}
  [[nodiscard]] const std::byte* space_of(uint32_t shard) const noexcept override {
    return both_.data() + shard * kBytesEach;
  }

 private:
  const std::vector<std::byte>& both_;
};

std::vector<std::string> states_of(const Node& node, const Key& key) {
  std::vector<std::string> states;
  std::vector<std::byte> image = node.before;
  const Image spaces(image);
  for (size_t applied = 0;; ++applied) {
    MappedMemory memory(spaces.space_of(key.shard), kBytesEach, nullptr);
    memory.reach(&spaces);
    states.push_back(read(memory, key.name));
    if (applied == node.stores.size()) return states;
    std::memcpy(image.data() + node.stores[applied].at.value, &node.stores[applied].word, 8);
  }
}

// Behind how many stores the key has its new state, from when on it keeps it.
size_t moment_of(const std::vector<std::string>& states, const Key& key) {
  size_t first = 0;
  while (first < states.size() && states[first] == key.before) ++first;
  for (size_t i = first; i < states.size(); ++i)
    EXPECT_EQ(states[i], key.after) << key.name << " behind " << i;
  return first;
}

TEST(PartsInterleaving, one_store_is_the_moment_for_all_keys_of_both_shards) {
  Node node;
  record(node, Fate::kCommitted);
  const size_t moment = moment_of(states_of(node, kKeys[0]), kKeys[0]);
  ASSERT_LT(moment, node.stores.size());
  EXPECT_TRUE(
      Decision{node.stores[moment - 1].word}.commits(Decision{node.stores[moment - 1].word}.number()));
  for (const Key& key : kKeys) EXPECT_EQ(moment_of(states_of(node, key), key), moment) << key.name;
}

TEST(PartsInterleaving, what_is_undone_was_never_there) {
  Node node;
  record(node, Fate::kAborted);
  for (const Key& key : kKeys) {
    for (const std::string& state : states_of(node, key)) EXPECT_EQ(state, key.before) << key.name;
  }
}

void expect_right_reads(const Node& node) {
  for (const Key& key : kKeys) {
    const std::vector<std::string> states = states_of(node, key);
    const auto count =
        sim::for_each_interleaving(node.before, node.stores, {}, [&](sim::ReaderMemory& visible) {
          const uint64_t from = visible.position();
          OfShard memory(visible, key.shard);
          const std::string outcome = read(memory, key.name);
          const auto first = states.begin() + static_cast<ptrdiff_t>(from);
          const auto last = states.begin() + static_cast<ptrdiff_t>(visible.position()) + 1;
          EXPECT_NE(std::find(first, last, outcome), last) << key.name << " read as " << outcome;
        });
    EXPECT_TRUE(count.complete);
    EXPECT_GT(count.runs, 10U);
  }
}

TEST(PartsInterleaving, readers_see_it_wherever_their_loads_fall) {
  for (const Fate fate : {Fate::kCommitted, Fate::kAborted}) {
    Node node;
    record(node, fate);
    expect_right_reads(node);
  }
}

// All old, or all new, in both shards; and both are sound.
void expect_all_or_nothing(Node& node, uint32_t first_shard) {
  ASSERT_TRUE(node.recover(first_shard));
  std::optional<bool> is_new;
  for (const Key& key : kKeys) {
    const Result<Table::Entry> entry = node.table(key.shard).find(bytes_of(key.name));
    const std::string value = entry ? test::text_of(entry->value) : std::string(text(entry.code()));
    ASSERT_TRUE(value == key.before || value == key.after) << key.name << " is " << value;
    if (!is_new) is_new = value == key.after;
    EXPECT_EQ(*is_new, value == key.after) << key.name;
  }
  for (const uint32_t shard : {0U, 1U}) {
    const auto damage = node.table(shard).validate();
    EXPECT_FALSE(damage) << damage->what << " at " << damage->at.value;
    node.heap(shard).reclaim();
    EXPECT_EQ(node.heap(shard).stats().buffers_live, node.table(shard).stats().entries);
  }
}

TEST(PartsInterleaving, a_kill_leaves_all_of_it_or_nothing) {
  for (const Fate fate : {Fate::kCommitted, Fate::kAborted}) {
    Node node;
    record(node, fate);
    for (size_t stores = 0; stores <= node.stores.size(); stores += refract::test::kStride) {
      SCOPED_TRACE(stores);
      for (const uint32_t first : {0U, 1U}) {
        Node next(node.image_behind(stores));
        expect_all_or_nothing(next, first);
      }
    }
  }
}

// Every fifth moment of the first kill: a recovery copies and counts two spaces, and all would take 25 s.
TEST(PartsInterleaving, so_does_a_second_kill_in_the_recovery_of_the_first) {
  Node node;
  record(node, Fate::kCommitted);
  for (size_t stores = 2; stores <= node.stores.size(); stores += 5 * refract::test::kStride) {
    Node second(node.image_behind(stores));
    second.record([&] { ASSERT_TRUE(second.recover(1)); });
    for (size_t more = 0; more <= second.stores.size(); ++more) {
      SCOPED_TRACE(testing::Message() << stores << ", then " << more);
      Node third(second.image_behind(more));
      expect_all_or_nothing(third, 0);
    }
  }
}

// What must be found: a home that applies before it decides, and one that decides before the parts stand.
TEST(PartsInterleaving, stores_in_another_order_are_found) {
  Node node;
  record(node, Fate::kCommitted);
  const size_t decision = moment_of(states_of(node, kKeys[0]), kKeys[0]) - 1;
  std::swap(node.stores[decision], node.stores[decision + 1]);
  const auto switched = [&](const Key& key) {
    const std::vector<std::string> states = states_of(node, key);
    return static_cast<size_t>(std::ranges::find(states, key.after) - states.begin());
  };
  size_t apart = 0;
  for (const Key& key : kKeys) apart += switched(key) != switched(kKeys[3]) ? 1 : 0;
  EXPECT_GT(apart, 0U);
}

}  // namespace
}  // namespace refract::kv
