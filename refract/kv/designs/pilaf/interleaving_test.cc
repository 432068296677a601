// SPDX-License-Identifier: Apache-2.0
// A get returns the old value or the new one, never a mixture, and never misses a key that is there, however
// its loads fall between the server's stores: between each pair of them, too.
//
// Method: as for our own table (kv/owner/table/table_interleaving_test.cc). A get may also find that
// something does not verify and would look again; in these runs it looks three times and is then "torn". The
// tests named "found" break a rule on purpose and demand that some schedule shows it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "refract/fabric/sim/interleavings.h"
#include "refract/kv/designs/pilaf/client.h"
#include "refract/kv/designs/pilaf/server.h"
#include "refract/kv/designs/test_store.h"

namespace refract::kv::pilaf {
namespace {

using test::bytes_of;

class Recorder final : public StoreLog {
 public:
  void stored(Offset at, std::span<const std::byte> bytes) noexcept override {
    if (list != nullptr) list->stored(at, bytes);
  }
  sim::StoreList* list = nullptr;
};

// `copy(target, at, bytes)` reads the memory.
template <typename Copy>
std::string get(const Root& root, std::string_view key, Copy&& copy) {
  Lookup lookup(root, root.moves, bytes_of(key));
  std::vector<std::byte> bytes;
  for (int torn = 0; torn < 3;) {
    const Lookup::Range place = lookup.wanted();
    bytes.resize(place.bytes);
    copy(bytes.data(), place.at, place.bytes);
    switch (lookup.take(bytes)) {
      case Lookup::Step::kRead:
        break;
      case Lookup::Step::kTorn:
        ++torn;
        break;
      case Lookup::Step::kMoved:
        return "moved";
      case Lookup::Step::kAbsent:
        return "absent";
      case Lookup::Step::kFound:
        return test::text_of(lookup.value());
    }
  }
  return "torn";
}

constexpr designs::Capacity kSmall = {
    .keys_max = 24, .keys_at_start = 12, .key_bytes_max = 8, .value_bytes_max = 24};

class Trial {
 public:
  explicit Trial(const designs::Capacity& capacity = kSmall)
      : memory_(memory_bytes(capacity)), table_(memory_.bytes(), capacity, 7, &recorder_) {}

  Table& table() { return table_; }
  void put(std::string_view key, std::string_view value) {
    ASSERT_TRUE(table_.put(bytes_of(key), bytes_of(value)).has_value()) << key;
  }
  void erase(std::string_view key) { ASSERT_TRUE(table_.erase(bytes_of(key)).has_value()); }

  void record(const std::function<void()>& operations) {
    const auto bytes = memory_.bytes();
    base_.assign(bytes.begin(), bytes.end());
    std::memcpy(&root_, bytes.data() + table_.root_at(), sizeof(root_));
    root_at_ = table_.root_at();
    sim::StoreList list(bytes.data());
    recorder_.list = &list;
    operations();
    recorder_.list = nullptr;
    stores_ = list.stores();
  }
  std::vector<sim::Store>& stores() { return stores_; }
  [[nodiscard]] uint64_t root_at() const { return root_at_; }

  // What the key's value is after each number of stores, by the root known at the beginning.
  std::vector<std::string> states(std::string_view key) {
    std::vector<std::byte> image = base_;
    std::vector<std::string> states;
    for (size_t applied = 0;; ++applied) {
      states.push_back(get(root_, key, [&](std::byte* target, uint64_t at, uint64_t bytes) {
        std::memcpy(target, image.data() + at, bytes);
      }));
      if (applied == stores_.size()) return states;
      std::memcpy(image.data() + stores_[applied].at.value, &stores_[applied].word, 8);
    }
  }
  // Repetitions left out.
  std::vector<std::string> history(std::string_view key) {
    std::vector<std::string> history = states(key);
    const auto repeated = std::ranges::unique(history);
    history.erase(repeated.begin(), repeated.end());
    return history;
  }
  // All that gets may say, in every interleaving.
  std::set<std::string> outcomes(std::string_view key, bool ignores_checksums = false) {
    std::set<std::string> outcomes;
    const auto count = sim::for_each_interleaving(base_, stores_, {}, [&](sim::ReaderMemory& visible) {
      outcomes.insert(get(root_, key, [&](std::byte* target, uint64_t at, uint64_t bytes) {
        visible.copy(target, {at}, bytes);
        if (ignores_checksums) mend(target, at, bytes, visible);
      }));
    });
    EXPECT_TRUE(count.complete);
    EXPECT_GT(count.runs, stores_.empty() ? 0U : 1U);
    return outcomes;
  }

 private:
  // Makes whatever was read look as if it verified: an entry gets the CRCs that fit, and bytes of a blob are
  // read together with the entry, so that their CRC is known.
  void mend(std::byte* target, uint64_t, uint64_t bytes, sim::ReaderMemory& visible) {
    if (bytes != sizeof(Entry)) {
      if (bytes == blob_.size()) std::memcpy(target, blob_.data(), bytes);
      return;
    }
    Entry entry{};
    std::memcpy(&entry, target, sizeof(entry));
    if (entry.state != Entry::kUsed || entry.blob + entry.blob_bytes > base_.size()) return;
    blob_.resize(entry.blob_bytes);
    visible.copy(blob_.data(), {entry.blob}, blob_.size());
    entry.blob_crc = crc64(blob_);
    entry.crc = crc_of(entry);
    std::memcpy(target, &entry, sizeof(entry));
  }

  Recorder recorder_;
  designs::TestMemory memory_;
  Table table_;
  std::vector<std::byte> base_;
  Root root_{};
  uint64_t root_at_ = 0;
  std::vector<sim::Store> stores_;
  std::vector<std::byte> blob_;
};

using Texts = std::vector<std::string>;

TEST(PilafInterleaving, a_put_is_seen_whole_or_not_at_all) {
  Trial trial;
  trial.record([&] { trial.put("key", "the new value"); });
  EXPECT_EQ(trial.history("key"), (Texts{"absent", "torn", "the new value"}));
  EXPECT_EQ(trial.outcomes("key"), (std::set<std::string>{"absent", "torn", "the new value"}));
}

TEST(PilafInterleaving, a_get_sees_the_old_value_or_the_new_one_while_blobs_are_reused_at_once) {
  Trial trial;
  trial.put("key", "the first value");
  trial.record([&] {
    trial.put("key", "a second value");
    trial.put("key", "THE THIRD VALUE");
  });
  EXPECT_EQ(trial.history("key"),
            (Texts{"the first value", "torn", "a second value", "torn", "THE THIRD VALUE"}));
  EXPECT_EQ(trial.outcomes("key"),
            (std::set<std::string>{"the first value", "a second value", "THE THIRD VALUE", "torn"}));
}

TEST(PilafInterleaving, a_blob_that_becomes_another_keys_is_not_taken_for_this_ones) {
  Trial trial;
  trial.put("key", "the first value");
  trial.record([&] {
    trial.erase("key");
    trial.put("yek", "of another one");
  });
  EXPECT_EQ(trial.outcomes("key"), (std::set<std::string>{"the first value", "torn", "absent"}));
  EXPECT_EQ(trial.outcomes("yek"), (std::set<std::string>{"absent", "torn", "of another one"}));
}

TEST(PilafInterleaving, a_reader_that_ignores_checksums_is_found) {
  Trial trial;
  trial.put("key", "the first value");
  trial.record([&] {
    trial.put("key", "a second value");
    trial.put("key", "THE THIRD VALUE");
  });
  const std::set<std::string> right = {"the first value", "a second value", "THE THIRD VALUE", "torn"};
  const std::set<std::string> seen = trial.outcomes("key", true);
  EXPECT_FALSE(std::ranges::includes(right, seen)) << "a mixture was to be seen";
}

// Of one of many crowds of keys.
std::string filler(int crowd, int number) {
  return std::to_string(crowd) + "k" + std::to_string(number);
}

struct Moves {
  int crowd = 0;
  int keys = 0;  // That stood there before.
};

// The first crowd whose last insertion makes two others move, one behind the other; records that insertion.
Moves record_moves(Trial& trial, int crowd = 0) {
  for (; crowd < 1'000; ++crowd) {
    Trial rehearsal;
    for (int last = 0; last < 12; ++last) {
      const uint64_t before = rehearsal.table().move_count();
      rehearsal.put(filler(crowd, last), "v" + std::to_string(last));
      if (rehearsal.table().move_count() < before + 2) continue;
      for (int i = 0; i < last; ++i) trial.put(filler(crowd, i), "v" + std::to_string(i));
      trial.record([&] { trial.put(filler(crowd, last), "v" + std::to_string(last)); });
      return {.crowd = crowd, .keys = last};
    }
  }
  return {};
}

TEST(PilafInterleaving, every_key_is_found_throughout_a_chain_of_moves) {
  for (int round = 0, crowd = 0; round < 12; ++round, ++crowd) {
    Trial trial;
    const Moves moves = record_moves(trial, crowd);
    ASSERT_GT(moves.keys, 3);
    for (int i = 0; i < moves.keys; ++i) {
      const std::set<std::string> outcomes = trial.outcomes(filler(moves.crowd, i));
      EXPECT_TRUE(outcomes.contains("v" + std::to_string(i)));
      EXPECT_FALSE(outcomes.contains("absent")) << moves.crowd << " " << i;
      EXPECT_LE(outcomes.size(), 2u) << "at most torn beside it";
    }
    crowd = moves.crowd;
  }
}

TEST(PilafInterleaving, moves_that_the_root_does_not_count_are_found) {
  bool missed = false;
  // One of the keys must move to a place that a reader has seen already.
  for (int crowd = 0; crowd < 1'000 && !missed; ++crowd) {
    Trial trial;
    const Moves moves = record_moves(trial, crowd);
    ASSERT_GT(moves.keys, 3);
    std::erase_if(trial.stores(), [&](const sim::Store& store) {
      return store.at.value >= trial.root_at() && store.at.value < trial.root_at() + sizeof(Root);
    });
    for (int i = 0; i < moves.keys; ++i) {
      missed = missed || trial.outcomes(filler(moves.crowd, i)).contains("absent");
    }
    crowd = moves.crowd;
  }
  EXPECT_TRUE(missed);
}

TEST(PilafInterleaving, a_table_that_is_left_says_so_before_anything_else_changes) {
  Trial trial;
  for (int i = 0; i < 12; ++i) trial.put(filler(0, i), "old");
  const uint64_t entries = trial.table().entry_count();
  trial.record([&] {
    trial.put("more", "new");
    trial.put(filler(0, 3), "new");
  });
  ASSERT_EQ(trial.table().entry_count(), 2 * entries);
  const auto outcomes = trial.outcomes(filler(0, 3));
  EXPECT_EQ(outcomes, (std::set<std::string>{"old", "torn", "moved"})) << "the old table knows no new value";
  const Texts states = trial.states(filler(0, 3));
  EXPECT_EQ(states.back(), "moved");
  EXPECT_EQ(trial.outcomes("more"), (std::set<std::string>{"absent", "torn", "moved"}));
}

}  // namespace
}  // namespace refract::kv::pilaf
