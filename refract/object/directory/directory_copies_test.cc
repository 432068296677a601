// SPDX-License-Identifier: Apache-2.0
// Bound copies on the simulator: they come, stay, are replaced, follow the wish, and give way to room.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "refract/object/directory/directory.h"
#include "refract/object/testing/three_nodes.h"

namespace refract::object::directory_copies_test {
namespace {

using test::id_at;
using test::list_of;
using test::SimClient;
using test::SimMember;

sim::WorldOptions network(uint64_t seed) {
  sim::WorldOptions options{.seed = seed, .message_bytes_max = 16 * 1024, .short_post_chance = 0};
  options.one_sided_bytes_min = 512;
  options.link.break_ns = 5 * kMillisecond_ns;
  options.steps_max = 400'000'000;
  return options;
}

// Nodes a to d with a client each; their directory is in the homes of the ids, or in Redis.
class Four : public testing::TestWithParam<bool> {
 protected:
  Four() : world(network(1)), list(list_of(1, {"a", "b", "c", "d"})) {
    if (is_in_redis()) REFRACT_CHECK(test::redis().ask({"FLUSHALL"}).text == "OK");
    for (const cluster::Member& member : list.members) {
      nodes.push_back(std::make_unique<SimMember>(
          world, member.name, list,
          SimMember::Options{.redis = is_in_redis() ? &test::redis() : nullptr, .grace_ns = grace_ns()}));
    }
    for (const cluster::Member& member : list.members) {
      clients.push_back(std::make_unique<SimClient>(world, "client of " + member.name, member.name));
      clients.back()->connect();
    }
    settle();
  }
  [[nodiscard]] static bool is_in_redis() { return GetParam(); }
  // Each second of Redis takes real time.
  [[nodiscard]] static uint64_t grace_ns() { return (is_in_redis() ? 10 : 60) * kSecond_ns; }
  // Redis hears of a stream's end by silence, and members look after copies once a second.
  [[nodiscard]] static uint64_t later_ns() { return is_in_redis() ? 8 * kSecond_ns : 0; }
  SimMember& node(char name) { return *nodes[static_cast<size_t>(name - 'a')]; }
  SimClient& at(char name) { return *clients[static_cast<size_t>(name - 'a')]; }
  [[nodiscard]] std::string id(char home, int number = 0) const {
    return id_at(list, std::string(1, home), number);
  }
  void pass(uint64_t ns) { REFRACT_CHECK(world.run_for(ns)); }
  void settle() {
    REFRACT_CHECK(world.run_until([&] {
      return std::ranges::all_of(nodes, [](const auto& one) {
        const uint64_t streams = is_in_redis() ? 4 : 3;
        return one->process == nullptr || (one->counts().is_complete && one->counts().streams == streams);
      });
    }));
    pass(20 * kMillisecond_ns);
  }
  void connect() {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i]->process != nullptr) clients[i]->connect();
    }
  }
  // "2 of 3", or the code's name.
  std::string copies(char by, const std::string& id, uint8_t wanted, uint64_t timeout_ns = kSecond_ns) {
    const test::Answer answer = at(by).call(
        wire::Method::kCopies, test::body_of(wire::CopiesCall{.birth = 0,
                                                              .timeout_ns = timeout_ns,
                                                              .id_bytes = test::short_of(id.size()),
                                                              .wanted = wanted,
                                                              .reserved = {}},
                                             id));
    if (answer.code != Code::kOk) return std::string(text(answer.code));
    const auto said = answer.as<wire::CopiesAnswer>();
    return std::to_string(said.counted) + " of " + std::to_string(said.wanted);
  }
  // As `where` has it.
  std::string known(char by, const std::string& id) {
    const test::Answer answer = at(by).call(wire::Method::kWhere, test::id_body(id, 0));
    if (answer.code != Code::kOk) return std::string(text(answer.code));
    const auto said = answer.as<wire::WhereReply>();
    return std::to_string(said.counted) + " of " + std::to_string(said.wanted);
  }
  // Names of the nodes that have it, and those in capitals that have it bound.
  std::string holders(const std::string& id) {
    std::string names;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i]->process == nullptr) continue;
      const auto object = nodes[i]->process->owner.store.find(test::as_bytes(id));
      if (!object) continue;
      names += static_cast<char>((object->copies.is_bound() ? 'A' : 'a') + static_cast<int>(i));
    }
    return names;
  }
  [[nodiscard]] static size_t bound_in(const std::string& names) {
    return static_cast<size_t>(std::ranges::count_if(names, [](char name) { return name < 'a'; }));
  }
  // The node with a bound copy that is neither of these two.
  char other_holder(const std::string& id, char one, char other) {
    for (const char name : holders(id)) {
      const auto small = static_cast<char>(name < 'a' ? name - 'A' + 'a' : name);
      if (name < 'a' && small != one && small != other) return small;
    }
    return '?';
  }

  sim::World world;
  cluster::MemberList list;
  std::vector<std::unique_ptr<SimMember>> nodes;
  std::vector<std::unique_ptr<SimClient>> clients;
};

INSTANTIATE_TEST_SUITE_P(Kinds, Four, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "redis" : "homes"; });

TEST_P(Four, so_many_come_on_different_nodes_whoever_asks) {
  for (const char home : {'a', 'b', 'd'}) {
    const std::string one = id(home);
    ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
    EXPECT_EQ(known('c', one), "0 of 0");
    EXPECT_EQ(copies('b', one, 2), "2 of 2") << home;
    pass(3 * kSecond_ns);
    EXPECT_EQ(bound_in(holders(one)), 2U) << holders(one);
    EXPECT_EQ(holders(one).size(), 2U) << holders(one);
    EXPECT_EQ(known('c', one), "2 of 2");
    // Nothing is copied for a number that is there.
    EXPECT_EQ(copies('a', one, 2, 0), "2 of 2");
    EXPECT_EQ(copies('d', one, 3), "3 of 3");
    EXPECT_EQ(bound_in(holders(one)), 3U);
  }
  EXPECT_EQ(copies('a', "nothing", 2), "not_found");
}

TEST_P(Four, more_than_there_are_nodes_is_answered_with_what_there_is) {
  const std::string one = id('b');
  ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
  const uint64_t begun_ns = world.now_ns();
  EXPECT_EQ(copies('a', one, 9, 10 * kSecond_ns), "4 of 9");
  EXPECT_LT(world.now_ns() - begun_ns, kSecond_ns);
}

// A copy that gets have left is bound where it is: nothing moves.
TEST_P(Four, copies_that_are_there_are_bound_first) {
  const std::string one = id('c');
  ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
  ASSERT_EQ(at('b').get(one), "bytes");
  EXPECT_EQ(copies('d', one, 2), "2 of 2");
  EXPECT_EQ(holders(one), "AB");
}

TEST_P(Four, the_home_is_chosen_last) {
  if (is_in_redis()) return;  // It is no node.
  for (int number = 0; number < 8; ++number) {
    const std::string one = id('c', number);
    ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
    ASSERT_EQ(copies('a', one, 3), "3 of 3");
    EXPECT_EQ(holders(one), "ABD");
  }
}

TEST_P(Four, a_node_that_is_away_for_a_minute_is_replaced) {
  const std::string one = id('c');
  ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
  ASSERT_EQ(copies('a', one, 2), "2 of 2");
  const char other = other_holder(one, 'a', 'a');
  ASSERT_TRUE(other != 'c' || is_in_redis());
  pass(grace_ns());
  node(other).crash();
  pass(grace_ns() - kSecond_ns);
  connect();
  EXPECT_EQ(known('a', one), "1 of 2");
  EXPECT_EQ(bound_in(holders(one)), 1U);
  pass(2 * kSecond_ns + later_ns());
  EXPECT_EQ(known('a', one), "2 of 2");
  EXPECT_EQ(bound_in(holders(one)), 2U);
  // It comes back: one more than is needed, which stays until its node needs room.
  node(other).restart();
  settle();
  EXPECT_EQ(bound_in(holders(one)), 3U);
  EXPECT_EQ(known('a', one), "3 of 2");
}

TEST_P(Four, a_memory_that_is_lost_is_replaced_at_once) {
  const std::string one = id('c');
  ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
  ASSERT_EQ(copies('a', one, 2), "2 of 2");
  const char other = other_holder(one, 'a', 'a');
  node(other).crash(true);
  node(other).restart();
  settle();
  pass(2 * kSecond_ns + later_ns());
  EXPECT_EQ(bound_in(holders(one)), 2U);
  // The maker's, too: the bytes outlive their node.
  node('a').crash(true);
  node('a').restart();
  settle();
  connect();
  pass(2 * kSecond_ns + later_ns());
  EXPECT_EQ(bound_in(holders(one)), 2U);
  EXPECT_EQ(at('a').get(one), "bytes");
}

TEST_P(Four, the_wish_outlives_the_home_and_servers) {
  const std::string one = id('c');
  ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
  ASSERT_EQ(copies('a', one, 3), "3 of 3");
  for (const char name : {'a', 'b', 'c', 'd'}) node(name).crash();
  for (const char name : {'a', 'b', 'c', 'd'}) node(name).restart();
  settle();
  connect();
  EXPECT_EQ(known('a', one), "3 of 3");
  // The home, with its memory.
  node('c').crash(true);
  node('c').restart();
  settle();
  connect();
  pass(later_ns());
  EXPECT_EQ(known('a', one), "3 of 3");
}

TEST_P(Four, a_lower_number_lets_all_of_them_go_for_room_and_a_node_that_was_away_hears_of_it) {
  const std::string one = id('c');
  ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
  ASSERT_EQ(copies('a', one, 3), "3 of 3");
  const char other = other_holder(one, 'a', 'a');
  node(other).crash();
  pass(40 * kMillisecond_ns);
  EXPECT_EQ(copies('a', one, 0), "0 of 0");
  pass(10 * kMillisecond_ns);
  EXPECT_EQ(bound_in(holders(one)), 0U) << holders(one);
  node(other).restart();
  settle();
  pass(later_ns());
  EXPECT_EQ(bound_in(holders(one)), 0U) << holders(one);
  EXPECT_EQ(known('a', one), "0 of 0");
}

TEST_P(Four, what_is_deleted_goes_with_all_its_copies) {
  const std::string one = id('c');
  ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
  ASSERT_EQ(copies('a', one, 3), "3 of 3");
  ASSERT_EQ(at('b').remove(one), Code::kOk);
  EXPECT_EQ(holders(one), "");
  ASSERT_EQ(at('b').put(one, "again"), Code::kOk);
  EXPECT_EQ(known('a', one), "0 of 0");
  pass(3 * kSecond_ns);
  EXPECT_EQ(holders(one), "b");
}

TEST_P(Four, without_its_home_nothing_is_set) {
  if (is_in_redis()) return;  // It does not go with a node.
  const std::string one = id('c');
  ASSERT_EQ(at('a').put(one, "bytes"), Code::kOk);
  node('c').crash();
  pass(40 * kMillisecond_ns);
  EXPECT_EQ(copies('a', one, 2), "away");
  EXPECT_EQ(holders(one), "a");
}

// --- Room ---

constexpr size_t kBodyBytes = 1'000'000;  // A node has room for twelve.
std::string large_body(int number) {
  return std::string(kBodyBytes, static_cast<char>('a' + number % 26));
}

class FullNodes : public Four {
 protected:
  // Through the message, and so in pieces; what is too long for one is created.
  [[nodiscard]] Code put_large(char by, const std::string& id, int number) {
    return make(by, id, large_body(number));
  }
  [[nodiscard]] Code make(char by, const std::string& id, const std::string& body) {
    auto& store = node(by).process->owner.store;
    const uint64_t birth = ++last_birth;
    const auto made = store.create(
        {.id = test::as_bytes(id), .birth = birth, .body_bytes = body.size(), .metadata_bytes = 0});
    if (!made) return made.code();
    std::ranges::copy(std::as_bytes(std::span(body)), store.room_of(*made).begin());
    return store.seal(test::as_bytes(id), birth).code();
  }
  uint64_t last_birth = 0;
};

INSTANTIATE_TEST_SUITE_P(Kinds, FullNodes, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "redis" : "homes"; });

TEST_P(FullNodes, a_bound_copy_is_not_evicted_for_room_and_others_are) {
  const std::string kept = id('b', 0);
  ASSERT_EQ(put_large('a', kept, 0), Code::kOk);
  pass(20 * kMillisecond_ns);
  ASSERT_EQ(copies('a', kept, 2), "2 of 2");
  for (int number = 1; number < 30; ++number) {
    ASSERT_EQ(put_large('a', id('b', number), number), Code::kOk) << number;
    pass(kMillisecond_ns);
  }
  EXPECT_TRUE(node('a').has(kept));
  EXPECT_EQ(known('b', kept), "2 of 2");
  EXPECT_FALSE(node('a').has(id('b', 1)));
}

// All that a node has is bound: for a new object one of them moves to a node with room.
TEST_P(FullNodes, a_node_full_of_bound_copies_hands_some_over) {
  for (int number = 0; number < 12; ++number) {
    const std::string one = id('b', number);
    ASSERT_EQ(put_large('a', one, number), Code::kOk) << number;
    pass(5 * kMillisecond_ns);
    ASSERT_EQ(copies('a', one, 1), "1 of 1");
  }
  ASSERT_EQ(put_large('a', "more", 12), Code::kNoSpace);
  // A client's create waits.
  const auto answer =
      at('a').call(wire::Method::kCreate,
                   test::body_of(wire::CreateRequest{.claim = 77,
                                                     .body_bytes = kBodyBytes,
                                                     .timeout_ns = 5 * kSecond_ns,
                                                     .metadata_bytes = 0,
                                                     .id_bytes = test::short_of(std::string("more").size()),
                                                     .wants_window = 0,
                                                     .reserved = 0},
                                 "more"));
  EXPECT_EQ(answer.code, Code::kOk);
  EXPECT_GT(node('a').counts().released, 0U);
  for (int number = 0; number < 12; ++number) {
    const std::string one = id('b', number);
    EXPECT_GE(bound_in(holders(one)), 1U) << number;
    const auto got = at('d').call(wire::Method::kFetch, test::await_body(one, 0));
    ASSERT_EQ(got.code, Code::kOk) << number;
    EXPECT_EQ(got.as<wire::FetchReply>().object.body_bytes, kBodyBytes);
  }
}

// No node has room for another's copies: the create ends, and nothing is moved to and fro.
TEST_P(FullNodes, where_all_are_full_a_create_is_told_so) {
  int number = 0;
  for (const char name : {'a', 'b', 'c', 'd'}) {
    for (int i = 0; i < 12; ++i, ++number) {
      const std::string one = id('b', number);
      ASSERT_EQ(put_large(name, one, number), Code::kOk) << number;
      pass(5 * kMillisecond_ns);
      ASSERT_EQ(copies(name, one, 1), "1 of 1");
    }
  }
  uint64_t pulls = 0;
  for (const auto& one : nodes) pulls += one->counts().pulls;
  EXPECT_EQ(pulls, 0U);
  for (const char name : {'a', 'c'}) {
    const auto answer =
        at(name).call(wire::Method::kCreate, test::body_of(wire::CreateRequest{.claim = 77,
                                                                               .body_bytes = kBodyBytes,
                                                                               .timeout_ns = 5 * kSecond_ns,
                                                                               .metadata_bytes = 0,
                                                                               .id_bytes = 4,
                                                                               .wants_window = 0,
                                                                               .reserved = 0},
                                                           std::string("new") + name));
    EXPECT_EQ(answer.code, Code::kNoSpace);
  }
  for (const auto& one : nodes) {
    EXPECT_EQ(one->counts().pulls, 0U);
    EXPECT_LT(one->counts().copies_ordered, 1'000U) << "orders without end";
  }
}

}  // namespace
}  // namespace refract::object::directory_copies_test
