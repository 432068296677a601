// SPDX-License-Identifier: Apache-2.0
// Lets clients in: accepts on the node's listening socket, bounds and authenticates the handshakes, and hands
// each connection to the shard that its Hello names.
//
// A handshake has handshake_timeout_ns, and handshakes_max are under way at a time: beyond that the oldest is
// dropped, so that clients that never finish cannot keep out those that do. Nothing here waits, and without
// handshakes nothing ticks.
//
// Threads: the shard that it was made for, alone; hand_over is what crosses to the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/facts.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/runtime/shard.h"

namespace refract::fabric::tcp {

class Reception final : public runtime::Poller {
 public:
  struct Options {
    int listen_fd = -1;                      // From listen(); stays the caller's, outlives this.
    const Secret* secret = nullptr;          // Null: clients need none. Outlives this.
    const Secret* cluster_secret = nullptr;  // Of the node role. Null: that role is refused. Outlives this.
    std::span<ServerDomain* const> shards;   // Row k is shard k; both the rows and the domains outlive this.
    std::function<NodeFacts(uint32_t shard)> facts;
    // What a client is told that asks for the first shard that has no row. Empty: how many there are.
    Report no_further_shard = {};
    uint32_t connections_max = 10'000;  // Of each shard; further ones are refused as overloaded.
    uint32_t connections_of_nodes = 0;  // Beyond those, for the node role alone: clients keep no node out.
    uint32_t handshakes_max = 256;
    uint64_t handshake_timeout_ns = 5'000'000'000;
  };
  struct Counters {
    uint64_t accepted = 0;
    uint64_t admitted = 0;
    uint64_t refused = 0;       // Told why: version, secret, shard, too many connections.
    uint64_t secret_wrong = 0;  // Of those refused.
    uint64_t malformed = 0;     // Not our wire.
    uint64_t timed_out = 0;
    uint64_t dropped_oldest = 0;  // For want of a place.
    uint64_t hung_up = 0;         // Ended by the client before the end.
    uint64_t accept_failed = 0;   // Out of descriptors or memory; tried again later.
  };

  // Adds itself to `shard`, which must outlive it.
  [[nodiscard]] static Reported<std::unique_ptr<Reception>> create(runtime::Shard& shard,
                                                                   const Options& options);
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;
  ~Reception() override;

  // Drops the handshakes that are under way and accepts nothing more; the backlog waits for the next server.
  void stop() noexcept;
  [[nodiscard]] const Counters& counters() const noexcept;
  [[nodiscard]] size_t handshakes() const noexcept;

  size_t poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void woke() noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "tcp reception"; }

 private:
  struct State;
  explicit Reception(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace refract::fabric::tcp
