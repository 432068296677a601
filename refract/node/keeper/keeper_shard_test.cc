// SPDX-License-Identifier: Apache-2.0
// What the keeper does for one shard when its server asks, falls silent or dies: no region is made twice,
// none is lost, and what cannot be had is refused. The test is the server at the other end of the link.
#include "refract/node/keeper/keeper_shard.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "refract/base/log.h"
#include "refract/base/testing/needed.h"
#include "refract/base/units.h"
#include "refract/memory/testing/fake_system.h"
#include "refract/node/hosted_kv/hosted_kv.h"

namespace refract::node {
namespace {

using test::needed;

class OfKeeperShard : public testing::Test {
 protected:
  OfKeeperShard() {
    set_log_level(LogLevel::kError);
    config_.memory_limit_bytes = 96 * kMiB;
    config_.memory_initial_bytes = 8 * kMiB;
    config_.socket_path = folder_.path() + "/node.sock";
    config_.clients_max = 4;
    shard_ = needed(open());
    server_ = needed(shard_->begin_server());
  }
  ~OfKeeperShard() override { set_log_level(LogLevel::kInfo); }

  [[nodiscard]] Reported<std::unique_ptr<KeeperShard>> open() const {
    static constexpr StoreRow kRows[] = {kKvRow};
    const ShardPlan plan = plan_shards(config_, {.keys = kRows, .objects = {}}).front();
    return KeeperShard::open({.config = config_, .plan = plan, .origin = {.hash_seed = 3}});
  }
  [[nodiscard]] std::optional<LinkEnd::Received> hear() {
    bool ended = false;
    auto received = server_.receive(ended);
    EXPECT_FALSE(ended);
    return received;
  }
  void say(const LinkMessage& message) {
    ASSERT_TRUE(server_.send(message));
    ASSERT_TRUE(shard_->read_link());
  }
  void take_memory() {
    while (shard_->wants_growth()) shard_->grow();
  }

  test::Folder folder_;
  NodeConfig config_;
  std::unique_ptr<KeeperShard> shard_;
  LinkEnd server_;
};

TEST_F(OfKeeperShard, serves_once_its_server_says_so_and_not_after_its_end) {
  EXPECT_FALSE(shard_->is_serving());
  say({.kind = LinkKind::kServing});
  EXPECT_TRUE(shard_->is_serving());
  server_.close();
  EXPECT_FALSE(shard_->read_link());
  shard_->on_server_ended();
  EXPECT_FALSE(shard_->is_serving());
  server_ = needed(shard_->begin_server());
  EXPECT_FALSE(shard_->is_serving()) << "the next one has not said it yet";
}

// Memory is mapped by the server before it is sealed, and offered to readers before the server uses it.
TEST_F(OfKeeperShard, a_region_is_taken_mapped_sealed_and_then_ready) {
  say({.kind = LinkKind::kWant, .bytes = kMiB});
  ASSERT_TRUE(shard_->wants_growth());
  EXPECT_FALSE(hear()) << "there is no memory yet";
  take_memory();
  const auto map = needed(hear());
  EXPECT_EQ(map.message.kind, LinkKind::kMapRegion);
  EXPECT_EQ(map.message.base, 8 * kMiB);
  ASSERT_TRUE(map.descriptors[0]);
  struct stat file{};
  ASSERT_EQ(::fstat(map.descriptors[0].get(), &file), 0);
  EXPECT_EQ(static_cast<uint64_t>(file.st_size), map.message.bytes);
  EXPECT_EQ(shard_->space().regions().size(), 1U) << "not before the server has mapped it";

  say({.kind = LinkKind::kMapped, .region = map.message.region});
  const auto ready = needed(hear());
  EXPECT_EQ(ready.message.kind, LinkKind::kRegionReady);
  EXPECT_EQ(ready.message.base, map.message.base);
  EXPECT_EQ(ready.message.bytes, map.message.bytes);
  ASSERT_EQ(shard_->space().regions().size(), 2U);
  EXPECT_EQ(ready.message.key, shard_->space().regions()[1].key.bits);
}

TEST_F(OfKeeperShard, what_is_asked_for_while_a_region_grows_makes_no_second_one) {
  say({.kind = LinkKind::kWant, .bytes = kMiB});
  say({.kind = LinkKind::kWant, .bytes = kMiB});
  take_memory();
  EXPECT_EQ(needed(hear()).message.kind, LinkKind::kMapRegion);
  say({.kind = LinkKind::kMapped, .region = 1});
  EXPECT_EQ(needed(hear()).message.kind, LinkKind::kRegionReady);
  EXPECT_FALSE(hear());
  EXPECT_FALSE(shard_->wants_growth());
  say({.kind = LinkKind::kMapped, .region = 1});
  EXPECT_FALSE(hear()) << "no region waits for that";
}

TEST_F(OfKeeperShard, a_value_that_cannot_fit_is_refused_and_shorter_ones_are_not) {
  say({.kind = LinkKind::kWant, .bytes = 90 * kMiB});
  const LinkMessage refusal = needed(hear()).message;
  EXPECT_EQ(refusal.kind, LinkKind::kRefused);
  EXPECT_EQ(refusal.bytes, 90 * kMiB) << "shorter ones may be asked for";
  say({.kind = LinkKind::kWant, .bytes = kMiB});
  EXPECT_TRUE(shard_->wants_growth());
}

TEST_F(OfKeeperShard, at_its_limit_it_refuses_values_of_any_length) {
  for (int regions = 1; shard_->space().next_region_bytes(0) != 0; ++regions) {
    ASSERT_LT(regions, 10);
    say({.kind = LinkKind::kWant, .bytes = 0});
    take_memory();
    say({.kind = LinkKind::kMapped});
  }
  EXPECT_EQ(shard_->space().bytes(), shard_->space().bytes_max());
  while (hear()) {
  }
  say({.kind = LinkKind::kWant, .bytes = kMiB});
  const LinkMessage refusal = needed(hear()).message;
  EXPECT_EQ(refusal.kind, LinkKind::kRefused);
  EXPECT_EQ(refusal.bytes, 0U);
}

TEST_F(OfKeeperShard, the_next_server_inherits_what_the_last_one_had_not_mapped) {
  say({.kind = LinkKind::kWant, .bytes = kMiB});
  take_memory();
  server_.close();
  shard_->on_server_ended();
  EXPECT_EQ(shard_->space().regions().size(), 2U);
  server_ = needed(shard_->begin_server());
  EXPECT_FALSE(hear()) << "it was forked with the region";
}

TEST_F(OfKeeperShard, memory_whose_server_dies_while_it_is_taken_is_finished_for_the_next_one) {
  say({.kind = LinkKind::kWant, .bytes = kMiB});
  ASSERT_TRUE(shard_->wants_growth());
  server_.close();
  shard_->on_server_ended();
  EXPECT_EQ(shard_->space().regions().size(), 1U);
  take_memory();
  EXPECT_EQ(shard_->space().regions().size(), 2U) << "no server has to map it first";
}

TEST_F(OfKeeperShard, damage_is_known_also_where_the_server_ended_at_once) {
  ASSERT_TRUE(server_.send({.kind = LinkKind::kDamaged, .base = 4096}));
  server_.close();
  EXPECT_FALSE(shard_->is_damaged());
  shard_->on_server_ended();
  EXPECT_TRUE(shard_->is_damaged());
}

TEST_F(OfKeeperShard, a_server_that_reads_nothing_is_found_deaf_and_the_next_one_is_not) {
  for (int i = 0; i < 100'000 && !shard_->is_deaf(); ++i) say({.kind = LinkKind::kWant, .bytes = 90 * kMiB});
  EXPECT_TRUE(shard_->is_deaf());
  shard_->on_server_ended();
  server_ = needed(shard_->begin_server());
  EXPECT_FALSE(shard_->is_deaf());
}

TEST_F(OfKeeperShard, takes_its_socket_away_when_it_goes_and_shares_it_with_no_other) {
  EXPECT_TRUE(std::filesystem::exists(config_.socket_path));
  const auto second = open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInUse) << second.error().what;
  shard_.reset();
  EXPECT_FALSE(std::filesystem::exists(config_.socket_path));
}

}  // namespace
}  // namespace refract::node
