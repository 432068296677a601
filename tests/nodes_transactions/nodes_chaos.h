// SPDX-License-Identifier: Apache-2.0
// What goes wrong with several nodes, each by itself: one dies, stops, is slow, or cannot be reached by
// another one or by a client; sessions between nodes close. Each such thing ends by itself after a while,
// whose length is drawn from microseconds to what the run has for one.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/nodes_transactions/several_nodes.h"

#include "refract/fabric/sim/world.h"

namespace refract::campaign {

class NodesChaos {
 public:
  struct Options {
    uint64_t away_max_ns = 0;
    bool crashes_often = false;
    bool steps_clocks = true;
  };
  struct Counts {
    uint64_t kills = 0;    // From outside,
    uint64_t strikes = 0;  // and between prepare and decision.
    uint64_t pauses = 0;
    uint64_t cuts = 0;     // Between two nodes,
    uint64_t cut_off = 0;  // and between a node and a client.
    uint64_t closed = 0;   // Sessions between nodes.
  };
  // All outlive the object.
  NodesChaos(sim::World& world, const std::vector<sim::Host*>& hosts, SeveralNodes& nodes,
             const std::vector<sim::Host*>& clients, const Options& options);

  void begin();
  // A transaction has its parts, and is not decided: some nodes die now, and are back soon.
  void strike();
  // All that may live do live, run and reach each other.
  void calm();
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  void disturb();
  void raise_the_dead();
  void harm(uint64_t draw);
  void cut(sim::Host& one, sim::Host& other);
  [[nodiscard]] uint64_t draw_time_ns();

  sim::World& world_;
  const std::vector<sim::Host*>& hosts_;
  SeveralNodes& nodes_;
  const std::vector<sim::Host*>& clients_;
  const Options options_;
  Counts counts_;
  bool is_calm_ = false;
};

}  // namespace refract::campaign
