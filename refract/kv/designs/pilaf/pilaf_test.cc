// SPDX-License-Identifier: Apache-2.0
// Pilaf's claims: what verifies itself, how much a get reads, and that no call from outside hurts the store.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/golden.h"
#include "refract/kv/designs/pilaf/client.h"
#include "refract/kv/designs/pilaf/server.h"
#include "refract/kv/designs/test_store.h"

namespace refract::kv::pilaf {
namespace {

using designs::Capacity;
using designs::LoopbackStore;
using test::bytes_of;
using test::patterned;

const designs::Design& pilaf_row() {
  return *designs::find("pilaf");
}

// A look-up in memory that does not change.
struct Seen {
  std::string outcome;
  Lookup::Counts counts;
};
Seen look_up(std::span<const std::byte> memory, const Root& root, std::string_view key) {
  Lookup lookup(root, root.moves, bytes_of(key));
  for (;;) {
    const Lookup::Range place = lookup.wanted();
    if (place.at > memory.size() || place.bytes > memory.size() - place.at) return {"outside", {}};
    switch (lookup.take(memory.subspan(place.at, place.bytes))) {
      case Lookup::Step::kRead:
        break;
      case Lookup::Step::kTorn:
        return {"torn", lookup.counts()};
      case Lookup::Step::kMoved:
        return {"moved", lookup.counts()};
      case Lookup::Step::kAbsent:
        return {"absent", lookup.counts()};
      case Lookup::Step::kFound:
        return {"found " + test::text_of(lookup.value()), lookup.counts()};
    }
  }
}

struct Store {
  explicit Store(const Capacity& capacity)
      : memory(memory_bytes(capacity)), table(memory.bytes(), capacity, 7) {}
  [[nodiscard]] Root root() {
    Root root{};
    std::memcpy(&root, memory.bytes().data() + table.root_at(), sizeof(root));
    return root;
  }
  [[nodiscard]] Code put(std::string_view key, std::string_view value) {
    return table.put(bytes_of(key), bytes_of(value)).code();
  }
  designs::TestMemory memory;
  Table table;
};

TEST(Pilaf, any_flipped_bit_of_root_entry_or_blob_is_detected) {
  Store store({.keys_max = 10, .key_bytes_max = 8, .value_bytes_max = 64});
  ASSERT_EQ(store.put("key", "some value or other"), Code::kOk);
  const Root root = store.root();
  const auto memory = store.memory.bytes();
  const auto flip = [&](uint64_t at, size_t bit) {
    memory[at + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  };
  const uint64_t entry_at = root.entries + places_of(bytes_of("key"), root).index[0] * sizeof(Entry);
  Entry entry{};
  std::memcpy(&entry, memory.data() + entry_at, sizeof(entry));
  ASSERT_EQ(entry.state, Entry::kUsed);
  ASSERT_EQ(look_up(memory, root, "key").outcome, "found some value or other");
  for (size_t bit = 0; bit < 8 * sizeof(Entry); ++bit) {
    flip(entry_at, bit);
    EXPECT_EQ(look_up(memory, root, "key").outcome, "torn") << "entry " << bit;
    flip(entry_at, bit);
  }
  for (size_t bit = 0; bit < size_t{8} * entry.blob_bytes; ++bit) {
    flip(entry.blob, bit);
    EXPECT_EQ(look_up(memory, root, "key").outcome, "torn") << "blob " << bit;
    flip(entry.blob, bit);
  }
  for (size_t bit = 0; bit < 8 * sizeof(Root); ++bit) {
    flip(store.table.root_at(), bit);
    EXPECT_EQ(look_up(memory, root, "yek").outcome, "torn") << "root " << bit;
    flip(store.table.root_at(), bit);
  }
  EXPECT_EQ(look_up(memory, root, "yek").outcome, "absent");
}

// A server that was stopped between two stores, for ever.
TEST(Pilaf, a_get_of_what_never_verifies_ends_at_its_deadline) {
  LoopbackStore store(pilaf_row(), {.keys_max = 10});
  ASSERT_EQ(store.put("key", "value"), Code::kOk);
  Root root{};
  std::memcpy(&root, store.memory().data() + kRootAt, sizeof(root));
  std::byte& byte = store.memory()[root.entries + places_of(bytes_of("key"), root).index[0] * sizeof(Entry)];
  byte ^= std::byte{1};
  EXPECT_EQ(store.get("key", store.shard().refresh_now() + kMillisecond_ns).code, Code::kDeadlineExceeded);
  byte ^= std::byte{1};
  EXPECT_EQ(store.get("key").value, "value");
}

TEST(Pilaf, a_get_is_two_round_trips_and_a_put_or_erase_is_one_call) {
  LoopbackStore store(pilaf_row(), {.keys_max = 100});
  (void)store.take_counts();
  ASSERT_EQ(store.put("key", "value"), Code::kOk);
  auto counts = store.take_counts();
  EXPECT_EQ(counts.round_trips, 1u);
  EXPECT_EQ(counts.requests_of(fabric::Op::kSend), 1u);
  EXPECT_EQ(counts.requests_of(fabric::Op::kRead), 0u);
  ASSERT_EQ(store.get("key").code, Code::kOk);
  counts = store.take_counts();
  EXPECT_EQ(counts.round_trips, 2u);
  EXPECT_EQ(counts.requests_of(fabric::Op::kRead), 2u);
  EXPECT_EQ(counts.requests_of(fabric::Op::kSend), 0u) << "the server's processor has no part in a get";
  EXPECT_EQ(counts.bytes_received, sizeof(Entry) + sizeof(BlobHeader) + 8u);
  ASSERT_EQ(store.erase("key"), Code::kOk);
  counts = store.take_counts();
  EXPECT_EQ(counts.round_trips, 1u);
  EXPECT_EQ(counts.requests_of(fabric::Op::kSend), 1u);
}

TEST(Pilaf, that_a_key_is_absent_costs_its_three_places_and_the_root) {
  LoopbackStore store(pilaf_row(), {.keys_max = 100});
  (void)store.take_counts();
  ASSERT_EQ(store.get("key").code, Code::kNotFound);
  const auto counts = store.take_counts();
  EXPECT_EQ(counts.requests_of(fabric::Op::kRead), kWays + 1);
  EXPECT_EQ(counts.requests_of(fabric::Op::kSend), 0u);
}

// The paper's figure: 1.6.
TEST(Pilaf, at_three_quarters_full_a_get_reads_about_1_6_entries) {
  constexpr uint64_t kKeys = 30'000;
  Store store({.keys_max = kKeys, .key_bytes_max = 16, .value_bytes_max = 8});
  ASSERT_EQ(store.table.entry_count(), kKeys * 4 / 3);
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(store.put("key" + std::to_string(i), "value"), Code::kOk);
  EXPECT_EQ(store.table.entry_count(), kKeys * 4 / 3);
  EXPECT_GT(store.table.move_count(), 1'000u);
  EXPECT_EQ(store.table.contradiction(), std::nullopt);
  uint64_t entries = 0;
  uint64_t blobs = 0;
  const Root root = store.root();
  for (uint64_t i = 0; i < kKeys; ++i) {
    const Seen seen = look_up(store.memory.bytes(), root, "key" + std::to_string(i));
    ASSERT_EQ(seen.outcome, "found value");
    entries += seen.counts.entries;
    blobs += seen.counts.blobs;
  }
  const double average = static_cast<double>(entries) / static_cast<double>(kKeys);
  EXPECT_GT(average, 1.5);
  EXPECT_LT(average, 1.7);
  EXPECT_LE(blobs, entries);
  RecordProperty("entries_per_get", std::to_string(average));
}

TEST(Pilaf, a_client_of_an_old_root_learns_the_new_one) {
  LoopbackStore store(pilaf_row(), {.keys_max = 1'000, .keys_at_start = 10});
  const LoopbackStore::Peer late = store.connect(pilaf_row());
  for (int i = 0; i < 1'000; ++i) ASSERT_EQ(store.put(std::to_string(i), std::to_string(i)), Code::kOk);
  const auto& counts = dynamic_cast<PilafClient&>(*late.client).counts();
  for (int i = 0; i < 1'000; ++i) {
    std::string value;
    StringSink sink(value);
    ASSERT_TRUE(
        runtime::block_on(store.shard(), late.client->get(bytes_of(std::to_string(i)), sink, 0)).has_value());
    ASSERT_EQ(value, std::to_string(i));
  }
  EXPECT_EQ(counts.moved, 1u) << "one that learnt the root while the table grew would have learnt it often";
  std::string value;
  StringSink sink(value);
  EXPECT_EQ(runtime::block_on(store.shard(), late.client->get(bytes_of("absent"), sink, 0)).code(),
            Code::kNotFound);
}

// All three places of many keys the same: what a client that knows the seed can bring about.
TEST(Pilaf, keys_chosen_to_collide_are_refused_and_hurt_no_others) {
  Store store({.keys_max = 100, .keys_at_start = 10, .key_bytes_max = 16, .value_bytes_max = 8});
  const Root root = store.root();
  std::vector<std::string> crowd;
  for (int i = 0; crowd.size() < 8; ++i) {
    const std::string key = std::to_string(i);
    bool is_low = true;
    // In the larger tables too: the place is the hash's share of the table.
    for (const uint64_t index : places_of(bytes_of(key), root).index) is_low = is_low && index < 2;
    if (is_low) crowd.push_back(key);
  }
  int refused = 0;
  for (const std::string& key : crowd) {
    const Code code = store.put(key, "value");
    ASSERT_TRUE(code == Code::kOk || code == Code::kNoSpace);
    refused += code == Code::kNoSpace ? 1 : 0;
    ASSERT_EQ(store.table.contradiction(), std::nullopt);
  }
  for (int i = 0; i < 5; ++i) ASSERT_EQ(store.put("other" + std::to_string(i), "value"), Code::kOk);
  EXPECT_EQ(store.table.contradiction(), std::nullopt);
  EXPECT_EQ(store.table.key_count(), 5 + crowd.size() - static_cast<size_t>(refused));
}

TEST(Pilaf, calls_that_make_no_sense_are_refused_and_change_nothing) {
  LoopbackStore store(pilaf_row(), {.keys_max = 10, .key_bytes_max = 8, .value_bytes_max = 8});
  ASSERT_EQ(store.put("key", "value"), Code::kOk);
  const LoopbackStore::Peer peer = store.connect(pilaf_row());
  const auto call = [&](uint16_t method, const BlobHeader& header, std::string_view body) {
    return peer.session
        ->call_and_wait(
            {.method = method, .head = std::as_bytes(std::span(&header, 1)), .tail = bytes_of(body)},
            store.shard().refresh_now() + kSecond_ns)
        .code;
  };
  EXPECT_EQ(call(kMethodPut, {.key_bytes = 3, .value_bytes = 4}, "key"), Code::kMalformed);
  EXPECT_EQ(call(kMethodPut, {.key_bytes = 3, .value_bytes = 0}, "keyv"), Code::kMalformed);
  EXPECT_EQ(call(kMethodPut, {.key_bytes = UINT32_MAX, .value_bytes = 4}, "key"), Code::kMalformed);
  EXPECT_EQ(call(kMethodPut, {.key_bytes = 0, .value_bytes = 3}, "key"), Code::kInvalidArgument);
  EXPECT_EQ(call(kMethodPut, {.key_bytes = 9, .value_bytes = 0}, "key456789"), Code::kTooLarge);
  EXPECT_EQ(call(kMethodPut, {.key_bytes = 1, .value_bytes = 9}, "k123456789"), Code::kTooLarge);
  EXPECT_EQ(call(kMethodErase, {.key_bytes = 2, .value_bytes = 1}, "key"), Code::kMalformed);
  EXPECT_EQ(call(kMethodErase, {.key_bytes = 0, .value_bytes = 0}, ""), Code::kNotFound);
  EXPECT_EQ(call(0x3ff, {.key_bytes = 0, .value_bytes = 0}, ""), Code::kUnsupported);
  EXPECT_EQ(peer.session->call_and_wait({.method = kMethodPut}, store.shard().now_ns() + kSecond_ns).code,
            Code::kMalformed);
  EXPECT_EQ(store.get("key").value, "value");
  EXPECT_EQ(store.server().contradiction(), std::nullopt);
}

TEST(Pilaf, random_changes_leave_nothing_behind) {
  Store store({.keys_max = 200, .key_bytes_max = 16, .value_bytes_max = 700});
  Prng prng(3);
  for (int step = 0; step < 20'000; ++step) {
    const std::string key = std::to_string(prng.below(250));
    if (prng.below(3) == 0) {
      (void)store.table.erase(bytes_of(key));
    } else {
      (void)store.put(key, patterned(prng.below(701), prng.next()));
    }
    if (step % 500 == 0) {
      ASSERT_EQ(store.table.contradiction(), std::nullopt) << step;
    }
  }
  for (int i = 0; i < 250; ++i) (void)store.table.erase(bytes_of(std::to_string(i)));
  EXPECT_EQ(store.table.key_count(), 0u);
  EXPECT_EQ(store.table.contradiction(), std::nullopt);
}

// The example of docs/formats/pilaf.md, read from that page.
TEST(PilafLayout, the_page_shows_the_bytes) {
  Store store({.keys_max = 12, .key_bytes_max = 16, .value_bytes_max = 64});
  ASSERT_EQ(store.put("user:7", "Ada"), Code::kOk);
  const auto memory = store.memory.bytes();
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/pilaf.md");
  EXPECT_EQ(lines.size(), 8U + 5 + 3);
  // The other entries are free, with a sequence and a CRC of their own.
  for (const golden::Line& line : lines) {
    ASSERT_LE(line.offset + line.bytes.size(), memory.size());
    const auto stored = memory.subspan(line.offset, line.bytes.size());
    ASSERT_TRUE(std::ranges::equal(stored, line.bytes)) << std::hex << line.offset;
  }
}

}  // namespace
}  // namespace refract::kv::pilaf
