// SPDX-License-Identifier: Apache-2.0
// Nodes that share their objects, over the simulated network: each a host whose memory outlives its process.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/cluster/members.h"
#include "refract/cluster/routing.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/fabric/sim/world.h"
#include "refract/object/redis/redis_home.h"
#include "refract/object/testing/sim_peers.h"
#include "refract/object/testing/sim_redis.h"
#include "refract/object/testing/test_objects.h"

namespace refract::object::test {

inline cluster::MemberList list_of(uint64_t version, std::initializer_list<std::string_view> names) {
  cluster::MemberList list{.version = version, .members = {}};
  for (const std::string_view name : names) {
    const auto port = static_cast<uint16_t>(7400 + list.members.size());
    list.members.push_back({.name = std::string(name), .host = "127.0.0.1", .port = port});
  }
  return list;
}

class SimMember {
 public:
  struct Options {
    uint64_t chunks = 24;
    uint64_t limit = 12 * kMiB;
    const RedisProcess* redis = nullptr;  // Has the directory; null: members are homes.
    uint64_t silent_after_ns = 5 * kSecond_ns;
    TransferLimits transfers = {};
    size_t broadcast_degree = 0;  // Children of a node; 0: by the plan.
    uint64_t grace_ns = 60 * kSecond_ns;
  };

  SimMember(sim::World& world, std::string_view name, cluster::MemberList list)
      : SimMember(world, name, std::move(list), Options{}) {}
  SimMember(sim::World& world, std::string_view name, cluster::MemberList list, const Options& options)
      : host(world.add_host(name)), options_(options), list_(std::move(list)), world_(world), name_(name) {
    begin_memory();
    host.on_restart([this](sim::Host&) { start(); });
    start();
  }
  // The process is killed; its memory stays, or is lost with the node.
  void crash(bool loses_memory = false) {
    world_.crash(host);
    process = nullptr;
    if (loses_memory) begin_memory();
  }
  [[nodiscard]] uint64_t version() const noexcept { return list_.version; }
  void restart() { world_.restart(host); }
  void follow(const cluster::MemberList& list) {
    list_ = list;
    if (process == nullptr) return;
    REFRACT_CHECK(process->members.take(list).has_value());
    process->owner.directory->follow(process->members);
  }

  struct Process {
    Process(sim::Host& host, const cluster::MemberList& list, const std::string& name, const Options& of,
            const OwnerOptions& options)
        : members(checked(cluster::Members::create(list, name))),
          peers(host.shard(), host.domain()),
          line(of.redis == nullptr ? nullptr : std::make_unique<SimRedisLine>(host.shard(), *of.redis)),
          home(of.redis == nullptr
                   ? nullptr
                   : std::make_unique<RedisHome>(RedisHome::Parts{.line = *line,
                                                                  .shard = host.shard(),
                                                                  .seed = options.identity[0],
                                                                  .silent_after_ns = of.silent_after_ns,
                                                                  .by_shard_clock = true})),
          owner(host.shard(), host.domain(), host.clock(), with(options, peers, home.get())) {
      owner.directory->follow(members);
    }
    static cluster::Members checked(Reported<cluster::Members> members) {
      REFRACT_CHECK(members.has_value());
      return std::move(*members);
    }
    static OwnerOptions with(OwnerOptions options, SimPeers& peers, RedisHome* home) {
      options.peers = &peers;
      options.outside = home;
      return options;
    }
    cluster::Members members;
    SimPeers peers;
    std::unique_ptr<SimRedisLine> line;
    std::unique_ptr<RedisHome> home;
    Owner owner;
  };
  sim::Host& host;
  Process* process = nullptr;

  [[nodiscard]] Directory::Counts counts() const { return process->owner.directory->counts(); }
  [[nodiscard]] bool has(std::string_view id) const {
    return process != nullptr && process->owner.store.find(as_bytes(id)).has_value();
  }
  void make(std::string_view id, std::string_view body, uint64_t birth) const {
    process->owner.make(id, body, birth);
  }
  // Empty: it is not here, or no process is.
  [[nodiscard]] std::string body_of(std::string_view id) const {
    return process == nullptr ? std::string() : process->owner.body_of(id);
  }
  // As of the owner; nothing of a process that is dead.
  [[nodiscard]] std::string left_over() const {
    return process == nullptr ? std::string() : process->owner.left_over();
  }

 private:
  void begin_memory() {
    struct alignas(4096) Page {
      std::byte bytes[4096];
    };
    const uint64_t bytes = options_.chunks * kChunkBytes;
    std::vector<Page> pages(bytes / sizeof(Page));
    auto* base = static_cast<std::byte*>(pages.data()->bytes);
    test::format_space(base, 2, options_.chunks, host.clock());
    memories_.push_back(std::make_unique<sim::VisibleMemory>(
        sim::VisibleMemory::Options{.bytes = bytes, .bytes_max = bytes, .seed = memories_.size() + 1},
        std::vector<std::byte>(base, base + 2 * kChunkBytes)));
    host.attach(memories_.back().get());
    identity_ = {world_.prng().next(), world_.prng().next()};
  }
  void start() {
    process = &host.emplace<Process>(host, list_, name_, options_,
                                     OwnerOptions{.base = memories_.back()->owner(),
                                                  .chunks = options_.chunks,
                                                  .log = memories_.back().get(),
                                                  .limit = options_.limit,
                                                  .growth = nullptr,
                                                  .identity = identity_,
                                                  .transfers = options_.transfers,
                                                  .seed = identity_[0] + ++starts_,
                                                  .broadcast_degree = options_.broadcast_degree,
                                                  .grace_ns = options_.grace_ns});
  }

  const Options options_;
  cluster::MemberList list_;
  sim::World& world_;
  std::string name_;
  std::array<uint64_t, 2> identity_{};
  uint64_t starts_ = 0;
  std::vector<std::unique_ptr<sim::VisibleMemory>> memories_;
};

// Ids whose home is the named node, by a list of these names.
inline std::string id_at(const cluster::MemberList& list, std::string_view home, int number = 0) {
  const cluster::Routing routing(list);
  const size_t wanted = *list.index_of(home);
  for (int i = 0;; ++i) {
    std::string id = "object" + std::to_string(i);
    uint8_t first = 0;
    (void)routing.nodes_of(cluster::slot_of(id), std::span(&first, 1));
    if (first == wanted && number-- == 0) return id;
  }
}

}  // namespace refract::object::test
