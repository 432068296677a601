// SPDX-License-Identifier: Apache-2.0
// A published protocol of transactions on a simulated testbed, under YCSB-T: each transaction reads a key and
// writes it. How long one takes when no other client asks, and how many a second there are when as many ask
// as can, with keys drawn alike or by a Zipf law.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/load/skewed_keys.h"
#include "bench/load/workload.h"
#include "bench/suites/suite.h"
#include "bench/suites/suite_testbed.h"
#include "bench/suites/txn_process.h"

namespace refract::bench {
namespace {

using runtime::Task;
using txn::designs::Bytes;
using txn::designs::Design;
using txn::designs::Transaction;

constexpr double kTxnWarmUpShare = 0.25;  // Of a run, before it counts.
// Under a Zipf law it takes a while until callers have gathered at the first keys, and more of them gather
// only.
constexpr double kSkewedRunTimes = 8;
constexpr uint64_t kTxnPatience_ns = 60 * kSecond_ns;
constexpr uint64_t kTxnPauseMax_ns = 20 * kMicrosecond_ns;  // After a conflict, at most.

// What the callers of one run share, and what came of it.
struct TxnRun {
  Contents contents;
  const SkewedKeys& keys;
  uint64_t seed = 1;
  uint64_t begin_ns = 0;  // Transactions count that end in here: they are long beside a run.
  uint64_t end_ns = UINT64_MAX;
  uint64_t transactions_max = UINT64_MAX;  // Of each caller.
  // Filled in.
  std::vector<uint64_t> latencies_ns = {};
  uint64_t attempts = 0;
  size_t at_work = 0;
  Code failed = Code::kOk;
};

Result<> load_keys(TxnProcess& process, const TxnRun& run, uint64_t keys) {
  std::vector<std::byte> key(run.contents.key_bytes());
  std::vector<std::byte> value(run.contents.value_bytes());
  run.contents.prepare_value(value.data());
  for (uint64_t index = 0; index < keys; ++index) {
    run.contents.write_key(index, key.data());
    run.contents.make_value(index, value.data());
    if (const Result<> loaded = process.load(key, value); !loaded) return loaded;
  }
  return {};
}

// One caller with one transaction under way, and a connection of its own.
class TxnCaller {
 public:
  TxnCaller(sim::Host& host, fabric::Channel& channel, const Design& design, uint16_t number)
      : shard_(host.shard()), session_(channel, host.shard()) {
    const std::array<rpc::Session*, 1> sessions = {&session_};
    client_ =
        design.make_client({.sessions = sessions, .shard = shard_, .clock = host.clock(), .number = number});
  }

  // Each ends one caller's part in `run`, which outlives the task.
  [[nodiscard]] Task<> attach(TxnRun& run) {
    while (session_.state() == rpc::Session::State::kOpening) co_await shard_.sleep_for(kMicrosecond_ns);
    const Result<> attached = co_await client_->attach(deadline());
    if (!attached) run.failed = attached.error().code;
    --run.at_work;
  }
  [[nodiscard]] Task<> work(TxnRun& run, uint64_t number) {
    Prng prng(run.seed * 1'000'003 + number);
    std::vector<std::byte> value(run.contents.value_bytes());
    run.contents.prepare_value(value.data());
    uint64_t now_ns = shard_.refresh_now();
    // Callers that begin together would stay together, all of them at the same step of their transactions.
    if (run.begin_ns > now_ns) co_await shard_.sleep_for(prng.below(run.begin_ns - now_ns));
    now_ns = shard_.refresh_now();
    for (uint64_t i = 0; i < run.transactions_max && now_ns < run.end_ns && run.failed == Code::kOk; ++i) {
      const uint64_t began_ns = now_ns;
      const uint64_t index = run.keys.next(prng);
      Code code = Code::kConflict;
      for (uint64_t tries = 1; code == Code::kConflict; ++tries) {
        code = co_await attempt(run, index, value);
        now_ns = shard_.refresh_now();
        if (now_ns >= run.begin_ns && now_ns <= run.end_ns) ++run.attempts;
        if (code != Code::kConflict) break;
        const uint64_t bound_ns = std::min(kTxnPauseMax_ns, tries * kMicrosecond_ns);
        co_await shard_.sleep_for(prng.below(bound_ns));
      }
      if (code != Code::kOk) run.failed = code;
      // A machine so slow that none ends in time still has something to say.
      const bool is_in_time = now_ns <= run.end_ns || run.latencies_ns.empty();
      if (now_ns >= run.begin_ns && is_in_time) run.latencies_ns.push_back(now_ns - began_ns);
    }
    --run.at_work;
  }

 private:
  [[nodiscard]] uint64_t deadline() noexcept { return shard_.refresh_now() + kTxnPatience_ns; }
  [[nodiscard]] Task<Code> attempt(TxnRun& run, uint64_t index, std::vector<std::byte>& value) {
    std::vector<std::byte> key(run.contents.key_bytes());
    run.contents.write_key(index, key.data());
    const std::unique_ptr<Transaction> transaction = client_->begin();
    const std::array<Bytes, 1> keys = {Bytes(key)};
    const Result<> read = co_await transaction->read(keys, deadline());
    if (!read) co_return read.error().code;
    std::vector<std::byte> found = transaction->find(keys[0])->found;
    if (found.size() != value.size() || !run.contents.take_value(index, found.data())) {
      co_return Code::kCorrupt;
    }
    run.contents.make_value(index, value.data());
    const Result<> written = transaction->write(keys[0], value);
    if (!written) co_return written.error().code;
    const Result<> committed = co_await transaction->commit(deadline());
    co_return committed.code();
  }

  runtime::Shard& shard_;
  std::unique_ptr<txn::designs::Client> client_;  // Outlives the session, whose late answers it takes.
  rpc::Session session_;
};

// A system's server, filled, and its callers.
class SuiteTxnSide {
 public:
  SuiteTxnSide(const Suite& suite, const System& system)
      : suite_(suite), system_(system), testbed_(suite, system, 0) {}

  [[nodiscard]] Reported<> start();
  [[nodiscard]] Reported<> measure(std::vector<Measured>& measured);

 private:
  [[nodiscard]] Reported<> await(TxnRun& run, std::string_view what);
  [[nodiscard]] Reported<> go(TxnRun& run, size_t callers);
  [[nodiscard]] Reported<> measure_low_load(std::vector<Measured>& measured);
  [[nodiscard]] Reported<> measure_peak(double skew, std::string_view what, std::vector<Measured>& measured);
  [[nodiscard]] TxnRun make_run(const SkewedKeys& keys) const {
    return {.contents = Contents(suite_.load.key_bytes, suite_.load.value_bytes),
            .keys = keys,
            .seed = suite_.seed};
  }
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
  std::vector<TxnCaller*> callers_;
};

double mean_of_us(const std::vector<uint64_t>& latencies_ns) {
  const uint64_t sum = std::accumulate(latencies_ns.begin(), latencies_ns.end(), uint64_t{0});
  return static_cast<double>(sum) * 1e-3 / static_cast<double>(std::max<size_t>(latencies_ns.size(), 1));
}

Reported<> SuiteTxnSide::await(TxnRun& run, std::string_view what) {
  if (!testbed_.world().run_until([&run] { return run.at_work == 0; })) {
    return report(Code::kSystem, fmt::format("{}: {} never ended", system_.name, what));
  }
  if (run.failed != Code::kOk) {
    return report(run.failed, fmt::format("{}: {}: {}", system_.name, what, refract::text(run.failed)));
  }
  return {};
}

Reported<> SuiteTxnSide::start() {
  const Reported<const Design*> design = txn_design_of(system_.design);
  if (!design) {
    const Report& why = design.error();
    return report(why.code, fmt::format("system {}: {}", system_.name, why.what), why.next);
  }
  sim::Host& host = testbed_.server();
  const uint32_t callers = std::ranges::max(suite_.load.clients);
  const TxnProcess::Spec spec = {
      .design = *design,
      .capacity = {.keys_max = suite_.load.keys,
                   .key_bytes_max = static_cast<uint32_t>(suite_.load.key_bytes),
                   .value_bytes_max = static_cast<uint32_t>(suite_.load.value_bytes)},
      .hash_seed = suite_.seed};
  Reported<std::unique_ptr<TxnProcess>> started = TxnProcess::start(spec, host.shard(), host.domain());
  if (!started) return report(started.error());
  TxnProcess& process = *host.emplace<std::unique_ptr<TxnProcess>>(std::move(*started));
  const SkewedKeys keys(suite_.load.keys, 0);
  TxnRun run = make_run(keys);
  if (const Result<> loaded = load_keys(process, run, suite_.load.keys); !loaded) {
    return report(loaded.error().code,
                  fmt::format("{}: loading: {}", system_.name, text(loaded.error().code)));
  }
  testbed_.world().spawn(host, process.keep_house());
  for (sim::Host* client : testbed_.clients()) {
    client->emplace<fabric::Dispatcher>(client->domain(), client->shard());
  }
  run.at_work = callers;
  for (uint32_t i = 0; i < callers; ++i) {
    sim::Host& client = *testbed_.clients()[i % testbed_.clients().size()];
    const Reported<fabric::Channel*> channel = client.domain().connect(host.name());
    if (!channel) return report(channel.error());
    callers_.push_back(&client.emplace<TxnCaller>(client, **channel, **design, static_cast<uint16_t>(i + 1)));
    testbed_.world().spawn(client, callers_.back()->attach(run));
  }
  return await(run, "attaching");
}

Reported<> SuiteTxnSide::go(TxnRun& run, size_t callers) {
  run.at_work = callers;
  for (size_t i = 0; i < callers; ++i) {
    testbed_.world().spawn(*testbed_.clients()[i % testbed_.clients().size()], callers_[i]->work(run, i));
  }
  return await(run, "a run");
}

Reported<> SuiteTxnSide::measure_low_load(std::vector<Measured>& measured) {
  const sim::Machine::Facts before = testbed_.server().machine()->facts();
  const SkewedKeys keys(suite_.load.keys, 0);
  TxnRun run = make_run(keys);
  run.transactions_max = suite_.load.operations;
  if (const Reported<> gone = go(run, 1); !gone) return gone;
  const sim::Machine::Facts& after = testbed_.server().machine()->facts();
  const auto add_each = [&](std::string_view which, std::string_view unit, uint64_t value) {
    add(measured, fmt::format("ycsb-t-{}", which), unit,
        static_cast<double>(value) / static_cast<double>(run.latencies_ns.size()));
  };
  add(measured, "ycsb-t-latency", "us", mean_of_us(run.latencies_ns));
  add_each("arrivals", "", after.arrivals - before.arrivals);
  add_each("sent", "B", after.sent_bytes - before.sent_bytes);
  add_each("received", "B", after.received_bytes - before.received_bytes);
  return {};
}

// The narrow part of a machine at its best rate is what the other numbers show to be full.
Reported<> SuiteTxnSide::measure_peak(double skew, std::string_view what, std::vector<Measured>& measured) {
  struct Point {
    double rate = 0;  // Millions a second.
    double latency_us = 0;
    double clients = 0;
    double attempts = 0;  // Of each transaction.
    double sending = 0;   // Shares of what there is, in percent.
    double receiving = 0;
    double cores = 0;
  } best;
  const SkewedKeys keys(suite_.load.keys, skew);
  for (const uint32_t callers : suite_.load.clients) {
    if (skew > 0 && callers != suite_.load.clients.front()) break;
    const sim::Machine::Facts before = testbed_.server().machine()->facts();
    const uint64_t began_ns = testbed_.world().now_ns();
    TxnRun run = make_run(keys);
    const double run_us = suite_.load.run_us * (skew > 0 ? kSkewedRunTimes : 1);
    const auto run_ns = static_cast<uint64_t>(run_us * 1e3);
    run.begin_ns = began_ns + static_cast<uint64_t>(static_cast<double>(run_ns) * kTxnWarmUpShare);
    run.end_ns = run.begin_ns + run_ns;
    if (const Reported<> gone = go(run, callers); !gone) return gone;
    const sim::Machine::Facts& after = testbed_.server().machine()->facts();
    const double rate = static_cast<double>(run.latencies_ns.size()) / run_us;
    if (rate <= best.rate) continue;
    const auto took_us = static_cast<double>(testbed_.world().now_ns() - began_ns) * 1e-3;
    const double port_bytes = took_us * suite_.testbed.port_gbit_per_s * 125;
    const auto percent = [](uint64_t used, double there_is) {
      return 100 * static_cast<double>(used) / there_is;
    };
    best = {.rate = rate,
            .latency_us = mean_of_us(run.latencies_ns),
            .clients = static_cast<double>(callers),
            .attempts = static_cast<double>(run.attempts) / static_cast<double>(run.latencies_ns.size()),
            .sending = percent(after.sent_bytes - before.sent_bytes, port_bytes),
            .receiving = percent(after.received_bytes - before.received_bytes, port_bytes),
            .cores = percent(after.core_busy_ns - before.core_busy_ns, took_us * 1e3 * system_.cores)};
  }
  add(measured, fmt::format("{}-peak", what), "M/s", best.rate);
  add(measured, fmt::format("{}-peak-latency", what), "us", best.latency_us);
  add(measured, fmt::format("{}-peak-clients", what), "", best.clients);
  add(measured, fmt::format("{}-peak-attempts", what), "", best.attempts);
  add(measured, fmt::format("{}-peak-sending", what), "%", best.sending);
  add(measured, fmt::format("{}-peak-receiving", what), "%", best.receiving);
  add(measured, fmt::format("{}-peak-cores", what), "%", best.cores);
  return {};
}

Reported<> SuiteTxnSide::measure(std::vector<Measured>& measured) {
  if (const Reported<> done = measure_low_load(measured); !done) return done;
  if (const Reported<> done = measure_peak(0, "ycsb-t", measured); !done) return done;
  for (const double skew : system_.skews) {
    const std::string what = fmt::format("zipf-{:.1f}", skew);
    if (const Reported<> done = measure_peak(skew, what, measured); !done) return done;
  }
  return {};
}

}  // namespace

Reported<std::vector<Measured>> simulate_txn(const Suite& suite) {
  std::vector<Measured> measured;
  for (const System& system : suite.systems) {
    SuiteTxnSide side(suite, system);
    if (const Reported<> started = side.start(); !started) return report(started.error());
    if (const Reported<> done = side.measure(measured); !done) return report(done.error());
  }
  return measured;
}

}  // namespace refract::bench
