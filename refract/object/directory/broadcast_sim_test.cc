// SPDX-License-Identifier: Apache-2.0
// One object to many nodes over the simulated network: how long that takes, and what becomes of the others when
// nodes die, stand still, are cut off, have no room, or are told of a delete in the middle.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "refract/fabric/sim/machine.h"
#include "refract/object/directory/broadcast_plan.h"
#include "refract/object/testing/test_cluster.h"

namespace refract::object {
namespace {

using test::id_at;
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
      list.members.push_back({.name = name_of(i),
                              .host = "127.0.0.1",
                              .port = static_cast<uint16_t>(7400 + i)});
    }
    for (const cluster::Member& member : list.members) {
      nodes.push_back(std::make_unique<SimMember>(
          world, member.name, list,
          SimMember::Options{.chunks = options.limit / kMiB * 2,
                             .limit = options.limit,
                             .transfers = options.limits}));
      nodes.back()->host.install({.bytes_per_us = options.port_bytes_per_us});
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
    ObjectStore& store = node(name).process->owner.store;
    const Result<Creation> made =
        store.create({.id = test::as_bytes(its_id), .birth = birth, .body_bytes = body.size()});
    REFRACT_CHECK(made.has_value());
    store.writer().copy(made->object.plus(ObjectParts::body_at()), test::as_bytes(body));
    REFRACT_CHECK(store.seal(test::as_bytes(its_id), birth).has_value());
    pass(5 * kMillisecond_ns);
  }
  [[nodiscard]] std::string body_at(char name, const std::string& its_id) {
    if (node(name).process == nullptr) return "dead";
    test::Owner& owner = node(name).process->owner;
    const Result<Object> object = owner.store.find(test::as_bytes(its_id));
    if (!object) return "";
    const std::byte* const first = owner.writer.base() + object->object.value + ObjectParts::body_at();
    return {reinterpret_cast<const char*>(first), object->parts.body_bytes};
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
  [[nodiscard]] uint64_t given_by(char name) {
    return node(name).host.machine()->facts().sent_bytes;
  }
  // Nothing is open, pinned or held anywhere, some time later.
  void expect_clean() {
    pass(45 * kSecond_ns);
    for (const auto& one : nodes) {
      if (one->process == nullptr) continue;
      test::Owner& owner = one->process->owner;
      EXPECT_EQ(owner.giver->counts().open, 0U);
      EXPECT_EQ(owner.giver->counts().waiting, 0U);
      EXPECT_EQ(owner.windows.open_count(), 0U);
      EXPECT_EQ(owner.fetches.count(), 0U);
      EXPECT_EQ(owner.store.accounts().creations, 0U);
      EXPECT_TRUE(owner.is_sound());
    }
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
  printf("one %lu us, all %lu us: %.2f\n", one_ns / 1000, all_ns / 1000, static_cast<double>(all_ns) / static_cast<double>(one_ns));
  EXPECT_LT(all_ns, one_ns * 2);
  EXPECT_LT(nodes.given_by('a') - given_before, 2 * body.size()) << "most came from other receivers";
  nodes.expect_clean();
}

}  // namespace
}  // namespace refract::object
