// SPDX-License-Identifier: Apache-2.0
// 10,000 clients that prepare parts, of homes here and on other nodes, and are heard of no more: nothing of
// them stays, and no other client waits for long.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "refract/kv/testing/test_one_of_nodes.h"

namespace refract::kv::over_nodes {
namespace {

constexpr size_t kClients = 10'000;
constexpr size_t kAtOnce = 200;
constexpr uint64_t kWithKeptWords_ns = HomeWords::kKept_ns + kSecond_ns;

// How far a client comes. Those that stop keep their sessions, and say nothing.
enum class Until : uint8_t {
  kPrepared,       // At its home's own node.
  kPreparedStops,  //
  kDecided,        // Committed, and none tells the part.
  kNeverAfar,      // Prepared; its home is another node, which says so.
  kHappenedAfar,   //
  kDecidedAfar,    // Its home is here, and a part is elsewhere.
  kBegun,          // It has words.
  kPreparesTwice,  // Two parts.
};
constexpr size_t kKinds = 8;

class DeadClients : public testing::Test {
 protected:
  DeadClients() {
    node_.nodes.set(kHome, Fate::kNever);
    node_.nodes.set(kOtherHome, Fate::kHappened);
    put_everything();
    live_ = live();
  }
  [[nodiscard]] static std::string old_key(size_t i) { return "old " + std::to_string(i); }
  [[nodiscard]] static std::string gone_key(size_t i) { return "gone " + std::to_string(i); }
  [[nodiscard]] static std::string fresh_key(size_t i) { return "fresh " + std::to_string(i); }

  // Writes all keys by hand, without a wait: so none is held. What parts have made is gone behind it.
  void put_everything() {
    for (size_t i = 0; i < kAtOnce; ++i) {
      for (const std::string& key : {old_key(i), gone_key(i), fresh_key(i)}) {
        ASSERT_EQ(witness_.put_once(key), Code::kOk) << key;
      }
      ASSERT_TRUE(witness_.rpc().erase_and_wait(bytes_of(fresh_key(i))));
    }
  }
  [[nodiscard]] uint64_t live() {
    Heap& heap = node_.served.space.heap();
    heap.reclaim();
    EXPECT_EQ(heap.stats().bytes_retired, 0U);
    return heap.stats().bytes_live;
  }
  // How many names clients are given, before there are no words left.
  [[nodiscard]] size_t words(bool is_far) {
    size_t count = 0;
    std::vector<std::unique_ptr<Client>> takers;
    for (size_t before = count + 1; before != count;) {
      before = count;
      takers.push_back(std::make_unique<Client>(node_));
      for (size_t i = 0; i < HomeWords::kPerSession && takers.back()->try_begin(is_far); ++i, ++count) {
        // Words are asked for before there are none.
        node_.served.settle();
      }
    }
    takers.clear();
    node_.pass(kMillisecond_ns);
    return count;
  }

  // Prepares: a replaced key, a new one, an erased one, and one that is to stay away.
  [[nodiscard]] Code prepare(Client& client, const TransactionName& name, size_t i) {
    const std::string old = old_key(i);
    const std::string gone = gone_key(i);
    const std::string fresh = fresh_key(i);
    const std::string nothing = "nothing " + std::to_string(i);
    const std::vector<RpcCondition> conditions{{.key = bytes_of(nothing), .kind = ConditionKind::kAbsent}};
    std::vector<RpcBatchWrite> writes{{.key = bytes_of(old), .value = bytes_of("new")},
                                      {.key = bytes_of(fresh), .value = bytes_of("new")},
                                      {.key = bytes_of(gone), .kind = WriteKind::kErase}};
    RpcBatch batch{.conditions = conditions, .writes = writes};
    return client.prepare(name, batch);
  }
  void decide(Client& client, const TransactionName& name, std::span<const wire::FarPlace> places = {}) {
    std::vector<RpcBatchWrite> writes{{.key = bytes_of("home"), .value = bytes_of("1")}};
    RpcBatch batch{.conditions = {}, .writes = writes};
    ASSERT_EQ(client.decide(name, batch, places), Code::kOk);
  }
  void live_until(Client& client, Until until, size_t i) {
    const bool is_afar = until == Until::kNeverAfar || until == Until::kHappenedAfar;
    if (is_afar) {
      const TransactionName name = far_name(until == Until::kNeverAfar ? kHome : kOtherHome, ++numbers_);
      ASSERT_EQ(prepare(client, name, i), Code::kOk);
      return;
    }
    const TransactionName name = client.begin(until == Until::kDecidedAfar);
    if (until == Until::kBegun) return;
    if (until == Until::kDecidedAfar) {
      const wire::FarPlace place{.member = kOtherHome, .shard = 0};
      return decide(client, name, {&place, 1});
    }
    ASSERT_EQ(prepare(client, name, i), Code::kOk);
    if (until == Until::kDecided) decide(client, name);
    if (until == Until::kPreparesTwice) {
      ASSERT_EQ(client.prepare(client.begin(false), "old " + std::to_string(i) + " too", "1"), Code::kOk);
    }
  }

  Node node_;
  Client witness_{node_};
  uint64_t live_ = 0;
  uint64_t numbers_ = 0;
};

TEST_F(DeadClients, leave_no_part_no_word_and_no_byte_and_keep_no_key) {
  const auto expect_all_words = [&] {
    EXPECT_EQ(words(false), HomeWords::kFarBegin);
    EXPECT_EQ(words(true), kDecisionWords - HomeWords::kFarBegin);
  };
  expect_all_words();
  uint64_t parts = 0;
  for (size_t begun = 0; begun < kClients; begun += kAtOnce) {
    std::vector<std::unique_ptr<Client>> stopped;
    for (size_t i = 0; i < kAtOnce; ++i) {
      const auto until = static_cast<Until>(i % kKinds);
      auto client = std::make_unique<Client>(node_);
      ASSERT_NO_FATAL_FAILURE(live_until(*client, until, i));
      if (until == Until::kPreparedStops) stopped.push_back(std::move(client));
    }
    parts += node_.served.parts.count();
    const auto are_gone = [&] {
      return node_.served.parts.count() == 0 && node_.served.server.session_count() == 1 + stopped.size();
    };
    ASSERT_TRUE(node_.served.shard.run_until(are_gone, node_.served.shard.refresh_now() + 3 * kSecond_ns))
        << node_.served.parts.count() << " parts, " << node_.served.server.session_count() << " sessions";
    ASSERT_NO_FATAL_FAILURE(put_everything());
    stopped.clear();
    for (size_t i = 0; i < kAtOnce; ++i) {
      (void)witness_.rpc().erase_and_wait(bytes_of("old " + std::to_string(i) + " too"));
    }
    (void)witness_.rpc().erase_and_wait(bytes_of("home"));
    ASSERT_EQ(live(), live_) << "behind " << begun + kAtOnce << " clients";
    node_.pass(kWithKeptWords_ns);
  }
  EXPECT_GT(parts, kClients / kKinds) << "most had ended before that";
  expect_all_words();
  EXPECT_EQ(node_.served.space.writer().load(kFarPartsAt), 0U);
  EXPECT_EQ(node_.served.server.session_count(), 1U);
  EXPECT_TRUE(node_.served.is_sound());
}

}  // namespace
}  // namespace refract::kv::over_nodes
