// SPDX-License-Identifier: Apache-2.0
// PRISM-KV's claims: its round trips, what becomes of buffers when clients die or lie, and that no chain
// damages the store.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/testing/golden.h"
#include "refract/kv/designs/prism/client.h"
#include "refract/kv/designs/prism/server.h"
#include "refract/kv/designs/test_store.h"
#include "refract/prism/chain.h"
#include "refract/prism/snic/run.h"

namespace refract::kv::prism_kv {
namespace {

using designs::Capacity;
using designs::LoopbackStore;
using test::bytes_of;

const designs::Design& prism_row() {
  return *designs::find("prism");
}

constexpr Capacity kSmall = {
    .keys_max = 20, .key_bytes_max = 16, .value_bytes_min = 64, .value_bytes_max = 64, .spare_values = 4};

// A store, and chains by hand beside its client.
struct Served {
  explicit Served(const Capacity& capacity = kSmall) : store(prism_row(), capacity) {
    std::memcpy(&root, store.memory().data(), sizeof(root));
  }
  [[nodiscard]] PrismKvServer& server() { return dynamic_cast<PrismKvServer&>(store.server()); }
  [[nodiscard]] PrismKvClient& client() { return dynamic_cast<PrismKvClient&>(store.client()); }
  [[nodiscard]] Slot slot_of(std::string_view key) {
    Slot slot;
    std::memcpy(&slot, store.memory().data() + slot_at(root, home_of(bytes_of(key), root)), sizeof(slot));
    return slot;
  }
  // Keys whose hashes name the same slot.
  [[nodiscard]] std::vector<std::string> crowd(size_t count) const {
    std::vector<std::string> keys;
    for (int i = 0; keys.size() < count; ++i) {
      const std::string key = "key" + std::to_string(i);
      if (keys.empty() || home_of(bytes_of(key), root) == home_of(bytes_of(keys[0]), root)) {
        keys.push_back(key);
      }
    }
    return keys;
  }
  [[nodiscard]] Code report(std::vector<uint64_t> pointers) {
    return peer.session
        ->call_and_wait({.method = kMethodReport, .head = std::as_bytes(std::span(pointers))},
                        store.shard().refresh_now() + kSecond_ns)
        .code;
  }
  // What is not needed, and was not reported.
  [[nodiscard]] uint64_t lost_buffers() {
    const designs::Server::Facts facts = store.server().facts();
    return facts.buffers - facts.free_buffers - facts.used_buffers;
  }
  void pass() {
    for (const uint64_t end = server().counts().passes + 1; server().counts().passes < end;) {
      server().keep_house();
    }
  }

  LoopbackStore store;
  Root root{};
  LoopbackStore::Peer peer = store.connect(prism_row());
};

TEST(PrismKv, a_get_is_one_round_trip_and_a_put_or_erase_is_two) {
  Served served;
  (void)served.store.take_counts();
  const auto expect_round_trips = [&](uint64_t count, const char* what) {
    const auto counts = served.store.take_counts();
    EXPECT_EQ(counts.round_trips, count) << what;
    EXPECT_EQ(counts.requests_of(fabric::Op::kSend), count) << what;
  };
  EXPECT_EQ(served.store.get("key").code, Code::kNotFound);
  expect_round_trips(1, "get of what is not there");
  ASSERT_EQ(served.store.put("key", "value"), Code::kOk);
  expect_round_trips(2, "first put");
  ASSERT_EQ(served.store.put("key", "another"), Code::kOk);
  expect_round_trips(2, "second put");
  ASSERT_EQ(served.store.get("key").value, "another");
  expect_round_trips(1, "get");
  ASSERT_EQ(served.store.erase("key"), Code::kOk);
  expect_round_trips(2, "erase");
  ASSERT_EQ(served.store.get("key").code, Code::kNotFound);
  expect_round_trips(1, "get of a tombstone");
  ASSERT_EQ(served.store.erase("key"), Code::kNotFound);
  expect_round_trips(1, "erase of a tombstone");
}

TEST(PrismKv, a_get_brings_the_item_and_no_more) {
  Served served;
  ASSERT_EQ(served.store.put("key", "value"), Code::kOk);
  (void)served.store.take_counts();
  ASSERT_EQ(served.store.get("key").value, "value");
  // The reply's header, an outcome, and the item, which the bound cuts off.
  EXPECT_EQ(served.store.take_counts().bytes_received, 16 + 8 + prism::padded(sizeof(ItemHeader) + 3 + 5));
}

TEST(PrismKv, a_key_that_stands_further_on_costs_a_round_trip_a_slot) {
  Served served;
  const std::vector<std::string> keys = served.crowd(3);
  for (const std::string& key : keys) ASSERT_EQ(served.store.put(key, key), Code::kOk);
  (void)served.store.take_counts();
  ASSERT_EQ(served.store.get(keys[2]).value, keys[2]);
  EXPECT_EQ(served.store.take_counts().round_trips, 3u);
  ASSERT_EQ(served.store.put(keys[2], "new"), Code::kOk);
  EXPECT_EQ(served.store.take_counts().round_trips, 4u);
  // The slot of an erased key stays that key's, so that those behind it are found.
  ASSERT_EQ(served.store.erase(keys[0]), Code::kOk);
  EXPECT_EQ(served.store.get(keys[2]).value, "new");
  ASSERT_EQ(served.store.put(keys[0], "again"), Code::kOk);
  EXPECT_EQ(served.store.get(keys[0]).value, "again");
  EXPECT_EQ(served.store.server().contradiction(), std::nullopt);
}

// Between a put's two round trips its slot's buffer is freed, taken by another put and swapped into the very
// same slot. The pointer is the same then, the generation is not.
TEST(PrismKv, a_swap_from_before_a_buffer_came_back_to_its_slot_fails) {
  Served served(
      {.keys_max = 1, .key_bytes_max = 16, .value_bytes_min = 64, .value_bytes_max = 64, .spare_values = 1});
  ASSERT_EQ(served.store.put("key", "first"), Code::kOk);
  const Slot seen = served.slot_of("key");
  for (const std::string_view value : {"second", "third"}) {
    ASSERT_EQ(served.store.put("key", value), Code::kOk);
    ASSERT_EQ(served.store.settle(), Code::kOk);
  }
  const Slot now = served.slot_of("key");
  ASSERT_EQ(now.pointer, seen.pointer) << "with two buffers the third put takes the first one's";
  ASSERT_NE(now, seen);
  prism::Client chains(*served.peer.session);
  const Result<prism::Attachment> attached =
      chains.attach_and_wait(kStoreName, PrismKvServer::kRights, served.store.shard().now_ns() + kSecond_ns);
  ASSERT_TRUE(attached.has_value());
  std::array<std::byte, 512> buffer;
  prism::Chain chain(buffer);
  chain.compare_swap({.address = attached->at(slot_at(served.root, home_of(bytes_of("key"), served.root))),
                      .key = attached->key,
                      .bytes = sizeof(Slot),
                      .compare = prism::Operand::of(std::as_bytes(std::span(&seen, 1))),
                      .swap = prism::Operand::of(std::as_bytes(std::span(&seen, 1)))});
  const Result<prism::Reply> reply = chains.run_and_wait(chain, served.store.shard().now_ns() + kSecond_ns);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code(0), Code::kCompareFailed);
  EXPECT_EQ(served.store.get("key").value, "third");
}

TEST(PrismKv, what_a_put_replaced_goes_back_when_it_has_been_reported) {
  Served served;
  for (int i = 0; i < 10; ++i) ASSERT_EQ(served.store.put("key", std::to_string(i)), Code::kOk);
  EXPECT_EQ(served.lost_buffers(), 9u) << "reports wait for more of them";
  ASSERT_EQ(served.store.settle(), Code::kOk);
  EXPECT_EQ(served.lost_buffers(), 0u);
  EXPECT_EQ(served.server().counts().reported, 9u);
  EXPECT_EQ(served.server().counts().swept, 0u);
}

TEST(PrismKv, a_client_with_many_puts_reports_by_itself) {
  Served served({.keys_max = 10,
                 .key_bytes_max = 16,
                 .value_bytes_min = 64,
                 .value_bytes_max = 64,
                 .spare_values = 40});
  for (int i = 0; i < 1'000; ++i) ASSERT_EQ(served.store.put("key", std::to_string(i)), Code::kOk);
  EXPECT_GT(served.client().counts().reports, 20u);
  EXPECT_LT(served.client().counts().reports, 100u);
  EXPECT_LT(served.lost_buffers(), 20u);
}

TEST(PrismKv, a_put_that_finds_no_buffer_reports_its_own_and_goes_on) {
  Served served(
      {.keys_max = 2, .key_bytes_max = 8, .value_bytes_min = 64, .value_bytes_max = 64, .spare_values = 1});
  for (int i = 0; i < 50; ++i) ASSERT_EQ(served.store.put("key", std::to_string(i)), Code::kOk) << i;
  EXPECT_EQ(served.store.get("key").value, "49");
}

// The ways in which a client that dies leaves a buffer behind: with reports not sent, and with a chain whose
// answer it did not live to see: a swap that failed, and one that succeeded.
TEST(PrismKv, what_dead_clients_left_behind_is_swept_after_two_passes) {
  Served served;
  LoopbackStore::Peer victim = served.store.connect(prism_row());
  const auto put = [&](std::string_view key, std::string_view value) {
    return runtime::block_on(served.store.shard(), victim.client->put(bytes_of(key), bytes_of(value), 0))
        .code();
  };
  for (int i = 0; i < 5; ++i) ASSERT_EQ(put("key", std::to_string(i)), Code::kOk);
  EXPECT_EQ(served.lost_buffers(), 4u);
  victim.session.reset();
  served.pass();
  EXPECT_EQ(served.lost_buffers(), 4u) << "they may still be reported";
  served.pass();
  EXPECT_EQ(served.lost_buffers(), 0u);
  EXPECT_EQ(served.server().counts().swept, 4u);

  // Chains without a client that waits for them.
  prism::Client chains(*served.peer.session);
  const uint64_t deadline_ns = served.store.shard().refresh_now() + kSecond_ns;
  const Result<prism::Attachment> at =
      chains.attach_and_wait(kStoreName, PrismKvServer::kRights, deadline_ns);
  ASSERT_TRUE(at.has_value());
  for (const bool succeeds : {false, true}) {
    Slot slot = served.slot_of("key");
    if (!succeeds) ++slot.generation;
    std::array<std::byte, 1024> buffer;
    prism::Chain chain(buffer);
    const std::array<uint64_t, 2> behind = {sizeof(ItemHeader) + 3 + 4, slot.generation + 1};
    const std::string item = std::string("\3\0\0\0\4\0\0\0", 8) + "keydead";
    chain.write(prism::scratch(8), {}, std::as_bytes(std::span(behind)));
    chain.allocate(at->at(1), at->key, bytes_of(item)).redirect(0).conditional();
    chain
        .compare_swap({.address = at->at(slot_at(served.root, home_of(bytes_of("key"), served.root))),
                       .key = at->key,
                       .bytes = sizeof(Slot),
                       .compare = prism::Operand::of(std::as_bytes(std::span(&slot, 1))),
                       .swap = prism::Operand::at(prism::scratch(0))})
        .conditional();
    const Result<prism::Reply> reply = chains.run_and_wait(chain, deadline_ns);
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->code(2), succeeds ? Code::kOk : Code::kCompareFailed);
    EXPECT_EQ(served.lost_buffers(), 1u);
    served.pass();
    served.pass();
    EXPECT_EQ(served.lost_buffers(), 0u);
    EXPECT_EQ(served.store.get("key").value, succeeds ? "dead" : "4");
  }
  EXPECT_EQ(served.store.server().contradiction(), std::nullopt);
}

TEST(PrismKv, a_report_that_is_false_doubled_or_late_frees_nobodys_item) {
  Served served;
  ASSERT_EQ(served.store.put("key", "first"), Code::kOk);
  const Slot first = served.slot_of("key");
  EXPECT_EQ(served.report({first.pointer}), Code::kOk);
  EXPECT_EQ(served.server().counts().refused, 1u) << "a slot leads there";
  ASSERT_EQ(served.store.put("key", "second"), Code::kOk);
  EXPECT_EQ(served.report({first.pointer, first.pointer}), Code::kOk);
  EXPECT_EQ(served.server().counts().reported, 1u);
  EXPECT_EQ(served.server().counts().refused, 2u) << "the second time";
  // The client's own report of it is late: by now the buffer may hold another item.
  for (int i = 0; i < 30; ++i) ASSERT_EQ(served.store.put("key" + std::to_string(i % 10), "v"), Code::kOk);
  ASSERT_EQ(served.store.settle(), Code::kOk);
  EXPECT_EQ(served.report({0, 1, UINT64_MAX, RemotePointer::at(1, 8).bits, RemotePointer::at(2, 0).bits}),
            Code::kOk);
  EXPECT_EQ(served.report(std::vector<uint64_t>(kReportsMax + 1)), Code::kMalformed);
  EXPECT_EQ(served.peer.session
                ->call_and_wait({.method = kMethodReport, .head = bytes_of("123")},
                                served.store.shard().now_ns() + kSecond_ns)
                .code,
            Code::kMalformed);
  EXPECT_EQ(served.store.get("key").value, "second");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(served.store.get("key" + std::to_string(i)).value, "v");
  EXPECT_EQ(served.store.server().contradiction(), std::nullopt);
  EXPECT_EQ(served.lost_buffers(), 0u);
}

TEST(PrismKv, no_report_frees_a_buffer_while_a_chain_is_under_way) {
  Served served;
  ASSERT_EQ(served.store.put("key", "first"), Code::kOk);
  const Slot first = served.slot_of("key");
  ASSERT_EQ(served.store.put("key", "second"), Code::kOk);
  prism::snic::Connection connection;
  ASSERT_TRUE(
      connection.add({.key = {99}, .region = served.server().region(), .rights = PrismKvServer::kRights}));
  std::array<std::byte, 256> buffer;
  std::array<std::byte, 256> room;
  prism::Chain chain(buffer);
  chain.read(RemotePointer::at(served.server().region(), 0), {99}, 8);
  prism::snic::Run run(served.server().executor(), connection);
  ASSERT_TRUE(run.begin(*chain.finish(), room));
  ASSERT_EQ(served.report({first.pointer}), Code::kOk);
  EXPECT_EQ(served.server().counts().reported, 0u);
  served.server().keep_house();
  EXPECT_EQ(served.server().counts().reported, 0u);
  (void)run.end();
  served.server().keep_house();
  EXPECT_EQ(served.server().counts().reported, 1u);
}

TEST(PrismKv, chains_change_slots_and_nothing_else) {
  Served served;
  ASSERT_EQ(served.store.put("key", "value"), Code::kOk);
  prism::Client chains(*served.peer.session);
  const uint64_t deadline_ns = served.store.shard().refresh_now() + kSecond_ns;
  const Result<prism::Attachment> at =
      chains.attach_and_wait(kStoreName, PrismKvServer::kRights, deadline_ns);
  ASSERT_TRUE(at.has_value());
  EXPECT_EQ(chains.attach_and_wait(kStoreName, {prism::ChainRights::kWrite}, deadline_ns).code(),
            Code::kAccessDenied);
  const auto image =
      std::string(reinterpret_cast<const char*>(served.store.memory().data()), served.store.memory().size());
  const Slot there = served.slot_of("key");
  const uint64_t slot = slot_at(served.root, home_of(bytes_of("key"), served.root));
  struct Attempt {
    uint64_t at;
    uint32_t bytes;
    Slot compare;
    Slot swap;
  };
  const Slot nowhere = {.pointer = RemotePointer::at(served.server().region(), 64).bits, .bound = 8};
  Slot elsewhere = there;
  elsewhere.pointer = RemotePointer::at(2, RemotePointer{there.pointer}.offset()).bits;
  Slot root_start;
  std::memcpy(&root_start, served.store.memory().data(), sizeof(Slot));
  Slot shifted;
  std::memcpy(&shifted, served.store.memory().data() + slot + 8, sizeof(Slot));
  for (const Attempt& attempt : {Attempt{.at = slot, .bytes = 24, .compare = there, .swap = nowhere},
                                 Attempt{.at = slot, .bytes = 24, .compare = there, .swap = elsewhere},
                                 Attempt{.at = slot, .bytes = 24, .compare = there, .swap = {}},
                                 Attempt{.at = slot, .bytes = 8, .compare = there, .swap = nowhere},
                                 Attempt{.at = slot + 8, .bytes = 24, .compare = shifted, .swap = there},
                                 Attempt{.at = 0, .bytes = 24, .compare = root_start, .swap = there}}) {
    std::array<std::byte, 512> buffer;
    prism::Chain chain(buffer);
    chain.compare_swap({.address = at->at(attempt.at),
                        .key = at->key,
                        .bytes = attempt.bytes,
                        .compare = prism::Operand::of(std::as_bytes(std::span(&attempt.compare, 1))),
                        .swap = prism::Operand::of(std::as_bytes(std::span(&attempt.swap, 1)))});
    chain.write(at->at(attempt.at), at->key, bytes_of("12345678"));
    const Result<prism::Reply> reply = chains.run_and_wait(chain, deadline_ns);
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->code(0), Code::kAccessDenied) << attempt.at << " " << attempt.bytes;
    EXPECT_EQ(reply->code(1), Code::kAccessDenied);
  }
  EXPECT_TRUE(std::memcmp(image.data(), served.store.memory().data(), image.size()) == 0);
  EXPECT_EQ(served.store.get("key").value, "value");
}

TEST(PrismKv, items_longer_than_an_operation_carries_are_refused_at_the_start) {
  runtime::Shard shard(system_clock());
  fabric::LoopbackHub hub;
  fabric::LoopbackDomain domain(hub, "server");
  const auto server = make_server({.shard = shard,
                                   .domain = domain,
                                   .memory = {},
                                   .capacity = {.keys_max = 1, .value_bytes_max = 64 * 1024}});
  ASSERT_FALSE(server.has_value());
  EXPECT_EQ(server.error().code, Code::kTooLarge);
  EXPECT_NE(server.error().to_string().find("shorter values"), std::string::npos);
}

TEST(PrismKvLayout, buffers_grow_by_powers_of_two_up_to_the_longest_item) {
  const Root root = root_for({.keys_max = 100, .key_bytes_max = 8, .value_bytes_max = 512}, 1);
  ASSERT_EQ(root.list_count, 6u);
  EXPECT_EQ(root.buffer_bytes[0], 16u) << "tombstones";
  EXPECT_EQ(root.buffer_bytes[1], 64u);
  EXPECT_EQ(root.buffer_bytes[4], 512u);
  EXPECT_EQ(root.buffer_bytes[5], 576u);
  EXPECT_EQ(root.slot_count, 256u);
  for (uint64_t bytes = 9; bytes <= item_bytes_max(root); ++bytes) {
    const uint64_t list = list_for(root, bytes);
    EXPECT_GE(root.buffer_bytes[list], bytes);
    EXPECT_TRUE(list == 1 || root.buffer_bytes[list - 1] < bytes);
  }
  const Root one =
      root_for({.keys_max = 100, .key_bytes_max = 8, .value_bytes_min = 512, .value_bytes_max = 512}, 1);
  EXPECT_EQ(one.list_count, 2u) << "values of one length need one list";
}

// The example of docs/formats/prism-kv.md, read from that page.
TEST(PrismKvLayout, the_page_shows_the_bytes) {
  Served served({.keys_max = 8, .key_bytes_max = 16, .value_bytes_max = 64, .spare_values = 2});
  ASSERT_EQ(served.store.put("user:7", "Ada"), Code::kOk);
  ASSERT_EQ(served.store.put("lease", "held"), Code::kOk);
  ASSERT_EQ(served.store.erase("lease"), Code::kOk);
  const auto memory = served.store.memory();
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/prism-kv.md");
  EXPECT_GT(lines.size(), 10U);
  const std::vector<std::byte> image = golden::image_of(lines, memory.size());
  for (size_t i = 0; i < image.size(); ++i) ASSERT_EQ(image[i], memory[i]) << std::hex << i;
}

}  // namespace
}  // namespace refract::kv::prism_kv
