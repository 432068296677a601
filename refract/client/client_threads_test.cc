// SPDX-License-Identifier: Apache-2.0
// One client in the hands of many threads. Under the thread sanitizer this is also the proof that they share
// nothing by accident.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/client/client.h"
#include "refract/client/testing/test_node.h"

namespace refract {
namespace {

using test::becomes_true;
using test::TestNode;
using test::value_of;

constexpr uint64_t kThreads = 4;

// Of a node with one shard each thread has one connection.
uint64_t connections_of(const TestNode& node) {
  Client asking = node.connect();
  const auto stat = asking.stat();
  return stat ? stat->connections - 1 : 0;
}

TEST(ClientThreads, each_thread_reads_what_it_and_the_others_wrote) {
  const TestNode node({"--server-shards", "2"});
  Client client = node.connect({.timeout_ns = 60'000'000'000});
  std::atomic<int> wrong = 0;
  std::latch written(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto key_of = [](uint64_t owner, uint64_t i) {
        return std::to_string(owner) + "/" + std::to_string(i);
      };
      for (uint64_t i = 0; i < 200; ++i) {
        wrong += client.put(key_of(thread, i), value_of(thread * 1'000 + i, 100)).has_value() ? 0 : 1;
      }
      written.arrive_and_wait();
      std::vector<std::string> keys;
      for (uint64_t owner = 0; owner < kThreads; ++owner) {
        for (uint64_t i = 0; i < 200; ++i) {
          const auto got = client.get(key_of(owner, i));
          wrong += got && *got == value_of(owner * 1'000 + i, 100) ? 0 : 1;
          keys.push_back(key_of(owner, i));
        }
      }
      const std::vector<std::string_view> names(keys.begin(), keys.end());
      for (const auto& value : client.multi_get(names)) wrong += value.has_value() ? 0 : 1;
      (void)client.counters();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  // Those of threads that have ended are counted, too.
  EXPECT_EQ(client.counters().messages_sent, kThreads * 200);
  EXPECT_EQ(client.counters().direct_reads, kThreads * kThreads * 400);
  EXPECT_EQ(client.counters().connections, kThreads);
}

TEST(ClientThreads, long_values_are_whole_however_many_threads_copy_them) {
  const TestNode node;
  Client client = node.connect({.timeout_ns = 60'000'000'000, .copy_threads = 4});
  constexpr uint64_t kLong = 5'000'001;
  ASSERT_TRUE(client.put("long", std::string(kLong, 'a')).has_value());
  std::atomic<int> wrong = 0;
  std::atomic<bool> is_over = false;
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      std::string used;
      for (int i = 0; i < 4 || !is_over; ++i) {
        const auto fresh = client.get("long");
        wrong += fresh && *fresh == std::string(kLong, fresh->front()) ? 0 : 1;
        wrong += client.get("long", used) && used == std::string(kLong, used.front()) ? 0 : 1;
      }
    });
  }
  for (char letter = 'b'; letter < 'h'; ++letter) {
    EXPECT_TRUE(client.put("long", std::string(kLong, letter)).has_value());
  }
  is_over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ClientThreads, a_threads_connections_end_with_it) {
  const TestNode node;
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value").has_value());
  for (int round = 0; round < 3; ++round) {
    std::thread([&] { EXPECT_EQ(test::needed(client.get("key")), "value"); }).join();
  }
  EXPECT_TRUE(becomes_true([&] { return connections_of(node) == 1; }));
  EXPECT_EQ(client.counters().connections, 4U);
}

TEST(ClientThreads, a_client_may_end_before_the_threads_that_used_it) {
  const TestNode node;
  std::latch used(kThreads);
  std::latch ended(1);
  std::vector<std::thread> threads;
  {
    const auto client = std::make_unique<Client>(node.connect());
    ASSERT_TRUE(client->put("key", "value").has_value());
    for (uint64_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, &shared = *client] {
        EXPECT_EQ(test::needed(shared.get("key")), "value");
        used.count_down();
        ended.wait();
        // The next client may lie where the last one lay, and must not be taken for it.
        Client own = node.connect();
        EXPECT_EQ(test::needed(own.get("key")), "value");
      });
    }
    used.wait();
  }
  EXPECT_TRUE(becomes_true([&] { return connections_of(node) == 0; }));
  ended.count_down();
  for (std::thread& thread : threads) thread.join();
}

TEST(ClientThreads, clients_take_turns_in_one_thread) {
  const TestNode first;
  const TestNode second;
  Client left = first.connect();
  Client right = second.connect();
  ASSERT_TRUE(left.put("key", "left").has_value());
  ASSERT_TRUE(right.put("key", "right").has_value());
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(left.get("key").value(), "left");
    ASSERT_EQ(right.get("key").value(), "right");
  }
  EXPECT_EQ(left.counters().connections, 1U);
  EXPECT_EQ(right.counters().connections, 1U);
}

// Views go from the thread that makes them to one that drops them; a pin that is lost or given back twice
// would end in kOverloaded or in a view whose bytes change.
TEST(ClientThreads, a_view_may_be_dropped_by_another_thread) {
  const TestNode node;
  Client client = node.connect({.timeout_ns = 60'000'000'000});
  ASSERT_TRUE(client.put("key", value_of(0, 200)).has_value());
  std::mutex mutex;
  std::vector<View> given;
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  std::thread maker([&] {
    for (int i = 0; i < 3'000; ++i) {
      auto view = client.view("key");
      if (!view) {
        wrong += view.code() == Code::kOverloaded ? 0 : 1;
        std::this_thread::yield();
        continue;
      }
      const std::scoped_lock lock(mutex);
      given.push_back(std::move(*view));
    }
    done = true;
  });
  uint64_t version = 0;
  while (!done) {
    std::vector<View> taken;
    {
      const std::scoped_lock lock(mutex);
      taken.swap(given);
    }
    const auto put = client.put("key", value_of(++version, 200));
    EXPECT_TRUE(put.has_value());
    for (const View& view : taken) {
      bool is_known = false;
      for (uint64_t seen = version + 1; seen-- > 0 && !is_known;)
        is_known = view.text() == value_of(seen, 200);
      wrong += is_known ? 0 : 1;
    }
  }
  maker.join();
  EXPECT_EQ(wrong, 0);
  // The maker's thread is gone, and its last views still hold what they show.
  for (uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(client.put("key", value_of(1'000'000 + i, 200)).has_value());
  for (const View& view : given) EXPECT_NE(view.text(), value_of(1'000'299, 200));
}

TEST(ClientThreads, a_view_outlives_thread_and_client) {
  const TestNode node;
  std::optional<View> view;
  {
    Client client = node.connect();
    ASSERT_TRUE(client.put("key", value_of(7, 500)).has_value());
    std::thread([&] { view.emplace(test::needed(client.view("key"))); }).join();
  }
  Client writer = node.connect();
  for (uint64_t i = 0; i < 2'000; ++i) ASSERT_TRUE(writer.put("key", value_of(i, 500)).has_value());
  EXPECT_EQ(view->text(), value_of(7, 500));
  view.reset();
  EXPECT_TRUE(becomes_true([&] { return connections_of(node) == 1; }));
}

TEST(ClientThreads, in_a_child_every_threads_handle_fails_and_nothing_waits) {
  const TestNode node;
  Client client = node.connect();
  ASSERT_TRUE(client.put("key", "value").has_value());
  std::latch used(1);
  std::latch forked(1);
  std::thread other([&] {
    EXPECT_EQ(test::needed(client.get("key")), "value");
    used.count_down();
    forked.wait();
    EXPECT_EQ(test::needed(client.get("key")), "value");
  });
  used.wait();
  test::Process child = test::Process::run([&] {
    int wrong = client.get("key").code() == Code::kForked ? 0 : 1;
    std::vector<GetItem> items(1);
    items[0].key = "key";
    client.multi_get(items);
    wrong += items[0].result.code() == Code::kForked ? 0 : 1;
    wrong += client.new_request().code() == Code::kForked ? 0 : 1;
    const Client ended = std::move(client);
    return wrong;
  });
  EXPECT_EQ(child.wait(), 0);
  forked.count_down();
  other.join();
}

}  // namespace
}  // namespace refract
