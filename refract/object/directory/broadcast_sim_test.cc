// SPDX-License-Identifier: Apache-2.0
// One object to many nodes over the simulated network: how long that takes, and what becomes of the others
// when nodes die, stand still, are cut off, have no room, or are told of a delete in the middle.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/testing/turns.h"
#include "refract/fabric/sim/machine.h"
#include "refract/object/directory/broadcast_plan.h"
#include "refract/object/testing/test_cluster.h"
#include "refract/object/testing/test_sim_client.h"

namespace refract::object {
namespace {

using test::id_at;
using test::SimClient;
using test::SimMember;

constexpr uint64_t kBirth = 7;

sim::WorldOptions network(uint64_t seed) {
  sim::WorldOptions options{.seed = seed, .message_bytes_max = 16 * 1024, .short_post_chance = 0};
  options.one_sided_bytes_min = 4096;
  options.one_sided_needs_target = true;
  options.link.break_ns = 5 * kMillisecond_ns;
  options.steps_max = 400'000'000;
  return options;
}

std::string body_of_bytes(size_t bytes, size_t seed = 1) {
  std::string body(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) body[i] = static_cast<char>((i * 31 + i / 251) * seed + i / 65'521);
  return body;
}

// Nodes a, b, c ..., each with a port of 1 GB/s.
class Nodes {
 public:
  struct Options {
    sim::WorldOptions network = object::network(1);
    TransferLimits limits = {};
    uint64_t limit = 12 * kMiB;
    uint64_t port_bytes_per_us = 1000;
  };
  explicit Nodes(size_t count) : Nodes(count, Options{}) {}
  Nodes(size_t count, const Options& options) : world(options.network) {
    list.version = 1;
    for (size_t i = 0; i < count; ++i) {
      list.members.push_back(
          {.name = name_of(i), .host = "127.0.0.1", .port = static_cast<uint16_t>(7400 + i)});
    }
    for (const cluster::Member& member : list.members) {
      nodes.push_back(std::make_unique<SimMember>(
          world, member.name, list,
          SimMember::Options{
              .chunks = options.limit / kMiB * 2, .limit = options.limit, .transfers = options.limits}));
      nodes.back()->host.install({.bytes_per_us = options.port_bytes_per_us, .interleaves = true});
    }
    settle();
  }
  [[nodiscard]] static std::string name_of(size_t index) { return {static_cast<char>('a' + index)}; }
  [[nodiscard]] SimMember& node(char name) { return *nodes[static_cast<size_t>(name - 'a')]; }
  [[nodiscard]] std::string id(char home) const { return id_at(list, std::string(1, home)); }
  void pass(uint64_t ns) { REFRACT_CHECK(world.run_for(ns)); }
  void settle() {
    REFRACT_CHECK(world.run_until([&] {
      return std::ranges::all_of(nodes, [&](const auto& node) {
        if (node->process == nullptr) return true;
        const Directory::Counts counts = node->counts();
        return counts.is_complete && counts.streams == nodes.size() - 1;
      });
    }));
    pass(20 * kMillisecond_ns);
  }
  void make(char name, const std::string& its_id, const std::string& body, uint64_t birth = kBirth) {
    node(name).make(its_id, body, birth);
    pass(5 * kMillisecond_ns);
  }
  [[nodiscard]] std::string body_at(char name, const std::string& its_id) {
    return node(name).body_of(its_id);
  }
  // A get of this node's client, as the directory has it.
  void want(char name, const std::string& its_id) {
    node(name).process->owner.directory->want(its_id, 0, {.is_in_advance = true});
  }

  // Broadcasts under way, and what has become of them.
  struct Told {
    std::optional<Elsewhere::Broadcasted> outcome;
    [[nodiscard]] Code code_of(char name) const {
      for (const Elsewhere::BroadcastNode& one : outcome->nodes) {
        if (one.name == std::string(1, name)) return one.code;
      }
      return Code::kUnsupported;
    }
  };
  [[nodiscard]] Told& start(char by, const std::string& its_id, const std::string& names = "",
                            uint64_t timeout_ns = 60 * kSecond_ns) {
    told_.push_back(std::make_unique<Told>());
    Told& told = *told_.back();
    std::vector<std::string> nodes_named;
    for (const char name : names) nodes_named.emplace_back(1, name);
    node(by).process->owner.directory->broadcast(
        its_id, nodes_named, world.now_ns() + timeout_ns,
        [&told](const Elsewhere::Broadcasted& outcome) { told.outcome = outcome; });
    return told;
  }
  void finish(const Told& told) {
    REFRACT_CHECK(world.run_until([&] { return told.outcome.has_value(); }));
  }
  [[nodiscard]] Told& broadcast(char by, const std::string& its_id, const std::string& names = "",
                                uint64_t timeout_ns = 60 * kSecond_ns) {
    Told& told = start(by, its_id, names, timeout_ns);
    finish(told);
    return told;
  }
  // Bytes that this node has given to others.
  [[nodiscard]] uint64_t given_by(char name) { return node(name).host.machine()->facts().sent_bytes; }
  // Nothing is open, pinned or held anywhere, some time later: where a node was lost, a holder waits 30 s for
  // its word.
  void expect_clean(uint64_t later_ns = 2 * kSecond_ns) {
    pass(later_ns);
    for (const auto& one : nodes) EXPECT_EQ(one->left_over(), "");
  }

  sim::World world;
  cluster::MemberList list;
  std::vector<std::unique_ptr<SimMember>> nodes;

 private:
  std::vector<std::unique_ptr<Told>> told_;
};

// --- How long it takes ---

// A network in which all takes its time, and nothing is late.
sim::WorldOptions calm() {
  sim::WorldOptions options = network(1);
  options.link.jitter_ns = 0;
  options.link.tail_chance = 0;
  options.link.torn_chance = 0;
  options.one_sided_needs_target = false;
  return options;
}

TEST(Broadcast, eight_nodes_have_it_in_about_the_time_of_one_pull) {
  Nodes nodes(9, {.network = calm()});
  const std::string id = nodes.id('i');
  const std::string other = nodes.id('h');
  const std::string body = body_of_bytes(4 << 20);
  nodes.make('a', id, body);
  nodes.make('a', other, body, kBirth + 1);
  const uint64_t began_ns = nodes.world.now_ns();
  const Nodes::Told& one = nodes.broadcast('a', other, "b");
  EXPECT_EQ(one.code_of('b'), Code::kOk);
  const uint64_t one_ns = nodes.world.now_ns() - began_ns;
  nodes.pass(kSecond_ns);
  const uint64_t given_before = nodes.given_by('a');
  const uint64_t all_began_ns = nodes.world.now_ns();
  const Nodes::Told& told = nodes.broadcast('a', id);
  const uint64_t all_ns = nodes.world.now_ns() - all_began_ns;
  EXPECT_EQ(told.outcome->code, Code::kOk);
  ASSERT_EQ(told.outcome->nodes.size(), 9U);
  for (char name = 'a'; name <= 'i'; ++name) {
    EXPECT_EQ(told.code_of(name), Code::kOk) << name;
    EXPECT_TRUE(nodes.body_at(name, id) == body) << name;
  }
  RecordProperty("one_us", std::to_string(one_ns / 1000));
  RecordProperty("all_us", std::to_string(all_ns / 1000));
  EXPECT_LT(all_ns, one_ns / 100 * 125);
  EXPECT_LT(nodes.given_by('a') - given_before, 2 * body.size()) << "most came from other receivers";
  nodes.expect_clean();
}

// --- Any object, any node ---

TEST(Broadcast, objects_of_any_length_come_by_messages_and_by_reads) {
  for (const uint32_t one_sided : {uint32_t{1}, uint32_t{0x7fff'ffff}}) {
    Nodes::Options options;
    options.network.one_sided_bytes_min = one_sided;
    Nodes nodes(5, options);
    uint64_t birth = 100;
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{16'400}, size_t{130'000},
                               size_t{131'072}, size_t{1'000'003}}) {
      const std::string id = id_at(nodes.list, "d", static_cast<int>(birth - 100));
      const std::string body = body_of_bytes(bytes, birth);
      nodes.make('b', id, body, birth++);
      const Nodes::Told& told = nodes.broadcast('a', id);
      ASSERT_EQ(told.outcome->code, Code::kOk) << bytes;
      for (const char name : {'a', 'b', 'c', 'd', 'e'}) {
        EXPECT_EQ(told.code_of(name), Code::kOk) << bytes << name;
        EXPECT_TRUE(nodes.body_at(name, id) == body) << bytes << name;
      }
    }
    nodes.expect_clean();
  }
}

TEST(Broadcast, only_those_that_are_named_get_it_and_each_once) {
  Nodes nodes(5);
  const std::string id = nodes.id('e');
  const std::string body = body_of_bytes(700'000);
  nodes.make('b', id, body);
  const Nodes::Told& told = nodes.broadcast('a', id, "dcdb");
  ASSERT_EQ(told.outcome->nodes.size(), 3U);
  EXPECT_EQ(told.outcome->birth, kBirth);
  EXPECT_EQ(told.outcome->nodes[0].name, "d");
  EXPECT_EQ(told.outcome->nodes[2].name, "b");
  for (const char name : {'b', 'c', 'd'}) EXPECT_TRUE(nodes.body_at(name, id) == body) << name;
  EXPECT_EQ(nodes.body_at('a', id), "");
  EXPECT_EQ(nodes.body_at('e', id), "");
  const uint64_t pulls = nodes.node('c').counts().pulls;
  const Nodes::Told& again = nodes.broadcast('e', id, "cd");
  EXPECT_EQ(again.code_of('c'), Code::kOk);
  EXPECT_EQ(nodes.node('c').counts().pulls, pulls) << "it was there";
  nodes.expect_clean();
}

TEST(Broadcast, what_no_node_has_or_no_node_is_called_is_told) {
  Nodes nodes(3);
  EXPECT_EQ(nodes.broadcast('a', nodes.id('b')).outcome->code, Code::kNotFound);
  nodes.make('b', nodes.id('b'), "x");
  EXPECT_EQ(nodes.broadcast('a', nodes.id('b'), "cz").outcome->code, Code::kInvalidArgument);
  EXPECT_EQ(nodes.body_at('c', nodes.id('b')), "");
}

// --- Faults ---

// A chain of b to h from a.
class Chain {
 public:
  explicit Chain(uint64_t seed = 1, size_t bytes = 1'000'000, uint32_t one_sided = 4096)
      : nodes(8, options_of(seed, one_sided)), body(body_of_bytes(bytes)) {
    id = nodes.id('a');
    nodes.make('a', id, body);
  }
  // All of these have it and were told so.
  void expect_ok(const Nodes::Told& told, const std::string& names) {
    for (const char name : names) {
      EXPECT_EQ(told.code_of(name), Code::kOk) << name << ": " << text(told.code_of(name));
      EXPECT_TRUE(nodes.body_at(name, id) == body) << name;
    }
  }
  [[nodiscard]] uint64_t left() {
    uint64_t left = 0;
    for (const auto& node : nodes.nodes) {
      if (node->process != nullptr) left += node->counts().givers_left;
    }
    return left;
  }
  Nodes nodes;
  std::string id;
  const std::string body;

 private:
  static Nodes::Options options_of(uint64_t seed, uint32_t one_sided) {
    Nodes::Options options{.network = network(seed)};
    options.network.one_sided_bytes_min = one_sided;
    return options;
  }
};

TEST(Broadcast, the_children_of_a_node_that_dies_go_on_from_another_one) {
  constexpr uint64_t kSeeds = refract::test::turns(8, 2);
  uint64_t under_way = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Chain chain(seed, 1'000'000, seed % 2 == 0 ? 4096 : 0x7fff'ffff);
    const Nodes::Told& told = chain.nodes.start('a', chain.id);
    chain.nodes.pass(100'000 + seed * 90'000);
    const char victim = static_cast<char>('b' + seed % 6);
    under_way += told.outcome ? 0 : 1;
    chain.nodes.node(victim).crash();
    chain.nodes.finish(told);
    std::string others = "abcdefgh";
    std::erase(others, victim);
    chain.expect_ok(told, others);
    if (told.code_of(victim) != Code::kOk) {
      EXPECT_EQ(told.code_of(victim), Code::kUnavailable);
    }
    chain.nodes.node(victim).restart();
    chain.nodes.settle();
    if (seed == kSeeds) chain.nodes.expect_clean(45 * kSecond_ns);
  }
  EXPECT_GE(under_way, refract::test::turns(5, 1)) << "too few of them met a broadcast";
}

// Below it all wait for it, and answer: so only its own child leaves it.
TEST(Broadcast, a_node_that_stands_still_is_left_by_its_child_alone) {
  for (const uint32_t one_sided : {uint32_t{4096}, uint32_t{0x7fff'ffff}}) {
    Chain chain(3, 1'200'000, one_sided);
    const Nodes::Told& told = chain.nodes.start('a', chain.id, "bcdefgh", 20 * kSecond_ns);
    chain.nodes.pass(700'000);
    ASSERT_FALSE(told.outcome);
    chain.nodes.world.pause(chain.nodes.node('d').host);
    const uint64_t began_ns = chain.nodes.world.now_ns();
    REFRACT_CHECK(chain.nodes.world.run_until([&] { return chain.nodes.node('h').has(chain.id); }));
    EXPECT_LT(chain.nodes.world.now_ns() - began_ns, 4 * kSecond_ns);
    EXPECT_EQ(chain.left(), 1U);
    chain.nodes.world.resume(chain.nodes.node('d').host);
    chain.nodes.finish(told);
    chain.expect_ok(told, "bcdefgh");
    chain.nodes.expect_clean();
  }
}

TEST(Broadcast, cuts_between_two_of_them_cost_no_one_the_object) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Chain chain(seed);
    const Nodes::Told& told = chain.nodes.start('a', chain.id);
    chain.nodes.pass(300'000 + seed * 100'000);
    const auto at = static_cast<char>('b' + seed % 6);
    const auto next = static_cast<char>(at + 1);
    chain.nodes.world.cut(chain.nodes.node(at).host, chain.nodes.node(next).host);
    chain.nodes.finish(told);
    chain.expect_ok(told, "abcdefgh");
  }
}

// No node has the whole any more: each is told, and what has come of it goes, windows first.
TEST(Broadcast, when_the_only_holder_dies_all_are_told_and_nothing_is_left) {
  constexpr uint64_t kSeeds = refract::test::turns(4, 1);
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Chain chain(seed, 1'500'000);
    const Nodes::Told& told = chain.nodes.start('h', chain.id, "bcdefg");
    chain.nodes.pass(300'000 + seed * 50'000);
    ASSERT_FALSE(told.outcome);
    chain.nodes.node('a').crash(true);
    chain.nodes.finish(told);
    for (const char name : std::string("bcdefg")) {
      EXPECT_NE(told.code_of(name), Code::kOk);
      EXPECT_EQ(chain.nodes.body_at(name, chain.id), "");
    }
    chain.nodes.node('a').restart();
    chain.nodes.settle();
    if (seed == kSeeds) chain.nodes.expect_clean(45 * kSecond_ns);
  }
}

TEST(Broadcast, a_delete_in_the_middle_leaves_it_nowhere) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Chain chain(seed, 1'000'000);
    const Nodes::Told& told = chain.nodes.start('a', chain.id);
    chain.nodes.pass(100'000 + seed * 150'000);
    SimClient client(chain.nodes.world, "client", "c");
    client.connect();
    EXPECT_EQ(client.remove(chain.id), Code::kOk);
    chain.nodes.finish(told);
    chain.nodes.pass(kSecond_ns);
    for (const char name : std::string("abcdefgh"))
      EXPECT_EQ(chain.nodes.body_at(name, chain.id), "") << name;
    chain.nodes.expect_clean();
  }
}

// A pull that is of no use any more ends at once.
TEST(Broadcast, what_is_deleted_stops_coming) {
  Chain chain(1, 8'000'000);
  const Nodes::Told& told = chain.nodes.start('a', chain.id);
  chain.nodes.pass(kMillisecond_ns);
  SimClient client(chain.nodes.world, "client", "h");
  client.connect();
  ASSERT_FALSE(told.outcome);
  EXPECT_EQ(client.remove(chain.id), Code::kOk);
  EXPECT_EQ(client.put(chain.id, "other"), Code::kOk);
  chain.nodes.finish(told);
  uint64_t bytes = 0;
  for (const auto& node : chain.nodes.nodes)
    bytes += node->counts().read_bytes + node->counts().message_bytes;
  EXPECT_LT(bytes, 7 * chain.body.size() / 2);
}

TEST(Broadcast, a_node_without_room_is_passed_over) {
  Chain chain;
  // Kept, so that it cannot go.
  test::Owner& full = chain.nodes.node('d').process->owner;
  const std::string filler = chain.nodes.id('d');
  chain.nodes.make('d', filler, std::string(11'700'000, 'f'), 99);
  REFRACT_CHECK(full.store.keep(test::as_bytes(filler), true) == Code::kOk);
  const uint64_t began_ns = chain.nodes.world.now_ns();
  const Nodes::Told& told = chain.nodes.broadcast('a', chain.id);
  EXPECT_LT(chain.nodes.world.now_ns() - began_ns, 4 * kSecond_ns);
  EXPECT_EQ(told.code_of('d'), Code::kNoSpace);
  chain.expect_ok(told, "abcefgh");
  chain.nodes.expect_clean();
}

TEST(Broadcast, gets_and_other_broadcasts_of_the_same_id_join) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Chain chain(seed, 1'000'000);
    chain.nodes.want('f', chain.id);
    const Nodes::Told& one = chain.nodes.start('a', chain.id, "bcdefg");
    chain.nodes.pass(seed * 50'000);
    const Nodes::Told& other = chain.nodes.start('h', chain.id, "gfedcbh");
    chain.nodes.finish(one);
    chain.nodes.finish(other);
    chain.expect_ok(one, "bcdefg");
    chain.expect_ok(other, "gfedcbh");
    for (const auto& node : chain.nodes.nodes) EXPECT_LE(node->counts().pulls, 1U);
    chain.nodes.expect_clean();
  }
}

TEST(Broadcast, goes_on_when_the_one_that_asked_for_it_dies) {
  Chain chain;
  const Nodes::Told& told = chain.nodes.start('h', chain.id, "bcdefg");
  chain.nodes.pass(400'000);
  ASSERT_FALSE(told.outcome);
  chain.nodes.node('h').crash();
  REFRACT_CHECK(chain.nodes.world.run_until([&] { return chain.nodes.node('g').has(chain.id); }));
  chain.nodes.pass(20 * kMillisecond_ns);
  for (const char name : std::string("bcdefg"))
    EXPECT_TRUE(chain.nodes.body_at(name, chain.id) == chain.body);
  chain.nodes.expect_clean();
}

// Who is a member is not agreed upon any more: it is told now, not when its time is over.
TEST(Broadcast, ends_when_the_list_changes) {
  Chain chain;
  chain.nodes.world.pause(chain.nodes.node('d').host);
  const Nodes::Told& told = chain.nodes.start('a', chain.id);
  chain.nodes.pass(kMillisecond_ns);
  ASSERT_FALSE(told.outcome);
  chain.nodes.list.version = 2;
  const uint64_t began_ns = chain.nodes.world.now_ns();
  chain.nodes.node('a').follow(chain.nodes.list);
  chain.nodes.finish(told);
  EXPECT_EQ(told.outcome->code, Code::kUnavailable);
  EXPECT_LT(chain.nodes.world.now_ns() - began_ns, kSecond_ns);
  chain.nodes.world.resume(chain.nodes.node('d').host);
}

TEST(Broadcast, ends_at_its_time) {
  Chain chain;
  chain.nodes.world.pause(chain.nodes.node('d').host);
  const uint64_t began_ns = chain.nodes.world.now_ns();
  const Nodes::Told& told = chain.nodes.broadcast('a', chain.id, "", 3 * kSecond_ns);
  EXPECT_LT(chain.nodes.world.now_ns() - began_ns, 3100 * kMillisecond_ns);
  EXPECT_EQ(told.code_of('d'), Code::kDeadlineExceeded);
  chain.expect_ok(told, "abcefgh");
  chain.nodes.world.resume(chain.nodes.node('d').host);
}

}  // namespace
}  // namespace refract::object
