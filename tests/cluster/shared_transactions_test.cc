// SPDX-License-Identifier: Apache-2.0
// Transactions over keys of several nodes (docs/design/070): by every way, beside kills of clients, of
// servers and of whole nodes, with logs and without.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cluster/node_set.h"
#include "tests/process/host_death.h"
#include "tests/process/node_process.h"
#include "tests/process/shard_link.h"

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"
#include "refract/base/testing/processes/files.h"
#include "refract/base/units.h"
#include "refract/client/client.h"
#include "refract/cluster/routing.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/node/observe/watcher.h"

namespace refract::test::shared_transactions_test {
namespace {

constexpr size_t kNodes = 3;
constexpr int64_t kStart = 1000;
constexpr size_t kAccounts = 9;

size_t home_of(const std::string& key) {
  static const cluster::Routing routing(
      needed(cluster::parse_member_list("a=h:1,b=h:2,c=h:3", cluster::ListForm::kSetting)));
  return routing.home_of(cluster::slot_of(key));
}

// The first one of these that the node has.
std::string key_at(size_t node, const std::string& begin) {
  for (int i = 0;; ++i) {
    const std::string key = fmt::format("{}{}", begin, i);
    if (home_of(key) == node) return key;
  }
}

std::string account(size_t i) {
  return key_at(i % kNodes, fmt::format("account/{}/", i));
}

struct Way {
  std::string name;
  std::string query;
  int shards = 1;
  std::string durability = {};  // Empty: in memory.
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

class SharedTransactions : public testing::Test {
 protected:
  explicit SharedTransactions(const Way& way = {})
      : query_(way.query), nodes_({"a", "b", "c"}, {.arguments = flags(way), .list = {}}) {
    for (size_t i = 0; i < kNodes; ++i) EXPECT_TRUE(nodes_.node(i).is_up()) << nodes_.node(i).errors();
    nodes_.move_to(nodes_.true_list(2), 2);
  }
  [[nodiscard]] std::vector<std::string> flags(const Way& way) const {
    const std::string secret = folder_.path() + "/secret";
    std::ofstream(secret) << "a secret of all three nodes, and of none else";
    EXPECT_EQ(::chmod(secret.c_str(), S_IRUSR | S_IWUSR), 0);
    std::vector<std::string> flags = {
        "--kv-copies", "1", "--server-shards", std::to_string(way.shards), "--cluster-secret-file", secret};
    if (way.durability.empty()) return flags;
    const std::string data = fmt::format("{}/{}", folder_.path(), NodeSet::kName);
    flags.insert(flags.end(), {"--data-durability", way.durability, "--data-folder", data,
                               "--data-snapshot-every", "200ms"});
    return flags;
  }
  [[nodiscard]] Client connect(uint64_t timeout_ns = kPatience_ns) {
    std::string address = "refract://";
    for (size_t i = 0; i < kNodes; ++i) {
      address += fmt::format("{}{}", i == 0 ? "" : ",", nodes_.node(i).tcp_address());
    }
    return needed(Client::connect(address + query_, {.timeout_ns = timeout_ns}));
  }
  // Moves money between two accounts of different nodes.
  [[nodiscard]] static Result<> move(Client& client, Prng& prng) {
    const size_t from = prng.below(kAccounts);
    const size_t to = (from + 1 + prng.below(kNodes - 1)) % kAccounts;
    const auto amount = static_cast<int64_t>(prng.below(20));
    return client.transaction([&](Transaction& t) -> Result<> {
      const Result<std::string> has = t.get(account(from));
      if (!has) return fail(has.error());
      if (auto added = t.add(account(from), -amount); !added) return added;
      return t.add(account(to), amount);
    });
  }
  static void open_accounts(Client& client) {
    for (size_t i = 0; i < kAccounts; ++i) {
      ASSERT_TRUE(client.put(account(i), std::to_string(kStart))) << client.trouble().to_string();
    }
  }
  // Of all accounts at one moment; nothing: they could not be read together.
  [[nodiscard]] static std::optional<int64_t> count(Client& client) {
    int64_t sum = 0;
    const Result<> read = client.read_only([&](Transaction& t) -> Result<> {
      sum = 0;
      std::vector<std::string> keys;
      for (size_t i = 0; i < kAccounts; ++i) keys.push_back(account(i));
      std::vector<GetItem> items(kAccounts);
      for (size_t i = 0; i < kAccounts; ++i) items[i].key = keys[i];
      t.multi_get(items);
      for (const GetItem& item : items) {
        if (item.result.code() != Code::kOk) return fail(item.result.error());
        sum += std::stoll(item.value);
      }
      return {};
    });
    return read ? std::optional(sum) : std::nullopt;
  }
  // One thread moves money; here it is counted, and `trouble` is made, again and again.
  template <typename Trouble>
  void run_bank(int rounds, Trouble trouble) {
    Client client = connect();
    ASSERT_NO_FATAL_FAILURE(open_accounts(client));
    std::atomic<bool> is_over = false;
    std::atomic<uint64_t> moved = 0;
    std::vector<std::thread> movers;
    for (uint64_t seed : {1ULL, 2ULL}) {
      // Before the first trouble.
      movers.emplace_back([&, seed, own = connect()]() mutable {
        Prng prng(seed);
        while (!is_over) {
          moved += move(own, prng).has_value() ? 1 : 0;
          // So that all accounts can be read together now and then, over a network, too.
          ::usleep(1000);
        }
      });
    }
    for (int round = 0; round < rounds; ++round) {
      const uint64_t before = moved;
      trouble(round);
      // Another one each time: what one has mapped of a node that is gone it reads on for some time.
      Client counter = connect(kSecond_ns);
      // A count that meets changes, or what is held, is none; at least one is judged.
      int judged = 0;
      const auto is_judged = [&] {
        const std::optional<int64_t> sum = count(counter);
        if (!sum) return judged != 0;
        EXPECT_EQ(*sum, kStart * static_cast<int64_t>(kAccounts)) << "round " << round;
        return ++judged >= 3;
      };
      EXPECT_TRUE(becomes_true(is_judged)) << counter.trouble().to_string();
      EXPECT_TRUE(becomes_true([&] { return moved >= before + 20; })) << client.trouble().to_string();
    }
    is_over = true;
    for (std::thread& mover : movers) mover.join();
    Client counter = connect();
    EXPECT_EQ(count(counter).value_or(-1), kStart * static_cast<int64_t>(kAccounts));
  }

  // Of all nodes, each with one shard.
  [[nodiscard]] uint64_t counted(std::string_view name) {
    uint64_t sum = 0;
    for (size_t i = 0; i < kNodes; ++i) {
      const auto link = ShardLink::over_tcp(nodes_.node(i).tcp_address() + "/0");
      const auto state = observe::Watcher(link->session(), link->shard(), kPatience_ns).state();
      EXPECT_TRUE(state) << nodes_.name(i);
      if (!state) continue;
      for (const auto& [counter, counts] : state->counters) sum += counter == name ? counts : 0;
    }
    return sum;
  }
  [[nodiscard]] std::string data_of(size_t node) const { return folder_.path() + "/" + nodes_.name(node); }

  TemporaryFolder folder_;
  const std::string query_;
  NodeSet nodes_;
};

class SharedTransactionsOver : public SharedTransactions, public testing::WithParamInterface<Way> {
 protected:
  SharedTransactionsOver() : SharedTransactions(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(
    Ways, SharedTransactionsOver,
    testing::Values(Way{.name = "shm", .query = ""}, Way{.name = "shm_shards", .query = "", .shards = 2},
                    Way{.name = "tcp", .query = "?transport=tcp"},
                    Way{.name = "calls_always", .query = "?path=rpc", .shards = 2, .durability = "always"}),
    [](const auto& way) { return way.param.name; });

TEST_P(SharedTransactionsOver, change_keys_of_three_nodes_at_one_moment_or_none) {
  Client client = connect();
  std::vector<std::string> keys;
  for (size_t node = 0; node < kNodes; ++node) keys.push_back(key_at(node, "together"));
  const auto put_all = [&](const std::string& value) {
    return client.transaction([&](Transaction& t) -> Result<> {
      for (const std::string& key : keys) {
        if (auto put = t.put(key, value); !put) return put;
      }
      return {};
    });
  };
  ASSERT_TRUE(put_all("one")) << client.trouble().to_string();
  for (const std::string& key : keys) EXPECT_EQ(client.get(key).value_or(""), "one");

  // A condition at one node refuses all.
  Batch batch;
  batch.if_absent(keys[2]);
  batch.put(keys[0], "two");
  batch.put(keys[1], "two");
  EXPECT_EQ(client.commit(batch).code(), Code::kExists);
  for (const std::string& key : keys) EXPECT_EQ(client.get(key).value_or(""), "one");

  // What writes at one node alone stands on what is at the others; and what writes nothing.
  Batch one_write;
  one_write.if_value(keys[0], "one");
  one_write.if_absent(key_at(2, "nothing"));
  one_write.put(keys[1], "three");
  ASSERT_TRUE(client.commit(one_write)) << client.trouble().to_string();
  EXPECT_EQ(client.get(keys[1]).value_or(""), "three");
  Batch no_write;
  no_write.if_exists(keys[0]);
  no_write.if_absent(key_at(1, "nothing"));
  EXPECT_TRUE(client.commit(no_write)) << client.trouble().to_string();

  const Result<> mixed = client.transaction([&](Transaction& t) -> Result<> {
    if (auto erased = t.erase(keys[0]); !erased) return erased;
    if (auto erased = t.erase(key_at(2, "nothing")); !erased) return erased;
    if (auto added = t.add(key_at(1, "number"), 7); !added) return added;
    return t.add(key_at(2, "number"), 8);
  });
  ASSERT_TRUE(mixed) << client.trouble().to_string();
  EXPECT_EQ(client.get(keys[0]).code(), Code::kNotFound);
  EXPECT_EQ(client.get(key_at(1, "number")).value_or(""), "7");
  EXPECT_EQ(client.get(key_at(2, "number")).value_or(""), "8");

  // Nothing is held afterwards: plain writes need not wait.
  for (const std::string& key : keys) ASSERT_TRUE(client.put(key, "plain")) << key;
}

// It has the time of the transaction, half of which goes to an address at which nothing answers.
TEST_F(SharedTransactions, find_a_node_that_has_moved_within_their_time) {
  const auto mute = needed(fabric::tcp::listen("127.0.0.1:0"));
  const std::string other = needed(fabric::tcp::bound_address(mute.get()));
  nodes_.move_to(fmt::format("version = 3\na = {}\nb = {}\nc = {}\n", nodes_.node(0).tcp_address(), other,
                             nodes_.node(2).tcp_address()),
                 3);
  Client client = needed(Client::connect(
      fmt::format("refract://{}?transport=tcp", nodes_.node(0).tcp_address()), {.timeout_ns = kPatience_ns}));
  ASSERT_TRUE(client.put(key_at(0, "known"), "x")) << client.trouble().to_string();
  nodes_.move_to(nodes_.true_list(4), 4);
  const auto put_both = [](Transaction& t) -> Result<> {
    if (auto put = t.put(key_at(0, "moved"), "1"); !put) return put;
    return t.put(key_at(1, "moved"), "1");
  };
  const uint64_t begun_ns = system_clock().now_ns();
  EXPECT_TRUE(client.transaction(put_both, {.timeout_ns = 4 * kSecond_ns})) << client.trouble().to_string();
  EXPECT_GE(system_clock().now_ns() - begun_ns, kSecond_ns) << "nothing was in the way";
}

TEST_P(SharedTransactionsOver, stand_on_entries_that_expire_at_other_nodes) {
  Client client = connect();
  const std::string brief = key_at(1, "brief");
  Batch batch;
  batch.if_exists(brief);
  batch.put(key_at(0, "kept"), "1");
  ASSERT_TRUE(client.put(brief, "x", {.ttl_ns = 10 * kSecond_ns}));
  EXPECT_TRUE(client.commit(batch)) << client.trouble().to_string();
  ASSERT_TRUE(client.put(brief, "x", {.ttl_ns = 1 * kMillisecond_ns}));
  ::usleep(2000);
  EXPECT_EQ(client.commit(batch).code(), Code::kNotFound);
}

TEST_P(SharedTransactionsOver, leave_no_half_beside_kills_of_every_server) {
  Prng prng(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 3);
  run_bank(8, [&](int) {
    const Node& node = nodes_.node(prng.below(kNodes));
    const pid_t server = node.server();
    send_signal(server, SIGKILL);
    EXPECT_GT(node.next_server(server), 0);
  });
}

// A client that dies in the middle leaves keys that are free soon: their owners ask the home.
TEST_F(SharedTransactions, of_a_killed_client_are_ended_by_the_nodes) {
  Client client = connect();
  ASSERT_NO_FATAL_FAILURE(open_accounts(client));
  constexpr int kKills = 10;
  constexpr int kKillsMax = 100;
  // Until some have left parts: those that were killed, by the end of their sessions; those that were
  // stopped, in time.
  const auto has_left_parts = [&] {
    return counted("transactions.orphaned") != 0 && counted("transactions.overdue") != 0;
  };
  int kill = 0;
  for (; kill < kKills || (kill < kKillsMax && !has_left_parts()); ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      Client own = connect();
      Prng prng(static_cast<uint64_t>(kill));
      for (;;) (void)move(own, prng);
    }
    ::usleep(30'000 + static_cast<useconds_t>(kill % 20) * 500);
    send_signal(child, kill % 2 == 0 ? SIGKILL : SIGSTOP);
    for (size_t i = 0; i < kAccounts; ++i) {
      EXPECT_TRUE(client.transaction([&](Transaction& t) { return t.add(account(i), 0); }))
          << client.trouble().to_string();
    }
    EXPECT_EQ(count(client).value_or(-1), kStart * static_cast<int64_t>(kAccounts));
    send_signal(child, SIGKILL);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  }
  EXPECT_LT(kill, kKillsMax) << "none was killed in the middle: nothing was shown";
}

class SharedTransactionsKept : public SharedTransactions, public testing::WithParamInterface<Way> {
 protected:
  SharedTransactionsKept() : SharedTransactions(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(
    Ways, SharedTransactionsKept,
    testing::Values(Way{.name = "always", .query = "", .durability = "always"},
                    Way{.name = "everysec_shards", .query = "", .shards = 2, .durability = "everysec"}),
    [](const auto& way) { return way.param.name; });

// One node, or all of them, with everything that it has in memory.
TEST_P(SharedTransactionsKept, come_back_whole_from_the_disks) {
  Prng prng(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 11);
  run_bank(6, [&](int round) {
    std::vector<size_t> killed;
    for (size_t i = 0; i < kNodes; ++i) {
      if (round % 2 == 0 || i == prng.below(kNodes)) killed.push_back(i);
    }
    for (const size_t i : killed) nodes_.node(i).kill_everything();
    for (const size_t i : killed) {
      nodes_.start_again(i);
      EXPECT_TRUE(nodes_.node(i).is_up()) << nodes_.node(i).errors();
    }
  });
}

class SharedTransactionsHosts : public SharedTransactions {
 protected:
  SharedTransactionsHosts()
      : SharedTransactions({.name = {}, .query = "", .shards = 2, .durability = "always"}) {}
};

// A host dies at a random moment, and its node has what its logs had written: what others have done together
// with it is there by half nowhere, and what was acknowledged is there. Now and then two die, or all.
TEST_F(SharedTransactionsHosts, that_die_leave_no_half_with_always) {
  Prng prng(static_cast<uint64_t>(testing::UnitTest::GetInstance()->random_seed()) + 17);
  Client writer = connect();
  run_bank(8, [&](int round) {
    std::vector<size_t> dying;
    const size_t deaths = round % 8 == 7 ? kNodes : 1 + (round % 3 == 2 ? 1 : 0);
    const size_t first = prng.below(kNodes);
    for (size_t i = 0; i < deaths; ++i) dying.push_back((first + i) % kNodes);
    ::usleep(static_cast<useconds_t>(prng.below(200'000)));
    for (const size_t i : dying) {
      // Again where its link is of an earlier life of the node.
      EXPECT_TRUE(becomes_true([&] {
        return writer.put(key_at(i, "told"), std::to_string(round)).has_value();
      })) << writer.trouble().to_string();
    }
    for (const size_t i : dying) {
      nodes_.node(i).kill_everything();
      boot_again(data_of(i));
    }
    for (const size_t i : dying) {
      nodes_.start_again(i);
      EXPECT_TRUE(nodes_.node(i).is_up()) << nodes_.node(i).errors();
    }
    Client reader = connect();
    for (const size_t i : dying) EXPECT_EQ(reader.get(key_at(i, "told")).value_or(""), std::to_string(round));
  });
}

}  // namespace
}  // namespace refract::test::shared_transactions_test
