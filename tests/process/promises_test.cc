// SPDX-License-Identifier: Apache-2.0
// What README promises, in each configuration that changes the code behind it: with and without a log, as a
// cache, with two shards, over TCP. Its promise of idleness is tested in idle_test.cc, and what can damage
// the store in tests/security.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/bank.h"
#include "tests/process/configurations.h"
#include "tests/process/load.h"
#include "tests/process/sealed.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

constexpr uint64_t kShort_ns = 200 * kMillisecond_ns;

class Promise : public testing::TestWithParam<Configuration> {
 protected:
  [[nodiscard]] static bool has_log() { return GetParam().has_log(); }

  static std::string address_of(ConfiguredStore& store) {
    return GetParam().by_tcp ? "tcp:" + store.node().tcp_address() : store.node().socket_path();
  }
};

// Clients in processes of their own, which write down what they are told.
class Callers {
 public:
  Callers(const std::string& address, SharedLedger& ledger) : ledger_(ledger) {
    ledger_->stop = false;
    for (int client = 0; client < kClients; ++client) {
      processes_.push_back(Process::run([&ledger, address, client] {
        return run_load(address, *ledger, {.client = client, .large_bytes = 300'000});
      }));
    }
  }
  void wait_for_more(uint64_t operations) {
    const uint64_t wanted = ledger_.operations() + operations;
    ASSERT_TRUE(becomes_true([&] { return ledger_.operations() >= wanted; }));
  }
  void end() {
    ledger_->stop = true;
    for (Process& process : processes_) EXPECT_EQ(process.wait(), 0);
  }
  static constexpr int kClients = 2;

 private:
  SharedLedger& ledger_;
  std::vector<Process> processes_;
};

// With conditional puts that are asked again: the counter says whether each was told the truth.
TEST_P(Promise, what_was_acknowledged_survives_any_crash_of_the_server) {
  ConfiguredStore store(GetParam(), {"--restart-limit", "1000"});
  ASSERT_NO_FATAL_FAILURE(store.start());
  SharedLedger ledger;
  Callers callers(address_of(store), ledger);
  for (int crash = 0; crash < 3; ++crash) {
    ASSERT_NO_FATAL_FAILURE(callers.wait_for_more(60));
    const pid_t server = store.node().next_server(-1);
    send_signal(server, SIGKILL);
    ASSERT_GT(store.node().next_server(server), 0);
  }
  ASSERT_NO_FATAL_FAILURE(callers.wait_for_more(60));
  callers.end();
  Client client = store.connect();
  EXPECT_EQ(differences(client, *ledger, Callers::kClients), "");
  EXPECT_EQ(store.stop(), 0);
}

// By an end in good order, and by kill -9 of all processes.
TEST_P(Promise, what_was_acknowledged_outlives_the_node_where_there_is_a_log) {
  ConfiguredStore store(GetParam());
  std::optional<SharedLedger> ledger;
  ledger.emplace();
  for (const bool is_killed : {false, true, true}) {
    ASSERT_NO_FATAL_FAILURE(store.start());
    {
      Client client = store.connect();
      if (has_log()) {
        EXPECT_EQ(differences(client, **ledger, Callers::kClients), "");
      } else {
        EXPECT_EQ(client.stat().value().entries, 0U);
        ledger.emplace();
      }
    }
    Callers callers(address_of(store), *ledger);
    ASSERT_NO_FATAL_FAILURE(callers.wait_for_more(60));
    callers.end();
    if (is_killed) {
      store.kill_everything();
    } else {
      EXPECT_EQ(store.stop(), 0);
    }
  }
  ASSERT_NO_FATAL_FAILURE(store.start());
  Client client = store.connect();
  if (has_log()) {
    EXPECT_EQ(differences(client, **ledger, Callers::kClients), "");
  } else {
    EXPECT_EQ(client.stat().value().entries, 0U);
  }
  ASSERT_TRUE(client.put("still", "serves"));
}

// Clients of this host read on, also such that come now. Every call of every client ends by its deadline: a
// write is never said to be done, and never said not to be.
TEST_P(Promise, a_stopped_server_answers_reads_of_this_host_and_no_call_outlives_its_deadline) {
  ConfiguredStore store(GetParam());
  ASSERT_NO_FATAL_FAILURE(store.start());
  Client patient = store.connect();
  Client hasty = store.connect({.timeout_ns = kShort_ns});
  Client local = store.node().connect({.timeout_ns = kShort_ns});
  const std::string large = sealed_value("large", 1, 200'000);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(patient.put("key" + std::to_string(i), "value"));
  ASSERT_TRUE(patient.put("large", large));
  ASSERT_TRUE(hasty.put("key", "value"));
  ASSERT_TRUE(local.exists("key"));
  const pid_t server = store.node().server();
  send_signal(server, SIGSTOP);
  ASSERT_TRUE(becomes_true([&] { return state_of(server) == 'T'; }));
  Client fresh = store.node().connect({.timeout_ns = kShort_ns});
  for (Client* const reader : {&local, &fresh}) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(reader->get("key" + std::to_string(i)).value(), "value");
    EXPECT_EQ(reader->get("large").value(), large);
    EXPECT_EQ(reader->view("large").value().text(), large);
    EXPECT_EQ(reader->get("nothing").code(), Code::kNotFound);
    EXPECT_TRUE(reader->scan(0).has_value());
  }
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) {
    const Code put = hasty.put("key", "other").code();
    EXPECT_TRUE(put == Code::kIndeterminate || put == Code::kDeadlineExceeded) << info(put).text;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::nanoseconds(kPatience_ns));
  send_signal(server, SIGCONT);
  ASSERT_TRUE(put_in_the_end(patient, "key", "again"));
  EXPECT_EQ(store.node().server(), server);
  EXPECT_EQ(patient.get("large").value(), large);
}

// Without eviction a full node says so and has everything that it acknowledged; a cache takes every put, and
// keeps what is pinned.
TEST_P(Promise, a_full_node_says_so_and_loses_nothing_or_is_a_cache_that_keeps_what_is_pinned) {
  ConfiguredStore store(GetParam(), {"--memory-limit", "32MiB"});
  ASSERT_NO_FATAL_FAILURE(store.start());
  Client client = store.connect();
  Client local = store.node().connect();
  const auto key_of = [](int i) { return "key" + std::to_string(i); };
  const auto value_of = [&](int i) { return sealed_value(key_of(i), static_cast<uint64_t>(i), 100'000); };
  ASSERT_TRUE(client.put("pinned", value_of(0)));
  const auto pinned = local.view("pinned");
  ASSERT_TRUE(pinned.has_value());
  std::vector<bool> is_there;
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    const auto put = client.put(key_of(i), value_of(i));
    ASSERT_TRUE(put || put.code() == Code::kNoSpace) << "put " << i << ": " << info(put.code()).text;
    refused += put ? 0 : 1;
    is_there.push_back(put.has_value());
  }
  EXPECT_EQ(pinned->text(), value_of(0));
  if (GetParam().is_cache()) {
    EXPECT_EQ(refused, 0);
    EXPECT_EQ(client.get(key_of(499)).value_or(""), value_of(499));
    return;
  }
  EXPECT_GT(refused, 0) << "it was never full";
  for (int i = 0; i < 500; ++i) {
    const auto got = client.get(key_of(i));
    ASSERT_EQ(got.has_value(), is_there[static_cast<size_t>(i)]) << i;
    ASSERT_EQ(got.value_or(value_of(i)), value_of(i));
  }
  for (int i = 0; i < 100; ++i) {
    const auto erased = client.erase(key_of(i));
    ASSERT_TRUE(erased || erased.code() == Code::kNotFound);
  }
  EXPECT_TRUE(becomes_true([&] { return client.put("room", value_of(1)).has_value(); }));
}

// Movers, and in a cache one that fills it, while sums are counted and processes are killed.
class Bank {
 public:
  Bank(ConfiguredStore& store, std::string address)
      : store_(store), is_cache_(store.configuration().is_cache()), address_(std::move(address)) {}
  void begin() {
    for (int client = 0; client < kMovers; ++client) start(client);
    if (!is_cache_) return;
    filler_ = Process::run([this] { return bank::run_filler(address_, *ledger_, kMovers); });
    Client client = store_.connect();
    const std::atomic<uint64_t>& put = ledger_->clients[kMovers].operations;
    ASSERT_TRUE(becomes_true([&] { return client.stat().value().entries < put; })) << "nothing is evicted";
  }
  [[nodiscard]] uint64_t moved() const {
    return ledger_->clients[0].operations + ledger_->clients[1].operations;
  }
  void wait_for_more() {
    Client client = store_.connect();
    const uint64_t wanted = moved() + kMovesBetween;
    ASSERT_TRUE(becomes_true([&] {
      if (is_cache_) (void)is_judged(client);
      return moved() >= wanted;
    }));
  }
  void kill_server() {
    EXPECT_EQ(store_.node().server(), server_) << "it has ended by itself";
    send_signal(server_, SIGKILL);
    server_ = store_.node().next_server(server_);
    ASSERT_GT(server_, 0);
  }
  void kill_mover() {
    movers_[0].kill_now();
    start(0);
  }
  // Until so many sums were judged.
  void judge(int sums) {
    Client client = store_.connect();
    int judged = 0;
    ASSERT_TRUE(becomes_true([&] { return (judged += is_judged(client) ? 1 : 0) >= sums; }))
        << client.trouble().to_string();
  }
  void end() {
    ledger_->stop = true;
    EXPECT_EQ(store_.node().server(), server_) << "it has ended by itself";
    for (Process& mover : movers_) EXPECT_EQ(mover.wait(), 0);
    if (is_cache_) {
      EXPECT_EQ(filler_.wait(), 0);
    }
  }

 private:
  static constexpr int kMovers = 2;
  static constexpr uint64_t kMovesBetween = 20;

  // What could not be read together is no sum; also not where a cache has taken an account: then all are
  // opened again, at once.
  [[nodiscard]] bool is_judged(Client& client) const {
    const Result<int64_t> sum = bank::sum(client);
    if (sum) {
      EXPECT_EQ(*sum, bank::kStart * bank::kAccounts);
    } else if (sum.code() == Code::kNotFound) {
      EXPECT_TRUE(is_cache_) << "an account is gone";
      (void)bank::open(client);
    }
    return sum.has_value();
  }
  void start(int client) {
    movers_[static_cast<size_t>(client)] =
        Process::run([this, client] { return bank::run_mover(address_, *ledger_, client); });
  }

  ConfiguredStore& store_;
  const bool is_cache_;
  const std::string address_;
  pid_t server_ = store_.node().next_server(-1);
  SharedLedger ledger_;
  std::array<Process, kMovers> movers_;
  Process filler_;
};

// Clients and the server are killed, and in the end everything.
TEST_P(Promise, a_transaction_is_whole_or_not_there_whatever_is_killed_beside_it) {
  ConfiguredStore store(GetParam(), {"--restart-limit", "1000", "--memory-limit", "32MiB"});
  ASSERT_NO_FATAL_FAILURE(store.start());
  {
    Client client = store.connect();
    ASSERT_TRUE(bank::open(client)) << client.trouble().to_string();
    Bank bank(store, address_of(store));
    ASSERT_NO_FATAL_FAILURE(bank.begin());
    for (int round = 0; round < 6; ++round) {
      ASSERT_NO_FATAL_FAILURE(bank.wait_for_more());
      if (round % 2 == 0) {
        ASSERT_NO_FATAL_FAILURE(bank.kill_server());
      } else {
        bank.kill_mover();
      }
      ASSERT_NO_FATAL_FAILURE(bank.judge(3));
    }
    bank.end();
  }
  if (!has_log()) return;
  store.kill_everything();
  ASSERT_NO_FATAL_FAILURE(store.start());
  Client client = store.connect();
  const Result<int64_t> sum = bank::sum(client);
  if (GetParam().is_cache() && sum.code() == Code::kNotFound) return;
  ASSERT_TRUE(sum);
  EXPECT_EQ(*sum, bank::kStart * bank::kAccounts);
}

INSTANTIATE_TEST_SUITE_P(Configurations, Promise,
                         testing::ValuesIn(configurations().begin(), configurations().end()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace refract::test
