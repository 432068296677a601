// SPDX-License-Identifier: Apache-2.0
// The room for large values by itself, and many of them at once over windows.
#include "refract/rpc/transfer_room.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using runtime::Task;
using test::bytes_of;
using test::patterned;
using test::Served;
using test::ServedOptions;

struct Asker {
  uint64_t bytes = 0;
  Code code = Code::kUnavailable;
};
Task<> ask(rpc::TransferRoom& room, Asker& asker, uint64_t deadline_ns) {
  asker.code = co_await room.take(asker.bytes, deadline_ns);
}

class TransferRoomTest : public testing::Test {
 protected:
  ManualClock clock;
  runtime::Shard shard{clock};
  rpc::TransferRoom room{shard, 100};
};

TEST_F(TransferRoomTest, who_finds_no_room_waits_behind_those_who_came_before) {
  std::vector<Asker> askers{{.bytes = 60}, {.bytes = 50}, {.bytes = 10}, {.bytes = 40}};
  for (Asker& asker : askers) shard.spawn(ask(room, asker, kForever_ns));
  EXPECT_EQ(askers[0].code, Code::kOk);
  // Even what would fit.
  EXPECT_EQ(askers[2].code, Code::kUnavailable);
  EXPECT_FALSE(room.try_take(1));
  room.give_back(60);
  EXPECT_EQ(askers[1].code, Code::kOk);
  EXPECT_EQ(askers[2].code, Code::kOk);
  EXPECT_EQ(askers[3].code, Code::kOk);
  EXPECT_EQ(room.taken(), 100u);
  room.give_back(100);
  EXPECT_EQ(room.taken(), 0u);
}

TEST_F(TransferRoomTest, more_than_the_room_goes_alone) {
  Asker large{.bytes = 1'000};
  ASSERT_TRUE(room.try_take(1));
  shard.spawn(ask(room, large, kForever_ns));
  EXPECT_EQ(large.code, Code::kUnavailable);
  room.give_back(1);
  EXPECT_EQ(large.code, Code::kOk);
  EXPECT_FALSE(room.try_take(1));
  room.give_back(1'000);
}

TEST_F(TransferRoomTest, who_gives_up_takes_nothing_and_keeps_nobody_waiting) {
  ASSERT_TRUE(room.try_take(90));
  Asker late{.bytes = 50};
  Asker dropped{.bytes = 50};
  Asker patient{.bytes = 50};
  shard.spawn(ask(room, late, 10));
  Task<> dropping = ask(room, dropped, kForever_ns);
  dropping.start();
  shard.spawn(ask(room, patient, kForever_ns));
  dropping = {};
  clock.set_now_ns(11);
  (void)shard.ops().expire(shard.refresh_now());
  EXPECT_EQ(late.code, Code::kDeadlineExceeded);
  room.give_back(90);
  EXPECT_EQ(patient.code, Code::kOk);
  EXPECT_EQ(room.taken(), 50u);
  room.give_back(50);
}

// The first steps of all take the whole room. A transfer that waited for its second step while it holds the
// first would wait for ever.
TEST(TransferRoomUse, values_of_several_steps_at_once_all_come_through) {
  Served served{ServedOptions{
      .chunks = 62, .link = {.depth = 32, .message_bytes_max = 32 * 1024, .one_sided_bytes_min = 64 * 1024}}};
  const Served::Peer peer = served.connect();
  constexpr size_t kValues = 9;
  const std::string value = patterned(5 * kMiB);
  std::vector<std::string> keys;
  std::vector<RpcClient::PutItem> puts;
  for (size_t i = 0; i < kValues; ++i) keys.push_back(std::to_string(i));
  for (const std::string& key : keys) {
    puts.push_back({.key = bytes_of(key), .value = bytes_of(value), .options = {}});
  }
  served.wait(peer.client->multi_put(puts));
  for (const RpcClient::PutItem& put : puts) EXPECT_EQ(put.result.code(), Code::kOk);
  std::vector<std::string> values(kValues);
  std::vector<std::unique_ptr<StringSink>> sinks;
  std::vector<RpcClient::GetItem> gets;
  for (size_t i = 0; i < kValues; ++i) {
    sinks.push_back(std::make_unique<StringSink>(values[i]));
    gets.push_back({.key = bytes_of(keys[i]), .sink = sinks.back().get()});
  }
  served.wait(peer.client->multi_get(gets));
  for (size_t i = 0; i < kValues; ++i) {
    EXPECT_EQ(gets[i].result.code(), Code::kOk);
    EXPECT_TRUE(values[i] == value);
  }
}

}  // namespace
}  // namespace refract::kv
