// SPDX-License-Identifier: Apache-2.0
// Which node could have some objects soonest: on the simulator, with paths that are measured, slow, or not
// known; with nodes that are dead, stopped and cut off.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refract/object/testing/rank_bodies.h"
#include "refract/object/testing/three_nodes.h"

namespace refract::object {
namespace {

using test::rank_body;
using test::Ranked;
using test::Three;

constexpr uint64_t kLarge = 2 * kMiB;

class Ranks : public testing::TestWithParam<bool> {
 protected:
  // An object of so many bytes that only this node has.
  void make(char at, const std::string& id, uint64_t bytes) {
    ObjectStore& store = three.node(at).process->owner.store;
    REFRACT_CHECK(
        store.create({.id = test::as_bytes(id), .birth = ++last_birth_, .body_bytes = bytes}).has_value());
    REFRACT_CHECK(store.seal(test::as_bytes(id), last_birth_).has_value());
    three.pass(20 * kMillisecond_ns);
  }
  // Brings a copy, in messages, whose bytes this network carries one behind the other; returns how long that
  // took.
  uint64_t bring(char to, const std::string& id) {
    const uint64_t begun_ns = three.world.now_ns();
    const std::string body = test::await_body(id, kSecond_ns, TransferWish::kSend);
    REFRACT_CHECK(three.at(to).call(wire::Method::kAwait, body).code == Code::kOk);
    return three.world.now_ns() - begun_ns;
  }
  [[nodiscard]] Ranked rank(char by, const std::vector<std::string>& ids, uint64_t timeout_ns = kSecond_ns) {
    return test::ranked_of(three.at(by).call(wire::Method::kRank, rank_body(ids, timeout_ns)));
  }

  Three three{GetParam()};

 private:
  uint64_t last_birth_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Kinds, Ranks, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "redis" : "homes"; });

TEST_P(Ranks, a_node_that_has_all_is_the_first_whoever_asks) {
  const std::string one = three.id('b');
  const std::string other = three.id('c');
  make('b', one, 1000);
  make('b', other, 500);
  make('a', three.id('a'), 70);
  for (const char by : {'a', 'b', 'c'}) {
    const Ranked ranked = rank(by, {one, other});
    ASSERT_EQ(ranked.code, Code::kOk);
    EXPECT_EQ(ranked.codes, (std::vector<Code>{Code::kOk, Code::kOk}));
    ASSERT_EQ(ranked.order(), "bac") << by;
    EXPECT_EQ(ranked.nodes[0].node.missing, 0U);
    EXPECT_EQ(ranked.nodes[0].node.missing_bytes, 0U);
    EXPECT_EQ(ranked.nodes[0].node.time_ns, 0U);
    EXPECT_EQ(ranked.nodes[0].node.is_guessed, 0);
    for (const size_t i : {size_t{1}, size_t{2}}) {
      EXPECT_EQ(ranked.code_of(i), Code::kOk);
      EXPECT_EQ(ranked.nodes[i].node.missing, 2U);
      EXPECT_EQ(ranked.nodes[i].node.missing_bytes, 1500U);
      EXPECT_EQ(ranked.nodes[i].node.unreachable, 0U);
      EXPECT_GT(ranked.nodes[i].node.time_ns, 0U);
      EXPECT_EQ(ranked.nodes[i].node.is_guessed, 1) << "nothing was ever pulled";
    }
  }
  // A copy makes its node as good.
  (void)bring('c', one);
  (void)bring('c', other);
  EXPECT_EQ(rank('a', {one, other}).order(), "bca");
  const Ranked mixed = rank('a', {one, three.id('a')});
  EXPECT_EQ(mixed.of("a").missing_bytes, 1000U);
  EXPECT_EQ(mixed.of("b").missing_bytes, 70U);
  EXPECT_EQ(mixed.of("c").missing_bytes, 70U);
}

TEST_P(Ranks, a_node_whose_path_is_slow_stands_later_and_the_estimate_is_what_a_pull_takes) {
  sim::LinkOptions& slow = three.world.link(three.node('a').host, three.node('c').host);
  slow.bytes_per_us = 20;
  slow.delay_ns = kMillisecond_ns;
  const std::string learned = three.id('b', 1);
  make('a', learned, kLarge);
  for (const char to : {'c', 'b'}) {
    // From a alone: the other one's copy is not there yet, or goes before.
    (void)bring(to, learned);
    REFRACT_CHECK(three.node(to).process->owner.store.erase(test::as_bytes(learned), 1).has_value());
    three.pass(20 * kMillisecond_ns);
  }
  const std::string id = three.id('b');
  make('a', id, kLarge + kLarge / 2);
  const Ranked ranked = rank('b', {id});
  ASSERT_EQ(ranked.order(), "abc");
  const uint64_t quick_ns = ranked.nodes[1].node.time_ns;
  const uint64_t slow_ns = ranked.nodes[2].node.time_ns;
  EXPECT_EQ(ranked.nodes[1].node.is_guessed + ranked.nodes[2].node.is_guessed, 0);
  EXPECT_GT(slow_ns, 10 * quick_ns);
  const uint64_t took_ns = bring('c', id);
  EXPECT_NEAR(static_cast<double>(slow_ns), static_cast<double>(took_ns), static_cast<double>(took_ns) / 5);
  // Of two holders the one with the better path.
  const std::string of_both = three.id('b', 2);
  make('a', of_both, kLarge);
  (void)bring('b', of_both);
  EXPECT_LT(rank('a', {of_both}).of("c").time_ns, slow_ns / 5);
}

TEST_P(Ranks, of_paths_without_a_pull_the_first_round_trip_decides) {
  three.world.link(three.node('a').host, three.node('b').host).delay_ns = 3 * kMillisecond_ns;
  three.node('b').crash();
  three.pass(50 * kMillisecond_ns);
  three.node('b').restart();
  three.settle();
  const std::string id = three.id('c');
  make('a', id, 5000);
  const Ranked ranked = rank('c', {id});
  ASSERT_EQ(ranked.order(), "acb");
  EXPECT_EQ(ranked.nodes[1].node.is_guessed + ranked.nodes[2].node.is_guessed, 2);
  EXPECT_GT(ranked.nodes[2].node.time_ns, 6 * kMillisecond_ns);
  EXPECT_LT(ranked.nodes[1].node.time_ns, 3 * kMillisecond_ns);
}

TEST_P(Ranks, a_dead_and_a_stopped_member_stand_last_and_the_answer_comes_in_time) {
  const std::string id = three.id('a');
  make('b', id, 1000);
  three.world.pause(three.node('c').host);
  const uint64_t begun_ns = three.world.now_ns();
  const Ranked stopped = rank('a', {id}, 50 * kMillisecond_ns);
  ASSERT_EQ(stopped.code, Code::kOk);
  EXPECT_LT(three.world.now_ns() - begun_ns, 60 * kMillisecond_ns);
  EXPECT_EQ(stopped.order(), "bac");
  EXPECT_EQ(stopped.codes, std::vector<Code>{Code::kOk});
  EXPECT_EQ(stopped.code_of(0), Code::kOk);
  EXPECT_EQ(stopped.code_of(1), Code::kOk);
  EXPECT_EQ(stopped.code_of(2), Code::kDeadlineExceeded);
  EXPECT_EQ(stopped.nodes[2].node.missing, 0U) << "nothing is known of it";
  three.world.resume(three.node('c').host);

  three.node('c').crash();
  three.pass(40 * kMillisecond_ns);
  const uint64_t again_ns = three.world.now_ns();
  const Ranked dead = rank('a', {id});
  EXPECT_LT(three.world.now_ns() - again_ns, 10 * kMillisecond_ns) << "nothing is waited for";
  EXPECT_EQ(dead.order(), "bac");
  EXPECT_EQ(dead.code_of(1), Code::kOk);
  EXPECT_EQ(dead.code_of(2), Code::kAway);
}

TEST_P(Ranks, an_id_without_an_object_is_told_and_does_not_count) {
  const std::string id = three.id('a');
  make('c', id, 300);
  const Ranked ranked = rank('b', {three.id('b'), id, three.id('c')});
  EXPECT_EQ(ranked.codes, (std::vector<Code>{Code::kNotFound, Code::kOk, Code::kNotFound}));
  EXPECT_EQ(ranked.name(0), "c");
  EXPECT_EQ(ranked.of("a").missing, 1U);
  EXPECT_EQ(ranked.of("b").missing, 1U);
  const Ranked none = rank('b', {three.id('b')});
  EXPECT_EQ(none.codes, std::vector<Code>{Code::kNotFound});
  EXPECT_EQ(none.order(), "abc") << "by their names: each has all that there is";
  // Nothing was brought or made anywhere.
  for (const char name : {'a', 'b'}) EXPECT_FALSE(three.node(name).has(id));
}

TEST_P(Ranks, an_id_whose_home_is_dead_is_told_where_it_is_found_all_the_same) {
  const std::string id = three.id('c');
  const std::string lost = three.id('c', 1);
  make('a', id, 300);
  make('c', lost, 300);
  three.node('c').crash();
  // The home's word is awaited; what is here needs none.
  const Ranked waited = rank('a', {id}, 4 * kMillisecond_ns);
  EXPECT_EQ(waited.codes, std::vector<Code>{Code::kOk});
  EXPECT_EQ(waited.order(), "abc");
  EXPECT_EQ(waited.code_of(1), Code::kOk) << "the home takes a part of the time";
  // When the others may do without it, they ask each other.
  three.pass(100 * kMillisecond_ns);
  const Ranked later = rank('b', {id, lost});
  // Redis has its word for longer.
  const Code code = GetParam() ? Code::kOk : Code::kAway;
  EXPECT_EQ(later.codes, (std::vector<Code>{Code::kOk, code}));
  EXPECT_EQ(later.order(), "abc");
  EXPECT_EQ(later.of("b").missing - later.of("b").unreachable, 1U);
}

TEST_P(Ranks, what_a_node_cannot_reach_puts_it_behind_those_that_can) {
  const std::string id = three.id('a');
  make('c', id, 300);
  three.world.cut(three.node('b').host, three.node('c').host);
  three.pass(20 * kMillisecond_ns);
  const Ranked ranked = rank('a', {id});
  ASSERT_EQ(ranked.order(), "cab");
  EXPECT_EQ(ranked.code_of(2), Code::kOk);
  EXPECT_EQ(ranked.nodes[2].node.missing, 1U);
  EXPECT_EQ(ranked.nodes[2].node.unreachable, 1U);
  EXPECT_EQ(ranked.nodes[2].node.time_ns, 0U);
}

TEST_P(Ranks, what_is_more_than_a_node_may_have_is_said_of_it) {
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(three.id('a', i));
    make(i == 0 ? 'b' : 'a', ids.back(), 5 * kMiB);
  }
  const Ranked ranked = rank('c', ids);
  EXPECT_EQ(ranked.order(), "abc") << "a lacks one, b two, c all";
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ranked.code_of(i), Code::kNoSpace) << "12 MiB are the limit of each";
    EXPECT_EQ(ranked.nodes[i].node.missing, i + 1);
  }
  EXPECT_EQ(rank('c', {ids[0], ids[1]}).code_of(0), Code::kOk);
}

TEST_P(Ranks, many_ids_go_in_several_messages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 200; ++i) {
    // Two of them of each home.
    ids.push_back(three.id(static_cast<char>('a' + i % 3), i / 3) + std::string(50, '.'));
    make(i % 2 == 0 ? 'a' : 'b', ids.back(), 100);
  }
  const Ranked ranked = rank('c', ids);
  EXPECT_EQ(ranked.codes, std::vector<Code>(200, Code::kOk));
  EXPECT_EQ(ranked.nodes[0].node.missing, 100U);
  EXPECT_EQ(ranked.nodes[1].node.missing, 100U);
  EXPECT_EQ(ranked.name(2), "c");
  EXPECT_EQ(ranked.nodes[2].node.missing, 200U);
  EXPECT_EQ(ranked.nodes[2].node.missing_bytes, 20'000U);
}

TEST_P(Ranks, a_call_that_makes_no_sense_is_refused) {
  const std::string id = three.id('a');
  const std::string good = rank_body({id, id}, kSecond_ns);
  const auto code = [&](const std::string& body) {
    return three.at('a').call(wire::Method::kRank, body).code;
  };
  EXPECT_EQ(code(good), Code::kOk);
  EXPECT_EQ(code(good + "x"), Code::kMalformed);
  for (const size_t bytes : {good.size() - 1, sizeof(wire::RankRequest), sizeof(wire::RankRequest) - 1}) {
    EXPECT_EQ(code(good.substr(0, bytes)), Code::kMalformed) << bytes;
  }
  std::string reserved = good;
  reserved[offsetof(wire::RankRequest, reserved)] = 1;
  EXPECT_EQ(code(reserved), Code::kMalformed);
  EXPECT_EQ(code(rank_body({}, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(rank_body({""}, 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(rank_body(std::vector<std::string>(wire::kRankIdsMax + 1, "x"), 0)), Code::kInvalidArgument);
  EXPECT_EQ(code(rank_body(std::vector<std::string>(wire::kRankIdsMax, "x"), 0)), Code::kOk);
}

TEST_P(Ranks, under_another_list_it_is_asked_again) {
  const std::string id = three.id('a');
  make('a', id, 100);
  three.world.pause(three.node('c').host);
  const uint64_t call = three.at('a').start(wire::Method::kRank, rank_body({id}, 100 * kMillisecond_ns));
  three.pass(2 * kMillisecond_ns);
  const cluster::MemberList two = test::list_of(2, {"a", "b"});
  three.node('a').follow(two);
  three.node('b').follow(two);
  EXPECT_EQ(three.at('a').finish(call).code, Code::kAway);
  three.streams = GetParam() ? 3 : 1;
  three.pass(200 * kMillisecond_ns);
  EXPECT_EQ(rank('b', {id}).order(), "ab");
}

}  // namespace
}  // namespace refract::object
