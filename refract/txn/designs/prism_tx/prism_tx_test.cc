// SPDX-License-Identifier: Apache-2.0
// PRISM-TX's claims: how it lies in memory, what timestamps are, that no chain damages a server, and that the
// clean-up frees what a client left, and nothing else.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/testing/golden.h"
#include "refract/prism/chain.h"
#include "refract/txn/designs/prism_tx/client.h"
#include "refract/txn/designs/prism_tx/server.h"
#include "refract/txn/designs/test_sim_store.h"

namespace refract::txn::prism_tx {
namespace {

using designs::Bytes;
using designs::bytes_of;
using designs::SimClient;
using designs::SimServer;
using designs::Transaction;

constexpr designs::Capacity kSmall = {
    .keys_max = 2, .key_bytes_max = 16, .value_bytes_max = 24, .spare_values = 2};
constexpr uint64_t kPatience_ns = 50 * kMillisecond_ns;

// One server with two keys, one client with a clock that stands where it is put, and chains by hand.
struct Served {
  Served() : server(world, *designs::find("prism-tx"), 0, terms()) {
    EXPECT_TRUE(prism().load(bytes_of("user:7"), bytes_of("Ada")).has_value());
    EXPECT_TRUE(prism().load(bytes_of("lease"), bytes_of("held")).has_value());
    std::memcpy(&root, server.memory().data(), sizeof(root));
    clock.set_now_ns(0x1000 * Timestamp::kTick_ns);
    EXPECT_TRUE(connection.add({.key = {77}, .region = 1, .rights = PrismTxServer::kRights}).has_value());
  }
  [[nodiscard]] static SimServer::Terms terms() {
    return {.capacity = kSmall, .patience_ns = kPatience_ns, .steps = false};
  }
  [[nodiscard]] PrismTxServer& prism() { return dynamic_cast<PrismTxServer&>(server.server()); }
  [[nodiscard]] designs::Client* connect(uint16_t number) {
    sim::Host& host = world.add_host("client" + std::to_string(hosts++));
    const auto make = [this](const designs::ClientParts& parts) {
      return make_client(
          {.sessions = parts.sessions, .shard = parts.shard, .clock = clock, .number = parts.number});
    };
    last_host = &host;
    return runtime::block_on(host.shard(), host.emplace<SimClient>(host, make, size_t{1}).connected(number));
  }
  [[nodiscard]] Code read(Transaction& transaction, std::string_view key) {
    const std::array<Bytes, 1> keys = {bytes_of(key)};
    return runtime::block_on(last_host->shard(), transaction.read(keys, 0)).code();
  }
  [[nodiscard]] Code put(designs::Client& client, std::string_view key, std::string_view value) {
    const std::unique_ptr<Transaction> transaction = client.begin();
    if (const Code code = read(*transaction, key); code != Code::kOk) return code;
    EXPECT_TRUE(transaction->write(bytes_of(key), bytes_of(value)).has_value());
    return runtime::block_on(last_host->shard(), transaction->commit(0)).code();
  }
  [[nodiscard]] uint64_t index_of(std::string_view key) {
    for (uint64_t index = home_of(bytes_of(key), root);; ++index) {
      const uint64_t item = RemotePointer{slot_at_index(index).pointer}.offset();
      const std::byte* bytes = server.memory().data() + item + sizeof(ItemHeader);
      if (std::memcmp(bytes, key.data(), key.size()) == 0) return index;
    }
  }
  [[nodiscard]] Slot slot_at_index(uint64_t index) {
    Slot slot;
    std::memcpy(&slot, server.memory().data() + slot_at(root, index), sizeof(slot));
    return slot;
  }
  // Of its one swap, or of the last operation.
  [[nodiscard]] Code execute(const prism::Chain& chain) {
    const auto message = chain.finish();
    std::array<std::byte, 1024> room{};
    const Result<size_t> bytes = prism().executor().execute(connection, *message, room);
    if (!bytes) return bytes.error().code;
    const auto reply = prism::Reply::of(std::span(room).first(*bytes), chain.operations());
    return reply->code(chain.operations() - 1);
  }
  // Word `word` of the key's slot becomes `value` if that is greater.
  [[nodiscard]] Code raise(std::string_view key, size_t word, uint64_t value) {
    std::array<std::byte, 512> buffer;
    prism::Chain chain(buffer);
    chain.compare_swap({.address = RemotePointer::at(1, slot_at(root, index_of(key)) + 8 * word),
                        .key = {77},
                        .comparison = prism::Comparison::kGreater,
                        .compare = prism::Operand::of(value),
                        .swap = prism::Operand::of(value)});
    return execute(chain);
  }
  void keep_house_for(uint64_t ns) {
    prism().keep_house();
    EXPECT_TRUE(world.run_for(ns));
    prism().keep_house();
  }

  sim::World world{{.seed = 1}};
  SimServer server;
  Root root{};
  ManualClock clock;
  prism::snic::Connection connection;
  sim::Host* last_host = nullptr;
  int hosts = 0;
};

TEST(PrismTx, a_store_lies_in_memory_as_its_page_shows) {
  Served served;
  designs::Client* client = served.connect(1);
  const std::unique_ptr<Transaction> transaction = client->begin();
  ASSERT_EQ(served.read(*transaction, "user:7"), Code::kOk);
  ASSERT_EQ(served.read(*transaction, "lease"), Code::kOk);
  ASSERT_TRUE(transaction->write(bytes_of("user:7"), bytes_of("Lovelace")).has_value());
  ASSERT_TRUE(runtime::block_on(served.last_host->shard(), transaction->commit(0)).has_value());
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/prism-tx.md");
  EXPECT_GT(lines.size(), 10U);
  const auto memory = served.server.memory();
  const std::vector<std::byte> image = golden::image_of(lines, memory.size());
  for (size_t i = 0; i < image.size(); ++i) ASSERT_EQ(image[i], memory[i]) << std::hex << i;
}

TEST(PrismTx, timestamps_grow_though_the_clock_stands_and_exceed_what_was_read) {
  Served served;
  designs::Client* one = served.connect(1);
  ASSERT_EQ(served.put(*one, "user:7", "1"), Code::kOk);
  const uint64_t first = served.slot_at_index(served.index_of("user:7")).committed;
  EXPECT_EQ(first, Timestamp::of(0x1000, 1).bits);
  ASSERT_EQ(served.put(*one, "user:7", "2"), Code::kOk);
  EXPECT_EQ(served.slot_at_index(served.index_of("user:7")).committed, Timestamp::of(0x1001, 1).bits);
  designs::Client* two = served.connect(2);
  served.clock.set_now_ns(0);
  ASSERT_EQ(served.put(*two, "user:7", "3"), Code::kOk);
  EXPECT_EQ(served.slot_at_index(served.index_of("user:7")).committed, Timestamp::of(0x1002, 2).bits);
  served.clock.set_now_ns(UINT64_MAX);
  EXPECT_EQ(served.put(*two, "user:7", "4"), Code::kInvalidArgument) << "such a time is no timestamp";
}

TEST(PrismTx, chains_raise_words_of_slots_in_their_clients_names_and_change_nothing_else) {
  Served served;
  (void)served.connect(1);
  const uint64_t own = Timestamp::of(0x2000, 1).bits;
  EXPECT_EQ(served.raise("lease", 0, Timestamp::of(0x2000, 2).bits), Code::kAccessDenied) << "no client";
  EXPECT_EQ(served.raise("lease", 2, own), Code::kAccessDenied) << "C is never above PW";
  EXPECT_EQ(served.raise("lease", 3, UINT64_MAX), Code::kAccessDenied) << "a pointer to nowhere";
  EXPECT_EQ(served.raise("lease", 0, own), Code::kOk);
  EXPECT_EQ(served.raise("lease", 1, own), Code::kOk);
  EXPECT_EQ(served.raise("lease", 2, own), Code::kOk);
  std::array<std::byte, 512> buffer;
  const RemotePointer lease = RemotePointer::at(1, slot_at(served.root, served.index_of("lease")));
  prism::Chain lower(buffer);
  lower.compare_swap({.address = lease,
                      .key = {77},
                      .comparison = prism::Comparison::kLess,
                      .compare = prism::Operand::of(kLoaded.bits),
                      .swap = prism::Operand::of(kLoaded.bits)});
  EXPECT_EQ(served.execute(lower), Code::kAccessDenied) << "no word becomes lower";
  prism::Chain root(buffer);
  root.compare_swap({.address = RemotePointer::at(1, 8),
                     .key = {77},
                     .compare = prism::Operand::of(served.root.slots),
                     .swap = prism::Operand::of(0)});
  EXPECT_EQ(served.execute(root), Code::kAccessDenied) << "the root is no slot";
  prism::Chain write(buffer);
  write.write(lease, {77}, std::as_bytes(std::span(&own, 1)));
  EXPECT_EQ(served.execute(write), Code::kAccessDenied);
  prism::Chain lost(buffer);
  lost.allocate(RemotePointer::at(1, 0), {77}, bytes_of("item")).redirect(8);
  EXPECT_EQ(served.execute(lost), Code::kAccessDenied) << "nothing would ever lead there";
  EXPECT_EQ(served.prism().contradiction(), std::nullopt);
}

// A buffer of another key, swapped in beside a greater C.
TEST(PrismTx, a_slot_leads_to_the_chains_own_buffer_alone) {
  Served served;
  (void)served.connect(1);
  const uint64_t own = Timestamp::of(0x2000, 1).bits;
  ASSERT_EQ(served.raise("lease", 0, own), Code::kOk);
  const std::array<uint64_t, 2> stolen = {own, served.slot_at_index(served.index_of("user:7")).pointer};
  std::array<std::byte, 512> buffer;
  prism::Chain chain(buffer);
  chain.compare_swap({.address = RemotePointer::at(1, slot_at(served.root, served.index_of("lease")) + 16),
                      .key = {77},
                      .bytes = 16,
                      .comparison = prism::Comparison::kGreater,
                      .compare = prism::Operand::of(std::as_bytes(std::span(stolen))),
                      .swap = prism::Operand::of(std::as_bytes(std::span(stolen)))});
  EXPECT_EQ(served.execute(chain), Code::kAccessDenied);
  EXPECT_EQ(served.prism().contradiction(), std::nullopt);
}

// Of any length, at any place, by any comparison, with timestamps and pointers that are there.
TEST(PrismTx, random_swaps_bring_no_disorder) {
  Served served;
  (void)served.connect(1);
  Prng prng(5);
  const std::array<uint64_t, 6> words = {0,
                                         kLoaded.bits,
                                         Timestamp::of(0x2000, 1).bits,
                                         Timestamp::of(0x3000, 2).bits,
                                         served.slot_at_index(served.index_of("lease")).pointer,
                                         UINT64_MAX};
  uint64_t swapped = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::array<uint64_t, 4> operand{};
    for (uint64_t& word : operand)
      word = prng.below(2) == 0 ? words[prng.below(6)] : Timestamp::of(prng.below(1 << 20), 1).bits;
    const uint64_t index = served.index_of(prng.below(2) == 0 ? "lease" : "user:7");
    const prism::Masks masks = {.compare = prism::Operand::of(prng.below(2) == 0 ? 0 : UINT64_MAX),
                                .swap = prism::Operand::of(std::as_bytes(std::span(operand)))};
    std::array<std::byte, 512> buffer;
    prism::Chain chain(buffer);
    chain.compare_swap({.address = RemotePointer::at(1, slot_at(served.root, index) + 8 * prng.below(5)),
                        .key = {77},
                        .bytes = static_cast<uint32_t>(8 * (1 + prng.below(4))),
                        .comparison = static_cast<prism::Comparison>(prng.below(3)),
                        .compare = prism::Operand::of(std::as_bytes(std::span(operand))),
                        .swap = prism::Operand::of(std::as_bytes(std::span(operand))),
                        .masks = prng.below(2) == 0 ? &masks : nullptr});
    swapped += served.execute(chain) == Code::kOk ? 1 : 0;
  }
  EXPECT_GT(swapped, 20U);
  EXPECT_EQ(served.prism().contradiction(), std::nullopt);
  EXPECT_EQ(served.prism().facts().keys, 2U);
}

TEST(PrismTx, a_key_that_is_held_for_too_long_is_freed_and_its_client_is_ended_first) {
  Served served;
  designs::Client* slow = served.connect(1);
  const uint64_t prepared = Timestamp::of(0x2000, 1).bits;
  ASSERT_EQ(served.raise("lease", 0, prepared), Code::kOk);
  served.keep_house_for(kPatience_ns / 2);
  EXPECT_EQ(served.prism().facts().held_keys, 1U);
  served.keep_house_for(kPatience_ns);
  EXPECT_EQ(served.prism().facts().held_keys, 0U);
  EXPECT_EQ(served.prism().facts().freed_keys, 1U);
  EXPECT_EQ(served.prism().facts().ended_clients, 1U);
  EXPECT_EQ(served.slot_at_index(served.index_of("lease")).committed, prepared);
  EXPECT_EQ(served.raise("lease", 0, prepared + (1 << 16)), Code::kAccessDenied) << "what comes late";
  EXPECT_NE(served.put(*slow, "user:7", "late"), Code::kOk) << "its session is closed";
  EXPECT_EQ(served.connect(1), nullptr) << "a number is used once";
  designs::Client* next = served.connect(2);
  EXPECT_EQ(served.put(*next, "lease", "free"), Code::kOk);
  EXPECT_EQ(served.prism().contradiction(), std::nullopt);
}

TEST(PrismTx, a_client_whose_host_is_gone_is_ended_when_its_session_closes) {
  Served served;
  (void)served.connect(1);
  ASSERT_EQ(served.raise("lease", 0, Timestamp::of(0x2000, 1).bits), Code::kOk);
  served.world.crash(*served.last_host);
  ASSERT_TRUE(served.world.run_for(25 * kMillisecond_ns));
  served.prism().keep_house();
  EXPECT_EQ(served.prism().facts().ended_clients, 1U);
  EXPECT_EQ(served.prism().facts().held_keys, 0U);
}

}  // namespace
}  // namespace refract::txn::prism_tx
