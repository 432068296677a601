// SPDX-License-Identifier: Apache-2.0
// The experiments on this machine: the same servers and callers, one thread each, over shared memory or TCP.
// The testbed's parameters play no part, so only ratios can be held against the paper, and what a design asks
// of the network is not what decides here.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure/measure.h"
#include "bench/suites/served_store.h"
#include "bench/suites/suite.h"
#include "bench/suites/suite_chase.h"
#include "bench/suites/suite_ends.h"
#include "bench/suites/suite_store.h"

#include "refract/base/units.h"

namespace refract::bench {
namespace {

constexpr uint64_t kNodePatience_ns = 120 * kSecond_ns;
constexpr size_t kRealCallers = 16;  // With one operation each, all on the client's thread.
constexpr uint64_t kRealOperations = 20'000;
constexpr uint64_t kWarmUp_ns = 50 * kMillisecond_ns;
constexpr uint64_t kRun_ns = 300 * kMillisecond_ns;

double median_us(const std::vector<uint64_t>& latencies_ns) {
  return spread_of({latencies_ns.begin(), latencies_ns.end()}).median * 1e-3;
}

class ServedChase final : public Served {
 public:
  ServedChase(runtime::Shard& shard, fabric::Domain& domain, uint64_t bytes) : server(shard, domain, bytes) {}
  ChaseServer server;
};

// Systems that differ in their costs on the testbed alone are one here. False: this is the first.
bool take_from_sister(const Suite& suite, const System& system, std::vector<Measured>& measured) {
  for (const System& sister : suite.systems) {
    if (&sister == &system) return false;
    if (sister.design != system.design) continue;
    const size_t count = measured.size();
    for (size_t i = 0; i < count; ++i) {
      if (measured[i].system != sister.name) continue;
      Measured copy = measured[i];
      copy.system = system.name;
      measured.push_back(std::move(copy));
    }
    return true;
  }
  return false;
}

// One client that follows pointers, until it has.
Reported<> follow_all(RealEnds& ends, Chase& chase, const System& system) {
  const Reported<fabric::Channel*> channel = ends.connect();
  if (!channel) return report(channel.error());
  rpc::Session session(**channel, ends.shard());
  ends.shard().spawn(follow(chase, session, ends.shard()));
  const bool ended = ends.shard().run_until([&chase] { return chase.is_over; },
                                            ends.shard().refresh_now() + kNodePatience_ns);
  ends.shard().drop_tasks();
  if (ended && chase.failed == Code::kOk) return {};
  return report(chase.failed,
                fmt::format("{}: {}", system.name, ended ? refract::text(chase.failed) : "does not end"));
}

// One system's callers.
class RealSide {
 public:
  RealSide(const Suite& suite, const System& system, RealEnds& ends)
      : suite_(suite), system_(system), ends_(ends) {}
  RealSide(const RealSide&) = delete;
  RealSide& operator=(const RealSide&) = delete;
  ~RealSide() { ends_.shard().drop_tasks(); }

  [[nodiscard]] Reported<> start();
  [[nodiscard]] Reported<> measure(std::vector<Measured>& measured);

 private:
  [[nodiscard]] Reported<> await(Run& run);
  [[nodiscard]] Reported<> go(Run& run, size_t callers);

  const Suite& suite_;
  const System& system_;
  RealEnds& ends_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

Reported<> RealSide::await(Run& run) {
  runtime::Shard& shard = ends_.shard();
  const bool ended =
      shard.run_until([&run] { return run.at_work == 0; }, shard.refresh_now() + kNodePatience_ns);
  if (ended && run.failed == Code::kOk) return {};
  shard.drop_tasks();
  return report(run.failed,
                fmt::format("{}: {}", system_.name, ended ? refract::text(run.failed) : "does not end"));
}

Reported<> RealSide::start() {
  const Reported<const kv::designs::Design*> design = design_of(system_);
  if (!design) return report(design.error());
  Run run = make_run(suite_, 0);
  run.at_work = kRealCallers;
  for (size_t i = 0; i < kRealCallers; ++i) {
    const Reported<fabric::Channel*> channel = ends_.connect();
    if (!channel) return report(channel.error());
    callers_.push_back(std::make_unique<Caller>(ends_.shard(), **channel, **design));
    ends_.shard().spawn(callers_.back()->attach(run));
  }
  if (const Reported<> attached = await(run); !attached) return attached;
  run.at_work = kRealCallers;
  for (size_t i = 0; i < kRealCallers; ++i) ends_.shard().spawn(callers_[i]->fill(run, i, kRealCallers));
  return await(run);
}

Reported<> RealSide::go(Run& run, size_t callers) {
  run.at_work = callers;
  for (size_t i = 0; i < callers; ++i) ends_.shard().spawn(callers_[i]->work(run, i));
  return await(run);
}

Reported<> RealSide::measure(std::vector<Measured>& measured) {
  const auto add = [&](std::string what, std::string_view unit, double value) {
    measured.push_back({.system = system_.name,
                        .place = {},
                        .what = std::move(what),
                        .unit = std::string(unit),
                        .value = value});
  };
  for (const bool is_get : {true, false}) {
    Run run = make_run(suite_, is_get ? 1 : 0);
    run.operations_max = std::min<uint64_t>(kRealOperations, suite_.load.operations * 20);
    run.end_ns = ends_.shard().refresh_now() + kRun_ns;
    if (const Reported<> gone = go(run, 1); !gone) return gone;
    add(is_get ? "get-latency" : "put-latency", "us", median_us(run.latencies_ns));
  }
  for (const bool is_c : {true, false}) {
    Run run = make_run(suite_, is_c ? 1 : 0.5);
    run.begin_ns = ends_.shard().refresh_now() + kWarmUp_ns;
    run.end_ns = run.begin_ns + kRun_ns;
    if (const Reported<> gone = go(run, kRealCallers); !gone) return gone;
    add(is_c ? "ycsb-c-peak" : "ycsb-a-peak", "M/s",
        static_cast<double>(run.latencies_ns.size()) * 1e3 / static_cast<double>(kRun_ns));
  }
  return {};
}

}  // namespace

Reported<std::vector<Measured>> run_real_chase(const Suite& suite, SuiteFabric fabric) {
  std::vector<Measured> measured;
  for (const System& system : suite.systems) {
    if (take_from_sister(suite, system, measured)) continue;
    Chase chase;
    chase.by_chain = system.design == "chain";
    chase.operations = std::min<uint64_t>(kRealOperations, suite.load.operations * 100);
    chase.run_ns = kRun_ns;
    const uint64_t bytes = suite.load.value_bytes;
    const auto serve = [&chase, bytes](runtime::Shard& shard,
                                       fabric::Domain& domain) -> Reported<std::unique_ptr<Served>> {
      auto served = std::make_unique<ServedChase>(shard, domain, bytes);
      if (const Reported<> started = served->server.start(); !started) return report(started.error());
      chase.place = served->server.place();
      return served;
    };
    const Reported<std::unique_ptr<RealEnds>> ends = RealEnds::start(fabric, serve);
    if (!ends) return report(ends.error());
    if (const Reported<> done = follow_all(**ends, chase, system); !done) return report(done.error());
    // Every place is this machine.
    for (const Place& place : suite.places) {
      measured.push_back({.system = system.name,
                          .place = place.name,
                          .what = "latency",
                          .unit = "us",
                          .value = median_us(chase.latencies_ns)});
    }
  }
  return measured;
}

Reported<std::vector<Measured>> run_real_kv(const Suite& suite, SuiteFabric fabric) {
  std::vector<Measured> measured;
  for (const System& system : suite.systems) {
    if (take_from_sister(suite, system, measured)) continue;
    const Reported<StoreSpec> spec = spec_of(suite, system);
    if (!spec) return report(spec.error());
    const Reported<std::unique_ptr<RealEnds>> ends = RealEnds::start(fabric, serving(*spec));
    if (!ends) return report(ends.error());
    RealSide side(suite, system, **ends);
    if (const Reported<> started = side.start(); !started) return report(started.error());
    if (const Reported<> done = side.measure(measured); !done) return report(done.error());
  }
  return measured;
}

}  // namespace refract::bench
