// SPDX-License-Identifier: Apache-2.0
#include "bench/bars/bars.h"

#include <fmt/core.h>

#include <array>

namespace refract::bench {
namespace {

constexpr std::array kBars = {
    Bar{"get-throughput", "get on shm, throughput / in-process table", "at least 0.50", Sense::kAtLeast, 0.50,
        "x", measure_get_throughput},
    Bar{"get-throughput-many", "the same, 10 million entries", "at least 0.58", Sense::kAtLeast, 0.58, "x",
        measure_get_throughput_of_many},
    Bar{"get-throughput-zipf", "the same, zipf 0.99", "at least 0.60", Sense::kAtLeast, 0.60, "x",
        measure_get_throughput_by_zipf},
    Bar{"multi-get", "multi_get of 16 on shm / in-process table, prefetched", "at least 0.95",
        Sense::kAtLeast, 0.95, "x", measure_multi_get},
    Bar{"multi-get-many", "the same, 10 million entries", "at least 1.10", Sense::kAtLeast, 1.1, "x",
        measure_multi_get_of_many},
    Bar{"get-latency", "get on shm, median / two dependent 64 B reads", "at most 1.05", Sense::kAtMost, 1.05,
        "x", measure_get_latency},
    Bar{"get-hot", "get on shm of one of 1000 keys", "under 40 ns", Sense::kAtMost, 40, "ns",
        measure_hot_get},
    Bar{"view", "view held on shm, beside finding the entry alone", "within 15 ns", Sense::kAtMost, 15, "ns",
        measure_view},
    Bar{"view-hot", "the same of one of 1000 keys", "within 15 ns", Sense::kAtMost, 15, "ns",
        measure_hot_view},
    Bar{"get-under-puts", "get on shm while the server puts / quiet", "at least 0.90", Sense::kAtLeast, 0.9,
        "x", measure_get_under_puts},
    Bar{"shm-get-redis", "gets on shm, one in flight / Redis, one in flight", "at least 20", Sense::kAtLeast,
        20, "x", measure_shm_get_beside_redis},
    Bar{"shm-get-redis-64", "gets on shm, one in flight / Redis, 64 in flight", "at least 5", Sense::kAtLeast,
        5, "x", measure_shm_get_beside_pipelined_redis},
    Bar{"stopped-server", "get with the server stopped / running", "at least 0.95", Sense::kAtLeast, 0.95,
        "x", measure_stopped_server},
    Bar{"put-latency", "put on shm, one in flight, median / 64 B ping-pong", "at most 3.50", Sense::kAtMost,
        3.5, "x", measure_put_latency},
    Bar{"put-latency-many", "the same, 10 million entries", "at most 5.50", Sense::kAtMost, 5.5, "x",
        measure_put_latency_of_many},
    Bar{"put-16", "put on shm, 16 in flight / update of the in-process table", "at least 0.60",
        Sense::kAtLeast, 0.6, "x", measure_put_16},
    Bar{"put-floods", "p99 of puts beside four clients that flood / that spin", "at most 2", Sense::kAtMost,
        2, "x", measure_put_beside_floods},
    Bar{"put-large", "put of 4 MiB on shm / memcpy, same walk", "at least 0.90", Sense::kAtLeast, 0.9, "x",
        measure_put_large},
    Bar{"put-built", "put of 4 MiB that was built in a reservation / memcpy, same walk", "at least 1.80",
        Sense::kAtLeast, 1.8, "x", measure_put_built},
    Bar{"get-large", "get of 4 MiB on shm, copied / memcpy, same walk", "at least 0.95", Sense::kAtLeast,
        0.95, "x", measure_get_large},
    Bar{"chain-get", "get by a chain on shm, slot known, median / get by a call", "at most 1.30",
        Sense::kAtMost, 1.3, "x", measure_chain_get},
    Bar{"chain-read-cost", "executor: an indirect bounded READ of 64 B, hot", "under 60 ns", Sense::kAtMost,
        60, "ns", measure_chain_read_cost},
    Bar{"chain-swap-cost", "executor: ALLOCATE of 64 B and CAS, hot", "under 150 ns", Sense::kAtMost, 150,
        "ns", measure_chain_swap_cost},
    Bar{"restart", "kill -9 to the first put served", "under 0.200 s", Sense::kAtMost, 0.2, "s",
        measure_restart},
    Bar{"crowded-restart", "start from a log, 40,000 keys of one bucket / ordinary ones", "at most 2.00",
        Sense::kAtMost, 2, "x", measure_crowded_restart},
    Bar{"crowded-put", "put's p99 beside 4 clients with keys of one bucket / ordinary ones", "at most 2.00",
        Sense::kAtMost, 2, "x", measure_crowded_put},
    Bar{"crowded-put-tcp", "the same, the four over TCP", "at most 2.00", Sense::kAtMost, 2, "x",
        measure_crowded_put_tcp},
    Bar{"memory", "memory an entry / Redis", "at most 0.72", Sense::kAtMost, 0.72, "x", measure_memory},
    Bar{"eviction-hit-rate", "hits of eviction / true LRU and LFU, zipf 0.99", "at least 0.97",
        Sense::kAtLeast, 0.97, "x", measure_eviction_hit_rate},
    Bar{"get-messages", "messages a get", "0", Sense::kAtMost, 0, "", measure_get_messages},
    Bar{"put-messages", "messages a put, each way", "1", Sense::kAtMost, 1, "", measure_put_messages},
    Bar{"allocations", "allocations a get or put, warm", "0", Sense::kAtMost, 0, "", measure_allocations},
    Bar{"idle", "processor time of keeper, server and client, idle", "under 1 ms/s", Sense::kAtMost, 1,
        "ms/s", measure_idle},
    Bar{"idle-everysec", "the same of keeper and server, with a log, durability everysec", "under 1 ms/s",
        Sense::kAtMost, 1, "ms/s", measure_idle_everysec},
    Bar{"idle-always", "the same, durability always", "under 1 ms/s", Sense::kAtMost, 1, "ms/s",
        measure_idle_always},
    Bar{"idle-cache", "the same without a log, a cache by lru", "under 1 ms/s", Sense::kAtMost, 1, "ms/s",
        measure_idle_cache},
    Bar{"idle-shards", "the same, two shards, which listen on TCP", "under 1 ms/s", Sense::kAtMost, 1, "ms/s",
        measure_idle_shards},
    Bar{"idle-expiry", "the same, one of a million entries expires in an hour", "under 1 ms/s",
        Sense::kAtMost, 1, "ms/s", measure_idle_expiry},
    Bar{"tcp-get-polling", "get on tcp, one in flight / ping-pong, all polling", "at most 1.10",
        Sense::kAtMost, 1.1, "x", measure_tcp_get_polling},
    Bar{"tcp-get-blocking", "the same, all blocking", "at most 1.25", Sense::kAtMost, 1.25, "x",
        measure_tcp_get_blocking},
    Bar{"tcp-chain-get", "get by a chain on tcp, slot known / ping-pong, all polling", "at most 1.30",
        Sense::kAtMost, 1.3, "x", measure_tcp_chain_get},
    Bar{"tcp-get-16", "get on tcp, 16 in flight / Redis", "at least 4.5", Sense::kAtLeast, 4.5, "x",
        measure_tcp_get_16},
    Bar{"tcp-get-64", "get on tcp, 64 in flight / Redis", "at least 7", Sense::kAtLeast, 7, "x",
        measure_tcp_get_64},
    Bar{"tcp-put-16", "put on tcp, 16 in flight / Redis", "at least 4", Sense::kAtLeast, 4, "x",
        measure_tcp_put_16},
    Bar{"tcp-put-64", "put on tcp, 64 in flight / Redis", "at least 5", Sense::kAtLeast, 5, "x",
        measure_tcp_put_64},
    Bar{"tcp-get-large", "get of 4 MiB on tcp / Redis", "at least 1.35", Sense::kAtLeast, 1.35, "x",
        measure_tcp_get_large},
    Bar{"tcp-put-large", "put of 4 MiB on tcp / Redis", "at least 1.35", Sense::kAtLeast, 1.35, "x",
        measure_tcp_put_large},
    Bar{"tcp-get-large-memcached", "get of 4 MiB on tcp / memcached", "at least 1.35", Sense::kAtLeast, 1.35,
        "x", measure_tcp_get_large_beside_memcached},
    Bar{"tcp-put-large-memcached", "put of 4 MiB on tcp / memcached", "at least 1.35", Sense::kAtLeast, 1.35,
        "x", measure_tcp_put_large_beside_memcached},
    Bar{"tcp-get-far", "gets of 4 MiB, 10 ms away / bandwidth of 1 GB/s", "at least 0.85", Sense::kAtLeast,
        0.85, "x", measure_tcp_get_far},
    Bar{"tcp-put-far", "puts of 4 MiB, 10 ms away / bandwidth of 1 GB/s", "at least 0.85", Sense::kAtLeast,
        0.85, "x", measure_tcp_put_far},
    Bar{"everysec-put-shm", "put on shm, one in flight, durability everysec / none", "at least 0.80",
        Sense::kAtLeast, 0.8, "x", measure_everysec_put_shm},
    Bar{"everysec-put-tcp", "the same on tcp, 16 in flight", "at least 0.80", Sense::kAtLeast, 0.8, "x",
        measure_everysec_put_tcp},
    Bar{"everysec-put-redis", "put on tcp, 16 in flight, everysec / Redis with AOF everysec", "at least 3",
        Sense::kAtLeast, 3, "x", measure_everysec_put_beside_redis},
    Bar{"always-put-redis", "put on tcp, 50 clients, always / Redis with AOF always", "at least 1.00",
        Sense::kAtLeast, 1, "x", measure_always_put_beside_redis},
    Bar{"snapshot-latency", "puts and gets on shm during a snapshot, p99 / without", "at most 1.50",
        Sense::kAtMost, 1.5, "x", measure_snapshot_latency},
    Bar{"snapshot-pause", "the longest of them during a snapshot", "at most 2 ms", Sense::kAtMost, 2, "ms",
        measure_snapshot_pause},
    Bar{"snapshot-speed", "snapshot, bytes a second / a synced file, or memcpy", "at least 0.50",
        Sense::kAtLeast, 0.5, "x", measure_snapshot_speed},
    Bar{"restore-speed", "start from a snapshot, bytes a second / reading it, or memcpy", "at least 0.50",
        Sense::kAtLeast, 0.5, "x", measure_restore_speed},
    Bar{"restore-redis", "the same, seconds of Redis with its RDB / ours", "at least 5", Sense::kAtLeast, 5,
        "x", measure_restore_beside_redis},
    Bar{"restart-many", "kill -9 to the first put served, 10 million entries", "under 0.800 s",
        Sense::kAtMost, 0.8, "s", measure_restart_of_many},
    Bar{"tcp-idle", "processor time of all, idle, connected by tcp", "under 1 ms/s", Sense::kAtMost, 1,
        "ms/s", measure_tcp_idle},
    Bar{"tcp-first-request", "first get on tcp after a pause / a socket's message", "at most 1.38",
        Sense::kAtMost, 1.38, "x", measure_tcp_first_request},
    Bar{"shards", "two shards / one, two clients on tcp", "at least 1.30", Sense::kAtLeast, 1.3, "x",
        measure_shards},
    Bar{"shm-message-ucx", "message of 64 B on shm, one way / UCX", "at most 1.00", Sense::kAtMost, 1, "x",
        measure_shm_message_beside_ucx},
    Bar{"shm-get-ucx", "READ of 64 B on shm / UCX's get", "at most 1.00", Sense::kAtMost, 1, "x",
        measure_shm_get_beside_ucx},
    Bar{"shm-put-ucx", "WRITE of 64 B on shm, one way / UCX's put", "at most 1.00", Sense::kAtMost, 1, "x",
        measure_shm_put_beside_ucx},
    Bar{"tcp-message-ucx", "message of 64 B on tcp, one way / UCX", "at most 1.00", Sense::kAtMost, 1, "x",
        measure_tcp_message_beside_ucx},
    Bar{"tcp-message-fabric", "the same / libfabric", "at most 1.00", Sense::kAtMost, 1, "x",
        measure_tcp_message_beside_libfabric},
    Bar{"tcp-flow-ucx", "messages of 32 KiB on tcp, bytes a second / UCX", "at least 1.00", Sense::kAtLeast,
        1, "x", measure_tcp_flow_beside_ucx},
    Bar{"tcp-put-fabric", "4 MiB there and back on tcp / libfabric", "at most 1.00", Sense::kAtMost, 1, "x",
        measure_tcp_put_beside_libfabric},
    Bar{"sim-prism-get", "PRISM-KV's get / Pilaf's, simulated, off the paper's 0.75", "at most 15 %",
        Sense::kAtMost, 15, "%", measure_prism_get_over_hardware},
    Bar{"sim-prism-get-soft", "the same, Pilaf in software, off about 0.45", "at most 15 %", Sense::kAtMost,
        15, "%", measure_prism_get_over_software},
    Bar{"sim-prism-peak", "gets a second, PRISM-KV / Pilaf, simulated, off 1.22", "at most 15 %",
        Sense::kAtMost, 15, "%", measure_prism_peak},
};

}  // namespace

std::span<const Bar> bars() noexcept {
  return kBars;
}

std::string_view text(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kFallsShort:
      return "falls short";
    case Verdict::kNotMeasured:
      return "not measured";
    case Verdict::kNotJudged:
      return "not judged";
    case Verdict::kDisturbed:
      return "disturbed";
    case Verdict::kFailed:
      break;
  }
  return "FAILED";
}

Verdict judge(const Bar& bar, const Outcome& outcome) {
  if (outcome.samples.empty()) return Verdict::kNotMeasured;
  if (outcome.is_disturbed) return Verdict::kDisturbed;
  const double median = spread_of(outcome.samples).median;
  const bool holds = bar.sense == Sense::kAtLeast ? median >= bar.limit : median <= bar.limit;
  return holds ? Verdict::kHolds : Verdict::kFallsShort;
}

Reported<Outcome> in_block(BarRun& run, const std::function<Reported<>(Outcome&)>& body, Over over) {
  std::vector<Block> blocks;
  for (int attempt = 1;; ++attempt) {
    Outcome outcome;
    Block block;
    block.before = run.references.measure();
    if (const Reported<> done = body(outcome); !done) return report(done.error());
    block.after = run.references.measure();
    const double apart = drift(block.before, block.after, over);
    block.accepted = apart <= kDriftMax;
    blocks.push_back(block);
    if (!block.accepted && attempt < run.options.attempts) continue;
    outcome.blocks = std::move(blocks);
    if (!block.accepted) {
      outcome.note += fmt::format("{}the machine is not quiet: references {:.0f} % apart at attempt {}",
                                  outcome.note.empty() ? "" : "; ", 100 * apart, attempt);
    } else if (attempt > 1) {
      outcome.note += fmt::format("{}{} block{} rejected before, references more than 30 % apart",
                                  outcome.note.empty() ? "" : "; ", attempt - 1, attempt == 2 ? "" : "s");
    }
    return outcome;
  }
}

}  // namespace refract::bench
