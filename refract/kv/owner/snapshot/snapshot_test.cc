// SPDX-License-Identifier: Apache-2.0
// A snapshot is the table at one moment, exactly: every entry of it once, and nothing else, whatever the
// owner does meanwhile.
//
// Method: before each load of the reader the owner may do some work, and its stores become visible to the
// reader one by one, as late as x86-64 allows, the queue's with them. What was written down is compared with
// a model at the moment, entry by entry with versions, expiry and identities. The tests named "found" break
// one rule on purpose and demand that some seed shows it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "refract/base/testing/turns.h"
#include "refract/fabric/sim/interleavings.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/owner/snapshot/snapshot_feed.h"
#include "refract/kv/owner/snapshot/snapshot_walk.h"
#include "refract/kv/testing/test_random_owner.h"
#include "refract/kv/testing/test_sim_reader_memory.h"
#include "refract/kv/testing/test_snapshot.h"

namespace refract::kv {
namespace {

using test::BlocksInMemory;
using test::Model;
using test::RandomOwner;
using test::Space;

// Hands stores on once there is a receiver.
class LateLog final : public StoreLog {
 public:
  void stored(Offset at, std::span<const std::byte> bytes) noexcept override {
    if (next != nullptr) next->stored(at, bytes);
  }
  void fenced() noexcept override {
    if (next != nullptr) next->fenced();
  }
  StoreLog* next = nullptr;
};

// What the owner puts into the queue is a store like the others: noticed after all earlier ones, and before
// any later one.
class SimFeed : public SnapshotFeed {
 public:
  struct Parts {
    Space& space;
    sim::VisibleMemory& visible;
    uint64_t seed;
    Options options;
  };
  explicit SimFeed(const Parts& parts)
      : SnapshotFeed(parts.space.table(), parts.space.heap(), parts.space.writer(), parts.space.clock(),
                     parts.options),
        visible_(parts.visible),
        prng_(parts.seed) {
    // The code that starts a reader tells it everything so far.
    visible_.make_visible(visible_.position());
  }

  [[nodiscard]] uint64_t handed() noexcept {
    while (noticed_ < positions_.size() &&
           (positions_[noticed_] < visible_.visible() ||
            (positions_[noticed_] == visible_.visible() && prng_.chance(0.5)))) {
      ++noticed_;
    }
    return noticed_;
  }

 protected:
  void hand_over(const Handed& handed) noexcept override {
    positions_.push_back(visible_.position());
    SnapshotFeed::hand_over(handed);
  }

 private:
  sim::VisibleMemory& visible_;
  Prng prng_;
  std::vector<uint64_t> positions_;
  uint64_t noticed_ = 0;
};

struct Outcome {
  Code code = Code::kOk;
  Model written;
  Model expected;
  uint64_t handed = 0;
  uint64_t pending = 0;  // At the moment.
  uint64_t buckets_before = 0;
  uint64_t buckets_after = 0;
};

struct Trial {
  uint64_t seed = 1;
  uint64_t chunks = 20;
  uint64_t keys = 300;
  uint64_t entries_before = 40;
  double stall_chance = 0.02;
  SnapshotFeed::Options feed = {};
  bool has_parts = false;
};

// REFRACT_SEEDS=N has each test try more.
uint64_t seeds(uint64_t least) {
  const char* const wanted = std::getenv("REFRACT_SEEDS");
  return wanted == nullptr ? least : std::max<uint64_t>(least, std::strtoull(wanted, nullptr, 10));
}

template <typename Feed = SimFeed, typename Memory = SimReaderMemory>
Outcome run(const Trial& trial) {
  LateLog log;
  Space space({.chunks = trial.chunks, .chunks_max = trial.chunks, .hash_seed = trial.seed}, &log);
  RandomOwner owner(space,
                    {.seed = trial.seed, .keys = trial.keys, .has_parts = trial.has_parts, .log = &log});
  for (uint64_t i = 0; i < trial.entries_before; ++i) owner.step();
  sim::VisibleMemory visible({.bytes = space.bytes(), .owner = space.base(), .seed = trial.seed});
  log.next = &visible;
  Outcome outcome;
  {
    SnapshotFeed::Options options = trial.feed;
    options.has_parts = trial.has_parts;
    options.pending = owner.pending();
    outcome.pending = options.pending.size();
    auto feed = std::make_unique<Feed>(
        typename Feed::Parts{.space = space, .visible = visible, .seed = trial.seed, .options = options});
    outcome.expected = owner.model();
    outcome.buckets_before = space.table().stats().buckets;
    sim::SeededReader reader(visible, {.seed = trial.seed, .stall_chance = trial.stall_chance, .stall = [&] {
                                         for (uint64_t i = owner.prng().below(12); i > 0; --i) owner.step();
                                         if (owner.prng().chance(0.1)) (void)feed->poll();
                                       }});
    Memory memory(reader.memory());
    BlocksInMemory sink;
    SnapshotBlockWriter blocks(sink);
    SnapshotWalk<Memory, Feed> walk(memory, *feed);
    while (!walk.done() && outcome.code == Code::kOk) {
      outcome.code = walk.next([&](const SnapshotSource& source) { return blocks.put(memory, source); });
    }
    if (outcome.code == Code::kOk) outcome.code = blocks.flush();
    if (outcome.code == Code::kOk) outcome.code = feed->code();
    if (outcome.code == Code::kOk) outcome.written = sink.read();
    outcome.handed = feed->stats().handed;
    owner.end_chains();
    while (feed->poll()) {
    }
    EXPECT_EQ(feed->stats().kept_bytes, 0U);
  }
  outcome.buckets_after = space.table().stats().buckets;
  log.next = nullptr;
  EXPECT_FALSE(space.table().validate());
  return outcome;
}

TEST(Snapshot, is_the_table_at_its_moment_whatever_changes_meanwhile) {
  uint64_t handed = 0;
  uint64_t grown = 0;
  const uint64_t tried = seeds(refract::test::turns(250, 75));
  for (uint64_t seed = 1; seed <= tried; ++seed) {
    const Outcome outcome = run({.seed = seed, .entries_before = seed % 7 * 60});
    ASSERT_EQ(outcome.code, Code::kOk) << "seed " << seed;
    ASSERT_EQ(outcome.written, outcome.expected) << "seed " << seed;
    handed += outcome.handed;
    grown += outcome.buckets_after > outcome.buckets_before ? 1 : 0;
  }
  // The method has met what it is there for.
  EXPECT_GT(handed, 12 * tried);
  EXPECT_GT(grown, tried / 25);
}

// What is prepared replaces nothing before it has happened, and what is undone never did.
TEST(Snapshot, is_so_beside_transactions_over_several_shards_too) {
  uint64_t pending = 0;
  const uint64_t tried = seeds(refract::test::turns(100, 30));
  for (uint64_t seed = 1; seed <= tried; ++seed) {
    const Outcome outcome =
        run({.seed = seed, .keys = 60, .entries_before = seed % 7 * 60, .has_parts = true});
    ASSERT_EQ(outcome.code, Code::kOk) << "seed " << seed;
    ASSERT_EQ(outcome.written, outcome.expected) << "seed " << seed;
    pending += outcome.pending;
  }
  EXPECT_GT(pending, tried);
}

TEST(Snapshot, takes_large_tables_and_nothing_at_all) {
  const Outcome large = run({.keys = 4'000, .entries_before = 6'000, .stall_chance = 0.0005});
  EXPECT_EQ(large.code, Code::kOk);
  EXPECT_EQ(large.written, large.expected);
  EXPECT_GT(large.expected.size(), 1'000U);
  const Outcome nothing = run({.entries_before = 0, .stall_chance = 0.2});
  EXPECT_EQ(nothing.code, Code::kOk);
  EXPECT_TRUE(nothing.written.empty());
}

TEST(Snapshot, gives_way_to_writes_when_its_queue_is_full) {
  const Outcome outcome = run({.entries_before = 300, .stall_chance = 0.5, .feed = {.handed_max = 4}});
  EXPECT_EQ(outcome.code, Code::kOverloaded);
}

// Broken rules. Each must show as a wrong snapshot within some hundred seeds.
template <typename Feed, typename Memory = SimReaderMemory>
bool is_found(double stall_chance = 0.05) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const Outcome outcome =
        run<Feed, Memory>({.seed = seed, .entries_before = 80 + seed % 7 * 40, .stall_chance = stall_chance});
    if (outcome.code == Code::kOk && outcome.written != outcome.expected) return true;
    // A reader that was led astray may as well notice that something is wrong.
    if (outcome.code == Code::kCorrupt) return true;
  }
  return false;
}

// (S2) broken: what was handed over is given back before it was read.
struct HastyFeed : SimFeed {
  using SimFeed::SimFeed;
  [[nodiscard]] uint64_t read_count() const noexcept override { return SnapshotFeed::handed(); }
};
TEST(Snapshot, a_handed_buffer_reused_before_it_was_read_is_found) {
  EXPECT_TRUE(is_found<HastyFeed>());
}

// (S1) broken: the youngest entry of the moment is taken for a later one.
struct OffByOneFeed : SimFeed {
  using SimFeed::SimFeed;
  [[nodiscard]] bool is_wanted(Slot slot, uint64_t stamp) const noexcept override {
    return stamp + 1 < moment().stamp && SnapshotFeed::is_wanted(slot, stamp);
  }
};
TEST(Snapshot, a_stamp_compared_off_by_one_is_found) {
  EXPECT_TRUE(is_found<OffByOneFeed>(0.2));
}

// (S1) broken: handed over behind the store.
struct LateFeed : SimFeed {
  using SimFeed::SimFeed;
  void departing(Slot slot) noexcept override { late_ = slot; }
  [[nodiscard]] bool keeps(Offset buffer) noexcept override {
    if (late_) SimFeed::departing(std::exchange(late_, Slot{}));
    return SimFeed::keeps(buffer);
  }

 private:
  Slot late_{};
};
TEST(Snapshot, a_departure_told_after_the_store_is_found) {
  EXPECT_TRUE(is_found<LateFeed>());
}

// The queue is looked at before the slots.
struct EarlyLookFeed : SimFeed {
  using SimFeed::SimFeed;
  [[nodiscard]] uint64_t handed() noexcept { return std::exchange(before_, SimFeed::handed()); }

 private:
  uint64_t before_ = 0;
};
TEST(Snapshot, a_queue_looked_at_before_the_slots_is_found) {
  EXPECT_TRUE(is_found<EarlyLookFeed>());
}

// What the reader is at is told as passed.
struct BoastfulFeed : SimFeed {
  using SimFeed::SimFeed;
  void pass(uint64_t cursor) noexcept {
    SimFeed::pass(cursor == 0 ? 0 : cursor + (uint64_t{1} << (64 - kCursorShardBits - 3)));
  }
};
TEST(Snapshot, a_place_told_as_passed_too_early_is_found) {
  EXPECT_TRUE(is_found<BoastfulFeed>());
}

// The number of buckets is taken for what it was when the bucket was begun.
class SplitBlindMemory : public SimReaderMemory {
 public:
  explicit SplitBlindMemory(sim::ReaderMemory memory) : SimReaderMemory(memory) {}
  [[nodiscard]] uint64_t observe(Offset at) noexcept {
    const uint64_t word = SimReaderMemory::observe(at);
    if (at != kBucketCountAt) return word;
    // Looked at three times a bucket: ahead, before the slots, and behind them.
    if (looks_++ % 3 != 2) seen_ = word;
    return seen_;
  }

 private:
  uint64_t looks_ = 0;
  uint64_t seen_ = 0;
};
TEST(Snapshot, a_missed_split_is_found) {
  EXPECT_TRUE((is_found<SimFeed, SplitBlindMemory>()));
}

// A moment that nothing leaves while it is read.
struct StillFeed {
  SnapshotFeed::Moment kept;

  [[nodiscard]] const SnapshotFeed::Moment& moment() const noexcept { return kept; }
  [[nodiscard]] bool is_of_moment(uint64_t stamp) const noexcept { return stamp < kept.stamp; }
  [[nodiscard]] static bool has_parts() noexcept { return false; }
  [[nodiscard]] static Code code() noexcept { return Code::kOk; }
  [[nodiscard]] static uint64_t handed() noexcept { return 0; }
  [[nodiscard]] static SnapshotFeed::Handed handed_at(uint64_t /*index*/) noexcept { return {}; }
  static void pass(uint64_t /*cursor*/) noexcept {}
  static void take(uint64_t /*count*/) noexcept {}
};

// In every interleaving of a look at the first bucket with the splits.
TEST(Snapshot, what_comes_forward_from_an_overflow_line_is_given_once) {
  LateLog log;
  Space space({.chunks = 8, .chunks_max = 8}, &log);
  const test::LongBucket keys(space.table());
  std::vector<uint64_t> staying;
  for (const std::string& key : keys.staying) {
    staying.push_back(space.table().find(test::bytes_of(key))->version);
  }
  StillFeed feed{{.stamp = space.heap().next_stamp()}};
  const std::vector<std::byte> before(space.base(), space.base() + space.bytes());
  sim::StoreList stores(space.base());
  log.next = &stores;
  ASSERT_TRUE(space.table().put(test::bytes_of("one more"), test::bytes_of("v"), {}).has_value());
  log.next = nullptr;
  ASSERT_EQ(space.table().stats().buckets, 18U);
  const auto count = sim::for_each_interleaving(before, stores.stores(), {}, [&](sim::ReaderMemory& visible) {
    SimReaderMemory memory(visible);
    SnapshotWalk<SimReaderMemory, StillFeed> walk(memory, feed);
    std::vector<uint64_t> given;
    const Code code = walk.next([&](const SnapshotSource& source) {
      given.push_back(source.stamp);
      return Code::kOk;
    });
    ASSERT_EQ(code, Code::kOk);
    for (const uint64_t stamp : staying) ASSERT_EQ(std::ranges::count(given, stamp), 1);
  });
  EXPECT_TRUE(count.complete);
}

}  // namespace
}  // namespace refract::kv
