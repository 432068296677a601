// SPDX-License-Identifier: Apache-2.0
// A key-value store of a published design on a simulated testbed: how long an operation takes when no other
// client asks, and how many a second there are when as many ask as can.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/suites/suite.h"
#include "bench/suites/suite_store.h"
#include "bench/suites/suite_testbed.h"

namespace refract::bench {
namespace {

constexpr double kKvWarmUpShare = 0.25;  // Of a run, before it counts.
constexpr size_t kKvFillers = 16;

double mean_us(const std::vector<uint64_t>& latencies_ns) {
  const uint64_t sum = std::accumulate(latencies_ns.begin(), latencies_ns.end(), uint64_t{0});
  return static_cast<double>(sum) * 1e-3 / static_cast<double>(std::max<size_t>(latencies_ns.size(), 1));
}

// A system's server, filled, and its callers.
class SuiteSide {
 public:
  SuiteSide(const Suite& suite, const System& system)
      : suite_(suite), system_(system), testbed_(suite, system, 0) {}

  [[nodiscard]] Reported<> start();
  [[nodiscard]] Reported<> measure(std::vector<Measured>& measured);

 private:
  // Until all callers at work have ended.
  [[nodiscard]] Reported<> await(Run& run, std::string_view what);
  [[nodiscard]] Reported<> go(Run& run, size_t callers);
  [[nodiscard]] Reported<> measure_low_load(double get_share, std::string_view what,
                                            std::vector<Measured>& measured);
  [[nodiscard]] Reported<> measure_peak(double get_share, std::string_view what,
                                        std::vector<Measured>& measured);
  void add(std::vector<Measured>& measured, std::string what, std::string_view unit, double value) const {
    measured.push_back({.system = system_.name,
                        .place = {},
                        .what = std::move(what),
                        .unit = std::string(unit),
                        .value = value});
  }

  const Suite& suite_;
  const System& system_;
  SimTestbed testbed_;
  std::vector<Caller*> callers_;
};

Reported<> SuiteSide::await(Run& run, std::string_view what) {
  if (!testbed_.world().run_until([&run] { return run.at_work == 0; })) {
    return report(Code::kSystem, fmt::format("{}: {} never ended", system_.name, what));
  }
  if (run.failed != Code::kOk) {
    return report(run.failed, fmt::format("{}: {}: {}", system_.name, what, refract::text(run.failed)));
  }
  return {};
}

Reported<> SuiteSide::start() {
  sim::Host& host = testbed_.server();
  const Reported<StoreSpec> spec = spec_of(suite_, system_);
  if (!spec) return report(spec.error());
  Reported<std::unique_ptr<StoreProcess>> made = StoreProcess::start(*spec, host.shard(), host.domain());
  if (!made) return report(made.error());
  const auto& process = host.emplace<std::unique_ptr<StoreProcess>>(std::move(*made));
  testbed_.world().spawn(host, process->keep_house());
  for (sim::Host* client : testbed_.clients()) {
    client->emplace<fabric::Dispatcher>(client->domain(), client->shard());
  }
  Run run = make_run(suite_, 0);
  run.at_work = std::ranges::max(suite_.load.clients);
  for (size_t i = 0; i < run.at_work; ++i) {
    sim::Host& client = *testbed_.clients()[i % testbed_.clients().size()];
    const Reported<fabric::Channel*> channel = client.domain().connect(host.name());
    if (!channel) return report(channel.error());
    Caller& caller = client.emplace<Caller>(client.shard(), **channel, *spec->design);
    callers_.push_back(&caller);
    testbed_.world().spawn(client, caller.attach(run));
  }
  if (const Reported<> attached = await(run, "attaching"); !attached) return attached;
  const size_t fillers = std::min(callers_.size(), kKvFillers);
  run.at_work = fillers;
  for (size_t i = 0; i < fillers; ++i) {
    testbed_.world().spawn(*testbed_.clients()[i % testbed_.clients().size()],
                           callers_[i]->fill(run, i, fillers));
  }
  return await(run, "filling");
}

Reported<> SuiteSide::go(Run& run, size_t callers) {
  run.check_ns = static_cast<uint64_t>(system_.get_check_us * 1e3);
  run.at_work = callers;
  for (size_t i = 0; i < callers; ++i) {
    testbed_.world().spawn(*testbed_.clients()[i % testbed_.clients().size()], callers_[i]->work(run, i));
  }
  return await(run, "a run");
}

Reported<> SuiteSide::measure_low_load(double get_share, std::string_view what,
                                       std::vector<Measured>& measured) {
  const sim::Machine::Facts before = testbed_.server().machine()->facts();
  Run run = make_run(suite_, get_share);
  run.operations_max = suite_.load.operations;
  if (const Reported<> gone = go(run, 1); !gone) return gone;
  const sim::Machine::Facts& after = testbed_.server().machine()->facts();
  const auto add_each = [&](std::string_view which, std::string_view unit, uint64_t value) {
    add(measured, fmt::format("{}-{}", what, which), unit,
        static_cast<double>(value) / static_cast<double>(run.latencies_ns.size()));
  };
  add(measured, fmt::format("{}-latency", what), "us", mean_us(run.latencies_ns));
  add_each("arrivals", "", after.arrivals - before.arrivals);
  add_each("sent", "B", after.sent_bytes - before.sent_bytes);
  add_each("received", "B", after.received_bytes - before.received_bytes);
  return {};
}

// The narrow part of a machine at its best rate is what the other numbers show to be full.
Reported<> SuiteSide::measure_peak(double get_share, std::string_view what, std::vector<Measured>& measured) {
  struct Point {
    double rate = 0;  // Millions a second.
    double latency_us = 0;
    double clients = 0;
    double sending = 0;  // Shares of what there is, in percent.
    double receiving = 0;
    double cores = 0;
  } best;
  for (const uint32_t callers : suite_.load.clients) {
    const sim::Machine::Facts before = testbed_.server().machine()->facts();
    const uint64_t began_ns = testbed_.world().now_ns();
    Run run = make_run(suite_, get_share);
    const auto run_ns = static_cast<uint64_t>(suite_.load.run_us * 1e3);
    run.begin_ns = began_ns + static_cast<uint64_t>(static_cast<double>(run_ns) * kKvWarmUpShare);
    run.end_ns = run.begin_ns + run_ns;
    if (const Reported<> gone = go(run, callers); !gone) return gone;
    const sim::Machine::Facts& after = testbed_.server().machine()->facts();
    const double rate = static_cast<double>(run.latencies_ns.size()) / suite_.load.run_us;
    if (rate <= best.rate) continue;
    const auto took_us = static_cast<double>(testbed_.world().now_ns() - began_ns) * 1e-3;
    const double port_bytes = took_us * suite_.testbed.port_gbit_per_s * 125;
    const auto percent = [](uint64_t used, double there_is) {
      return 100 * static_cast<double>(used) / there_is;
    };
    best = {.rate = rate,
            .latency_us = mean_us(run.latencies_ns),
            .clients = static_cast<double>(callers),
            .sending = percent(after.sent_bytes - before.sent_bytes, port_bytes),
            .receiving = percent(after.received_bytes - before.received_bytes, port_bytes),
            .cores = percent(after.core_busy_ns - before.core_busy_ns, took_us * 1e3 * system_.cores)};
  }
  add(measured, fmt::format("{}-peak", what), "M/s", best.rate);
  add(measured, fmt::format("{}-peak-latency", what), "us", best.latency_us);
  add(measured, fmt::format("{}-peak-clients", what), "", best.clients);
  add(measured, fmt::format("{}-peak-sending", what), "%", best.sending);
  add(measured, fmt::format("{}-peak-receiving", what), "%", best.receiving);
  add(measured, fmt::format("{}-peak-cores", what), "%", best.cores);
  return {};
}

Reported<> SuiteSide::measure(std::vector<Measured>& measured) {
  if (const Reported<> done = measure_low_load(1, "get", measured); !done) return done;
  if (const Reported<> done = measure_low_load(0, "put", measured); !done) return done;
  if (const Reported<> done = measure_peak(1, "ycsb-c", measured); !done) return done;
  return measure_peak(0.5, "ycsb-a", measured);
}

}  // namespace

Reported<std::vector<Measured>> simulate_kv(const Suite& suite) {
  std::vector<Measured> measured;
  for (const System& system : suite.systems) {
    SuiteSide side(suite, system);
    if (const Reported<> started = side.start(); !started) return report(started.error());
    if (const Reported<> done = side.measure(measured); !done) return report(done.error());
  }
  return measured;
}

}  // namespace refract::bench
