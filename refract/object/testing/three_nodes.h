// SPDX-License-Identifier: Apache-2.0
// Three simulated nodes that share their objects, with a client each; their directory is in the homes of the
// ids, or in a real Redis.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "refract/object/testing/redis_process.h"
#include "refract/object/testing/test_cluster.h"
#include "refract/object/testing/test_sim_client.h"

namespace refract::object::test {

inline sim::WorldOptions three_network(uint64_t seed) {
  sim::WorldOptions options{.seed = seed, .message_bytes_max = 16 * 1024, .short_post_chance = 0};
  options.one_sided_bytes_min = 512;
  options.link.break_ns = 5 * kMillisecond_ns;
  options.steps_max = 200'000'000;
  return options;
}

// A Redis for all tests of this program.
[[nodiscard]] inline RedisProcess& redis() {
  static RedisProcess process;
  return process;
}

// Three nodes a, b and c with a client each.
class Three {
 public:
  explicit Three(bool is_in_redis) : world(three_network(1)), list(list_of(1, {"a", "b", "c"})) {
    if (is_in_redis) REFRACT_CHECK(redis().ask({"FLUSHALL"}).text == "OK");
    for (const cluster::Member& member : list.members) {
      nodes.push_back(std::make_unique<SimMember>(
          world, member.name, list, SimMember::Options{.redis = is_in_redis ? &redis() : nullptr}));
      streams = is_in_redis ? 3 : 2;
    }
    for (const cluster::Member& member : list.members) {
      clients.push_back(std::make_unique<SimClient>(world, "client of " + member.name, member.name));
      clients.back()->connect();
    }
    settle();
  }
  SimMember& node(char name) { return *nodes[static_cast<size_t>(name - 'a')]; }
  SimClient& at(char name) { return *clients[static_cast<size_t>(name - 'a')]; }
  [[nodiscard]] std::string id(char home, int number = 0) const {
    return id_at(list, std::string(1, home), number);
  }
  void pass(uint64_t ns) { REFRACT_CHECK(world.run_for(ns)); }
  // All have heard from all.
  void settle() {
    REFRACT_CHECK(world.run_until([&] {
      return std::ranges::all_of(nodes, [this](const auto& node) {
        if (node->process == nullptr) return true;
        const Directory::Counts counts = node->counts();
        return counts.is_complete && counts.streams == streams;
      });
    }));
    pass(20 * kMillisecond_ns);
  }

  sim::World world;
  cluster::MemberList list;
  uint64_t streams = 0;
  std::vector<std::unique_ptr<SimMember>> nodes;
  std::vector<std::unique_ptr<SimClient>> clients;
};

}  // namespace refract::object::test
