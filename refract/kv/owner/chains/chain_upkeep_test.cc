// SPDX-License-Identifier: Apache-2.0
// What chains leave to do is done although no call reminds the owner.
#include <gtest/gtest.h>

#include <string>

#include "refract/kv/chains/chain_client.h"
#include "refract/kv/testing/test_service.h"

namespace refract::kv {
namespace {

using test::bytes_of;
using test::patterned;
using test::Served;

// A client whose entry is there already, so that every put of it goes by chains.
class ChainUpkeepTest : public testing::Test {
 protected:
  ChainUpkeepTest() {
    EXPECT_TRUE(peer.client->put_and_wait(bytes_of("key"), bytes_of("value")).has_value());
    EXPECT_EQ(served.wait(chains.attach()), Code::kOk);
  }
  void put_by_chain(size_t bytes) {
    const std::string value = patterned(bytes);
    ASSERT_TRUE(served.wait(chains.put(bytes_of("key"), bytes_of(value))).has_value());
    ASSERT_EQ(chains.counts().all_by_rpc(), 0u);
  }
  [[nodiscard]] uint64_t bytes_retired() { return served.space.heap().stats().bytes_retired; }

  Served served{{.chunks = 16, .chunks_max = 64, .link = {.message_bytes_max = 32 * 1024}}};
  Served::Peer peer = served.connect();
  ChainClient chains{*peer.client, served.shard};
};

TEST_F(ChainUpkeepTest, what_chains_replaced_is_reusable_soon_after_the_last_one) {
  // What the put by call left is done with first, so that no timer of its own does the work of the test.
  ASSERT_TRUE(served.run_until([&] { return bytes_retired() == 0; }));
  for (int i = 0; i < 3; ++i) put_by_chain(100);
  ASSERT_GT(bytes_retired(), 0u);
  EXPECT_TRUE(served.run_until([&] { return bytes_retired() == 0; }));
  EXPECT_TRUE(served.is_sound());
}

TEST_F(ChainUpkeepTest, an_owner_that_sees_only_chains_asks_for_memory_before_it_is_full) {
  ASSERT_FALSE(served.space.heap().wants_growth());
  served.growth.allowed = true;
  int puts = 0;
  // As large as to take a chunk of a size that was not used yet.
  for (size_t bytes = 64; bytes < 16 * 1024 && served.growth.asked == 0; bytes = bytes * 5 / 4) {
    put_by_chain(bytes);
    ++puts;
  }
  EXPECT_GT(puts, 0);
  EXPECT_GT(served.growth.asked, 0u);
  EXPECT_TRUE(served.space.heap().wants_growth());
}

}  // namespace
}  // namespace refract::kv
