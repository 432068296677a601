// SPDX-License-Identifier: Apache-2.0
// What `refract top` shows, reckoned from two looks at a node: rates and quantiles of the time between them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/node/observe/state.h"

namespace refract::cli {

class NodeLink;

// A whole node at (nearly) one moment.
struct Look {
  std::string address;
  std::string transport;
  std::vector<observe::ShardState> shards;
  struct Connection {
    uint32_t shard = 0;
    observe::ConnectionState state;
  };
  std::vector<Connection> connections;
};

[[nodiscard]] Reported<Look> look_at(NodeLink& link, size_t connections_max);

// Of a sample; all 0 where it is empty.
struct Quantiles {
  uint64_t samples = 0;
  uint64_t p50 = 0;
  uint64_t p99 = 0;
  uint64_t p999 = 0;
};

struct MethodFigures {
  std::string name;
  uint64_t calls = 0;  // Since the server's start.
  double calls_per_s = 0;
  Quantiles service_ns;
};

struct ShardFigures {
  uint32_t index = 0;
  double calls_per_s = 0;
  double cpu_share = 0;  // Of one core.
  double sleeps_per_s = 0;
  double calls_per_batch = 0;
  Quantiles batch_ns;
  uint64_t connections = 0;
  uint64_t waiting_for_memory = 0;
  observe::EntriesState entries;
  observe::MemoryState memory;
};

struct ConnectionFigures {
  uint32_t shard = 0;
  observe::ConnectionState now;
  double calls_per_s = 0;
  double received_per_s = 0;
  double sent_per_s = 0;
};

struct Figures {
  std::string address;
  std::string transport;  // Of the one who looks.
  uint64_t incarnation = 0;
  uint64_t process = 0;
  uint64_t uptime_ns = 0;
  bool since_start = false;  // There was nothing to compare with: rates are means over the server's life.
  uint64_t interval_ns = 0;
  double calls_per_s = 0;
  uint64_t connection_count = 0;       // More than are listed, perhaps.
  std::vector<MethodFigures> methods;  // Those that were ever called, busiest first.
  std::vector<ShardFigures> shards;
  std::vector<ConnectionFigures> connections;  // Busiest first.
  observe::EntriesState entries;               // Sums.
  std::vector<observe::DataState> data;        // Of each shard.
  observe::MemoryState memory;                 // Sums; the largest free run is the largest of any shard.
  std::vector<std::pair<std::string, uint64_t>> counters;  // Sums.
};

// `before` empty, or of another server: since its start.
[[nodiscard]] Figures figures_of(const Look& before, const Look& now);

[[nodiscard]] std::string to_json(const Figures& figures);

struct ScreenSize {
  size_t columns = 80;
  size_t rows = SIZE_MAX;
};
// The figures as lines, each ended by a line break, none longer than the screen is wide, no more than it is
// high.
[[nodiscard]] std::string draw(const Figures& figures, const ScreenSize& size);

}  // namespace refract::cli
