// SPDX-License-Identifier: Apache-2.0
// What we promise in numbers, one row each, and how a row is measured.
//
// A bar compares one number, mostly a ratio of two things measured in turn within one run, with a limit. To
// add one: a file bar_NAME.cc with its function, a declaration here, a row in bars.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure/measure.h"
#include "bench/measure/references.h"

#include "refract/base/report.h"

namespace refract::bench {

struct BarOptions {
  uint64_t entries = 1'000'000;
  uint64_t many_entries = 10'000'000;  // For the bars on memory, snapshots and restores.
  uint64_t operations = 2'000'000;     // Gets in a round; rounds of slower operations take a share of it.
  double slice_seconds = 0.25;         // Of one side's turn where turns are bounded by time.
  double path_seconds = 1.5;           // Likewise over the slow path.
  double log_seconds = 1.5;            // Likewise where a log is synced every second.
  int first_requests = 20;             // Of each side in a turn.
  uint64_t idle_ns = 3'000'000'000;
  int alternations = 7;
  int attempts = 3;    // At a block whose references drift.
  bool judged = true;  // Whether numbers mean anything at this size.
  std::string node_program;
};

// What all bars of a run share.
struct BarRun {
  BarOptions options;
  Timer timer;
  References& references;
};

struct Block {
  Reference before;
  Reference after;
  bool accepted = false;
};

struct Detail {
  std::string name;
  double value = 0;
  std::string unit;
};

struct Outcome {
  std::vector<double> samples;  // One an alternation: what the limit is about.
  std::vector<Detail> details;  // What it was computed from, medians.
  std::vector<Block> blocks;    // Those that were rejected too.
  std::string note;             // What one must know to read the number: pages, versions, oddities.
  bool is_disturbed = false;    // The machine's own doings hide what the limit is about; the note says which.
};

enum class Sense : uint8_t { kAtLeast, kAtMost };
enum class Verdict : uint8_t { kHolds, kFallsShort, kNotMeasured, kNotJudged, kDisturbed, kFailed };
[[nodiscard]] std::string_view text(Verdict verdict) noexcept;

struct Bar {
  std::string_view name;
  std::string_view what;
  std::string_view promise;
  Sense sense;
  double limit;
  std::string_view unit;  // Of samples and limit.
  Reported<Outcome> (*measure)(BarRun& run);
};

[[nodiscard]] std::span<const Bar> bars() noexcept;
// By the median.
[[nodiscard]] Verdict judge(const Bar& bar, const Outcome& outcome);

// Calls `body` between two measurements of the references. If these lie more than 30 % apart, what it
// measured is dropped and it is called again, up to options.attempts times; of the last attempt the outcome
// stays, with a note. `body` adds to samples and details of the outcome that it is given.
[[nodiscard]] Reported<Outcome> in_block(BarRun& run, const std::function<Reported<>(Outcome&)>& body,
                                         Over over = Over::kSharedMemory);

Reported<Outcome> measure_get_throughput(BarRun& run);
Reported<Outcome> measure_get_throughput_of_many(BarRun& run);
Reported<Outcome> measure_get_throughput_by_zipf(BarRun& run);
Reported<Outcome> measure_multi_get(BarRun& run);
Reported<Outcome> measure_multi_get_of_many(BarRun& run);
Reported<Outcome> measure_hot_get(BarRun& run);
Reported<Outcome> measure_get_under_puts(BarRun& run);
Reported<Outcome> measure_get_latency(BarRun& run);
Reported<Outcome> measure_shm_get_beside_redis(BarRun& run);
Reported<Outcome> measure_shm_get_beside_pipelined_redis(BarRun& run);
Reported<Outcome> measure_stopped_server(BarRun& run);
Reported<Outcome> measure_put_latency(BarRun& run);
Reported<Outcome> measure_put_latency_of_many(BarRun& run);
Reported<Outcome> measure_put_16(BarRun& run);
Reported<Outcome> measure_view(BarRun& run);
Reported<Outcome> measure_hot_view(BarRun& run);
Reported<Outcome> measure_put_large(BarRun& run);
Reported<Outcome> measure_put_built(BarRun& run);
Reported<Outcome> measure_get_large(BarRun& run);
Reported<Outcome> measure_chain_get(BarRun& run);
Reported<Outcome> measure_chain_read_cost(BarRun& run);
Reported<Outcome> measure_chain_swap_cost(BarRun& run);
Reported<Outcome> measure_restart(BarRun& run);
Reported<Outcome> measure_crowded_restart(BarRun& run);
Reported<Outcome> measure_crowded_put(BarRun& run);
Reported<Outcome> measure_crowded_put_tcp(BarRun& run);
Reported<Outcome> measure_memory(BarRun& run);
Reported<Outcome> measure_eviction_hit_rate(BarRun& run);
Reported<Outcome> measure_get_messages(BarRun& run);
Reported<Outcome> measure_put_messages(BarRun& run);
Reported<Outcome> measure_allocations(BarRun& run);
Reported<Outcome> measure_idle(BarRun& run);
Reported<Outcome> measure_idle_everysec(BarRun& run);
Reported<Outcome> measure_idle_always(BarRun& run);
Reported<Outcome> measure_idle_cache(BarRun& run);
Reported<Outcome> measure_idle_shards(BarRun& run);
Reported<Outcome> measure_idle_expiry(BarRun& run);
Reported<Outcome> measure_tcp_get_polling(BarRun& run);
Reported<Outcome> measure_tcp_get_blocking(BarRun& run);
Reported<Outcome> measure_tcp_chain_get(BarRun& run);
Reported<Outcome> measure_tcp_get_16(BarRun& run);
Reported<Outcome> measure_tcp_get_64(BarRun& run);
Reported<Outcome> measure_tcp_put_16(BarRun& run);
Reported<Outcome> measure_tcp_put_64(BarRun& run);
Reported<Outcome> measure_tcp_get_large(BarRun& run);
Reported<Outcome> measure_tcp_put_large(BarRun& run);
Reported<Outcome> measure_tcp_get_large_beside_memcached(BarRun& run);
Reported<Outcome> measure_tcp_put_large_beside_memcached(BarRun& run);
Reported<Outcome> measure_tcp_get_far(BarRun& run);
Reported<Outcome> measure_tcp_put_far(BarRun& run);
Reported<Outcome> measure_everysec_put_shm(BarRun& run);
Reported<Outcome> measure_everysec_put_tcp(BarRun& run);
Reported<Outcome> measure_everysec_put_beside_redis(BarRun& run);
Reported<Outcome> measure_always_put_beside_redis(BarRun& run);
Reported<Outcome> measure_snapshot_latency(BarRun& run);
Reported<Outcome> measure_snapshot_pause(BarRun& run);
Reported<Outcome> measure_snapshot_speed(BarRun& run);
Reported<Outcome> measure_restore_speed(BarRun& run);
Reported<Outcome> measure_restore_beside_redis(BarRun& run);
Reported<Outcome> measure_restart_of_many(BarRun& run);
Reported<Outcome> measure_tcp_idle(BarRun& run);
Reported<Outcome> measure_put_beside_floods(BarRun& run);
Reported<Outcome> measure_tcp_first_request(BarRun& run);
Reported<Outcome> measure_shards(BarRun& run);
Reported<Outcome> measure_shm_message_beside_ucx(BarRun& run);
Reported<Outcome> measure_shm_get_beside_ucx(BarRun& run);
Reported<Outcome> measure_shm_put_beside_ucx(BarRun& run);
Reported<Outcome> measure_tcp_message_beside_ucx(BarRun& run);
Reported<Outcome> measure_tcp_message_beside_libfabric(BarRun& run);
Reported<Outcome> measure_tcp_flow_beside_ucx(BarRun& run);
Reported<Outcome> measure_tcp_put_beside_libfabric(BarRun& run);
Reported<Outcome> measure_prism_get_over_hardware(BarRun& run);
Reported<Outcome> measure_prism_get_over_software(BarRun& run);
Reported<Outcome> measure_prism_peak(BarRun& run);

}  // namespace refract::bench
