// SPDX-License-Identifier: Apache-2.0
// A table served over the loopback provider, in one thread and virtual time, for tests of the rpc path.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/fabric/conformance/loopback_domain.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/wrap/count.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/owner/chains/chain_server.h"
#include "refract/kv/owner/numbered/numbered_service.h"
#include "refract/kv/owner/ports.h"
#include "refract/kv/owner/service/domain_windows.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/owner/table/eviction.h"
#include "refract/kv/owner/transactions/transaction_service.h"
#include "refract/kv/testing/test_bodies.h"
#include "refract/kv/testing/test_growth.h"
#include "refract/kv/testing/test_space.h"
#include "refract/prism/operation.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::kv::test {

// What must stand before the space that asks it.
struct Pins {
  SessionPins sessions;
  PinSources all;
  Pins() noexcept { all.add(sessions); }
};

struct ServedOptions {
  uint64_t chunks = 44;
  uint64_t chunks_max = 64;
  fabric::LoopbackOptions link = {};
  uint64_t upload_bytes_max = kGiB;
  uint32_t shard_index = 0;
  uint32_t shard_count = 1;
  uint32_t copies = 0;
  bool chains_write = true;
  EvictionPolicy eviction = EvictionPolicy::kNone;
  prism::snic::Guard* guard = nullptr;          // In place of the table's own.
  uint16_t methods_end = prism::kMethodsBegin;  // The service does not know those from here on.
  OtherNodes* nodes = nullptr;                  // Null: it is alone. Outlives the service.
  uint64_t generation = 0;                      // Of its memory, as other nodes know it.
  bool is_recovered = true;                     // False: the test has its parts take up what is there.
};

class Served {
 public:
  explicit Served(const ServedOptions& options = {})
      : space(SpaceOptions{.chunks = options.chunks, .chunks_max = options.chunks_max, .pins = &pins.all}),
        shard_count_(options.shard_count),
        idler_(space.clock()),
        shard(space.clock(), {.idler = &idler_}),
        plain_client_domain_(hub_, "client", options.link),
        server_domain_(hub_, "server", options.link),
        windows(server_domain_),
        eviction(options.eviction == EvictionPolicy::kNone
                     ? nullptr
                     : std::make_unique<Eviction>(Eviction::Parts{.table = space.table(),
                                                                  .heap = space.heap(),
                                                                  .growth = growth,
                                                                  .policy = options.eviction})),
        service({.table = space.table(),
                 .heap = space.heap(),
                 .writer = space.writer(),
                 .pins = pins.sessions,
                 .growth = growth,
                 .shard = shard,
                 .shard_index = options.shard_index,
                 .routing = {.shards = options.shard_count, .copies = options.copies},
                 .windows = &windows,
                 .upload_bytes_max = options.upload_bytes_max,
                 .eviction = eviction.get()}),
        chains({.table = space.table(),
                .heap = space.heap(),
                .writer = space.writer(),
                .shard = shard,
                .may_write = options.chains_write,
                .upkeep = &service,
                .guard = options.guard}),
        transactions({.table = space.table(),
                      .decisions = decisions,
                      .shard = shard,
                      .shard_index = options.shard_index,
                      .routing = {.shards = options.shard_count, .copies = options.copies},
                      .upkeep = service,
                      .generation = options.generation,
                      .nodes = options.nodes}),
        numbered({.table = space.table(),
                  .service = service,
                  .shard = shard,
                  .shard_index = options.shard_index,
                  .routing = {.shards = options.shard_count, .copies = options.copies},
                  .digest = digest_of}),
        services_(std::span<const rpc::ServiceTable::Row>(rows(options))),
        server(services_, shard),
        server_dispatcher_(server_domain_, shard, &server),
        client_dispatcher_(counted, shard) {
    service.answer_through(&server);
    chains.answer_through(&server);
    transactions.answer_through(&server);
    numbered.answer_through(&server);
    service.far_reads().look_through(transactions.far());
    for (uint32_t i = 0; options.is_recovered && i < options.shard_count; ++i) decisions.recovered();
    idler_.watch(counted);
    idler_.watch(server_domain_);
  }

  // One more client: its own session.
  struct Peer {
    Peer() = default;
    Peer(Peer&&) noexcept = default;
    // A client ends before its session.
    Peer& operator=(Peer&& other) noexcept {
      client = nullptr;
      session = std::move(other.session);
      client = std::move(other.client);
      return *this;
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    ~Peer() = default;

    std::unique_ptr<rpc::Session> session;
    std::unique_ptr<RpcClient> client;
  };
  [[nodiscard]] Peer connect(const RpcClientOptions& options = {}) {
    Peer peer;
    const Reported<fabric::Channel*> channel = counted.connect("server");
    REFRACT_CHECK(channel.has_value());
    peer.session = std::make_unique<rpc::Session>(**channel, shard);
    REFRACT_CHECK(run_until([&] { return peer.session->state() == rpc::Session::State::kOpen; }));
    peer.client = std::make_unique<RpcClient>(*peer.session, shard, options);
    return peer;
  }

  template <typename Done>
  [[nodiscard]] bool run_until(Done&& done) {
    return shard.run_until(done, shard.refresh_now() + kSecond_ns);
  }
  // Until everything that was sent has been worked on; time does not move.
  void settle() {
    for (int turn = 0; turn < 8; ++turn) (void)shard.poll_once();
  }
  template <typename T>
  [[nodiscard]] T wait(runtime::Task<T> task) {
    return runtime::block_on(shard, std::move(task));
  }
  // A call by hand; the reply's bytes in `reply`.
  [[nodiscard]] Code call(Peer& peer, wire::Method method, std::span<const std::byte> body,
                          std::string* reply = nullptr) {
    const runtime::OpResult result = peer.session->call_and_wait(
        {.method = static_cast<uint16_t>(method), .head = body}, shard.refresh_now() + kSecond_ns);
    if (reply != nullptr) *reply = text_of(result.bytes);
    return result.code;
  }
  [[nodiscard]] bool is_sound() { return !space.table().validate().has_value(); }

  Pins pins;
  ManualGrowth growth;
  Space space;

 private:
  uint32_t shard_count_;
  JumpingIdler idler_;

 public:
  runtime::Shard shard;

 private:
  fabric::LoopbackHub hub_;
  fabric::LoopbackDomain plain_client_domain_;
  fabric::LoopbackDomain server_domain_;

 public:
  fabric::CountDomain counted{plain_client_domain_};  // What all clients together send.
  DomainWindows windows;
  std::unique_ptr<Eviction> eviction;  // Null: nothing is evicted.
  Decisions decisions{homes_of(space, shard_count_)};
  Table::Parts parts{space.table(), decisions};
  TableService service;
  ChainServer chains;
  TransactionService transactions;
  NumberedService numbered;

 private:
  // The node has SHA-256; a test only needs that another secret gives another one.
  [[nodiscard]] static SecretDigest digest_of(const wire::SessionSecret& secret) noexcept {
    SecretDigest digest;
    std::memcpy(digest.data(), secret.data(), sizeof(digest));
    return {mix(digest[0]), mix(digest[1] + 1)};
  }
  // All are this space: of others there is none.
  [[nodiscard]] static std::vector<Decisions::Home> homes_of(Space& space, uint32_t shards) {
    return std::vector<Decisions::Home>(shards, Decisions::Home{.space = space.base()});
  }
  [[nodiscard]] std::vector<rpc::ServiceTable::Row> rows(const ServedOptions& options) {
    std::vector<rpc::ServiceTable::Row> rows{{0, &service}};
    if (options.methods_end > wire::kTransactionMethodsBegin) {
      rows.push_back({wire::kTransactionMethodsBegin, &transactions});
    }
    if (options.methods_end > wire::kNumberedMethodsBegin) {
      rows.push_back({wire::kNumberedMethodsBegin, &numbered});
    }
    rows.push_back({options.methods_end, &chains.service()});
    return rows;
  }

  rpc::ServiceTable services_;

 public:
  rpc::Server server;

 private:
  fabric::Dispatcher server_dispatcher_;
  fabric::Dispatcher client_dispatcher_;
};

}  // namespace refract::kv::test
