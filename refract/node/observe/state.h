// SPDX-License-Identifier: Apache-2.0
// What a shard knows about itself, as numbers that only grow (so that rates and quantiles of an interval
// follow from two looks) or that are true now.
//
// The JSON forms are in docs/formats/observe.md. Who reads takes what it knows and finds 0 or nothing where
// another version says less; what is no JSON object at all is kMalformed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/histogram.h"
#include "refract/base/report.h"
#include "refract/node/observe/data_state.h"

namespace refract::observe {

using AddCounter = std::function<void(std::string_view name, uint64_t count)>;

struct MethodUse {
  std::string name;
  uint64_t calls = 0;    // All of them.
  Histogram service_ns;  // Of a sample: the work of a call, its batch's time divided by its calls.
};

// Bytes. live, retired, table and free are apart from each other; what is left of total is room in chunks
// that are in use.
struct MemoryState {
  uint64_t total = 0;
  uint64_t free = 0;
  uint64_t live = 0;     // Entries, and uploads on their way to be some.
  uint64_t retired = 0;  // Replaced or erased; reused as soon as no reader holds them.
  uint64_t table = 0;
  uint64_t largest_free_run = 0;
  uint64_t pins = 0;  // Not bytes: buffers that readers hold.
};

struct EntriesState {
  uint64_t count = 0;
  uint64_t expiring = 0;
  uint64_t expired = 0;  // Since the start.
  uint64_t buckets = 0;
  uint64_t overflow_lines = 0;
  uint64_t splits = 0;
};

struct ShardState {
  std::array<uint64_t, 2> identity{};
  uint64_t incarnation = 0;
  uint32_t shard_index = 0;
  uint32_t shard_count = 1;
  uint64_t process = 0;
  uint64_t now_ns = 0;  // The shard's clock.
  uint64_t uptime_ns = 0;
  uint64_t cpu_ns = 0;  // Of its thread.
  uint64_t sleeps = 0;
  uint64_t operations = 0;  // Of its own, in flight.
  uint64_t connections = 0;
  uint64_t uploads = 0;
  uint64_t views = 0;
  uint64_t waiting_for_memory = 0;
  MemoryState memory;
  EntriesState entries;
  uint64_t batches = 0;
  Histogram batch_ns;     // Of a sample: from taking a batch until it was worked off.
  Histogram batch_calls;  // Of the same sample.
  std::vector<MethodUse> methods;
  DataState data = {};
  std::vector<std::pair<std::string, uint64_t>> counters;  // What else is counted, by name.
};

struct ConnectionState {
  uint64_t place = 0;
  std::string transport;  // "shm"
  std::string peer;       // "process 1234, user 1000", "10.0.0.7:40122"
  std::string reason;     // Why this transport, as far as the node can tell.
  uint64_t age_ns = 0;
  uint64_t idle_ns = 0;  // Since its last call.
  uint64_t calls = 0;
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
  uint64_t in_flight = 0;
  uint64_t waiting_replies = 0;
};

struct ConnectionPage {
  std::vector<ConnectionState> connections;
  uint64_t next = 0;  // 0: this was the last.
};

[[nodiscard]] documents::Value json_of(const MemoryState& state);
[[nodiscard]] std::string to_json(const ShardState& state);
[[nodiscard]] std::string to_json(const ConnectionPage& page);
[[nodiscard]] Reported<ShardState> shard_state_of(std::string_view json);
[[nodiscard]] Reported<ConnectionPage> connection_page_of(std::string_view json);

}  // namespace refract::observe
