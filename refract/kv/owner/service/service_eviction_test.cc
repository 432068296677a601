// SPDX-License-Identifier: Apache-2.0
// A served table that evicts: whichever way a value comes, there is room for it, and no client waits for
// long.
#include <gtest/gtest.h>

#include <string>

#include "refract/kv/chains/chain_client.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::patterned;
using test::Served;

class ServiceEviction : public testing::TestWithParam<EvictionPolicy> {
 protected:
  uint64_t fill(uint64_t value_bytes) {
    uint64_t count = 0;
    while (served.space.table().stats().evicted == 0 && count < 1'000'000) {
      EXPECT_TRUE(peer.client->put_and_wait(bytes_of("fill" + std::to_string(count)),
                                            bytes_of(patterned(value_bytes, count))));
      ++count;
    }
    return count;
  }
  Result<std::string> get(const std::string& key) {
    std::string value;
    StringSink sink(value);
    const Result<Got> got = peer.client->get_and_wait(bytes_of(key), sink);
    return got ? Result<std::string>(value) : fail_with(got.code());
  }
  static Result<std::string> fail_with(Code code) { return fail(code); }
  uint64_t evicted() { return served.space.table().stats().evicted; }

  Served served{{.chunks = 12, .chunks_max = 12, .eviction = GetParam()}};
  Served::Peer peer = served.connect();
};

TEST_P(ServiceEviction, small_and_large_values_find_room_and_are_what_was_put) {
  const uint64_t count = fill(500);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t bytes = i % 200 == 0 ? 1'500'000 : i % 20 == 0 ? 90'000 : 700;
    const std::string key = "new" + std::to_string(i);
    ASSERT_TRUE(peer.client->put_and_wait(bytes_of(key), bytes_of(patterned(bytes, i)))) << i;
    const auto value = get(key);
    ASSERT_TRUE(value.has_value());
    ASSERT_TRUE(*value == patterned(bytes, i));
  }
  EXPECT_GT(evicted(), 1'000u);
  EXPECT_EQ(served.service.stat().waiting_for_memory, 0u);
  EXPECT_TRUE(served.is_sound());
}

TEST_P(ServiceEviction, what_is_read_by_calls_stays) {
  const uint64_t count = fill(500);
  for (uint64_t i = 0; i < 3 * count; ++i) {
    for (int j = 0; j < 2; ++j)
      (void)get("fill" + std::to_string((i * 2 + static_cast<uint64_t>(j)) % 100 + 500));
    ASSERT_TRUE(peer.client->put_and_wait(bytes_of("new" + std::to_string(i)), bytes_of(patterned(500, i))));
  }
  uint64_t kept = 0;
  for (uint64_t i = 500; i < 600; ++i) kept += get("fill" + std::to_string(i)) ? 1u : 0u;
  // Some were among the first to go, before they were read.
  EXPECT_GE(kept, 85u);
}

TEST_P(ServiceEviction, a_view_that_is_open_is_read_to_its_end) {
  const std::string value = patterned(300'000, 3);
  ASSERT_TRUE(peer.client->put_and_wait(bytes_of("viewed"), bytes_of(value)));
  std::string body = test::body_of(test::key_ref(6), "viewed");
  std::string reply;
  ASSERT_EQ(served.call(peer, wire::Method::kGet, bytes_of(body), &reply), Code::kOk);
  const auto got = test::reply_as<wire::GetReply>(reply);
  ASSERT_NE(got.view, 0u);
  const uint64_t count = fill(500);
  for (uint64_t i = 0; i < 2 * count; ++i) {
    ASSERT_TRUE(peer.client->put_and_wait(bytes_of("new" + std::to_string(i)), bytes_of(patterned(500, i))));
  }
  const wire::ViewPieceRequest piece{.view = got.view, .offset = 299'000, .bytes = 1'000};
  const std::string piece_body = test::body_of(piece);
  ASSERT_EQ(served.call(peer, wire::Method::kViewPiece, bytes_of(piece_body), &reply), Code::kOk);
  EXPECT_TRUE(reply == value.substr(299'000));
}

TEST_P(ServiceEviction, chains_find_room_by_a_call) {
  ChainClient chains(*peer.client, served.shard);
  (void)fill(500);
  for (uint64_t i = 0; i < 3'000; ++i) {
    // One entry is replaced again and again, with values of several classes.
    const uint64_t bytes = i % 2 == 0 ? 500 : 100 + i % 7 * 900;
    ASSERT_TRUE(chains.put_and_wait(bytes_of("chained"), bytes_of(patterned(bytes, i)), {})) << i;
    const auto value = get("chained");
    ASSERT_TRUE(value.has_value());
    ASSERT_TRUE(*value == patterned(bytes, i)) << i;
    ASSERT_TRUE(chains.put_and_wait(bytes_of("other" + std::to_string(i)), bytes_of(patterned(500, i)), {}));
  }
  EXPECT_GT(served.chains.guard().installed_count(), 0u);
  EXPECT_GT(evicted(), 500u);
  EXPECT_TRUE(served.is_sound());
}

TEST_P(ServiceEviction, a_node_that_can_grow_does_so_first) {
  (void)fill(500);
  const uint64_t before = evicted();
  served.growth.allowed = true;
  const std::string value = patterned(500, 1);
  Result<uint64_t> put = fail(Code::kInvalidated);
  const auto write = [](RpcClient& client, std::string_view bytes,
                        Result<uint64_t>& outcome) -> runtime::Task<> {
    for (int i = 0; i < 2'000 && outcome.code() != Code::kNoSpace; ++i) {
      outcome = co_await client.put(bytes_of("more" + std::to_string(i)), bytes_of(bytes));
    }
  };
  served.shard.spawn(write(*peer.client, value, put));
  served.settle();
  ASSERT_TRUE(served.run_until([&] { return served.service.stat().waiting_for_memory == 1; }));
  EXPECT_EQ(evicted(), before);
  served.growth.allowed = false;
  served.service.on_growth_refused();
  ASSERT_TRUE(served.run_until([&] { return served.shard.gate().count() == 0; }));
  EXPECT_TRUE(put.has_value());
  EXPECT_GT(evicted(), before);
}

INSTANTIATE_TEST_SUITE_P(Policies, ServiceEviction,
                         testing::Values(EvictionPolicy::kLeastRecentlyUsed,
                                         EvictionPolicy::kLeastOftenUsed));

}  // namespace
}  // namespace refract::kv
