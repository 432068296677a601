// SPDX-License-Identifier: Apache-2.0
// A private node that holds the entries 0 to N of entry.h, and a client of it: what most bars start from.
#pragma once

#include <cstdint>
#include <string>

#include "bench/bars/bars.h"
#include "bench/sides/private_node.h"

#include "refract/client/client.h"

namespace refract::bench {

struct LoadedNode {
  PrivateNode node;
  Client client;
};

// Starts, loads and attaches. The node may take what `entries` need and a quarter more.
[[nodiscard]] Reported<LoadedNode> start_loaded_node(const BarRun& run, uint64_t entries,
                                                     const std::string& backing = "memfd:");

// An empty one with that much room.
[[nodiscard]] Reported<PrivateNode> start_node(const BarRun& run, uint64_t entries,
                                               const std::string& backing = "memfd:");
[[nodiscard]] uint64_t node_memory_bytes(uint64_t entries) noexcept;

[[nodiscard]] Reported<Client> connect_to(const PrivateNode& node);
[[nodiscard]] Reported<> load_entries(Client& client, uint64_t entries);

// The median of gets of random entries, timed one by one, as many as there is room for.
[[nodiscard]] Reported<double> get_median_ns(const BarRun& run, Client& client, uint64_t entries,
                                             Samples& samples, uint64_t seed);
// Gets random entries, one after the other, and returns how many million a second. An entry that is missing
// or wrong is an error.
[[nodiscard]] Reported<double> get_rate(Client& client, uint64_t entries, uint64_t operations, uint64_t seed);

}  // namespace refract::bench
