// SPDX-License-Identifier: Apache-2.0
#include "tests/nodes_transactions/nodes_chaos.h"

#include <algorithm>

#include "tests/campaign/model.h"

#include "refract/base/units.h"

namespace refract::campaign {
namespace {

constexpr double kStrikes = 0.9;
constexpr uint64_t kShortest_ns = 20 * kMicrosecond_ns;
constexpr uint64_t kQuiet_ns = 400 * kMicrosecond_ns;  // Between two things that happen, where all is short.
constexpr uint64_t kDeadAtMost_ns = 100 * kMicrosecond_ns;

}  // namespace

NodesChaos::NodesChaos(sim::World& world, const std::vector<sim::Host*>& hosts, SeveralNodes& nodes,
                       const std::vector<sim::Host*>& clients, const Options& options)
    : world_(world), hosts_(hosts), nodes_(nodes), clients_(clients), options_(options) {}

void NodesChaos::begin() {
  disturb();
  raise_the_dead();
}

// Each order of magnitude as often as another.
uint64_t NodesChaos::draw_time_ns() {
  uint64_t time_ns = options_.away_max_ns;
  while (time_ns > kShortest_ns && world_.prng().chance(0.6)) time_ns /= 3;
  return 1 + world_.prng().below(time_ns);
}

void NodesChaos::disturb() {
  const uint64_t quiet_ns = std::max(kQuiet_ns, options_.away_max_ns / 20);
  world_.after(1 + world_.prng().below(quiet_ns), [this] {
    if (is_calm_) return;
    harm(world_.prng().below(1'000));
    disturb();
  });
}

void NodesChaos::strike() {
  if (is_calm_ || !options_.crashes_often || !world_.prng().chance(kStrikes)) return;
  sim::Host& node = *hosts_[world_.prng().below(hosts_.size())];
  if (!node.alive()) return;
  ++counts_.strikes;
  world_.crash(node);
  world_.after(1 + world_.prng().below(kShortest_ns), [this, &node] {
    if (!node.alive()) world_.restart(node);
  });
}

// Also those that a fault has killed.
void NodesChaos::raise_the_dead() {
  world_.after(1 + world_.prng().below(kDeadAtMost_ns), [this] {
    if (is_calm_) return;
    for (sim::Host* const host : hosts_) {
      if (host->alive() || !world_.prng().chance(0.6)) continue;
      world_.after(draw_time_ns(), [this, host] {
        if (!host->alive()) world_.restart(*host);
      });
    }
    raise_the_dead();
  });
}

void NodesChaos::cut(sim::Host& one, sim::Host& other) {
  world_.cut(one, other);
  world_.after(draw_time_ns(), [this, &one, &other] { world_.heal(one, other); });
}

void NodesChaos::harm(uint64_t draw) {
  sim::Host& node = *hosts_[world_.prng().below(hosts_.size())];
  sim::Host& other = *hosts_[world_.prng().below(hosts_.size())];
  sim::Host& client = *clients_[world_.prng().below(clients_.size())];
  if (draw < 80) {
    if (!node.alive() || (draw >= 20 && !options_.crashes_often)) return;
    ++counts_.kills;
    world_.crash(node);
  } else if (draw < 200) {
    sim::Host& paused = draw < 150 ? node : client;
    if (!paused.alive()) return;
    counts_.pauses += draw < 150 ? 1 : 0;
    world_.pause(paused);
    world_.after(draw_time_ns(), [this, &paused] { world_.resume(paused); });
  } else if (draw < 300) {
    if (&node == &other) return;
    ++counts_.cuts;
    cut(node, other);
  } else if (draw < 400) {
    ++counts_.cut_off;
    cut(node, client);
  } else if (draw < 480) {
    node.slow_down(world_.prng().chance(0.7) ? 1'000 : 50'000);
  } else if (draw < 520) {
    client.slow_down(world_.prng().chance(0.7) ? 1'000 : 50'000);
  } else if (draw < 560) {
    if (!options_.steps_clocks) return;
    const auto error =
        static_cast<int64_t>(world_.prng().below(2 * kWallError_ns)) - static_cast<int64_t>(kWallError_ns);
    const auto before = static_cast<int64_t>(node.clock().wall_ns() - clients_.front()->clock().wall_ns());
    node.step_wall_clock_ns(error - before);
  } else if (draw < 700) {
    NodeProcess& process = nodes_.node(static_cast<uint32_t>(world_.prng().below(hosts_.size())));
    if (!hosts_[process.member()]->alive() || process.lines() == nullptr) return;
    ++counts_.closed;
    process.lines()->close_one();
  }
}

void NodesChaos::calm() {
  is_calm_ = true;
  for (sim::Host* const client : clients_) {
    client->slow_down(1'000);
    world_.resume(*client);
  }
  for (sim::Host* const host : hosts_) {
    host->allow_faults(false);
    host->slow_down(1'000);
    world_.resume(*host);
    for (sim::Host* const client : clients_) world_.heal(*host, *client);
    for (sim::Host* const other : hosts_) {
      if (other != host) world_.heal(*host, *other);
    }
    if (!host->alive()) world_.restart(*host);
  }
}

}  // namespace refract::campaign
