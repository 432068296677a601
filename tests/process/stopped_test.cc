// SPDX-License-Identifier: Apache-2.0
// A server that is stopped still answers gets; a client that is stopped in the middle of one never sees a
// wrong value.
#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

#include "tests/process/load.h"
#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/prng.h"

namespace refract::test {
namespace {

TEST(StoppedServer, answers_gets_and_lets_puts_wait_until_it_goes_on) {
  Node node;
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect({.timeout_ns = 200'000'000});
  Client patient = node.connect();
  const std::string value = sealed_value("key", 1, 100);
  const std::string large = sealed_value("large", 1, 5'000'000);
  ASSERT_TRUE(client.put("key", value));
  ASSERT_TRUE(patient.put("large", large));
  const pid_t server = node.server();
  send_signal(server, SIGSTOP);
  ASSERT_TRUE(becomes_true([&] { return state_of(server) == 'T'; }));

  for (int i = 0; i < 2'000; ++i) ASSERT_EQ(client.get("key").value(), value);
  EXPECT_EQ(client.get("large").value(), large);
  EXPECT_EQ(client.get("nothing").code(), Code::kNotFound);
  for (int i = 0; i < 10; ++i) {
    Client fresh = node.connect({.timeout_ns = 200'000'000});
    ASSERT_EQ(fresh.get("key").value(), value);
    ASSERT_EQ(fresh.view("large").value().text(), large);
    ASSERT_EQ(fresh.scan(0).value().entries.size(), 2U);
  }
  // Sent, and perhaps to be executed later; or not even sent, when the ring is full.
  bool is_perhaps_there = false;
  for (int i = 0; i < 4; ++i) {
    const auto put = client.put("later", sealed_value("later", 1, 2'000));
    is_perhaps_there |= put.code() == Code::kIndeterminate;
    EXPECT_TRUE(put.code() == Code::kIndeterminate || put.code() == Code::kDeadlineExceeded)
        << info(put.code()).text;
    EXPECT_NE(client.trouble().what.find("does not answer"), std::string::npos) << client.trouble().what;
  }
  EXPECT_EQ(client.get("key").value(), value);

  send_signal(server, SIGCONT);
  ASSERT_TRUE(patient.put("key", sealed_value("key", 2, 100)));
  EXPECT_EQ(node.server(), server);
  EXPECT_EQ(number_in("key", client.get("key").value()), 2U);
  ASSERT_TRUE(put_in_the_end(client, "again", "x"));
  const auto later = client.get("later");
  if (later) {
    EXPECT_TRUE(is_perhaps_there);
    EXPECT_EQ(number_in("later", *later), 1U);
  }
  EXPECT_EQ(leak_after_erasing_all(patient), "");
  EXPECT_EQ(node.stop(), 0);
}

// All its shards stop at once. Local readers do without them; a socket's clients wait, and continue where
// they were.
TEST(StoppedServer, of_several_shards_answers_gets_of_this_host_and_lets_others_wait) {
  Node node({.arguments = {"--server-shards", "3", "--listen-address", "127.0.0.1:0"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client local = node.connect();
  Client remote = node.connect_tcp();
  Client impatient = node.connect_tcp({.timeout_ns = 200'000'000});
  const auto key_of = [](uint64_t n) { return "key-" + std::to_string(n); };
  for (uint64_t n = 0; n < 60; ++n) {
    ASSERT_TRUE(remote.put(key_of(n), sealed_value(key_of(n), n, 16 + n * 900)));
    ASSERT_TRUE(impatient.exists(key_of(n)));
    ASSERT_TRUE(local.exists(key_of(n)));
  }
  const pid_t server = node.server();
  send_signal(server, SIGSTOP);
  ASSERT_TRUE(becomes_true([&] { return state_of(server) == 'T'; }));
  for (uint64_t n = 0; n < 60; ++n) EXPECT_EQ(number_in(key_of(n), local.get(key_of(n)).value_or("")), n);
  EXPECT_EQ(impatient.get(key_of(1)).code(), Code::kDeadlineExceeded);
  send_signal(server, SIGCONT);
  for (uint64_t n = 0; n < 60; ++n) {
    EXPECT_EQ(number_in(key_of(n), remote.get(key_of(n)).value_or("")), n);
    EXPECT_TRUE(remote.put(key_of(n), sealed_value(key_of(n), n + 1, 100)));
    EXPECT_EQ(number_in(key_of(n), local.get(key_of(n)).value_or("")), n + 1);
  }
  EXPECT_EQ(remote.counters().server_losses, 0U);
  EXPECT_EQ(node.server(), server);
}

TEST(StoppedServer, ends_with_the_node_all_the_same) {
  Node node;
  ASSERT_TRUE(node.is_up()) << node.errors();
  const pid_t server = node.server();
  send_signal(server, SIGSTOP);
  ASSERT_TRUE(becomes_true([&] { return state_of(server) == 'T'; }));
  EXPECT_EQ(node.stop(), 0);
  EXPECT_TRUE(becomes_true([&] { return state_of(server) == '\0'; }));
}

// Buffers are reused last in, first out, so that what a stopped reader looks at is soon another value's.
TEST(StoppedClient, never_returns_a_wrong_value_however_long_it_was_away) {
  Node node;
  ASSERT_TRUE(node.is_up()) << node.errors();
  constexpr uint64_t kKeys = 4;
  const auto key_of = [](uint64_t key) { return "hot-" + std::to_string(key); };
  Client writer = node.connect();
  for (uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_TRUE(writer.put(key_of(key), sealed_value(key_of(key), 0, 900)));
  }
  const SharedLedger shared;
  std::vector<Process> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.push_back(Process::run([&, reader] {
      Client client = node.connect();
      std::string value;
      uint64_t newest[kKeys] = {};
      Prng prng(static_cast<uint64_t>(reader) + 3);
      while (!shared->stop.load()) {
        const uint64_t key = prng.below(kKeys);
        const auto got = client.get(key_of(key), value);
        const auto number = got ? number_in(key_of(key), value) : std::nullopt;
        // And no older one than it has seen already.
        if (!number || *number < newest[key]) return 1;
        newest[key] = *number;
        shared->clients[reader].operations.fetch_add(1);
      }
      return 0;
    }));
  }
  Prng prng(5);
  uint64_t number = 0;
  for (int stop = 0; stop < 60; ++stop) {
    const Process& reader = readers[static_cast<size_t>(stop) % 2];
    reader.signal(SIGSTOP);
    for (int put = 0; put < 60; ++put) {
      const std::string key = key_of(prng.below(kKeys));
      ASSERT_TRUE(writer.put(key, sealed_value(key, ++number, 300 + prng.below(30'000))));
    }
    reader.signal(SIGCONT);
  }
  const uint64_t goal = shared.operations() + 1'000;
  EXPECT_TRUE(becomes_true([&] { return shared.operations() >= goal; }));
  shared->stop.store(true);
  for (Process& reader : readers) EXPECT_EQ(reader.wait(), 0);
  EXPECT_EQ(leak_after_erasing_all(writer), "");
}

}  // namespace
}  // namespace refract::test
