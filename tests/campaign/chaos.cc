// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/chaos.h"

#include <algorithm>
#include <utility>

#include "tests/campaign/model.h"

#include "refract/base/units.h"

namespace refract::campaign {

sim::WorldOptions world_options(uint64_t seed, bool crashes_often) {
  sim::WorldOptions options{.seed = seed};
  options.link.break_ns = 2 * kMillisecond_ns;
  options.message_bytes_max = 4096;
  options.steps_max = 2'000'000;
  options.fault_chance = crashes_often ? 0.003 : 0.0002;
  return options;
}

Chaos::Chaos(sim::World& world, std::vector<sim::Host*> shards, const sim::Host& reference,
             const std::vector<sim::Host*>& clients, const Options& options)
    : world_(world),
      shards_(std::move(shards)),
      reference_(reference),
      clients_(clients),
      options_(options) {}

void Chaos::disturb() {
  world_.after(world_.prng().below(200'000), [this] {
    if (calm_) return;
    mend_some();
    if (is_all_alive()) harm(world_.prng().below(1'000));
    disturb();
  });
}

bool Chaos::is_all_alive() const noexcept {
  return std::ranges::all_of(shards_, [](const sim::Host* shard) { return shard->alive(); });
}

void Chaos::crash() {
  for (sim::Host* shard : shards_) {
    if (shard->alive()) world_.crash(*shard);
  }
}

void Chaos::restart() {
  if (options_.rebirth && world_.prng().chance(options_.rebirth_chance)) {
    crash();
    options_.rebirth();
  }
  for (sim::Host* shard : shards_) {
    if (!shard->alive()) world_.restart(*shard);
  }
}

void Chaos::mend_some() {
  constexpr double kChance = 0.4;
  if (!is_all_alive() && world_.prng().chance(kChance)) restart();
  const auto is_paused = [](const sim::Host* shard) { return shard->paused(); };
  if (std::ranges::any_of(shards_, is_paused) && world_.prng().chance(kChance)) {
    for (sim::Host* shard : shards_) world_.resume(*shard);
  }
  for (sim::Host* client : clients_) {
    if (client->paused() && world_.prng().chance(kChance)) world_.resume(*client);
  }
  for (size_t i = cut_.size(); i-- > 0;) {
    if (!world_.prng().chance(kChance)) continue;
    for (sim::Host* shard : shards_) world_.heal(*shard, *cut_[i]);
    cut_.erase(cut_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Chaos::harm(uint64_t draw) {
  sim::Host* const client = &any_client();
  const std::span<sim::Host* const> its_machine(&client, 1);
  const std::span<sim::Host* const> node = shards_;
  if (draw < 50) {
    if (options_.crashes && (draw < 5 || options_.crashes_often)) crash();
  } else if (draw < 130) {
    if (!options_.pauses) return;
    for (sim::Host* host : draw < 80 ? node : its_machine) world_.pause(*host);
  } else if (draw < 170) {
    if (!options_.cuts || std::ranges::find(cut_, client) != cut_.end()) return;
    for (sim::Host* shard : shards_) world_.cut(*shard, *client);
    cut_.push_back(client);
  } else if (draw < 270) {
    const uint64_t slowness = world_.prng().chance(0.7) ? 1'000 : 50'000;
    // One core may be slow alone.
    sim::Host& host = draw < 210 ? *shards_[draw % shards_.size()] : *client;
    host.slow_down(slowness);
  } else if (draw < 350) {
    step_wall_clock(draw < 310 ? node : its_machine);
  } else if (draw < 360 && options_.death_chance > 0) {
    if (world_.prng().chance(options_.death_chance)) world_.crash(*client);
  }
}

// Anywhere within the error that is allowed.
void Chaos::step_wall_clock(std::span<sim::Host* const> hosts) {
  if (options_.wall_error_ns == 0) return;
  const auto error = static_cast<int64_t>(world_.prng().below(2 * options_.wall_error_ns)) -
                     static_cast<int64_t>(options_.wall_error_ns);
  for (sim::Host* host : hosts) {
    const int64_t before = static_cast<int64_t>(host->clock().wall_ns() - reference_.clock().wall_ns());
    host->step_wall_clock_ns(error - before);
  }
}

void Chaos::calm() {
  calm_ = true;
  for (sim::Host* shard : shards_) {
    shard->allow_faults(false);
    for (sim::Host* client : cut_) world_.heal(*shard, *client);
  }
  cut_.clear();
  for (sim::Host* client : clients_) world_.resume(*client);
  for (sim::Host* shard : shards_) {
    world_.resume(*shard);
    shard->slow_down(1'000);
    if (!shard->alive()) world_.restart(*shard);
  }
}

}  // namespace refract::campaign
