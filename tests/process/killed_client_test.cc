// SPDX-License-Identifier: Apache-2.0
// Clients that are killed in the middle of anything are no trouble for the others, and what they held is
// given back.
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <vector>

#include "tests/process/load.h"
#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/prng.h"
#include "refract/base/testing/needed.h"

namespace refract::test {
namespace {

constexpr uint64_t kViewed = 40;
constexpr uint64_t kViewedBytes = 300'000;

std::string viewed_key(uint64_t key) {
  return "viewed-" + std::to_string(key);
}

TEST(KilledClient, in_the_middle_of_writes_is_not_noticed_by_the_others) {
  Node node({.arguments = {"--memory-limit", "512MiB"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  const SharedLedger ledger;
  const auto start = [&](int client, uint64_t large_bytes) {
    return Process::run([&node, &ledger, client, large_bytes] {
      return run_load(node.socket_path(), *ledger, {.client = client, .large_bytes = large_bytes});
    });
  };
  Process survivor = start(0, 100'000);
  Prng prng(2);
  for (int i = 0; i < 20; ++i) {
    const int client = 1 + i % 2;
    Process victim = start(client, 8'000'000);
    const uint64_t goal = ledger->clients[client].operations.load() + 1 + prng.below(30);
    ASSERT_TRUE(becomes_true([&] { return ledger->clients[client].operations.load() >= goal; }));
    sleep_ms(prng.below(5));
    victim.kill_now();
    // A client that continues with the same keys must find what the dead one left: settle what was under way.
    Client look = node.connect();
    ASSERT_EQ(differences_of(look, *ledger, client), "");
    settle_pending(look, *ledger, client);
  }
  ledger->stop.store(true);
  EXPECT_EQ(survivor.wait(), 0);
  Client client = node.connect();
  EXPECT_EQ(differences(client, *ledger, 3), "");
  EXPECT_EQ(ledger->clients[0].server_losses.load(), 0U);
  EXPECT_EQ(leak_after_erasing_all(client), "");
  ASSERT_TRUE(becomes_true([&] { return client.stat().value().connections == 1; }));
  EXPECT_EQ(node.stop(), 0);
}

TEST(KilledClient, gives_back_the_pins_of_its_views) {
  Node node;
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  for (uint64_t key = 0; key < kViewed; ++key) {
    ASSERT_TRUE(client.put(viewed_key(key), sealed_value(viewed_key(key), key, kViewedBytes)));
  }
  const SharedLedger shared;
  Process holder = Process::run([&] {
    Client holding = node.connect();
    std::vector<View> views;
    for (uint64_t key = 0; key < kViewed; ++key) {
      auto view = holding.view(viewed_key(key));
      if (!view) return 1;
      views.push_back(std::move(*view));
    }
    shared->clients[0].operations.store(1);
    // Until the test says that everything was overwritten: the views must not have noticed.
    while (!shared->stop.load()) sleep_ms(1);
    for (uint64_t key = 0; key < kViewed; ++key) {
      if (number_in(viewed_key(key), views[key].text()) != key) return 2;
    }
    shared->clients[0].operations.store(2);
    for (;;) sleep_ms(1'000);
  });
  ASSERT_TRUE(becomes_true([&] { return shared.operations() == 1 || !holder.is_running(); }));
  for (int round = 0; round < 20; ++round) {
    for (uint64_t key = 0; key < kViewed; ++key) {
      ASSERT_TRUE(client.put(viewed_key(key), sealed_value(viewed_key(key), 1'000 + key, kViewedBytes)));
    }
  }
  shared->stop.store(true);
  ASSERT_TRUE(becomes_true([&] { return shared.operations() == 2 || !holder.is_running(); }));
  ASSERT_TRUE(holder.is_running()) << holder.wait();
  EXPECT_GE(client.stat().value().bytes_retired, kViewed * kViewedBytes);
  // A server that is new keeps what the views hold too.
  const pid_t server = node.server();
  send_signal(server, SIGKILL);
  (void)node.next_server(server);
  ASSERT_TRUE(put_in_the_end(client, "one", "more"));
  holder.kill_now();
  EXPECT_EQ(leak_after_erasing_all(client), "");
}

TEST(KilledClient, in_the_middle_of_a_large_upload_leaves_no_memory_behind) {
  Node node({.arguments = {"--memory-initial", "256MiB", "--memory-limit", "512MiB"}});
  ASSERT_TRUE(node.is_up()) << node.errors();
  Client client = node.connect();
  for (int i = 0; i < 6; ++i) {
    Process uploader = Process::run([&]() -> int {
      Client uploading = node.connect();
      const std::string value(64 << 20, 'u');
      for (;;) (void)uploading.put("uploaded", value);
    });
    // An upload has its buffer from its first message on, before there is an entry, or besides the old one.
    ASSERT_TRUE(becomes_true([&] {
      const NodeStat stat = needed(client.stat());
      return stat.buffers_live > stat.entries;
    }));
    uploader.kill_now();
    ASSERT_TRUE(becomes_true([&] { return client.stat().value().connections == 1; }));
    EXPECT_EQ(leak_after_erasing_all(client), "");
  }
}

}  // namespace
}  // namespace refract::test
