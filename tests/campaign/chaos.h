// SPDX-License-Identifier: Apache-2.0
// What goes wrong in a campaign, from outside: crashes, stops, cuts, slow hosts and clock steps. Now and then
// it does some harm, most of which soon ends, until everything is calmed. The shards of a node are hosts of
// the simulation, but one process on one machine: they crash, stop and are cut off together. Only a crash at
// a fault site, between two stores, takes one alone, which asks more of recovery than any process could.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tests/campaign/model.h"

#include "refract/fabric/sim/world.h"

namespace refract::campaign {

// A world as both campaigns want it: most bugs of recovery need two crashes close together, most bugs of
// reuse a long time without one.
[[nodiscard]] sim::WorldOptions world_options(uint64_t seed, bool crashes_often);

class Chaos {
 public:
  struct Options {
    bool crashes = true;
    bool crashes_often = false;
    bool pauses = true;
    bool cuts = true;
    uint64_t wall_error_ns = kWallError_ns;  // By how much wall clocks are stepped; 0: never.
    double death_chance = 0;                 // At each harm, that a client ends for good.
    // The node is made again after a crash, without memory; called while all of it is down. Null: never.
    double rebirth_chance = 0;
    std::function<void()> rebirth = {};
  };
  // `reference` is a host whose wall clock is never stepped. All outlive the object; clients may be added.
  Chaos(sim::World& world, std::vector<sim::Host*> shards, const sim::Host& reference,
        const std::vector<sim::Host*>& clients, const Options& options);

  void begin() { disturb(); }
  // All that may live do live, run and are reached.
  void calm();

 private:
  void disturb();
  void mend_some();
  void harm(uint64_t draw);
  // Of one machine.
  void step_wall_clock(std::span<sim::Host* const> hosts);
  [[nodiscard]] bool is_all_alive() const noexcept;
  void crash();
  void restart();
  [[nodiscard]] sim::Host& any_client() { return *clients_[world_.prng().below(clients_.size())]; }

  sim::World& world_;
  std::vector<sim::Host*> shards_;
  const sim::Host& reference_;
  const std::vector<sim::Host*>& clients_;
  Options options_;
  std::vector<sim::Host*> cut_;
  bool calm_ = false;
};

}  // namespace refract::campaign
