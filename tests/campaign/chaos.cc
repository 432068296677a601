// SPDX-License-Identifier: Apache-2.0
#include "tests/campaign/chaos.h"

#include <algorithm>

#include "tests/campaign/model.h"

namespace refract::campaign {

Chaos::Chaos(sim::World& world, sim::Host& server, const sim::Host& reference,
             const std::vector<sim::Host*>& clients, const Options& options)
    : world_(world), server_(server), reference_(reference), clients_(clients), options_(options) {}

void Chaos::disturb() {
  world_.after(world_.prng().below(200'000), [this] {
    if (calm_) return;
    mend_some();
    if (server_.alive()) harm(world_.prng().below(1'000));
    disturb();
  });
}

void Chaos::restart() {
  if (options_.rebirth && world_.prng().chance(options_.rebirth_chance)) options_.rebirth();
  world_.restart(server_);
}

void Chaos::mend_some() {
  constexpr double kChance = 0.4;
  if (!server_.alive() && world_.prng().chance(kChance)) restart();
  if (server_.paused() && world_.prng().chance(kChance)) world_.resume(server_);
  for (sim::Host* client : clients_) {
    if (client->paused() && world_.prng().chance(kChance)) world_.resume(*client);
  }
  for (size_t i = cut_.size(); i-- > 0;) {
    if (!world_.prng().chance(kChance)) continue;
    world_.heal(server_, *cut_[i]);
    cut_.erase(cut_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Chaos::harm(uint64_t draw) {
  sim::Host& client = any_client();
  if (draw < 50) {
    if (options_.crashes && (draw < 5 || options_.crashes_often)) world_.crash(server_);
  } else if (draw < 130) {
    if (options_.pauses) world_.pause(draw < 80 ? server_ : client);
  } else if (draw < 170) {
    if (!options_.cuts || std::ranges::find(cut_, &client) != cut_.end()) return;
    world_.cut(server_, client);
    cut_.push_back(&client);
  } else if (draw < 270) {
    sim::Host& host = draw < 210 ? server_ : client;
    host.slow_down(world_.prng().chance(0.7) ? 1'000 : 50'000);
  } else if (draw < 350) {
    step_wall_clock(draw < 310 ? server_ : client);
  } else if (draw < 360 && options_.death_chance > 0) {
    if (world_.prng().chance(options_.death_chance)) world_.crash(client);
  }
}

// Anywhere within the error that the model allows.
void Chaos::step_wall_clock(sim::Host& host) {
  const auto error =
      static_cast<int64_t>(world_.prng().below(2 * kWallError_ns)) - static_cast<int64_t>(kWallError_ns);
  const int64_t before = static_cast<int64_t>(host.clock().wall_ns() - reference_.clock().wall_ns());
  host.step_wall_clock_ns(error - before);
}

void Chaos::calm() {
  calm_ = true;
  server_.allow_faults(false);
  for (sim::Host* client : cut_) world_.heal(server_, *client);
  cut_.clear();
  for (sim::Host* client : clients_) world_.resume(*client);
  world_.resume(server_);
  server_.slow_down(1'000);
  if (!server_.alive()) world_.restart(server_);
}

}  // namespace refract::campaign
