// SPDX-License-Identifier: Apache-2.0
// Transactions that read two keys of one shard and write both (the workload of YCSB+T), beside Redis, which
// watches them or runs a script; and those of one key beside a get and a put.
#include <fmt/core.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/bars/bars.h"
#include "bench/load/entry.h"
#include "bench/sides/redis_commands.h"
#include "bench/sides/rivals.h"

#include "refract/base/prng.h"
#include "refract/client/async_client.h"
#include "refract/client/client.h"

namespace refract::bench::bar_transactions {
namespace {

constexpr uint64_t kPairs = 10'000;
constexpr size_t kLanes = 16;

// What is under way at a time has pairs of its own, so that nothing meets: the cost is measured, not the
// conflict.
class Pairs {
 public:
  Pairs(const BarRun& run, uint64_t seed, size_t lanes)
      : prng_(seed),
        of_lane_(std::max<uint64_t>(std::min(kPairs, run.options.entries / 2) / lanes, 1)),
        lanes_(lanes) {}
  // The first of its two keys.
  [[nodiscard]] uint64_t next(size_t lane) noexcept { return 2 * (prng_.below(of_lane_) * lanes_ + lane); }

 private:
  Prng prng_;
  uint64_t of_lane_;
  uint64_t lanes_;
};

template <typename Work>
Reported<double> rate_of(const BarRun& run, uint64_t count, Work&& work) {
  const uint64_t begun = ticks_before();
  if (const Reported<> done = work(); !done) return report(done.error());
  return static_cast<double>(count) * 1e9 / run.timer.ns(ticks_after() - begun);
}

std::unexpected<Report> not_committed(Code code) {
  return report(code, "a transaction of ours did not commit");
}

// --- One after the other, by the blocking client.

Reported<> run_ours(Client& client, uint64_t first) {
  const Key keys[] = {Key::of(first), Key::of(first + 1)};
  const Value values[] = {Value::of(first), Value::of(first + 1)};
  const Result<> done = client.transaction([&](Transaction& t) -> Result<> {
    std::array<GetItem, 2> items;
    for (size_t i = 0; i < items.size(); ++i) items[i].key = keys[i].text();
    t.multi_get(items);
    for (size_t i = 0; i < items.size(); ++i) {
      if (!items[i].result) return fail(items[i].result.error());
      if (const Result<> put = t.put(keys[i].text(), values[i].text()); !put) return put;
    }
    return {};
  });
  if (done) return {};
  return not_committed(done.code());
}

// --- Sixteen at a time, by coroutines of one client.

struct Lane {
  AsyncClient& client;
  Pairs& pairs;
  uint64_t& left;  // Of all lanes.
  Code& code;
  size_t number = 0;
  uint64_t first = 0;
};

runtime::Task<Result<>> read_and_write(AsyncTransaction& t, const Lane& lane) {
  const Key keys[] = {Key::of(lane.first), Key::of(lane.first + 1)};
  const Value values[] = {Value::of(lane.first), Value::of(lane.first + 1)};
  std::vector<GetItem> items(2);
  for (size_t i = 0; i < items.size(); ++i) items[i].key = keys[i].text();
  co_await t.multi_get(items);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].result) co_return fail(items[i].result.error());
    const Result<> put = t.put(keys[i].text(), values[i].text());
    if (!put) co_return put;
  }
  co_return Result<>();
}

runtime::Task<> run_lane(Lane& lane) {
  const AsyncClient::Body body = [&lane](AsyncTransaction& t) { return read_and_write(t, lane); };
  while (lane.left != 0 && lane.code == Code::kOk) {
    --lane.left;
    lane.first = lane.pairs.next(lane.number);
    const Result<> done = co_await lane.client.transaction(body);
    if (!done) lane.code = done.code();
  }
}

runtime::Task<> add_in_lane(Lane& lane) {
  while (lane.left != 0 && lane.code == Code::kOk) {
    --lane.left;
    const uint64_t first = 2 * kPairs + lane.pairs.next(lane.number);
    Batch batch;
    batch.add(Key::of(first).text(), 1).add(Key::of(first + 1).text(), 1);
    const Result<> done = co_await lane.client.commit(batch);
    if (!done) lane.code = done.code();
  }
}

// So many in all.
Reported<> run_lanes(runtime::Shard& shard, AsyncClient& client, Pairs pairs, uint64_t count,
                     runtime::Task<> (*work)(Lane&)) {
  Code code = Code::kOk;
  std::vector<Lane> lanes;
  lanes.reserve(kLanes);
  for (size_t i = 0; i < kLanes; ++i)
    lanes.push_back({.client = client, .pairs = pairs, .left = count, .code = code, .number = i});
  for (Lane& lane : lanes) shard.spawn(work(lane));
  const bool has_ended = shard.run_until([&] { return shard.gate().count() == 0; });
  if (!has_ended || code != Code::kOk) return not_committed(code);
  return {};
}

// --- What they run beside.

// By a node that listens on TCP, and a Redis.
Reported<Rivals> start(const BarRun& run) {
  return Rivals::start({.node_program = run.options.node_program,
                        .keys = std::min(2 * kPairs, run.options.entries),
                        .keys_max = 4 * kPairs,
                        .with_redis = true,
                        .server_waiting = Waiting::kPolling});
}

// Counters behind the entries, of so many digits that none is gained.
Reported<> fill_counters(const BarRun& run, Client& client, RedisPipeline& redis) {
  static constexpr std::string_view kBegin = "1000000000";
  const uint64_t count = 2 * std::min(kPairs, run.options.entries / 2) + 2 * kLanes;
  for (uint64_t i = 0; i < count; ++i) {
    if (const auto put = client.put(Key::of(2 * kPairs + i).text(), kBegin); !put) {
      return report(put.code(), "a counter could not be put");
    }
  }
  return redis.run(
      {.count = count,
       .depth = 64,
       .append = [](std::string& to,
                    uint64_t i) { append_command(to, {"SET", Key::of(2 * kPairs + i).text(), kBegin}); },
       .answer_like = "+OK\r\n"});
}

Reported<Outcome> measure_alone(BarRun& run, bool over_tcp) {
  const Reported<Rivals> rivals = start(run);
  if (!rivals) return report(rivals.error());
  pin_to_core(0);
  auto client = Client::connect(over_tcp ? rivals->node().tcp_address() : rivals->node().socket_path());
  if (!client) return report(client.error());
  Reported<RedisWatchers> redis = RedisWatchers::connect(rivals->redis().port(), 1);
  if (!redis) return report(redis.error());
  const uint64_t count = std::max<uint64_t>(run.options.operations / 200, 10);
  return in_turns(
      run,
      fmt::format(
          "two keys of one shard are read and written, one transaction after the other; ours by {}; "
          "Redis {} by WATCH, MGET, then MULTI, MSET, EXEC, each together; clients on core 0, servers on 1",
          over_tcp ? "TCP on loopback" : "shared memory", rivals->redis().version()),
      [&](uint64_t turn) {
        const auto ours = [&]() -> Reported<> {
          Pairs pairs(run, turn + 1, 1);
          for (uint64_t i = 0; i < count; ++i) {
            if (const Reported<> done = run_ours(*client, pairs.next(0)); !done) return done;
          }
          return {};
        };
        Pairs pairs(run, turn + 1, 1);
        const auto theirs = [&] { return redis->run(count, [&](size_t lane) { return pairs.next(lane); }); };
        return ratio_of({.ours = {"ours", rate_of(run, count, ours)},
                         .theirs = {"Redis", rate_of(run, count, theirs)},
                         .unit = "k/s",
                         .scale = 1e-3});
      },
      {.over = Over::kTcp});
}

enum class Beside : uint8_t { kWatch, kScript, kAdds };

// By whichever of its ways, 16 at a time.
class RedisSide {
 public:
  [[nodiscard]] static Reported<RedisSide> connect(const Redis& redis, Beside beside) {
    Reported<RedisPipeline> pipeline = RedisPipeline::connect(redis.port());
    if (!pipeline) return report(pipeline.error());
    Reported<RedisWatchers> watchers = RedisWatchers::connect(redis.port(), kLanes);
    if (!watchers) return report(watchers.error());
    const Reported<std::string> script = pipeline->load_script(
        "local v = redis.call('MGET', KEYS[1], KEYS[2]) "
        "redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2]) return v");
    if (!script) return report(script.error());
    return RedisSide(beside, std::move(*pipeline), std::move(*watchers), *script);
  }

  [[nodiscard]] RedisPipeline& pipeline() noexcept { return pipeline_; }
  [[nodiscard]] Reported<> run(Pairs pairs, uint64_t count) {
    if (beside_ == Beside::kWatch) {
      return watchers_.run(count, [&](size_t lane) { return pairs.next(lane); });
    }
    const std::string value(sizeof(Value), 'v');
    const std::string script_answer =
        fmt::format("*2\r\n${}\r\n{}\r\n${}\r\n{}\r\n", value.size(), value, value.size(), value);
    const std::string add_answer = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1000000001\r\n:1000000001\r\n";
    const bool adds = beside_ == Beside::kAdds;
    return pipeline_.run({.count = count,
                          .depth = kLanes,
                          .append =
                              [&](std::string& to, uint64_t i) {
                                const uint64_t first = pairs.next(i % kLanes);
                                return adds ? append_adds(to, 2 * kPairs + first) : append_call(to, first);
                              },
                          .answer_like = adds ? add_answer : script_answer});
  }

 private:
  RedisSide(Beside beside, RedisPipeline pipeline, RedisWatchers watchers, std::string script)
      : beside_(beside),
        pipeline_(std::move(pipeline)),
        watchers_(std::move(watchers)),
        script_(std::move(script)) {}
  static void append_adds(std::string& to, uint64_t first) {
    append_command(to, {"MULTI"});
    append_command(to, {"INCRBY", Key::of(first).text(), "1"});
    append_command(to, {"INCRBY", Key::of(first + 1).text(), "1"});
    append_command(to, {"EXEC"});
  }
  void append_call(std::string& to, uint64_t first) const {
    append_command(to, {"EVALSHA", script_, "2", Key::of(first).text(), Key::of(first + 1).text(),
                        Value::of(first).text(), Value::of(first + 1).text()});
  }

  Beside beside_;
  RedisPipeline pipeline_;
  RedisWatchers watchers_;
  std::string script_;
};

Reported<Outcome> measure_many(BarRun& run, Beside beside) {
  const Reported<Rivals> rivals = start(run);
  if (!rivals) return report(rivals.error());
  pin_to_core(0);
  auto filler = Client::connect(rivals->node().socket_path());
  if (!filler) return report(filler.error());
  runtime::Shard shard(system_clock());
  auto client = block_on(shard, AsyncClient::connect(shard, rivals->node().tcp_address()));
  if (!client) return report(client.error());
  Reported<RedisSide> redis = RedisSide::connect(rivals->redis(), beside);
  if (!redis) return report(redis.error());
  const bool adds = beside == Beside::kAdds;
  if (adds) {
    if (const Reported<> filled = fill_counters(run, *filler, redis->pipeline()); !filled)
      return report(filled.error());
  }
  constexpr std::array kTheirs = {"16 connections that WATCH, MGET, then MULTI, MSET, EXEC",
                                  "EVALSHA of a script that reads and writes both, 16 in one pipeline",
                                  "MULTI, INCRBY, INCRBY, EXEC, 16 in one pipeline"};
  const uint64_t count = std::max<uint64_t>(run.options.operations / 50, 50);
  return in_turns(
      run,
      fmt::format(
          "{}, 16 under way over TCP; ours coroutines of one client; Redis {} by {}; clients on core 0, "
          "servers on 1",
          adds ? "two counters of one shard are added to" : "two keys of one shard are read and written",
          rivals->redis().version(), kTheirs[static_cast<size_t>(beside)]),
      [&](uint64_t turn) {
        const Pairs pairs(run, turn + 1, kLanes);
        const auto ours = [&] {
          return run_lanes(shard, **client, pairs, count, adds ? add_in_lane : run_lane);
        };
        const auto theirs = [&] { return redis->run(pairs, count); };
        return ratio_of({.ours = {"ours", rate_of(run, count, ours)},
                         .theirs = {"Redis", rate_of(run, count, theirs)},
                         .unit = "k/s",
                         .scale = 1e-3});
      },
      {.over = Over::kTcp});
}

// --- One key, beside what does the same without a transaction.

Reported<> transact_one(Client& client, uint64_t index) {
  const Key key = Key::of(index);
  const Value value = Value::of(index);
  const Result<> done = client.transaction([&](Transaction& t) -> Result<> {
    const Result<std::string> got = t.get(key.text());
    if (!got) return fail(got.error());
    return t.put(key.text(), value.text());
  });
  if (done) return {};
  return not_committed(done.code());
}

Reported<> get_and_put(Client& client, uint64_t index) {
  const Key key = Key::of(index);
  const Value value = Value::of(index);
  std::string room;
  const Result<Got> got = client.get(key.text(), room);
  if (!got) return report(got.code(), "a get found nothing");
  const Result<uint64_t> put = client.put(key.text(), value.text(), {.if_version = got->version});
  if (put) return {};
  return report(put.code(), "a put was refused");
}

Reported<Outcome> measure_one_key(BarRun& run) {
  const Reported<Rivals> rivals = Rivals::start({.node_program = run.options.node_program,
                                                 .keys = std::min(2 * kPairs, run.options.entries),
                                                 .over_tcp = false,
                                                 .server_waiting = Waiting::kPolling});
  if (!rivals) return report(rivals.error());
  pin_to_core(0);
  auto client = Client::connect(rivals->node().socket_path());
  if (!client) return report(client.error());
  const uint64_t count = std::max<uint64_t>(run.options.operations / 40, 10);
  return in_turns(
      run, "one key is read and written by shared memory, one after the other; client on core 0, server on 1",
      [&](uint64_t turn) {
        const auto each = [&](Reported<> (*work)(Client&, uint64_t)) {
          return [&, work]() -> Reported<> {
            Pairs pairs(run, turn + 1, 1);
            for (uint64_t i = 0; i < count; ++i) {
              if (const Reported<> done = work(*client, pairs.next(0)); !done) return done;
            }
            return {};
          };
        };
        return ratio_of({.ours = {"transactions", rate_of(run, count, each(transact_one))},
                         .theirs = {"get and put", rate_of(run, count, each(get_and_put))},
                         .unit = "k/s",
                         .scale = 1e-3});
      });
}

const BarRows kRows = {
    {"txn-one-key", "a transaction of one key / a get and a put of its version", "at least 0.9",
     Sense::kAtLeast, 0.9, "x", measure_one_key},
    {"txn-tcp", "transactions of two keys over TCP, one in flight / Redis", "at least 1", Sense::kAtLeast, 1,
     "x", [](BarRun& run) { return measure_alone(run, true); }},
    {"txn-shm", "the same by shared memory / Redis over TCP", "at least 10", Sense::kAtLeast, 10, "x",
     [](BarRun& run) { return measure_alone(run, false); }},
    {"txn-tcp-16", "transactions of two keys over TCP, 16 in flight / Redis", "at least 2.5", Sense::kAtLeast,
     2.5, "x", [](BarRun& run) { return measure_many(run, Beside::kWatch); }},
    {"txn-tcp-script", "the same / a script of Redis", "at least 2", Sense::kAtLeast, 2, "x",
     [](BarRun& run) { return measure_many(run, Beside::kScript); }},
    {"txn-tcp-add", "two adds at once over TCP, 16 in flight / MULTI, INCRBY, INCRBY, EXEC", "at least 2",
     Sense::kAtLeast, 2, "x", [](BarRun& run) { return measure_many(run, Beside::kAdds); }},
};

}  // namespace
}  // namespace refract::bench::bar_transactions
