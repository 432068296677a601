// SPDX-License-Identifier: Apache-2.0
// What goes wrong in a campaign, from outside: crashes, stops, cuts, slow hosts and clock steps. Now and then
// it does some harm, most of which soon ends, until everything is calmed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "refract/fabric/sim/world.h"

namespace refract::campaign {

class Chaos {
 public:
  struct Options {
    bool crashes = true;
    bool crashes_often = false;
    bool pauses = true;
    bool cuts = true;
    double death_chance = 0;  // At each harm, that a client ends for good.
    // The node is made anew after a crash, without memory; called while the server is down. Null: never.
    double rebirth_chance = 0;
    std::function<void()> rebirth = {};
  };
  // `reference` is a host whose wall clock is never stepped. All outlive the object; clients may be added.
  Chaos(sim::World& world, sim::Host& server, const sim::Host& reference,
        const std::vector<sim::Host*>& clients, const Options& options);

  void begin() { disturb(); }
  // Everybody lives who may, runs and is reached.
  void calm();

 private:
  void disturb();
  void mend_some();
  void harm(uint64_t draw);
  void step_wall_clock(sim::Host& host);
  void restart();
  [[nodiscard]] sim::Host& any_client() { return *clients_[world_.prng().below(clients_.size())]; }

  sim::World& world_;
  sim::Host& server_;
  const sim::Host& reference_;
  const std::vector<sim::Host*>& clients_;
  Options options_;
  std::vector<sim::Host*> cut_;
  bool calm_ = false;
};

}  // namespace refract::campaign
