// SPDX-License-Identifier: Apache-2.0
#include "bench/txn/sim_txn_node.h"

#include <fmt/core.h>

#include <cstddef>
#include <list>
#include <map>
#include <optional>

#include "bench/sides/rivals.h"

#include "refract/base/units.h"
#include "refract/cluster/slot.h"
#include "refract/fabric/dispatcher.h"
#include "refract/kv/layout/routing.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/owner/table/table.h"
#include "refract/kv/owner/transactions/other_nodes.h"
#include "refract/kv/owner/transactions/transaction_service.h"
#include "refract/memory/heap.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/rpc/session.h"

namespace refract::bench {

using runtime::Task;

namespace {

constexpr uint64_t kSimTxnSeed = 1;  // By which all owners hash.
constexpr Offset kFloorStampAt{offsetof(SpaceHeader, floor_stamp)};

// An empty table, of which the heap and the table that serve know by recovering it, as after a restart.
bool format_space(std::byte* base, uint64_t chunks, uint32_t index, uint32_t count) {
  Writer writer(base);
  Heap::format(writer, {.chunks_max = chunks,
                        .store_area_bytes = kv::Table::store_area_bytes(chunks),
                        .hash_seed = kSimTxnSeed,
                        .shard_index = index,
                        .shard_count = count});
  kv::PinSources none;
  Heap heap(writer, none);
  heap.add({0}, chunks * kChunkBytes);
  return kv::Table::format(writer, heap).has_value();
}

}  // namespace

uint32_t SimTxnPlaces::node_of(std::span<const std::byte> key) const noexcept {
  return cluster::slot_of(key) % nodes;
}

uint32_t SimTxnPlaces::shard_of(std::span<const std::byte> key) const noexcept {
  return kv::KeyRouting{.shards = shards, .copies = 1}.shard_of(key, 0);
}

std::string SimTxnPlaces::host_name(uint32_t node, uint32_t shard) {
  return fmt::format("node{}.{}", node, shard);
}

// The other nodes as an owner asks them: sessions that are opened when something is asked.
class SimTxnNode::Lines final : public kv::OtherNodes {
 public:
  Lines(sim::Host& host, const SimTxnPlaces& places, uint32_t member)
      : host_(host), places_(places), member_(member) {}

  [[nodiscard]] uint32_t self() const noexcept override { return member_; }
  [[nodiscard]] uint32_t members() const noexcept override { return places_.nodes; }
  [[nodiscard]] uint64_t placement_of(uint32_t member) const noexcept override { return 1'000 + member; }
  [[nodiscard]] Task<Result<std::vector<std::byte>>> ask(kv::wire::FarPlace place,
                                                         kv::wire::TransactionMethod method,
                                                         std::span<const std::byte> body,
                                                         uint64_t deadline_ns) override {
    rpc::Session* const session = co_await line_to(place, deadline_ns);
    if (session == nullptr) co_return fail(Code::kUnavailable);
    rpc::Call call;
    call.method = static_cast<uint16_t>(method);
    call.head = body;
    const runtime::OpResult told = co_await session->call(call, deadline_ns);
    if (told.code != Code::kOk) co_return fail(told.code);
    co_return std::vector<std::byte>(told.bytes.begin(), told.bytes.end());
  }
  [[nodiscard]] Task<std::optional<uint32_t>> shards_of(uint32_t /*member*/,
                                                        uint64_t /*deadline_ns*/) override {
    co_return places_.shards;
  }

 private:
  // Null: it does not come in time.
  [[nodiscard]] Task<rpc::Session*> line_to(kv::wire::FarPlace place, uint64_t deadline_ns) {
    std::unique_ptr<rpc::Session>& line = lines_[uint32_t{place.member} * places_.shards + place.shard];
    if (line == nullptr) {
      const Reported<fabric::Channel*> channel =
          host_.domain().connect(SimTxnPlaces::host_name(place.member, place.shard));
      if (!channel) co_return nullptr;
      line = std::make_unique<rpc::Session>(**channel, host_.shard());
    }
    rpc::Session* const session = line.get();
    while (session->state() == rpc::Session::State::kOpening) {
      if (host_.shard().refresh_now() >= deadline_ns) co_return nullptr;
      co_await host_.shard().sleep_for(kMicrosecond_ns);
    }
    co_return session->state() == rpc::Session::State::kOpen ? session : nullptr;
  }

  sim::Host& host_;
  const SimTxnPlaces places_;
  const uint32_t member_;
  std::map<uint32_t, std::unique_ptr<rpc::Session>> lines_;
};

// The parts of a server that keys and transactions need.
struct SimTxnNode::Process {
  struct Parts {
    sim::Host& host;
    std::byte* space;
    uint64_t chunks;
    kv::Decisions& decisions;
    SimTxnPlaces places;
    uint32_t member;
    uint32_t shard;
  };
  explicit Process(const Parts& from)
      : lines(from.host, from.places, from.member),
        writer(from.space),
        heap(writer, pins),
        table(writer, heap, from.host.clock()),
        parts(table, from.decisions),
        service({.table = table,
                 .heap = heap,
                 .writer = writer,
                 .pins = session_pins,
                 .growth = growth,
                 .shard = from.host.shard(),
                 .shard_index = from.shard,
                 .routing = {.shards = from.places.shards, .copies = 1}}),
        from_(from) {
    pins.add(session_pins);
    heap.add({0}, from.chunks * kChunkBytes);
  }

  [[nodiscard]] Code begin(const TxnMix& mix) {
    if (const Result<> recovered = table.recover(); !recovered) return recovered.code();
    parts.take_up(std::nullopt);
    from_.decisions.recovered();
    std::vector<std::byte> value(mix.value_bytes);
    for (uint64_t entry = 0; entry < mix.entries(); ++entry) {
      const TxnKey key = txn_key(mix, entry);
      const bool is_own = from_.places.node_of(bytes_of(key)) == from_.member &&
                          from_.places.shard_of(bytes_of(key)) == from_.shard;
      if (!is_own) continue;
      write_amount(value, initial_amount(mix, entry));
      const Result<uint64_t> put = table.put(bytes_of(key), value, {});
      if (!put) return put.code();
    }
    serve();
    return Code::kOk;
  }
  void serve() {
    transactions.emplace(
        kv::TransactionService::Parts{.table = table,
                                      .decisions = from_.decisions,
                                      .shard = from_.host.shard(),
                                      .shard_index = from_.shard,
                                      .routing = {.shards = from_.places.shards, .copies = 1},
                                      .upkeep = service,
                                      .floor_stamp = writer.load(kFloorStampAt),
                                      .generation = uint64_t{from_.member} + 7,
                                      .nodes = from_.places.nodes > 1 ? &lines : nullptr});
    service.far_reads().look_through(transactions->far());
    const rpc::ServiceTable::Row rows[] = {{0, &service},
                                           {kv::wire::kTransactionMethodsBegin, &*transactions}};
    services.emplace(std::span<const rpc::ServiceTable::Row>(rows));
    server.emplace(*services, from_.host.shard(), rpc::ServerOptions{.sessions_max = 4'096});
    transactions->answer_through(&*server);
    service.answer_through(&*server);
    dispatcher.emplace(from_.host.domain(), from_.host.shard(), &*server);
  }

  Lines lines;
  kv::SessionPins session_pins;
  kv::PinSources pins;
  kv::NoGrowth growth;
  Writer writer;
  Heap heap;
  kv::Table table;
  kv::Table::Parts parts;
  kv::TableService service;
  std::optional<kv::TransactionService> transactions;
  std::optional<rpc::ServiceTable> services;
  std::optional<rpc::Server> server;
  std::optional<fabric::Dispatcher> dispatcher;

 private:
  const Parts from_;
};

SimTxnNode::SimTxnNode(const TxnMix& mix, const SimTxnPlaces& places, uint32_t member)
    : mix_(mix), places_(places), member_(member) {
  // Each has about as many keys as the others, and room for twice as many.
  const uint64_t entries = 2 * mix.entries() / (uint64_t{places.nodes} * places.shards);
  chunks_ = memory_bytes_for(entries, kTxnKeyBytes, mix.value_bytes) / kChunkBytes + 1;
  std::vector<kv::Decisions::Home> homes;
  for (uint32_t shard = 0; shard < places.shards; ++shard) {
    spaces_.push_back(std::make_unique<Zeroes>(chunks_ * kChunkBytes));
    std::byte* const space = spaces_.back()->bytes().data();
    if (space == nullptr || !format_space(space, chunks_, shard, places.shards)) return;
    homes.push_back({.space = space, .log = nullptr});
  }
  decisions_ = std::make_unique<kv::Decisions>(homes);
}

SimTxnNode::~SimTxnNode() = default;

Reported<> SimTxnNode::serve(sim::Host& host, uint32_t shard) {
  if (decisions_ == nullptr) return report(Code::kNoSpace, "there is not so much memory for simulated nodes");
  Process& process = host.emplace<Process>(Process::Parts{.host = host,
                                                          .space = spaces_[shard]->bytes().data(),
                                                          .chunks = chunks_,
                                                          .decisions = *decisions_,
                                                          .places = places_,
                                                          .member = member_,
                                                          .shard = shard});
  const Code code = process.begin(mix_);
  if (code == Code::kOk) return {};
  return report(code, fmt::format("filling simulated node {}: {}", member_, info(code).sentence));
}

}  // namespace refract::bench
