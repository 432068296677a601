// SPDX-License-Identifier: Apache-2.0
// A snapshot's whole way, out of one table and into another, and what it does when time or memory are short.
#include "refract/kv/owner/snapshot/snapshot_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>

#include "refract/kv/owner/snapshot/snapshot_load.h"
#include "refract/kv/testing/test_random_owner.h"
#include "refract/kv/testing/test_snapshot.h"

namespace refract::kv {
namespace {

using test::BlocksInMemory;
using test::bytes_of;
using test::Model;
using test::RandomOwner;
using test::Space;

SnapshotFeed::Options keep_at_all_costs() {
  return {.gives_way = false};
}

class OneSpace {
 public:
  explicit OneSpace(uint64_t chunks = 16) : space({.chunks = chunks, .chunks_max = chunks}) {}

  void take_moment(const SnapshotFeed::Options& options = {}) {
    feed.emplace(space.table(), space.heap(), space.writer(), space.clock(), options);
  }
  Code write(SnapshotSink& sink, SnapshotPace::Options pace = {}) {
    MappedMemory memory(space.base(), space.bytes(), nullptr);
    run.emplace(memory, *feed, sink, space.clock(), std::move(pace));
    return *run->run();
  }

  Space space;
  std::optional<SnapshotFeed> feed;
  std::optional<SnapshotRun> run;
};

// Hands each block on after something else has happened.
class Interrupted final : public SnapshotSink {
 public:
  Interrupted(SnapshotSink& sink, std::function<Code()> act) : sink_(sink), act_(std::move(act)) {}
  [[nodiscard]] Code write(const SnapshotBlock& block) override {
    const Code code = act_();
    return code == Code::kOk ? sink_.write(block) : code;
  }

 private:
  SnapshotSink& sink_;
  std::function<Code()> act_;
};

TEST(SnapshotRun, what_was_loaded_is_what_was_written) {
  for (const uint64_t seed : {42U, 43U}) {
    OneSpace one;
    RandomOwner owner(one.space, {.seed = 7, .keys = 3'000});
    for (int i = 0; i < 6'000; ++i) owner.step();
    owner.end_chains();
    one.take_moment();
    const Model expected = owner.model();
    BlocksInMemory blocks;
    ASSERT_EQ(one.write(blocks), Code::kOk);
    ASSERT_EQ(one.run->progress().entries, expected.size());

    Space other({.chunks = 16, .chunks_max = 16, .hash_seed = seed});
    other.clock().set_now_ns(one.space.clock().now_ns());
    Replay replay(other.table(), other.heap());
    replay.expect(one.feed->moment().entries);
    const uint64_t buckets = other.table().stats().buckets;
    SnapshotLoader loader(replay);
    for (const auto& block : blocks.blocks) {
      ASSERT_TRUE(loader.load({.kind = block.kind, .entries = block.entries, .bytes = block.bytes}));
    }
    replay.finish();
    EXPECT_TRUE(loader.is_complete());
    EXPECT_EQ(loader.entries(), expected.size());
    EXPECT_FALSE(other.table().validate());
    EXPECT_EQ(other.table().stats().entries, expected.size());
    EXPECT_EQ(other.table().stats().buckets, buckets) << "it grew while it was filled";
    for (const auto& [key, entry] : expected) {
      const auto found = other.table().find(bytes_of(key));
      ASSERT_TRUE(found) << key;
      EXPECT_EQ(found->version, entry.stamp);
      EXPECT_EQ(found->expires_wall_ns, entry.expires_wall_ns);
      EXPECT_EQ(found->request, entry.request);
      EXPECT_EQ(test::text_of(found->value), entry.value);
    }
  }
}

TEST(SnapshotRun, goes_on_where_it_was_relieved) {
  OneSpace one;
  RandomOwner owner(one.space, {.seed = 7, .keys = 40'000});
  for (int i = 0; i < 60'000; ++i) owner.step();
  owner.end_chains();
  one.take_moment();
  const size_t expected = owner.model().size();
  BlocksInMemory blocks;
  std::atomic<bool> is_relieved = true;
  // After each block, too.
  Interrupted relieved(blocks, [&] {
    is_relieved = true;
    return Code::kOk;
  });
  MappedMemory memory(one.space.base(), one.space.bytes(), nullptr);
  SnapshotRun run(memory, *one.feed, relieved, one.space.clock());
  int reliefs = 0;
  std::optional<Code> code;
  for (; !(code = run.run(&is_relieved)); ++reliefs) is_relieved = false;
  EXPECT_EQ(*code, Code::kOk);
  EXPECT_GT(reliefs, 1);
  uint64_t entries = 0;
  for (const auto& block : blocks.blocks) entries += block.entries;
  EXPECT_EQ(entries, expected);
  EXPECT_EQ(run.progress().entries, expected);
}

TEST(SnapshotRun, a_table_too_small_for_what_is_loaded_goes_on_when_it_has_grown) {
  OneSpace one(12);
  const std::string value(3'000, 'v');
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(one.space.table().put(bytes_of("key " + std::to_string(i)), bytes_of(value), {}));
  }
  one.take_moment();
  BlocksInMemory blocks;
  ASSERT_EQ(one.write(blocks), Code::kOk);
  Space other({.chunks = 4, .chunks_max = 16});
  Replay replay(other.table(), other.heap());
  SnapshotLoader loader(replay);
  uint64_t grown = 0;
  for (const auto& block : blocks.blocks) {
    Result<> loaded = loader.load({.kind = block.kind, .entries = block.entries, .bytes = block.bytes});
    while (loaded.code() == Code::kNoSpace) {
      ASSERT_LT(++grown, 12U);
      other.add_chunks(1);
      loaded = loader.resume();
    }
    ASSERT_TRUE(loaded);
  }
  EXPECT_GT(grown, 0U);
  EXPECT_EQ(other.table().stats().entries, 2'000U);
  EXPECT_FALSE(other.table().validate());
}

TEST(SnapshotRun, values_of_any_length_come_back) {
  OneSpace one(48);
  Model expected;
  for (const uint64_t bytes : {0ULL, 1ULL, 4'095ULL, 4'096ULL, (1ULL << 20) - 40, 1ULL << 20, 5ULL << 20}) {
    for (const size_t key_bytes : {1UL, 65'535UL}) {
      std::string key(key_bytes, 'k');
      key += std::to_string(bytes);
      key.resize(std::min<size_t>(key.size(), 65'535));
      key[0] = static_cast<char>(expected.size());
      test::ModelEntry entry;
      entry.value.assign(bytes, static_cast<char>(bytes));
      entry.request = {.client = 4, .sequence = 5};
      const auto put =
          one.space.table().put(bytes_of(key), bytes_of(entry.value), {.request = entry.request});
      ASSERT_TRUE(put);
      entry.stamp = *put;
      expected[key] = entry;
    }
  }
  one.take_moment();
  BlocksInMemory blocks;
  ASSERT_EQ(one.write(blocks), Code::kOk);
  EXPECT_TRUE(blocks.read() == expected);
  for (const auto& block : blocks.blocks) EXPECT_LE(block.bytes.size(), kSnapshotBlockBytes);
}

TEST(SnapshotRun, keeps_to_its_pace) {
  OneSpace one;
  const std::string value(10'000, 'v');
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(one.space.table().put(bytes_of("key " + std::to_string(i)), bytes_of(value), {}));
  }
  one.take_moment();
  BlocksInMemory blocks;
  const uint64_t before = one.space.clock().now_ns();
  uint64_t longest = 0;
  const auto wait = [&](uint64_t ns) {
    longest = std::max(longest, ns);
    one.space.clock().advance_ns(ns);
  };
  ASSERT_EQ(one.write(blocks, {.bytes_per_second = 1'000'000, .wait = wait}), Code::kOk);
  // Five megabytes at one a second; the clock moves by nothing else.
  const uint64_t took = one.space.clock().now_ns() - before;
  EXPECT_GT(took, 4'900'000'000U);
  EXPECT_LT(took, 5'200'000'000U);
  EXPECT_LE(longest, 20'000'000U);
}

TEST(SnapshotRun, ends_when_it_is_cancelled_or_its_sink_fails) {
  OneSpace one;
  RandomOwner owner(one.space, {.keys = 3'000});
  for (int i = 0; i < 9'000; ++i) owner.step();
  one.take_moment();
  BlocksInMemory blocks;
  int calls = 0;
  Interrupted cancelled(blocks, [&] {
    one.feed->give_up(Code::kCancelled);
    ++calls;
    return Code::kOk;
  });
  EXPECT_EQ(one.write(cancelled), Code::kCancelled);
  EXPECT_EQ(calls, 1);
  one.feed.reset();
  one.take_moment();
  Interrupted failing(blocks, [] { return Code::kSystem; });
  EXPECT_EQ(one.write(failing), Code::kSystem);
  EXPECT_EQ(one.feed->code(), Code::kSystem);
}

// Puts new values for the same keys until a write fails; how many succeeded.
uint64_t overwrite(Space& space, uint64_t rounds) {
  const std::string value(8'000, 'n');
  for (uint64_t i = 0; i < rounds; ++i) {
    if (!space.table().put(bytes_of("key " + std::to_string(i % 100)), bytes_of(value), {})) return i;
  }
  return rounds;
}

TEST(SnapshotRun, is_given_up_before_a_write_fails_for_want_of_memory) {
  OneSpace one(6);
  ASSERT_EQ(overwrite(one.space, 300), 300U);
  one.take_moment();
  // There is no reader. What is kept is one version of each key, and fits; a second moment's does not.
  ASSERT_EQ(overwrite(one.space, 100), 100U);
  EXPECT_EQ(one.feed->code(), Code::kOk);
  EXPECT_EQ(one.feed->stats().handed, 100U);
  for (int i = 0; one.feed->code() == Code::kOk && i < 10'000; ++i) {
    ASSERT_TRUE(
        one.space.table().put(bytes_of("other " + std::to_string(i)), bytes_of(std::string(8'000, 'o')), {}));
  }
  EXPECT_EQ(one.feed->code(), Code::kNoSpace);
  BlocksInMemory blocks;
  EXPECT_EQ(one.write(blocks), Code::kNoSpace);
}

TEST(SnapshotRun, outlives_writes_that_fail_where_it_is_told_to) {
  OneSpace one(6);
  ASSERT_EQ(overwrite(one.space, 300), 300U);
  Model expected;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key " + std::to_string(i);
    const auto found = one.space.table().find(bytes_of(key));
    expected[key] = {
        .stamp = found->version, .expires_wall_ns = 0, .request = {}, .value = test::text_of(found->value)};
  }
  one.take_moment(keep_at_all_costs());
  ASSERT_EQ(overwrite(one.space, 100), 100U);
  uint64_t refused = 0;
  for (int i = 0; i < 1'000; ++i) {
    const auto put =
        one.space.table().put(bytes_of("other " + std::to_string(i)), bytes_of(std::string(8'000, 'o')), {});
    if (!put) ++refused;
  }
  EXPECT_GT(refused, 100U);
  BlocksInMemory blocks;
  EXPECT_EQ(one.write(blocks), Code::kOk);
  EXPECT_TRUE(blocks.read() == expected);
  // And what was kept is there again for writers.
  while (one.feed->poll()) {
  }
  EXPECT_TRUE(one.space.table().put(bytes_of("one more"), bytes_of(std::string(8'000, 'o')), {}));
}

TEST(SnapshotBlocks, that_make_no_sense_are_refused) {
  OneSpace one;
  ASSERT_TRUE(one.space.table().put(bytes_of("key"), bytes_of("value"), {}));
  ASSERT_TRUE(one.space.table().put(bytes_of("large"), bytes_of(std::string(2'500'000, 'v')), {}));
  one.take_moment();
  BlocksInMemory blocks;
  ASSERT_EQ(one.write(blocks), Code::kOk);
  std::vector<BlocksInMemory::Kept> pieces;
  for (auto& block : blocks.blocks) {
    if (block.kind == SnapshotBlockKind::kPiece) pieces.push_back(block);
  }
  ASSERT_EQ(pieces.size(), 3U);
  const auto view = [](const BlocksInMemory::Kept& kept) {
    return SnapshotBlock{.kind = kept.kind, .entries = kept.entries, .bytes = kept.bytes};
  };
  SnapshotBlockReader in_the_middle;
  EXPECT_FALSE(in_the_middle.begin(view(pieces[1])));
  SnapshotBlockReader with_a_gap;
  EXPECT_TRUE(with_a_gap.begin(view(pieces[0])));
  EXPECT_FALSE(with_a_gap.is_complete());
  EXPECT_FALSE(with_a_gap.begin(view(pieces[2])));
  SnapshotBlockReader counted_wrong;
  SnapshotBlock first = view(pieces[0]);
  first.entries = 1;
  EXPECT_FALSE(counted_wrong.begin(first));
  SnapshotBlockReader nothing;
  EXPECT_FALSE(nothing.begin({}));
}

}  // namespace
}  // namespace refract::kv
