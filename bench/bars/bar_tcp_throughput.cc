// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>

#include "bench/bars/bars.h"
#include "bench/load/memcached_driver.h"
#include "bench/sides/memcached.h"
#include "bench/sides/rivals.h"

#include "refract/base/units.h"

namespace refract::bench::bar_tcp_throughput {
namespace {

enum class Rival : uint8_t { kRedis, kMemcached };

struct Contest {
  Rival rival = Rival::kRedis;
  uint64_t keys = 0;
  size_t value_bytes = 64;
  double get_share = 1;
  size_t depth = 1;
};

// The store beside ours, filled, and a client of it.
class Beside {
 public:
  [[nodiscard]] static Reported<Beside> start(const Contest& contest, const Rivals& rivals,
                                              const DriverOptions& options) {
    Beside beside;
    if (contest.rival == Rival::kRedis) {
      Reported<std::unique_ptr<StoreDriver>> driver = rivals.connect_redis(options);
      if (!driver) return report(driver.error());
      beside.driver_ = std::move(*driver);
      beside.name_ = fmt::format("Redis {}", rivals.redis().version());
      return beside;
    }
    const Contents contents = rivals.contents();
    Reported<Memcached> memcached = Memcached::start({.cpu = core_count() > 1 ? core_number(1) : -1,
                                                      .keys = contest.keys,
                                                      .key_bytes = contents.key_bytes(),
                                                      .value_bytes = contents.value_bytes()});
    if (!memcached) return report(memcached.error());
    beside.memcached_.emplace(std::move(*memcached));
    const uint16_t port = beside.memcached_->port();
    Reported<std::unique_ptr<MemcachedDriver>> filler =
        MemcachedDriver::connect(port, {.depth = filling_depth(contents)}, contents);
    if (!filler) return report(filler.error());
    if (const Reported<> filled = (*filler)->fill(0, contest.keys); !filled) return report(filled.error());
    Reported<std::unique_ptr<MemcachedDriver>> driver = MemcachedDriver::connect(port, options, contents);
    if (!driver) return report(driver.error());
    beside.driver_ = std::move(*driver);
    beside.name_ = "memcached";
    return beside;
  }

  [[nodiscard]] StoreDriver& driver() const noexcept { return *driver_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  std::optional<Memcached> memcached_;
  std::unique_ptr<StoreDriver> driver_;
  std::string name_;
};

// Operations a second.
Reported<double> rate_of(StoreDriver& driver, const WorkloadOptions& options, const Timer& timer) {
  Workload workload(options, timer);
  const Reported<WorkloadResult> result = run_workload(driver, workload);
  if (!result) return report(result.error());
  if (result->missing > 0) return report(Code::kCorrupt, "a get found nothing where an entry was put");
  return result->per_second();
}

Reported<Outcome> measure_contest(BarRun& run, const Contest& contest) {
  const Reported<Rivals> rivals = Rivals::start({.node_program = run.options.node_program,
                                                 .keys = contest.keys,
                                                 .value_bytes = contest.value_bytes,
                                                 .with_redis = contest.rival == Rival::kRedis,
                                                 .server_waiting = Waiting::kPolling});
  if (!rivals) return report(rivals.error());
  pin_to_core(0);
  const DriverOptions options = {.depth = contest.depth, .waiting = Waiting::kPolling};
  const Reported<std::unique_ptr<StoreDriver>> ours = rivals->connect(options);
  if (!ours) return report(ours.error());
  const Reported<Beside> beside = Beside::start(contest, *rivals, options);
  if (!beside) return report(beside.error());

  const bool is_large = contest.value_bytes >= kMiB;
  return in_turns(
      run,
      fmt::format(
          "one connection each, a sliding window of {} (AsyncClient; pipelined commands); both "
          "clients poll, our server polls, {} sleeps in epoll when idle; clients on core 0, servers on 1",
          contest.depth, beside->name()),
      [&](uint64_t turn) {
        const WorkloadOptions workload = {.keys = contest.keys,
                                          .value_bytes = contest.value_bytes,
                                          .get_share = contest.get_share,
                                          .seconds = run.options.slice_seconds,
                                          .seed = turn + 1};
        // Over the same keys in the same order.
        return ratio_of({.ours = {"ours", rate_of(**ours, workload, run.timer)},
                         .theirs = {beside->name(), rate_of(beside->driver(), workload, run.timer)},
                         .unit = is_large ? "GB/s" : "M/s",
                         .scale = is_large ? static_cast<double>(contest.value_bytes) * 1e-9 : 1e-6});
      },
      {.over = Over::kTcp});
}

Reported<Outcome> measure_small(BarRun& run, double get_share, size_t depth) {
  return measure_contest(run, {.keys = run.options.entries, .get_share = get_share, .depth = depth});
}

// Sixteen values that are walked in random order, every page of them touched before.
Reported<Outcome> measure_large(BarRun& run, double get_share, Rival rival) {
  return measure_contest(
      run, {.rival = rival, .keys = 16, .value_bytes = 4 * kMiB, .get_share = get_share, .depth = 1});
}

const BarRows kRows = {
    {"tcp-get-16", "get on tcp, 16 in flight / Redis", "at least 4.2", Sense::kAtLeast, 4.2, "x",
     [](BarRun& run) { return measure_small(run, 1, 16); }},
    {"tcp-get-64", "get on tcp, 64 in flight / Redis", "at least 7", Sense::kAtLeast, 7, "x",
     [](BarRun& run) { return measure_small(run, 1, 64); }},
    {"tcp-put-16", "put on tcp, 16 in flight / Redis", "at least 4.5", Sense::kAtLeast, 4.5, "x",
     [](BarRun& run) { return measure_small(run, 0, 16); }},
    {"tcp-put-64", "put on tcp, 64 in flight / Redis", "at least 5", Sense::kAtLeast, 5, "x",
     [](BarRun& run) { return measure_small(run, 0, 64); }},
    {"tcp-get-large", "get of 4 MiB on tcp / Redis", "at least 1.35", Sense::kAtLeast, 1.35, "x",
     [](BarRun& run) { return measure_large(run, 1, Rival::kRedis); }},
    {"tcp-put-large", "put of 4 MiB on tcp / Redis", "at least 1.35", Sense::kAtLeast, 1.35, "x",
     [](BarRun& run) { return measure_large(run, 0, Rival::kRedis); }},
    {"tcp-get-large-memcached", "get of 4 MiB on tcp / memcached", "at least 1.35", Sense::kAtLeast, 1.35,
     "x", [](BarRun& run) { return measure_large(run, 1, Rival::kMemcached); }},
    {"tcp-put-large-memcached", "put of 4 MiB on tcp / memcached", "at least 1.35", Sense::kAtLeast, 1.35,
     "x", [](BarRun& run) { return measure_large(run, 0, Rival::kMemcached); }},
};

}  // namespace
}  // namespace refract::bench::bar_tcp_throughput
