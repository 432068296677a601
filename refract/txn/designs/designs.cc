// SPDX-License-Identifier: Apache-2.0
#include "refract/txn/designs/designs.h"

#include <algorithm>
#include <array>

#include "refract/txn/designs/farm/client.h"
#include "refract/txn/designs/farm/server.h"
#include "refract/txn/designs/prism_tx/client.h"
#include "refract/txn/designs/prism_tx/server.h"

namespace refract::txn::designs {

namespace {

constexpr std::array kDesigns = {
    Design{.name = "farm",
           .paper = "Dragojevic et al.: FaRM: Fast Remote Memory. NSDI 2014; No compromises: distributed "
                    "transactions with consistency, availability, and performance. SOSP 2015",
           .isolation = Isolation::kStrict,
           .isolation_by_any_clocks = Isolation::kStrict,
           .after_death = AfterDeath::kHalf,
           .round_trips = {.read = 2, .commit_of_writes = 3, .commit_of_reads = 1},
           .memory_bytes = farm::memory_bytes,
           .make_server = farm::make_server,
           .make_client = farm::make_client},
    // With a message that unlocks behind those that update, as the figures of PRISM's authors suggest.
    Design{.name = "farm-apart",
           .paper = "FaRM, as measured by Burke et al.: PRISM. SOSP 2021",
           .isolation = Isolation::kStrict,
           .isolation_by_any_clocks = Isolation::kStrict,
           .after_death = AfterDeath::kHalf,
           .round_trips = {.read = 2, .commit_of_writes = 4, .commit_of_reads = 1},
           .memory_bytes = farm::memory_bytes,
           .make_server = farm::make_server,
           .make_client = farm::make_client_that_unlocks_apart},
    Design{.name = "prism-tx",
           .paper = "Burke et al.: PRISM: Rethinking the RDMA Interface for Distributed Systems. SOSP 2021",
           .isolation = Isolation::kStrict,
           .isolation_by_any_clocks = Isolation::kSerialisable,
           .after_death = AfterDeath::kHalf,
           .round_trips = {.read = 1, .commit_of_writes = 3, .commit_of_reads = 1},
           .memory_bytes = prism_tx::memory_bytes,
           .make_server = prism_tx::make_server,
           .make_client = prism_tx::make_client},
};

}  // namespace

std::span<const Design> all() noexcept {
  return kDesigns;
}

const Design* find(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kDesigns, name, &Design::name);
  return found == kDesigns.end() ? nullptr : &*found;
}

}  // namespace refract::txn::designs
