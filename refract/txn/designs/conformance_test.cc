// SPDX-License-Identifier: Apache-2.0
// What every published protocol promises of one transaction at a time (design.h), and that it takes the round
// trips that its row says: on a simulated network whose one delay is the only thing that takes time.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "refract/txn/designs/test_sim_store.h"

namespace refract::txn::designs {
namespace {

constexpr Capacity kCapacity = {.keys_max = 40, .key_bytes_max = 40, .value_bytes_max = 700};
constexpr size_t kServers = 3;
constexpr uint64_t kDelay_ns = 10'000;

// The same length for every seed, and no two alike.
std::string patterned(size_t length, uint64_t seed) {
  std::string text(length, '\0');
  for (size_t i = 0; i < length; ++i) text[i] = static_cast<char>('a' + mix(seed + i) % 26);
  return text;
}

class Store {
 public:
  explicit Store(const Design& design, size_t servers = kServers)
      : world_({.seed = 3,
                .link = {.delay_ns = kDelay_ns, .jitter_ns = 0, .tail_chance = 0, .torn_chance = 0},
                .short_post_chance = 0,
                .poll_ns = 0}) {
    for (size_t i = 0; i < servers; ++i) {
      servers_.push_back(std::make_unique<SimServer>(world_, design, i, SimServer::Terms{kCapacity}));
      servers_.back()->host.install({});
    }
    host_ = &world_.add_host("client");
    process_ = &host_->emplace<SimClient>(*host_, design.make_client, servers);
  }
  [[nodiscard]] Result<> load(std::string_view key, std::string_view value) {
    return servers_[server_of(bytes_of(key), servers_.size())]->server().load(bytes_of(key), bytes_of(value));
  }
  [[nodiscard]] Client& client() {
    if (client_ == nullptr) client_ = runtime::block_on(host_->shard(), process_->connected(1));
    return *client_;
  }
  // What any of the tasks came to.
  template <typename T>
  [[nodiscard]] Code wait(runtime::Task<T> task) {
    return runtime::block_on(host_->shard(), std::move(task)).code();
  }
  [[nodiscard]] Code read(Transaction& transaction, const std::vector<std::string>& keys) {
    std::vector<Bytes> asked;
    for (const std::string& key : keys) asked.push_back(bytes_of(key));
    return wait(transaction.read(asked, 0));
  }
  [[nodiscard]] Code commit(Transaction& transaction) { return wait(transaction.commit(0)); }
  // By a transaction of its own.
  [[nodiscard]] std::string get(const std::string& key) {
    const std::unique_ptr<Transaction> transaction = client().begin();
    EXPECT_EQ(read(*transaction, {key}), Code::kOk) << key;
    std::string found = text_of(transaction->find(bytes_of(key))->found);
    EXPECT_EQ(commit(*transaction), Code::kOk) << key;
    return found;
  }
  [[nodiscard]] Code put(const std::string& key, std::string_view value) {
    const std::unique_ptr<Transaction> transaction = client().begin();
    const Code code = read(*transaction, {key});
    if (code != Code::kOk) return code;
    const Result<> written = transaction->write(bytes_of(key), bytes_of(value));
    return written ? commit(*transaction) : written.error().code;
  }
  [[nodiscard]] uint64_t now_ns() const noexcept { return world_.now_ns(); }
  // Messages and one-sided requests that have come to servers.
  [[nodiscard]] uint64_t arrivals() const {
    uint64_t all = 0;
    for (const auto& server : servers_) all += server->host.machine()->facts().arrivals;
    return all;
  }
  void expect_sound(uint64_t keys) {
    uint64_t all = 0;
    for (const auto& server : servers_) {
      EXPECT_EQ(server->server().contradiction(), std::nullopt);
      const Server::Facts facts = server->server().facts();
      EXPECT_EQ(facts.held_keys, 0U);
      all += facts.keys;
    }
    EXPECT_EQ(all, keys);
  }

 private:
  sim::World world_;
  std::vector<std::unique_ptr<SimServer>> servers_;
  sim::Host* host_ = nullptr;
  SimClient* process_ = nullptr;
  Client* client_ = nullptr;
};

struct Row {
  const Design* design = nullptr;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.design->name;
}

class TxnDesignConformance : public testing::TestWithParam<Row> {
 protected:
  void load(const std::vector<std::string>& keys) {
    for (const std::string& key : keys) ASSERT_EQ(store_.load(key, "of " + key).code(), Code::kOk) << key;
  }
  // How long it takes, in round trips of the network.
  template <typename F>
  [[nodiscard]] double round_trips(F what) {
    const uint64_t began_ns = store_.now_ns();
    what();
    return static_cast<double>(store_.now_ns() - began_ns) / (2.0 * kDelay_ns);
  }
  Store store_{*GetParam().design};
};

TEST_P(TxnDesignConformance, values_of_every_length_come_back_as_they_were_written) {
  load({"key", "other"});
  for (size_t length = 0; length <= kCapacity.value_bytes_max; length += length < 140 ? 1 : 37) {
    ASSERT_EQ(store_.put("key", patterned(length, length)), Code::kOk) << length;
    ASSERT_EQ(store_.get("key"), patterned(length, length)) << length;
  }
  ASSERT_EQ(store_.put("key", patterned(kCapacity.value_bytes_max, 1)), Code::kOk);
  EXPECT_EQ(store_.put("key", patterned(kCapacity.value_bytes_max + 1, 2)), Code::kTooLarge);
  EXPECT_EQ(store_.get("key"), patterned(kCapacity.value_bytes_max, 1));
  EXPECT_EQ(store_.get("other"), "of other");
  store_.expect_sound(2);
}

TEST_P(TxnDesignConformance, every_key_that_a_server_has_room_for_is_found) {
  Store store(*GetParam().design, 1);
  for (uint64_t i = 0; i < kCapacity.keys_max; ++i) {
    ASSERT_EQ(store.load(patterned(1 + i, i), patterned(kCapacity.value_bytes_max, i)).code(), Code::kOk);
  }
  EXPECT_EQ(store.load("one more", "").code(), Code::kNoSpace);
  EXPECT_EQ(store.load("", "").code(), Code::kInvalidArgument);
  EXPECT_EQ(store.load(patterned(kCapacity.key_bytes_max + 1, 1), "").code(), Code::kTooLarge);
  for (uint64_t i = 0; i < kCapacity.keys_max; ++i) {
    ASSERT_EQ(store.get(patterned(1 + i, i)), patterned(kCapacity.value_bytes_max, i));
    ASSERT_EQ(store.put(patterned(1 + i, i), patterned(kCapacity.value_bytes_max, i + 1)), Code::kOk);
    ASSERT_EQ(store.get(patterned(1 + i, i)), patterned(kCapacity.value_bytes_max, i + 1));
  }
  EXPECT_EQ(store.put("absent", ""), Code::kNotFound);
  store.expect_sound(kCapacity.keys_max);
}

TEST_P(TxnDesignConformance, a_key_is_loaded_once) {
  load({"key"});
  EXPECT_EQ(store_.load("key", "again").code(), Code::kExists);
  EXPECT_EQ(store_.get("key"), "of key");
}

TEST_P(TxnDesignConformance, what_is_asked_wrongly_is_refused) {
  load({"key", "other"});
  const std::unique_ptr<Transaction> transaction = store_.client().begin();
  EXPECT_EQ(transaction->write(bytes_of("key"), bytes_of("blind")).code(), Code::kInvalidArgument);
  ASSERT_EQ(store_.read(*transaction, {"key"}), Code::kOk);
  EXPECT_EQ(transaction->find(bytes_of("other")), nullptr);
  EXPECT_EQ(transaction->write(bytes_of("other"), bytes_of("blind")).code(), Code::kInvalidArgument);
  EXPECT_EQ(store_.read(*transaction, {""}), Code::kInvalidArgument);
  std::vector<std::string> too_many;
  for (size_t i = 0; i <= kKeysMax; ++i) too_many.push_back("key" + std::to_string(i));
  EXPECT_EQ(store_.read(*store_.client().begin(), too_many), Code::kTooLarge);
  EXPECT_EQ(store_.get("key"), "of key");
  store_.expect_sound(2);
}

TEST_P(TxnDesignConformance, a_transaction_changes_all_its_keys_or_none) {
  const std::vector<std::string> keys = {"a", "b", "c", "d", "e", "f"};
  load(keys);
  const std::unique_ptr<Transaction> first = store_.client().begin();
  const std::unique_ptr<Transaction> second = store_.client().begin();
  ASSERT_EQ(store_.read(*first, keys), Code::kOk);
  ASSERT_EQ(store_.read(*second, {"f", "a"}), Code::kOk);
  for (const std::string& key : keys) {
    ASSERT_TRUE(first->write(bytes_of(key), bytes_of("first " + key)).has_value());
  }
  ASSERT_TRUE(second->write(bytes_of("a"), bytes_of("second")).has_value());
  EXPECT_EQ(store_.commit(*first), Code::kOk);
  EXPECT_EQ(store_.commit(*second), Code::kConflict) << "what it read has changed since";
  for (const std::string& key : keys) EXPECT_EQ(store_.get(key), "first " + key);
  EXPECT_GT(first->find(bytes_of("a"))->written_version, first->find(bytes_of("a"))->version);
  store_.expect_sound(keys.size());
}

TEST_P(TxnDesignConformance, reads_of_several_keys_that_changed_between_them_are_refused) {
  load({"x", "y"});
  const std::unique_ptr<Transaction> reader = store_.client().begin();
  ASSERT_EQ(store_.read(*reader, {"x"}), Code::kOk);
  ASSERT_EQ(store_.put("x", "new"), Code::kOk);
  ASSERT_EQ(store_.put("y", "new"), Code::kOk);
  ASSERT_EQ(store_.read(*reader, {"y"}), Code::kOk);
  EXPECT_EQ(store_.commit(*reader), Code::kConflict);
}

// Over all servers and keys together: what a step has to ask, it asks side by side.
TEST_P(TxnDesignConformance, it_takes_the_round_trips_that_the_row_says) {
  std::vector<std::string> keys;
  for (int i = 0; i < 6; ++i) keys.push_back("key" + std::to_string(i));
  load(keys);
  (void)store_.client();
  const Design::RoundTrips& row = GetParam().design->round_trips;
  for (const bool writes : {true, false}) {
    const std::unique_ptr<Transaction> transaction = store_.client().begin();
    EXPECT_NEAR(round_trips([&] { ASSERT_EQ(store_.read(*transaction, keys), Code::kOk); }), row.read, 0.05);
    EXPECT_NEAR(round_trips([&] { ASSERT_EQ(store_.read(*transaction, keys), Code::kOk); }), 0, 0.05)
        << "what has been read is known";
    for (const std::string& key : keys) {
      if (!writes) continue;
      ASSERT_TRUE(transaction->write(bytes_of(key), bytes_of("new")).has_value());
    }
    EXPECT_NEAR(round_trips([&] { ASSERT_EQ(store_.commit(*transaction), Code::kOk); }),
                writes ? row.commit_of_writes : row.commit_of_reads, 0.05);
  }
}

TEST_P(TxnDesignConformance, a_server_is_asked_as_often_as_the_row_says) {
  load({"key"});
  (void)store_.client();
  const Design::RoundTrips& row = GetParam().design->round_trips;
  const uint64_t before = store_.arrivals();
  ASSERT_EQ(store_.put("key", "new"), Code::kOk);
  EXPECT_EQ(store_.arrivals() - before, row.read + row.commit_of_writes);
}

std::vector<Row> rows() {
  std::vector<Row> rows;
  for (const Design& design : all()) rows.push_back({.design = &design});
  return rows;
}

INSTANTIATE_TEST_SUITE_P(All, TxnDesignConformance, testing::ValuesIn(rows()), [](const auto& row) {
  std::string name(row.param.design->name);
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(TxnDesigns, each_is_found_by_its_name) {
  for (const Design& design : all()) {
    EXPECT_EQ(find(design.name), &design);
    EXPECT_FALSE(design.paper.empty());
  }
  EXPECT_EQ(find("none"), nullptr);
}

}  // namespace
}  // namespace refract::txn::designs
