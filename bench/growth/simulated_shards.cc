// SPDX-License-Identifier: Apache-2.0
#include "bench/growth/simulated_shards.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "bench/load/entry.h"
#include "bench/suites/suite_store.h"

#include "refract/base/hash.h"
#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/fabric/dispatcher.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/layout/routing.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/owner/table/table.h"
#include "refract/memory/heap.h"
#include "refract/rpc/message.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"

namespace refract::bench {

using runtime::Task;

namespace {

constexpr uint32_t kClientHosts = 16;  // A session of each to each shard, of up to 64 calls.
constexpr uint64_t kChunks = 32;       // Of each shard.
constexpr uint64_t kHashSeed = 1;
constexpr uint32_t kFillers = 16;
constexpr double kWarmUpShare = 0.25;                   // Of a run, before it counts.
constexpr uint64_t kTurnPatience_ns = 60 * kSecond_ns;  // No queue of a closed loop is so long.

sim::WorldOptions world_of(const SimulatedOptions& options) {
  sim::WorldOptions world = {.seed = options.seed};
  // The distance is all that the network takes: no chance, no bandwidth.
  world.link = {.delay_ns = options.one_way_ns,
                .jitter_ns = 0,
                .tail_chance = 0,
                .tail_ns = 0,
                .bytes_per_us = 0,
                .torn_chance = 0};
  world.short_post_chance = 0;
  world.poll_ns = 0;
  world.steps_max = 2'000'000'000;
  return world;
}

sim::Work work_of(const SimulatedOptions& options, const sim::Arrival& arrival) {
  if (arrival.op != fabric::Op::kSend || arrival.message.size() < sizeof(rpc::MessageHeader)) return {};
  rpc::MessageHeader header;
  std::memcpy(&header, arrival.message.data(), sizeof(header));
  if (header.method == static_cast<uint16_t>(kv::wire::Method::kGet)) {
    return {.core_ns = options.get_core_ns};
  }
  if (header.method == static_cast<uint16_t>(kv::wire::Method::kPut)) {
    return {.core_ns = options.put_core_ns};
  }
  return {};
}

uint32_t shard_of(uint64_t index, uint32_t shards) {
  const Key key = Key::of(index);
  return kv::KeyRouting{.shards = shards}.shard_of(key.bytes(), hash_key(key.bytes(), kHashSeed));
}

// An empty table, of which the heap and the table that serve know by recovering it, as after a restart.
bool format(std::byte* base, uint32_t index, uint32_t count) {
  Writer writer(base);
  Heap::format(writer, {.chunks_max = kChunks,
                        .store_area_bytes = kv::Table::store_area_bytes(kChunks),
                        .hash_seed = kHashSeed,
                        .shard_index = index,
                        .shard_count = count});
  kv::PinSources none;
  Heap heap(writer, none);
  heap.add({0}, kChunks * kChunkBytes);
  return kv::Table::format(writer, heap).has_value();
}

}  // namespace

// The parts of a server that puts and gets by calls need, over memory of its own.
struct SimulatedShards::ServedShard {
  ServedShard(sim::Host& host, uint32_t index, uint32_t count)
      : memory(kChunks * kChunkBytes),
        is_formatted(format(memory.bytes().data(), index, count)),
        writer(memory.bytes().data()),
        heap(writer, pins),
        table(writer, heap, host.clock()),
        service({.table = table,
                 .heap = heap,
                 .writer = writer,
                 .pins = session_pins,
                 .growth = growth,
                 .shard = host.shard(),
                 .shard_index = index,
                 .routing = {.shards = count}}),
        server(service, host.shard()),
        dispatcher(host.domain(), host.shard(), &server) {
    pins.add(session_pins);
    heap.add({0}, kChunks * kChunkBytes);
    service.answer_through(&server);
  }
  // False: there is no room for a table.
  [[nodiscard]] bool begin() { return is_formatted && table.recover().has_value(); }

  Zeroes memory;
  bool is_formatted;
  kv::SessionPins session_pins;
  kv::PinSources pins;
  kv::NoGrowth growth;
  Writer writer;
  Heap heap;
  kv::Table table;
  kv::TableService service;
  rpc::Server server;
  fabric::Dispatcher dispatcher;
};

// What the callers of one run share, and what came of it.
struct SimulatedShards::Turn {
  uint64_t begin_ns = 0;  // Operations count that end in here.
  uint64_t end_ns = kForever_ns;
  bool is_get = true;
  uint64_t entries = 0;
  uint64_t seed = 1;
  uint64_t operations = 0;
  Histogram latency_ns = {};
  size_t at_work = 0;
  Code failed = Code::kOk;
};

struct SimulatedShards::ClientHost {
  struct Link {
    Link(fabric::Channel& channel, runtime::Shard& shard) : session(channel, shard), rpc(session, shard) {}
    rpc::Session session;
    kv::RpcClient rpc;
  };

  explicit ClientHost(sim::Host& at) : host(at), dispatcher(at.domain(), at.shard()) {}

  [[nodiscard]] kv::RpcClient& owner_of(uint64_t index) {
    return links[shard_of(index, static_cast<uint32_t>(links.size()))]->rpc;
  }
  [[nodiscard]] Task<> open(Turn& turn) {
    for (const auto& link : links) {
      while (link->session.state() == rpc::Session::State::kOpening) {
        co_await host.shard().sleep_for(kMicrosecond_ns);
      }
      if (link->session.state() == rpc::Session::State::kClosed) turn.failed = Code::kUnavailable;
    }
    --turn.at_work;
  }
  [[nodiscard]] Task<Code> get(uint64_t index) {
    const Key key = Key::of(index);
    Value value = {};
    ValueRoom sink(value.writable_bytes());
    const uint64_t deadline_ns = host.shard().refresh_now() + kTurnPatience_ns;
    const Result<kv::Got> got = co_await owner_of(index).get(key.bytes(), sink, deadline_ns);
    if (got && !value.is_of(index)) co_return Code::kCorrupt;
    co_return got.code();
  }
  [[nodiscard]] Task<Code> put(uint64_t index) {
    const Key key = Key::of(index);
    const Value value = Value::of(index);
    const uint64_t deadline_ns = host.shard().refresh_now() + kTurnPatience_ns;
    const Result<uint64_t> put =
        co_await owner_of(index).put(key.bytes(), std::as_bytes(std::span(value.words)), {}, deadline_ns);
    co_return put.code();
  }
  // Every kFillers-th entry from `first` on.
  [[nodiscard]] Task<> fill(Turn& turn, uint64_t first) {
    for (uint64_t index = first; index < turn.entries && turn.failed == Code::kOk; index += kFillers) {
      const Code code = co_await put(index);
      if (code != Code::kOk) turn.failed = code;
    }
    --turn.at_work;
  }
  [[nodiscard]] Task<> work(Turn& turn, uint64_t number) {
    Prng prng(turn.seed * 1'000'003 + number);
    uint64_t time_ns = host.shard().refresh_now();
    while (time_ns < turn.end_ns && turn.failed == Code::kOk) {
      const uint64_t began_ns = time_ns;
      const uint64_t index = prng.below(turn.entries);
      Task<Code> operation = turn.is_get ? get(index) : put(index);
      const Code code = co_await std::move(operation);
      if (code != Code::kOk) turn.failed = code;
      time_ns = host.shard().refresh_now();
      if (time_ns < turn.begin_ns || time_ns >= turn.end_ns) continue;
      ++turn.operations;
      turn.latency_ns.record(time_ns - began_ns);
    }
    --turn.at_work;
  }

  sim::Host& host;
  fabric::Dispatcher dispatcher;
  std::vector<std::unique_ptr<Link>> links;  // One a shard.
};

SimulatedShards::SimulatedShards(const SimulatedOptions& options)
    : options_(options), world_(world_of(options)) {}

SimulatedShards::~SimulatedShards() = default;

Reported<std::unique_ptr<SimulatedShards>> SimulatedShards::start(const SimulatedOptions& options) {
  std::unique_ptr<SimulatedShards> node(new SimulatedShards(options));
  if (const Reported<> done = node->serve(); !done) return report(done.error());
  if (const Reported<> done = node->connect(); !done) return report(done.error());
  if (const Reported<> done = node->fill(); !done) return report(done.error());
  return node;
}

Reported<> SimulatedShards::serve() {
  for (uint32_t i = 0; i < options_.shards; ++i) {
    sim::Host& host = world_.add_host(fmt::format("shard{}", i));
    sim::MachineOptions machine;
    machine.work = [options = options_](const sim::Arrival& arrival) { return work_of(options, arrival); };
    host.install(std::move(machine));
    if (!host.emplace<ServedShard>(host, i, options_.shards).begin()) {
      return report(Code::kNoSpace, "a simulated shard has no room for its table");
    }
    shards_.push_back(&host);
  }
  return {};
}

Reported<> SimulatedShards::connect() {
  Turn turn = {};
  for (uint32_t i = 0; i < kClientHosts; ++i) {
    sim::Host& host = world_.add_host(fmt::format("client{}", i));
    auto& client = host.emplace<ClientHost>(host);
    for (const sim::Host* shard : shards_) {
      const Reported<fabric::Channel*> channel = host.domain().connect(shard->name());
      if (!channel) return report(channel.error());
      client.links.push_back(std::make_unique<ClientHost::Link>(**channel, host.shard()));
    }
    clients_.push_back(&client);
    ++turn.at_work;
    world_.spawn(host, client.open(turn));
  }
  return await(turn, "connecting");
}

Reported<> SimulatedShards::fill() {
  Turn turn = {.entries = options_.entries, .at_work = kFillers};
  for (uint32_t i = 0; i < kFillers; ++i) {
    ClientHost& client = *clients_[i % clients_.size()];
    world_.spawn(client.host, client.fill(turn, i));
  }
  return await(turn, "filling");
}

Reported<> SimulatedShards::await(Turn& turn, const char* what) {
  if (!world_.run_until([&turn] { return turn.at_work == 0; })) {
    return report(Code::kSystem, fmt::format("{} {} simulated shards never ended", what, options_.shards));
  }
  if (turn.failed == Code::kOk) return {};
  return report(turn.failed,
                fmt::format("{} {} simulated shards: {}", what, options_.shards, info(turn.failed).sentence));
}

Reported<SimulatedTurn> SimulatedShards::run(const Load& load) {
  const uint64_t start_ns = world_.now_ns();
  const auto warm_ns = static_cast<uint64_t>(static_cast<double>(load.duration_ns) * kWarmUpShare);
  Turn turn = {.begin_ns = start_ns + warm_ns,
               .end_ns = start_ns + warm_ns + load.duration_ns,
               .is_get = load.is_get,
               .entries = options_.entries,
               .seed = load.seed,
               .at_work = load.callers};
  std::vector<uint64_t> busy_ns;
  for (const sim::Host* shard : shards_) busy_ns.push_back(shard->machine()->facts().core_busy_ns);
  for (uint32_t i = 0; i < load.callers; ++i) {
    ClientHost& client = *clients_[i % clients_.size()];
    world_.spawn(client.host, client.work(turn, i));
  }
  if (const Reported<> done = await(turn, "calling"); !done) return report(done.error());
  SimulatedTurn result = {.latency_ns = turn.latency_ns};
  result.per_second = static_cast<double>(turn.operations) * 1e9 / static_cast<double>(load.duration_ns);
  const auto took_ns = static_cast<double>(world_.now_ns() - start_ns);
  for (size_t i = 0; i < shards_.size(); ++i) {
    const uint64_t busy = shards_[i]->machine()->facts().core_busy_ns - busy_ns[i];
    const double share = static_cast<double>(busy) / took_ns;
    result.busy_most = std::max(result.busy_most, share);
    result.busy_mean += share / static_cast<double>(shards_.size());
  }
  return result;
}

}  // namespace refract::bench
