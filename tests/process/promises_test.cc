// SPDX-License-Identifier: Apache-2.0
// What README promises, in each configuration that changes the code behind it: with and without a log, as a
// cache, with two shards, over TCP. Its promise of idleness is tested in idle_test.cc, and what can damage
// the store in tests/security.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

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

INSTANTIATE_TEST_SUITE_P(Configurations, Promise,
                         testing::ValuesIn(configurations().begin(), configurations().end()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace refract::test
