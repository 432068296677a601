// SPDX-License-Identifier: Apache-2.0
// What the chain path costs, and when it asks the owner: over the loopback provider, in virtual time, with
// round trips counted by the decorator. That it keeps the contract is shown by conformance_stores_test.cc.
#include "refract/kv/chains/chain_client.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/fabric/conformance/allocation_count.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::patterned;

// One client of a table that is served on both paths.
class ChainClientTest : public testing::Test {
 protected:
  explicit ChainClientTest(const test::ServedOptions& options = {.link = {.message_bytes_max = 32 * 1024}})
      : served(options), peer(served.connect()) {}

  struct Read {
    Code code = Code::kOk;
    Got got;
    std::string value;
  };
  [[nodiscard]] Read get(std::string_view key) { return get(chains, key); }
  [[nodiscard]] Read get(ChainClient& client, std::string_view key) {
    Read read;
    StringSink sink(read.value);
    const Result<Got> got = served.wait(client.get(bytes_of(key), sink));
    read.code = got.code();
    if (got) read.got = *got;
    return read;
  }
  [[nodiscard]] Result<uint64_t> put(std::string_view key, std::string_view value,
                                     const RpcPutOptions& options = {}) {
    return served.wait(chains.put(bytes_of(key), bytes_of(value), options));
  }
  [[nodiscard]] Result<uint64_t> put_by_rpc(std::string_view key, std::string_view value,
                                            const RpcPutOptions& options = {}) {
    return served.wait(peer.client->put(bytes_of(key), bytes_of(value), options));
  }
  void attach() { ASSERT_EQ(served.wait(chains.attach()), Code::kOk); }
  // Until now, since the last time.
  [[nodiscard]] uint64_t round_trips() {
    const uint64_t count = served.counted.counts().round_trips;
    served.counted.reset_counts();
    return count;
  }
  [[nodiscard]] uint64_t by_rpc(ByRpc why) const { return chains.counts().by_rpc[static_cast<size_t>(why)]; }

 public:
  test::Served served;
  test::Served::Peer peer;
  ChainClient chains{*peer.client, served.shard};
};

TEST_F(ChainClientTest, a_get_takes_two_round_trips_and_one_where_the_slot_is_known) {
  ASSERT_TRUE(put_by_rpc("key", "value").has_value());
  attach();
  (void)get("another, so that the directory is known");
  (void)round_trips();
  EXPECT_EQ(get("key").value, "value");
  EXPECT_EQ(round_trips(), 2u);
  const Read again = get("key");
  EXPECT_EQ(again.value, "value");
  EXPECT_EQ(round_trips(), 1u);
  // Written by others meanwhile: the slot is the same, and so is the number.
  const uint64_t version = refract::test::needed(put_by_rpc("key", "other"));
  (void)round_trips();
  const Read changed = get("key");
  EXPECT_EQ(changed.value, "other");
  EXPECT_EQ(changed.got.version, version);
  EXPECT_EQ(round_trips(), 1u);
  EXPECT_EQ(chains.counts().all_by_rpc(), 0u);
}

TEST_F(ChainClientTest, a_miss_takes_one_round_trip_and_leaves_the_owner_alone) {
  attach();
  (void)get("the directory");
  (void)round_trips();
  EXPECT_EQ(get("key").code, Code::kNotFound);
  EXPECT_EQ(round_trips(), 1u);
  EXPECT_EQ(chains.counts().all_by_rpc(), 0u);
}

// It was behind the first line when that was read, and is in it when the line behind is.
TEST_F(ChainClientTest, an_entry_that_comes_forward_between_two_round_trips_is_found) {
  Table& table = served.space.table();
  const test::LongBucket keys(table);
  attach();
  (void)get("the directory");
  (void)round_trips();
  const std::string& key = keys.coming.front();
  std::string value;
  StringSink sink(value);
  runtime::Task<Result<Got>> getting = chains.get(bytes_of(key), sink);
  getting.start();
  ASSERT_TRUE(served.run_until([&] { return served.counted.counts().doorbells == 2; }));
  ASSERT_TRUE(table.put(bytes_of("one more"), bytes_of("v"), {}).has_value());
  ASSERT_EQ(table.stats().buckets, 18U);
  ASSERT_TRUE(served.run_until([&] { return getting.done(); }));
  EXPECT_EQ(value, "here");
  EXPECT_EQ(chains.counts().all_by_rpc(), 0U);
}

TEST_F(ChainClientTest, a_put_takes_two_round_trips_and_one_where_the_slot_is_known) {
  const uint64_t first = refract::test::needed(put_by_rpc("key", "value"));
  attach();
  (void)get("another, so that the directory is known");
  (void)round_trips();
  const Result<uint64_t> second = put("key", "second");
  ASSERT_TRUE(second.has_value()) << text(second.code());
  EXPECT_GT(*second, first);
  EXPECT_EQ(round_trips(), 2u);
  const Result<uint64_t> third = put("key", "third");
  ASSERT_TRUE(third.has_value());
  EXPECT_GT(*third, *second);
  EXPECT_EQ(round_trips(), 1u);
  EXPECT_EQ(chains.counts().puts, 2u);
  EXPECT_EQ(chains.counts().all_by_rpc(), 0u);
  // What chains wrote, the owner finds, and its statistics are right.
  const auto entry = served.space.table().find(bytes_of("key"));
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->version, *third);
  EXPECT_EQ(test::text_of(entry->value), "third");
  EXPECT_EQ(served.space.table().stats().entries, 1u);
  served.space.heap().reclaim();
  EXPECT_EQ(served.space.heap().stats().buffers_live, 1u);
  EXPECT_EQ(served.space.heap().stats().bytes_retired, 0u);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(ChainClientTest, a_get_teaches_the_put_behind_it_its_slot) {
  ASSERT_TRUE(put_by_rpc("key", "value").has_value());
  EXPECT_EQ(get("key").value, "value");
  (void)round_trips();
  ASSERT_TRUE(put("key", "second").has_value());
  EXPECT_EQ(round_trips(), 1u);
}

TEST_F(ChainClientTest, a_put_over_what_others_wrote_looks_again) {
  ASSERT_TRUE(put_by_rpc("key", "value").has_value());
  ASSERT_TRUE(put("key", "second").has_value());
  const uint64_t others = refract::test::needed(put_by_rpc("key", "of others"));
  (void)round_trips();
  const Result<uint64_t> mine = put("key", "mine");
  ASSERT_TRUE(mine.has_value());
  EXPECT_GT(*mine, others);
  // The swap that fails tells what stands there now; the next one replaces that.
  EXPECT_EQ(round_trips(), 2u);
  EXPECT_EQ(chains.counts().conflicts, 1u);
  EXPECT_EQ(get("key").value, "mine");
  EXPECT_TRUE(served.is_sound());
}

TEST_F(ChainClientTest, what_chains_cannot_do_goes_to_the_owner_and_is_counted) {
  EXPECT_TRUE(put("new", "value").has_value());
  EXPECT_EQ(by_rpc(ByRpc::kAbsent), 1u);
  EXPECT_EQ(put("new", "value", {.if_absent = true}).code(), Code::kExists);
  EXPECT_TRUE(put("new", "value", {.ttl_ns = kSecond_ns}).has_value());
  EXPECT_TRUE(put("new", "value", {.attempt = {.request = {.client = 1, .sequence = 1}}}).has_value());
  EXPECT_EQ(by_rpc(ByRpc::kConditional), 3u);
  EXPECT_TRUE(put("new", patterned(40'000)).has_value());
  EXPECT_EQ(get("new").value, patterned(40'000));
  EXPECT_EQ(by_rpc(ByRpc::kLarge), 2u);
  ASSERT_TRUE(put_by_rpc("short", "lived", {.ttl_ns = kSecond_ns}).has_value());
  EXPECT_EQ(get("short").value, "lived");
  EXPECT_TRUE(put("short", "for ever").has_value());
  EXPECT_EQ(by_rpc(ByRpc::kExpires), 2u);
  EXPECT_EQ(get("short").value, "for ever");
  EXPECT_EQ(served.space.table().stats().expiring_entries, 0u);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(ChainClientTest, a_put_with_a_version_replaces_that_version_or_nothing) {
  const Result<uint64_t> first = put_by_rpc("key", "first");
  EXPECT_EQ(put("none", "value", {.if_version = *first}).code(), Code::kNotFound);
  EXPECT_EQ(put("key", "value", {.if_version = *first + 1}).code(), Code::kVersionMismatch);
  const Result<uint64_t> second = put("key", "second", {.if_version = *first});
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(put("key", "third", {.if_version = *first}).code(), Code::kVersionMismatch);
  EXPECT_TRUE(put("key", "third", {.if_version = *second}).has_value());
  EXPECT_EQ(get("key").value, "third");
  EXPECT_EQ(chains.counts().all_by_rpc(), 0u);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(ChainClientTest, entries_that_were_erased_moved_or_replaced_are_found_again) {
  constexpr int kKeys = 3'000;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(put_by_rpc("key" + std::to_string(i), "v").has_value());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(get("key" + std::to_string(i)).value, "v");
  // The table grows far beyond what the client knows of it.
  for (int i = 100; i < kKeys; ++i) {
    ASSERT_TRUE(put_by_rpc("key" + std::to_string(i), std::to_string(i)).has_value());
  }
  for (int i = 0; i < 100; i += 2) {
    ASSERT_TRUE(served.wait(peer.client->erase(bytes_of("key" + std::to_string(i)))).has_value());
  }
  for (int i = 0; i < kKeys; ++i) {
    const Read read = get("key" + std::to_string(i));
    if (i < 100 && i % 2 == 0) {
      ASSERT_EQ(read.code, Code::kNotFound) << i;
    } else {
      ASSERT_EQ(read.value, i < 100 ? "v" : std::to_string(i)) << i;
    }
  }
  EXPECT_EQ(chains.counts().all_by_rpc(), 0u);
}

TEST_F(ChainClientTest, values_that_become_longer_and_shorter_are_read_whole) {
  ASSERT_TRUE(put_by_rpc("key", "v").has_value());
  for (const size_t length :
       {size_t{0}, size_t{100}, size_t{4'096}, size_t{4'095}, size_t{20'000}, size_t{1}}) {
    ASSERT_TRUE(put_by_rpc("key", patterned(length)).has_value());
    EXPECT_EQ(get("key").value, patterned(length)) << length;
    ASSERT_TRUE(put("key", patterned(length, 1)).has_value());
    EXPECT_EQ(get("key").value, patterned(length, 1)) << length;
    EXPECT_EQ(served.wait(chains.exists(bytes_of("key")))->value_bytes, length);
  }
  EXPECT_EQ(chains.counts().all_by_rpc(), 0u);
  EXPECT_TRUE(served.is_sound());
}

TEST_F(ChainClientTest, a_put_that_finds_no_memory_waits_at_the_owner_until_the_node_has_grown) {
  const std::string value = patterned(20'000);
  ASSERT_TRUE(put_by_rpc("key", value).has_value());
  ASSERT_TRUE(put("key", value).has_value());
  uint64_t stored = 0;
  while (put_by_rpc("fill" + std::to_string(stored), value).has_value()) ++stored;
  served.growth.allowed = true;
  auto late = chains.put(bytes_of("key"), bytes_of(value));
  late.start();
  served.settle();
  ASSERT_FALSE(late.done());
  EXPECT_EQ(by_rpc(ByRpc::kNoSpace), 1u);
  served.space.add_chunks(8);
  served.chains.on_memory_added();
  served.service.on_memory_added();
  served.settle();
  ASSERT_TRUE(late.done());
  EXPECT_TRUE(late.take().has_value());
  // In memory that was not there when the client attached.
  EXPECT_EQ(get("key").value, value);
  ASSERT_TRUE(put("key", value).has_value());
  EXPECT_EQ(get("key").value, value);
  EXPECT_EQ(chains.counts().puts, 2u);
}

TEST_F(ChainClientTest, a_sink_that_refuses_ends_the_get) {
  class Refusing final : public ValueSink {
   public:
    std::byte* room(uint64_t) override { return nullptr; }
  } refusing;
  ASSERT_TRUE(put_by_rpc("key", "value").has_value());
  EXPECT_EQ(served.wait(chains.get(bytes_of("key"), refusing)).code(), Code::kTooLarge);
  EXPECT_EQ(chains.get_and_wait(bytes_of("key"), refusing).code(), Code::kTooLarge);
}

TEST_F(ChainClientTest, blocking_gets_and_puts_take_no_memory_once_warm) {
  ASSERT_TRUE(put_by_rpc("key", patterned(100)).has_value());
  std::string value;
  StringSink sink(value);
  const std::string other = patterned(100, 1);
  const auto both = [&] {
    const bool put = chains.put_and_wait(bytes_of("key"), bytes_of(other)).has_value();
    return chains.get_and_wait(bytes_of("key"), sink).has_value() && put;
  };
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(both());
  const uint64_t before = allocation_count();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(both());
  EXPECT_EQ(allocation_count(), before);
  EXPECT_EQ(value, other);
}

class ReadOnlyChains : public ChainClientTest {
 protected:
  ReadOnlyChains() : ChainClientTest({.chains_write = false}) {}
};

TEST_F(ReadOnlyChains, where_chains_may_only_read_puts_go_to_the_owner) {
  ASSERT_TRUE(put("key", "value").has_value());
  EXPECT_EQ(chains.attached(), Code::kOk);
  EXPECT_FALSE(chains.may_write());
  ASSERT_TRUE(put("key", "second").has_value());
  EXPECT_EQ(by_rpc(ByRpc::kNotAttached), 2u);
  EXPECT_EQ(get("key").value, "second");
  EXPECT_EQ(chains.counts().gets, 1u);
}

// Two keys with one fingerprint in one bucket, of which the first is there.
struct Twins {
  std::string first = "key";
  std::string second;

  explicit Twins(Table& table) {
    const uint64_t hash = table.hash(bytes_of(first));
    const uint64_t count = table.stats().buckets;
    for (uint64_t number = 0; second.empty(); ++number) {
      const std::string name = "twin" + std::to_string(number);
      const uint64_t other = table.hash(bytes_of(name));
      const bool fits = Slot::fingerprint_of(other) == Slot::fingerprint_of(hash) &&
                        bucket_index(other, count) == bucket_index(hash, count);
      if (fits) second = name;
    }
  }
};

TEST_F(ChainClientTest, a_put_of_a_key_whose_fingerprint_another_has_is_an_insert) {
  const Twins twins(served.space.table());
  ASSERT_TRUE(put_by_rpc(twins.first, "first").has_value());
  ASSERT_TRUE(put(twins.second, "second").has_value());
  EXPECT_EQ(by_rpc(ByRpc::kAbsent), 1u);
  EXPECT_EQ(get(twins.first).value, "first");
  EXPECT_EQ(get(twins.second).value, "second");
  // Both fit now: the put looks which one is its own.
  ASSERT_TRUE(put(twins.second, "third").has_value());
  EXPECT_EQ(get(twins.first).value, "first");
  EXPECT_EQ(get(twins.second).value, "third");
  EXPECT_EQ(chains.counts().all_by_rpc(), 1u);
  EXPECT_TRUE(served.is_sound());
}

// A rule broken on purpose: whatever looks like an install is one.
class NoKeyCheck final : public prism::snic::Guard {
 public:
  bool may_write(Offset, uint64_t) noexcept override { return false; }
  Code may_swap(const prism::snic::Swap& swap) noexcept override {
    const bool looks_like_one = !swap.retires || static_cast<bool>(swap.installs.at);
    return looks_like_one ? Code::kOk : Code::kAccessDenied;
  }
};

class GuardWithoutKeys : public ChainClientTest {
 protected:
  GuardWithoutKeys() : ChainClientTest({.guard = &guard()}) {}

 private:
  // It stands before the base.
  static NoKeyCheck& guard() {
    static NoKeyCheck guard;
    return guard;
  }
};

TEST_F(GuardWithoutKeys, loses_the_entry_of_a_key_with_the_same_fingerprint) {
  const Twins twins(served.space.table());
  ASSERT_TRUE(put_by_rpc(twins.first, "first").has_value());
  ASSERT_TRUE(put(twins.second, "second").has_value());
  EXPECT_EQ(get(twins.first).code, Code::kNotFound);
}

// The same slot's word again, for a younger value: 65,536 stamps later, in the buffer that was used before.
class StampTest : public ChainClientTest, public testing::WithParamInterface<bool> {
 protected:
  void let_the_word_come_back(uint64_t version) {
    Heap& heap = served.space.heap();
    const uint64_t word = standing().slot.bits;
    ASSERT_TRUE(put_by_rpc("key", "second").has_value());
    heap.reclaim();
    while ((heap.next_stamp() + 1) % 65'536 != version % 65'536) {
    }
    ASSERT_TRUE(put_by_rpc("key", "third").has_value());
    ASSERT_EQ(standing().slot.bits, word) << "the word was to come back";
  }
  [[nodiscard]] Table::Standing standing() {
    return served.space.table().standing(served.space.table().hashed(bytes_of("key")));
  }
};

TEST_P(StampTest, an_older_version_is_not_taken_for_a_younger_one_by_who_compares_stamps) {
  const bool compares = GetParam();
  ChainClient client(*peer.client, served.shard, {.compares_stamp = compares});
  const Result<uint64_t> first = put_by_rpc("key", "first");
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(get(client, "key").value, "first");
  let_the_word_come_back(*first);
  const Result<uint64_t> late =
      served.wait(client.put(bytes_of("key"), bytes_of("late"), {.if_version = *first}));
  // Without the comparison the third value is lost, although no client had seen it.
  EXPECT_EQ(late.code(), compares ? Code::kVersionMismatch : Code::kOk);
  EXPECT_EQ(get(client, "key").value, compares ? "third" : "late");
}

INSTANTIATE_TEST_SUITE_P(BothWays, StampTest, testing::Bool());

}  // namespace
}  // namespace refract::kv
