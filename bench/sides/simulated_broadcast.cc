// SPDX-License-Identifier: Apache-2.0
#include "bench/sides/simulated_broadcast.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "refract/cluster/members.h"
#include "refract/cluster/routing.h"
#include "refract/fabric/sim/world.h"
#include "refract/object/testing/sim_peers.h"
#include "refract/object/testing/test_objects.h"

namespace refract::bench {
namespace {

using object::Elsewhere;
using object::ObjectParts;

constexpr uint64_t kBirth = 7;
constexpr uint64_t kBroadcastSlackBytes = 8 * kMiB;

// Pages are there when they are touched: a node that gets one object of the two needs memory for one.
class LazyMemory {
 public:
  [[nodiscard]] static Reported<std::unique_ptr<LazyMemory>> create(uint64_t bytes) {
    void* const base =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return report(Code::kSystem, "no memory for a simulated node");
    return std::unique_ptr<LazyMemory>(new LazyMemory(static_cast<std::byte*>(base), bytes));
  }
  LazyMemory(const LazyMemory&) = delete;
  LazyMemory& operator=(const LazyMemory&) = delete;
  ~LazyMemory() { ::munmap(base_, bytes_); }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }

 private:
  LazyMemory(std::byte* base, uint64_t bytes) noexcept : base_(base), bytes_(bytes) {}
  std::byte* base_;
  uint64_t bytes_;
};

struct Node {
  Node(sim::Host& host, cluster::Members of_list, const object::test::OwnerOptions& options)
      : members(std::move(of_list)),
        peers(host.shard(), host.domain()),
        owner(host.shard(), host.domain(), host.clock(), with(options, peers)) {
    owner.directory->follow(members);
  }
  static object::test::OwnerOptions with(object::test::OwnerOptions options, object::test::SimPeers& peers) {
    options.peers = &peers;
    return options;
  }
  cluster::Members members;
  object::test::SimPeers peers;
  object::test::Owner owner;
};

// Everything that takes time is in the ports and in one delay, and nothing is drawn by chance.
sim::WorldOptions world_options(const BroadcastTestbed& testbed) {
  sim::WorldOptions options{.seed = testbed.seed, .message_bytes_max = 16 * 1024, .short_post_chance = 0};
  options.one_sided_bytes_min = 4096;
  options.link = {.delay_ns = testbed.one_way_ns,
                  .jitter_ns = 0,
                  .tail_chance = 0,
                  .tail_ns = 0,
                  .bytes_per_us = 0,
                  .torn_chance = 0};
  options.steps_max = 2'000'000'000;
  return options;
}

class SimulatedBroadcast {
 public:
  explicit SimulatedBroadcast(const BroadcastTestbed& testbed)
      : testbed_(testbed), world_(world_options(testbed)) {}

  [[nodiscard]] Reported<> start();
  [[nodiscard]] Reported<uint64_t> pull_once();
  [[nodiscard]] Reported<uint64_t> broadcast();
  [[nodiscard]] uint64_t given_bytes(size_t node) { return hosts_[node]->machine()->facts().sent_bytes; }

 private:
  [[nodiscard]] Reported<> add(const std::string& name);
  [[nodiscard]] Reported<> settle();
  [[nodiscard]] Reported<> make(const std::string& id, uint64_t birth);
  [[nodiscard]] std::string id_of(size_t home) const;
  // Nothing: it is not there.
  [[nodiscard]] std::span<const std::byte> body_at(size_t node, const std::string& id);
  [[nodiscard]] Reported<> check(size_t node, const std::string& id);

  const BroadcastTestbed testbed_;
  sim::World world_;
  cluster::MemberList list_;
  std::vector<std::unique_ptr<LazyMemory>> memories_;
  std::vector<sim::Host*> hosts_;
  std::vector<Node*> nodes_;  // Belong to their hosts.
};

Reported<> SimulatedBroadcast::add(const std::string& name) {
  const uint64_t limit = 2 * testbed_.bytes + kBroadcastSlackBytes;
  const uint64_t chunks = (limit + kBroadcastSlackBytes) / kChunkBytes;
  Reported<std::unique_ptr<LazyMemory>> memory = LazyMemory::create(chunks * kChunkBytes);
  if (!memory) return report(memory.error());
  Reported<cluster::Members> members = cluster::Members::create(list_, name);
  if (!members) return report(members.error());
  sim::Host& host = world_.add_host(name);
  host.install({.bytes_per_us = testbed_.port_bytes_per_us, .interleaves = testbed_.interleaves});
  object::test::format_space((*memory)->base(), 2, chunks, host.clock());
  nodes_.push_back(&host.emplace<Node>(
      host, std::move(*members),
      object::test::OwnerOptions{.base = (*memory)->base(),
                                 .chunks = chunks,
                                 .limit = limit,
                                 .identity = {world_.prng().next(), world_.prng().next()}}));
  memories_.push_back(std::move(*memory));
  hosts_.push_back(&host);
  return {};
}

Reported<> SimulatedBroadcast::settle() {
  const bool is_settled = world_.run_until([this] {
    return std::ranges::all_of(nodes_, [this](const Node* node) {
      const object::Directory::Counts counts = node->owner.directory->counts();
      return counts.is_complete && counts.streams == nodes_.size() - 1;
    });
  });
  if (is_settled && world_.run_for(20 * kMillisecond_ns)) return {};
  return report(Code::kUnavailable, "the simulated nodes do not hear from each other");
}

Reported<> SimulatedBroadcast::start() {
  list_.version = 1;
  for (uint32_t i = 0; i <= testbed_.receivers; ++i) {
    list_.members.push_back(
        {.name = fmt::format("node{:03}", i), .host = "127.0.0.1", .port = static_cast<uint16_t>(7400 + i)});
  }
  for (const cluster::Member& member : list_.members) {
    if (const Reported<> added = add(member.name); !added) return added;
  }
  return settle();
}

// Its home is that node.
std::string SimulatedBroadcast::id_of(size_t home) const {
  const cluster::Routing routing(list_);
  for (int i = 0;; ++i) {
    std::string id = fmt::format("object{}", i);
    uint8_t first = 0;
    (void)routing.nodes_of(cluster::slot_of(id), std::span(&first, 1));
    if (first == home) return id;
  }
}

// At the first node.
Reported<> SimulatedBroadcast::make(const std::string& id, uint64_t birth) {
  object::ObjectStore& store = nodes_[0]->owner.store;
  const auto name = std::as_bytes(std::span(id));
  const Result<object::Creation> made =
      store.create({.id = name, .birth = birth, .body_bytes = testbed_.bytes});
  if (!made) return report(made.error().code, "the simulated holder cannot make the object");
  uint64_t state = birth;
  std::byte* const body = memories_[0]->base() + made->object.value + ObjectParts::body_at();
  for (uint64_t at = 0; at < testbed_.bytes; at += sizeof(state)) {
    state = state * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
    std::memcpy(body + at, &state, std::min<uint64_t>(sizeof(state), testbed_.bytes - at));
  }
  if (const auto sealed = store.seal(name, birth); !sealed)
    return report(sealed.error().code, "the simulated holder cannot seal the object");
  if (world_.run_for(5 * kMillisecond_ns)) return {};
  return report(Code::kUnavailable, "the simulated nodes do not come to rest");
}

std::span<const std::byte> SimulatedBroadcast::body_at(size_t node, const std::string& id) {
  const Result<object::Object> object = nodes_[node]->owner.store.find(std::as_bytes(std::span(id)));
  if (!object) return {};
  return {memories_[node]->base() + object->object.value + ObjectParts::body_at(), object->parts.body_bytes};
}

Reported<> SimulatedBroadcast::check(size_t node, const std::string& id) {
  const std::span<const std::byte> wanted = body_at(0, id);
  const std::span<const std::byte> found = body_at(node, id);
  if (found.empty())
    return report(Code::kUnavailable, fmt::format("{} has no copy", list_.members[node].name));
  if (found.size() == wanted.size() && std::memcmp(found.data(), wanted.data(), wanted.size()) == 0)
    return {};
  return report(Code::kCorrupt, fmt::format("{} has other bytes", list_.members[node].name));
}

Reported<uint64_t> SimulatedBroadcast::pull_once() {
  const std::string id = id_of(testbed_.receivers);
  if (const Reported<> made = make(id, kBirth); !made) return report(made.error());
  const uint64_t began_ns = world_.now_ns();
  nodes_[1]->owner.directory->want(id, 0, {.is_in_advance = true});
  (void)world_.run_until([&] { return !body_at(1, id).empty(); });
  const uint64_t taken_ns = world_.now_ns() - began_ns;
  if (const Reported<> right = check(1, id); !right) return report(right.error());
  return taken_ns;
}

Reported<uint64_t> SimulatedBroadcast::broadcast() {
  const std::string id = id_of(testbed_.receivers - 1);
  if (const Reported<> made = make(id, kBirth + 1); !made) return report(made.error());
  std::optional<Elsewhere::Broadcasted> outcome;
  const uint64_t began_ns = world_.now_ns();
  nodes_[0]->owner.directory->broadcast(id, {}, began_ns + 3600 * kSecond_ns,
                                        [&outcome](const Elsewhere::Broadcasted& told) { outcome = told; });
  (void)world_.run_until([&outcome] { return outcome.has_value(); });
  const uint64_t taken_ns = world_.now_ns() - began_ns;
  if (!outcome || outcome->code != Code::kOk)
    return report(Code::kUnavailable, "the simulated broadcast has no end");
  for (size_t node = 1; node < nodes_.size(); ++node) {
    if (const Reported<> right = check(node, id); !right) return report(right.error());
  }
  return taken_ns;
}

}  // namespace

Reported<BroadcastTimes> simulate_broadcast(const BroadcastTestbed& testbed) {
  SimulatedBroadcast simulated(testbed);
  if (const Reported<> started = simulated.start(); !started) return report(started.error());
  const Reported<uint64_t> one_ns = simulated.pull_once();
  if (!one_ns) return report(one_ns.error());
  const uint64_t given = simulated.given_bytes(0);
  const Reported<uint64_t> all_ns = simulated.broadcast();
  if (!all_ns) return report(all_ns.error());
  return BroadcastTimes{.one_ns = *one_ns,
                        .all_ns = *all_ns,
                        .given = (simulated.given_bytes(0) - given + testbed.bytes / 2) / testbed.bytes};
}

}  // namespace refract::bench
