// SPDX-License-Identifier: Apache-2.0
// Batches and transactions against real nodes, by every way, from several threads, and beside kills.
#include "refract/client/transactions/transaction.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/client/async_client.h"
#include "refract/client/testing/test_node.h"

namespace refract::transaction_test {
namespace {

using test::needed;
using test::TestNode;

struct Way {
  std::string name;
  Paths paths = Paths::kAuto;
  bool tcp = false;
  std::string durability = "none";
  int shards = 1;
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class Transactions : public testing::TestWithParam<Way> {
 protected:
  static void TearDownTestSuite() {
    nodes_.clear();
    folders_.clear();
  }
  [[nodiscard]] static TestNode& node() {
    const std::string& durability = GetParam().durability;
    const std::string shards = std::to_string(GetParam().shards);
    std::unique_ptr<TestNode>& node = nodes_[durability + shards];
    if (node == nullptr) {
      std::vector<std::string> flags{"--listen-address", "127.0.0.1:0",
                                     "--memory-limit",   std::to_string(192 * GetParam().shards) + "MiB",
                                     "--server-shards",  shards};
      if (durability != "none") {
        const std::string& folder = folders_[durability].path();
        flags.insert(flags.end(), {"--data-durability", durability, "--data-folder", folder});
      }
      node = std::make_unique<TestNode>(flags);
    }
    return *node;
  }
  [[nodiscard]] static Client connect() {
    const std::string address = GetParam().tcp ? "tcp:" + node().tcp() : node().socket();
    return TestNode::connect_to(address, {.paths = GetParam().paths});
  }
  // Keys of this way alone, since all share a node.
  [[nodiscard]] static std::string key(std::string_view name) {
    return GetParam().name + "/" + std::string(name);
  }
  Client client_ = connect();

 private:
  static std::map<std::string, test::TemporaryFolder> folders_;    // By durability.
  static std::map<std::string, std::unique_ptr<TestNode>> nodes_;  // By that and their shards.
};
std::map<std::string, test::TemporaryFolder> Transactions::folders_;
std::map<std::string, std::unique_ptr<TestNode>> Transactions::nodes_;

INSTANTIATE_TEST_SUITE_P(AllWays, Transactions,
                         testing::Values(Way{.name = "Direct"}, Way{.name = "Rpc", .paths = Paths::kRpc},
                                         Way{.name = "Tcp", .tcp = true},
                                         Way{.name = "Chain", .paths = Paths::kChain},
                                         Way{.name = "DirectShards", .shards = 3},
                                         Way{.name = "RpcShards", .paths = Paths::kRpc, .shards = 3},
                                         Way{.name = "TcpShards", .tcp = true, .shards = 3},
                                         Way{.name = "ChainShards", .paths = Paths::kChain, .shards = 3},
                                         Way{.name = "Everysec", .durability = "everysec"},
                                         Way{.name = "AlwaysTcp", .tcp = true, .durability = "always"}),
                         [](const auto& way) { return way.param.name; });

TEST_P(Transactions, a_batch_is_committed_or_says_what_did_not_hold) {
  const uint64_t version = needed(client_.put(key("order"), "open"));
  Batch batch;
  batch.if_version(key("order"), version).if_absent(key("bill"));
  batch.put(key("order"), "paid").put(key("bill"), "7").add(key("paid"), 1).erase(key("cart"));
  ASSERT_TRUE(client_.commit(batch));
  EXPECT_EQ(needed(client_.get(key("order"))), "paid");
  EXPECT_EQ(needed(client_.get(key("paid"))), "1");
  EXPECT_EQ(needed(client_.exists(key("bill"))).version, batch.version(1));
  EXPECT_EQ(batch.sum(2), 1);
  EXPECT_EQ(batch.version(3), 0U);
  // Again: its version is gone, and so is the absence, which another shard may have to say.
  const Code code = client_.commit(batch).code();
  EXPECT_TRUE(code == Code::kVersionMismatch || (GetParam().shards > 1 && code == Code::kExists));
  EXPECT_EQ(batch.failed(), code == Code::kVersionMismatch ? 0U : 1U);
  EXPECT_EQ(needed(client_.get(key("paid"))), "1");
}

TEST_P(Transactions, the_body_reads_what_it_has_written) {
  ASSERT_TRUE(client_.put(key("a"), "5"));
  const Result<> done = client_.transaction([&](Transaction& t) -> Result<> {
    EXPECT_TRUE(t.put(key("b"), "new"));
    EXPECT_EQ(needed(t.get(key("b"))), "new");
    EXPECT_TRUE(t.add(key("a"), 2));
    EXPECT_EQ(needed(t.get(key("a"))), "7");
    EXPECT_TRUE(t.erase(key("b")));
    EXPECT_EQ(t.get(key("b")).code(), Code::kNotFound);
    EXPECT_FALSE(needed(t.exists(key("b"))));
    EXPECT_TRUE(t.add(key("b"), 3));
    EXPECT_EQ(needed(t.get(key("b"))), "3");
    std::vector<GetItem> items{{.key = key("a")}, {.key = key("b")}, {.key = key("none")}};
    const std::string keys[] = {key("a"), key("b"), key("none")};
    for (size_t i = 0; i < 3; ++i) items[i].key = keys[i];
    t.multi_get(items);
    EXPECT_EQ(items[0].value, "7");
    EXPECT_EQ(items[1].value, "3");
    EXPECT_EQ(items[2].result.code(), Code::kNotFound);
    // No other sees anything of it yet.
    EXPECT_EQ(needed(client_.get(key("a"))), "5");
    return {};
  });
  ASSERT_TRUE(done) << text(done.code());
  EXPECT_EQ(needed(client_.get(key("a"))), "7");
  EXPECT_EQ(needed(client_.get(key("b"))), "3");
}

TEST_P(Transactions, an_error_of_the_body_leaves_nothing) {
  const Result<> ended = client_.transaction([&](Transaction& t) -> Result<> {
    EXPECT_TRUE(t.put(key("left"), "1"));
    return fail(Code::kInvalidArgument);
  });
  EXPECT_EQ(ended.code(), Code::kInvalidArgument);
  EXPECT_EQ(client_.get(key("left")).code(), Code::kNotFound);
}

TEST_P(Transactions, what_changed_since_it_was_read_makes_the_body_run_again) {
  ASSERT_TRUE(client_.put(key("x"), "1"));
  Client other = connect();
  int runs = 0;
  const Result<> done = client_.transaction([&](Transaction& t) -> Result<> {
    const std::string value = needed(t.get(key("x")));
    if (++runs < 3) {
      EXPECT_TRUE(other.put(key("x"), std::to_string(10 * runs)));
    }
    return t.put(key("y"), value);
  });
  ASSERT_TRUE(done);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(needed(client_.get(key("y"))), "20");
}

TEST_P(Transactions, so_does_a_key_that_came_and_an_error_of_a_false_picture) {
  Client other = connect();
  int runs = 0;
  const Result<> done = client_.transaction([&](Transaction& t) -> Result<> {
    const bool is_there = needed(t.exists(key("late")));
    if (++runs == 1) {
      EXPECT_TRUE(other.put(key("late"), "1"));
    }
    if (!is_there) {
      EXPECT_EQ(t.get(key("late")).code(), Code::kConflict);
    }
    return fail(is_there ? Code::kExists : Code::kInvalidArgument);
  });
  EXPECT_EQ(done.code(), Code::kExists);
  EXPECT_EQ(runs, 2);
}

TEST_P(Transactions, without_an_end_of_conflicts_it_says_conflict_and_nothing_changed) {
  ASSERT_TRUE(client_.put(key("busy"), "0"));
  Client other = connect();
  const Result<> ended = client_.transaction(
      [&](Transaction& t) -> Result<> {
        (void)t.get(key("busy"));
        EXPECT_TRUE(other.put(key("busy"), "1"));
        return t.put(key("never"), "1");
      },
      {.timeout_ns = 250 * kMillisecond_ns});
  EXPECT_EQ(ended.code(), Code::kConflict);
  EXPECT_EQ(client_.get(key("never")).code(), Code::kNotFound);
}

TEST_P(Transactions, read_only_refuses_writes_and_gives_one_picture) {
  ASSERT_TRUE(client_.put(key("p"), "1"));
  ASSERT_TRUE(client_.put(key("q"), "1"));
  int runs = 0;
  Client other = connect();
  const Result<> done = client_.read_only([&](Transaction& t) -> Result<> {
    EXPECT_EQ(t.put(key("p"), "2").code(), Code::kInvalidArgument);
    const std::string p = needed(t.get(key("p")));
    if (++runs == 1) {
      Batch both;
      EXPECT_TRUE(other.commit(both.put(key("p"), "2").put(key("q"), "2")));
    }
    const std::string q = needed(t.get(key("q")));
    EXPECT_TRUE(p == q || runs == 1);
    EXPECT_EQ(t.validate().code(), p == q ? Code::kOk : Code::kConflict);
    return {};
  });
  EXPECT_TRUE(done);
  EXPECT_EQ(runs, 2);
}

TEST_P(Transactions, money_is_neither_made_nor_lost) {
  constexpr int kAccounts = 8;
  constexpr int kStart = 100;
  std::vector<std::string> accounts;
  for (int i = 0; i < kAccounts; ++i) accounts.push_back(key("account " + std::to_string(i)));
  for (const std::string& account : accounts) ASSERT_TRUE(client_.put(account, std::to_string(kStart)));
  std::atomic<bool> ends = false;
  std::atomic<int> moved = 0;
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    threads.emplace_back([&, seed] {
      Prng prng(seed);
      for (int round = 0; round < 150; ++round) {
        const std::string& from = accounts[prng.below(kAccounts)];
        const std::string& to = accounts[prng.below(kAccounts)];
        const auto amount = static_cast<int64_t>(prng.below(30));
        const Result<> done = client_.transaction([&](Transaction& t) -> Result<> {
          const Result<std::string> has = t.get(from);
          if (!has) return fail(has.error());
          if (std::stoll(*has) < amount || from == to) return fail(Code::kCancelled);
          if (const Result<> taken = t.add(from, -amount); !taken) return taken;
          return t.add(to, amount);
        });
        EXPECT_TRUE(done || done.code() == Code::kCancelled) << text(done.code());
        moved += done ? 1 : 0;
      }
    });
  }
  threads.emplace_back([&] {
    while (!ends) {
      int64_t sum = 0;
      const Result<> read = client_.read_only([&](Transaction& t) -> Result<> {
        sum = 0;
        for (const std::string& account : accounts) {
          const Result<std::string> has = t.get(account);
          if (!has) return fail(has.error());
          sum += std::stoll(*has);
        }
        return {};
      });
      if (read) {
        EXPECT_EQ(sum, kAccounts * kStart);
      }
      EXPECT_TRUE(read || read.code() == Code::kConflict) << text(read.code());
    }
  });
  for (size_t i = 0; i + 1 < threads.size(); ++i) threads[i].join();
  ends = true;
  threads.back().join();
  EXPECT_GT(moved, 100);
}

TEST_P(Transactions, too_much_is_refused) {
  const Result<> ended = client_.transaction([&](Transaction& t) -> Result<> {
    for (int i = 0; i <= 4096; ++i) {
      const Result<> put = t.put(key("many " + std::to_string(i)), "");
      if (!put) return put;
    }
    return {};
  });
  EXPECT_EQ(ended.code(), Code::kTooLarge);
  // The code's own sentence speaks of one key or value; trouble() has both limits.
  const auto names_both = [](const Report& trouble) {
    return trouble.code == Code::kTooLarge && trouble.what.find("4096 keys") != std::string::npos &&
           trouble.what.find("16 MiB") != std::string::npos;
  };
  EXPECT_TRUE(names_both(client_.trouble())) << client_.trouble().to_string();
  Client other = connect();
  Batch batch;
  for (int i = 0; i <= 4096; ++i) batch.put(key("many " + std::to_string(i)), "");
  EXPECT_EQ(other.commit(batch).code(), Code::kTooLarge);
  EXPECT_EQ(batch.failed(), batch.writes());
  EXPECT_TRUE(names_both(other.trouble())) << other.trouble().to_string();
  EXPECT_EQ(
      client_.transaction([&](Transaction& t) { return t.put(key("large"), std::string(16 << 20, 'x')); })
          .code(),
      Code::kTooLarge);
}

runtime::Task<Result<>> swap_values(AsyncTransaction& t, std::string one, std::string other) {
  const Result<std::string> first = co_await t.get(one);
  const Result<std::string> second = co_await t.get(other);
  if (!first || !second) co_return fail(Code::kNotFound);
  EXPECT_TRUE(t.put(one, *second));
  EXPECT_TRUE(t.put(other, *first));
  const std::string nowhere = "nowhere " + one;
  const Result<bool> is_there = co_await t.exists(nowhere);
  EXPECT_FALSE(is_there.value_or(true));
  const Result<> valid = co_await t.validate();
  co_return valid;
}

runtime::Task<> swap_once(AsyncClient& client, std::string one, std::string other, int& ended) {
  const Result<> done =
      co_await client.transaction([&](AsyncTransaction& t) { return swap_values(t, one, other); });
  EXPECT_TRUE(done) << text(done.code());
  ++ended;
}

// Several at a time over one connection: each waits for none of the others.
TEST_P(Transactions, as_coroutines_they_run_beside_each_other) {
  runtime::Shard shard(system_clock());
  const std::string address = GetParam().tcp ? "tcp:" + node().tcp() : node().socket();
  const std::unique_ptr<AsyncClient> client =
      needed(block_on(shard, AsyncClient::connect(shard, address, {.paths = GetParam().paths})));
  ASSERT_TRUE(client_.put(key("one"), "1"));
  ASSERT_TRUE(client_.put(key("other"), "2"));
  int ended = 0;
  for (int i = 0; i < 11; ++i) shard.spawn(swap_once(*client, key("one"), key("other"), ended));
  EXPECT_TRUE(shard.run_until([&] { return ended == 11; }, system_clock().now_ns() + 20 * kSecond_ns));
  EXPECT_EQ(needed(client_.get(key("one"))), "2");
  Batch batch;
  batch.if_value(key("one"), "2").erase(key("one"));
  EXPECT_TRUE(block_on(shard, client->commit(batch)));
  EXPECT_EQ(client_.get(key("one")).code(), Code::kNotFound);
}

// Another client is quicker while the body runs for the first time.
runtime::Task<Result<>> read_many(AsyncTransaction& t, const std::array<std::string, 3>& keys, Client& other,
                                  int& runs) {
  if (const Result<> put = t.put(keys[2], "40"); !put) co_return put;
  std::vector<GetItem> items;
  for (const std::string& key : keys) items.push_back({.key = key});
  co_await t.multi_get(items);
  if (++runs == 1) {
    EXPECT_EQ(items[1].result.code(), Code::kNotFound);
    EXPECT_TRUE(other.put(keys[1], "x"));
  } else {
    EXPECT_EQ(items[1].value, "x");
  }
  EXPECT_EQ(items[0].value, "1");
  EXPECT_EQ(items[2].value, "40") << "what it has written itself";
  co_return Result<>();
}

TEST_P(Transactions, as_coroutines_they_read_many_keys_at_once) {
  runtime::Shard shard(system_clock());
  const std::string address = GetParam().tcp ? "tcp:" + node().tcp() : node().socket();
  const std::unique_ptr<AsyncClient> client =
      needed(block_on(shard, AsyncClient::connect(shard, address, {.paths = GetParam().paths})));
  const std::array<std::string, 3> keys{key("many 0"), key("many 1"), key("many 2")};
  ASSERT_TRUE(client_.put(keys[0], "1"));
  int runs = 0;
  const AsyncClient::Body body = [&](AsyncTransaction& t) { return read_many(t, keys, client_, runs); };
  EXPECT_TRUE(block_on(shard, client->transaction(body)));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(needed(client_.get(keys[2])), "40");
}

TEST(TransactionCosts, reads_take_no_message_and_a_commit_takes_one) {
  TestNode node({"--memory-limit", "128MiB"});
  Client client = node.connect();
  ASSERT_TRUE(client.put("a", "1"));
  ASSERT_TRUE(client.put("b", "1"));
  const auto messages = [&](const std::function<Result<>()>& work) {
    const uint64_t before = client.counters().messages_sent;
    EXPECT_TRUE(work());
    return client.counters().messages_sent - before;
  };
  const auto reads = [](Transaction& t) -> Result<> {
    EXPECT_EQ(needed(t.get("a")), needed(t.get("b")));
    return {};
  };
  EXPECT_EQ(messages([&] { return client.read_only(reads); }), 0U);
  EXPECT_EQ(messages([&] {
              return client.transaction([&](Transaction& t) -> Result<> {
                const Result<> read = reads(t);
                if (!read) return read;
                if (const Result<> put = t.put("a", "2"); !put) return put;
                return t.put("b", "2");
              });
            }),
            1U);
}

TEST(TransactionCosts, over_three_shards_a_commit_awaits_two_round_trips_and_tells_two_parts_more) {
  TestNode node({"--server-shards", "3", "--memory-limit", "384MiB"});
  Client client = node.connect();
  Batch batch;
  for (int i = 0; i < 40; ++i) batch.add("key " + std::to_string(i), 1);
  // The first one asks for words.
  ASSERT_TRUE(client.commit(batch));
  const uint64_t before = client.counters().messages_sent;
  ASSERT_TRUE(client.commit(batch));
  EXPECT_EQ(client.counters().messages_sent - before, 2U + 1U + 2U);
  EXPECT_EQ(batch.sum(0), 2);
  // An identity is one owner's.
  EXPECT_EQ(client.commit(batch, needed(client.new_request())).code(), Code::kUnsupported);
  EXPECT_EQ(batch.failed(), 40U);
}

TEST(TransactionShards, of_one_tag_are_together_where_keys_are_routed_by_slot) {
  TestNode node({"--server-shards", "3", "--kv-copies", "1", "--memory-limit", "384MiB", "--listen-address",
                 "127.0.0.1:0"});
  for (const std::string& address : {node.socket(), "tcp:" + node.tcp()}) {
    Client client = TestNode::connect_to(address);
    for (int tag = 0; tag < 12; ++tag) {
      const std::string order = "order:{" + std::to_string(tag) + "}";
      const std::string item = "item:{" + std::to_string(tag) + "}";
      const Result<> done = client.transaction([&](Transaction& t) -> Result<> {
        if (const Result<> put = t.put(order, "1"); !put) return put;
        return t.add(item, 1);
      });
      EXPECT_TRUE(done) << text(done.code());
    }
    Batch apart;
    for (int tag = 0; tag < 12; ++tag) apart.erase("order:{" + std::to_string(tag) + "}");
    EXPECT_TRUE(client.commit(apart));
  }
  EXPECT_EQ(needed(node.connect().get("item:{7}")), "2");
}

class TransactionLogs : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::vector<std::string> flags() const {
    return {"--data-durability", GetParam(), "--data-folder",     folder_.path(),
            "--memory-limit",    "128MiB",   "--restart-backoff", "0ns"};
  }

 private:
  const test::TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(All, TransactionLogs, testing::Values("everysec", "always"),
                         [](const auto& durability) { return std::string(durability.param); });

// Everything dies again and again: no batch is there by half, and each that was told is there.
TEST_P(TransactionLogs, when_all_processes_are_killed_a_batch_is_whole_or_not_there) {
  TestNode node(flags());
  int told = 0;
  int asked = 0;
  uint64_t version = 0;
  for (int life = 0; life < 8; ++life) {
    Client client = node.connect({.timeout_ns = 20 * kSecond_ns});
    const std::string a = client.get("a").value_or("0");
    ASSERT_EQ(client.get("b").value_or("0"), a) << "in life " << life;
    ASSERT_EQ(client.exists("even").has_value(), std::stoi(a) != 0 && std::stoi(a) % 2 == 0);
    ASSERT_GE(std::stoi(a), told);
    ASSERT_LE(std::stoi(a), asked);
    if (told > 0) {
      ASSERT_GE(needed(client.exists("b")).version, version);
    }
    // What was asked for and not told may have happened.
    told = asked = std::stoi(a);
    // By another thread, and when so many were told in this life: in the middle of one that follows.
    std::atomic<int> left = 10 + 10 * life;
    std::thread killer([&] {
      while (left > 0) std::this_thread::yield();
      node.kill_everything();
    });
    while (true) {
      Batch batch;
      batch.add("a", 1).put("c", std::string(static_cast<size_t>(asked % 500), 'c'));
      batch.add("b", 1);
      // Erased and put in turns, by batches that say what they found.
      if (asked++ % 2 == 0) {
        batch.erase("even");
      } else {
        batch.put("even", "here");
      }
      const Result<> done = client.commit(batch);
      if (!done) break;
      --left;
      told = asked;
      version = batch.version(2);
    }
    EXPECT_LE(left, 0) << "in life " << life;
    left = 0;
    killer.join();
    node.start();
  }
  EXPECT_GT(told, 100);
}

TEST_P(TransactionLogs, more_than_a_quarter_of_the_ring_is_too_large_and_less_is_kept) {
  TestNode node(flags());
  const std::string large(2 << 20, 'x');
  {
    Client client = node.connect();
    Batch much;
    EXPECT_EQ(client.commit(much.put("a", large).put("b", large)).code(), Code::kTooLarge);
    EXPECT_EQ(much.failed(), 2U);
    EXPECT_EQ(client.get("a").code(), Code::kNotFound);
    Batch less;
    EXPECT_TRUE(client.commit(less.put("a", large).put("b", large.substr(1'000))));
  }
  node.kill_everything();
  node.start();
  EXPECT_EQ(needed(node.connect().get("a")), large);
  EXPECT_EQ(needed(node.connect().get("b")), large.substr(1'000));
}

// The server dies again and again: no batch is there by half, and each that was told is there.
TEST(TransactionKills, a_killed_server_leaves_all_of_a_batch_or_nothing) {
  TestNode node({"--memory-limit", "128MiB", "--restart-backoff", "0ns"});
  Client client = node.connect({.timeout_ns = 20 * kSecond_ns});
  std::atomic<bool> ends = false;
  std::thread reader([&] {
    Client reads = node.connect();
    while (!ends) {
      const Result<> one = reads.read_only([](Transaction& t) -> Result<> {
        const Result<std::string> a = t.get("a");
        const Result<std::string> b = t.get("b");
        if (!a || !b) return a.code() == b.code() ? Result<>() : fail(Code::kCorrupt);
        return *a == *b ? Result<>() : fail(Code::kCorrupt);
      });
      EXPECT_NE(one.code(), Code::kCorrupt);
    }
  });
  int told = 0;
  for (int round = 1; round <= 12; ++round) {
    const pid_t server = test::server_of(client);
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(round));
      kill(server, SIGKILL);
    });
    for (int i = 0; i < 200; ++i) {
      Batch batch;
      batch.add("a", 1).add("b", 1).put("c", std::string(200, 'c'));
      const Result<> done = client.commit(batch);
      EXPECT_TRUE(done || done.code() == Code::kIndeterminate) << text(done.code());
      told += done ? 1 : 0;
    }
    killer.join();
    const std::string a = needed(client.get("a"));
    EXPECT_EQ(a, needed(client.get("b")));
    EXPECT_GE(std::stoi(a), told);
  }
  ends = true;
  reader.join();
  EXPECT_GT(told, 1'000);
}

}  // namespace
}  // namespace refract::transaction_test
