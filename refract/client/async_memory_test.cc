// SPDX-License-Identifier: Apache-2.0
// Memory of the caller's and of the client's in the coroutine form: reservations, and buffers whose get is
// dropped or left to itself. Against a real node. Some 4 s.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/client/async_client.h"
#include "refract/client/testing/test_node.h"
#include "refract/memory/testing/child_process.h"

namespace refract::async_memory_test {
namespace {

using runtime::Shard;
using runtime::Task;
using test::needed;
using test::TestNode;
using test::value_of;

constexpr uint64_t kBytes = 3'000'000;

void build(const Reservation& reservation, uint64_t number) {
  const std::string value = value_of(number, reservation.bytes().size());
  std::memcpy(reservation.bytes().data(), value.data(), value.size());
}

class AsyncMemory : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::unique_ptr<AsyncClient> connect() {
    const std::string address = GetParam() == "tcp" ? "tcp:" + node_.tcp() : node_.socket();
    const Paths paths = GetParam() == "rpc" ? Paths::kRpc : Paths::kAuto;
    return needed(block_on(shard_, AsyncClient::connect(shard_, address, {.paths = paths})));
  }
  [[nodiscard]] Result<std::string> get(const std::string& key) { return local_.get(key); }
  void run_for(uint64_t ns) {
    (void)shard_.run_until([] { return false; }, shard_.refresh_now() + ns);
  }

  TestNode node_{{"--listen-address", "127.0.0.1:0", "--memory-limit", "384MiB"}};
  Client local_ = node_.connect();
  Shard shard_{system_clock()};
  std::unique_ptr<AsyncClient> client_ = connect();
};
INSTANTIATE_TEST_SUITE_P(Transports, AsyncMemory, testing::Values("shm", "rpc", "tcp"),
                         [](const auto& way) { return way.param; });

TEST_P(AsyncMemory, reservations_are_put_whole_and_again_with_other_bytes) {
  uint64_t number = 0;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{33'000}, kBytes}) {
    const Reservation reservation = needed(client_->reserve(bytes));
    ASSERT_EQ(reservation.bytes().size(), bytes);
    for (int again = 0; again < 3; ++again) {
      build(reservation, ++number);
      ASSERT_TRUE(block_on(shard_, client_->put("key", reservation))) << bytes;
      EXPECT_EQ(get("key").value(), value_of(number, bytes)) << bytes;
    }
    EXPECT_EQ(block_on(shard_, client_->put("key", reservation, {.if_absent = true})).code(), Code::kExists);
  }
  EXPECT_EQ(client_->reserve(0).code(), Code::kInvalidArgument);
  EXPECT_EQ(client_->reserve(513 * kMiB).code(), Code::kTooLarge);
}

TEST_P(AsyncMemory, what_a_reservation_took_serves_the_next_one) {
  const std::byte* first = nullptr;
  for (int i = 0; i < 20; ++i) {
    const Reservation reservation = needed(client_->reserve(kBytes));
    if (i == 0) first = reservation.bytes().data();
    EXPECT_EQ(reservation.bytes().data(), first);
  }
}

TEST_P(AsyncMemory, a_reservation_ends_in_any_thread_and_outlives_its_client) {
  Reservation left = needed(client_->reserve(kBytes));
  Reservation elsewhere = needed(client_->reserve(kBytes));
  build(left, 5);
  std::thread([moved = std::move(elsewhere)] {}).join();
  run_for(kMillisecond_ns);
  client_.reset();
  client_ = connect();
  ASSERT_TRUE(block_on(shard_, client_->put("key", left))) << "of a client that has ended";
  EXPECT_EQ(get("key").value(), value_of(5, kBytes));
}

TEST_P(AsyncMemory, a_child_reserves_nothing) {
  const std::optional<Reservation> reservation = needed(client_->reserve(kBytes));
  EXPECT_EQ(test::in_child([&] { return client_->reserve(10).code() == Code::kForked ? 0 : 1; }), 0);
  build(*reservation, 1);
  ASSERT_TRUE(block_on(shard_, client_->put("key", *reservation)));
  EXPECT_EQ(get("key").value(), value_of(1, kBytes));
}

Task<> put_it(AsyncClient& client, const Reservation& reservation) {
  (void)co_await client.put("key", reservation);
}

// At any moment of it. The memory may be filled with something else at once. Over TCP there would be uploads
// that are left open.
TEST_P(AsyncMemory, a_put_that_is_dropped_leaves_a_whole_value_or_none) {
  if (GetParam() == "tcp") return;
  for (uint64_t round = 1; round < 60; ++round) {
    const Reservation reservation = needed(client_->reserve(kBytes));
    build(reservation, round);
    Task<> task = put_it(*client_, reservation);
    task.start();
    run_for(round * 10 * kMicrosecond_ns);
    task = {};
    if (round % 2 == 0) continue;  // Its memory is the next one's.
    const Result<std::string> value = get("key");
    bool is_known = value.code() == Code::kNotFound;
    for (uint64_t number = 1; value && number <= round; ++number)
      is_known |= *value == value_of(number, kBytes);
    EXPECT_TRUE(is_known) << round;
  }
  ASSERT_TRUE(block_on(shard_, client_->put("key", "a client that works")));
}

constexpr std::byte kUntouched{0x5a};

struct Targets {
  std::vector<std::string> keys;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<GetIntoItem> items;

  explicit Targets(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      keys.push_back("into " + std::to_string(i));
      buffers.emplace_back(i % 3 == 0 ? 100 : 600'000);
    }
    for (size_t i = 0; i < count; ++i) items.push_back({.key = keys[i], .buffer = buffers[i]});
  }
};

// What is not begun is left to itself, what is begun is waited for, or dropped where one-sided requests end
// with the connection, and in no case a byte comes later. What was open at the owner is closed, of which
// sixteen would keep all long values from this client.
TEST_P(AsyncMemory, buffers_that_were_taken_back_are_not_written_any_more) {
  if (GetParam() == "shm") return;  // All of it ends at once.
  for (size_t i = 0; i < 9; ++i)
    ASSERT_TRUE(local_.put("into " + std::to_string(i), value_of(i, i % 3 == 0 ? 100 : 600'000)));
  size_t left_alone = 0;
  size_t dropped = 0;
  for (uint64_t round = 0; round < 80; ++round) {
    Targets targets(9);
    Task<> task = client_->multi_get_into(targets.items);
    task.start();
    run_for(round * 25 * kMicrosecond_ns);
    std::vector<std::byte> instead(round % 2 == 0 ? 600'000 : 0);
    const bool ends_by_itself = AsyncClient::take_buffers_back(targets.items, instead);
    if (!ends_by_itself && GetParam() == "rpc") {
      ASSERT_TRUE(shard_.run_until([&] { return task.done(); }, shard_.refresh_now() + 30 * kSecond_ns));
    }
    if (!ends_by_itself) task = {};
    std::vector<std::vector<std::byte>> seen = targets.buffers;
    for (auto& buffer : targets.buffers) std::ranges::fill(buffer, kUntouched);
    if (ends_by_itself && !task.done()) {
      ++left_alone;
      ASSERT_TRUE(shard_.run_until([&] { return task.done(); }, shard_.refresh_now() + 30 * kSecond_ns));
    } else if (!ends_by_itself) {
      ++dropped;
      run_for(2 * kMillisecond_ns);
    }
    for (const auto& buffer : targets.buffers) {
      ASSERT_TRUE(std::ranges::all_of(buffer, [](std::byte byte) { return byte == kUntouched; })) << round;
    }
    for (size_t i = 0; i < 9; ++i) {
      const std::string value = value_of(i, seen[i].size());
      const bool is_its_own = targets.items[i].buffer.data() == targets.buffers[i].data();
      if (!targets.items[i].result || !is_its_own) continue;
      ASSERT_TRUE(std::ranges::equal(seen[i], std::as_bytes(std::span(value)))) << round;
    }
  }
  EXPECT_GT(left_alone, 0U);
  EXPECT_GT(dropped, 0U);
  Targets targets(9);
  block_on(shard_, client_->multi_get_into(targets.items));
  for (const GetIntoItem& item : targets.items) EXPECT_TRUE(item.result) << text(item.result.code());
}

}  // namespace
}  // namespace refract::async_memory_test
