// SPDX-License-Identifier: Apache-2.0
// A suite's testbed as a simulated world: a server and its clients' hosts, with ports, delays and cores.
//
// The order of destruction matters to what lives on the hosts: make it with Host::emplace, or let it end
// before the testbed.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/suites/suite.h"

#include "refract/fabric/sim/world.h"

namespace refract::bench {

class SimTestbed {
 public:
  // `adds_us` is what the network takes beyond the testbed's own, there and back.
  SimTestbed(const Suite& suite, const System& system, double adds_us);

  [[nodiscard]] sim::World& world() noexcept { return world_; }
  [[nodiscard]] sim::Host& server() noexcept { return *server_; }
  [[nodiscard]] const std::vector<sim::Host*>& clients() const noexcept { return clients_; }

 private:
  sim::World world_;
  sim::Host* server_;
  std::vector<sim::Host*> clients_;
};

// From one end to the other, without the bytes' time on the wire.
[[nodiscard]] uint64_t one_way_ns(const Testbed& testbed, double adds_us) noexcept;

// Ports and headers, and no work.
[[nodiscard]] sim::MachineOptions machine_of(const Testbed& testbed);
// Everything that takes time is in the machines and in one delay, and nothing is drawn by chance.
[[nodiscard]] sim::WorldOptions world_of(const Suite& suite, double adds_us);

// What `arrival` costs a server of this system: by its kind.
[[nodiscard]] sim::Work work_of(const System& system, const sim::Arrival& arrival) noexcept;

}  // namespace refract::bench
