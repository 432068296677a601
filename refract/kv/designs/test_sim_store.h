// SPDX-License-Identifier: Apache-2.0
// A store of a design over the simulated network, with clients on hosts of their own, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "refract/base/check.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/designs/designs.h"
#include "refract/kv/designs/prism/server.h"
#include "refract/kv/designs/test_store.h"
#include "refract/prism/snic/testing/stepping_service.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/rpc/session.h"

namespace refract::kv::designs {

// The host "server", whose stores others see late and in pieces.
class SimServer {
 public:
  // `steps`, of PRISM-KV: chains are interleaved operation by operation.
  SimServer(sim::World& world, const Design& design, const Capacity& capacity, bool steps = false)
      : host(world.add_host("server")),
        memory_({.bytes = round_up(design.memory_bytes(capacity), 64),
                 .bytes_max = 0,
                 .owner = nullptr,
                 .seed = world.seed()}) {
    host.attach(&memory_);
    process_ = &host.emplace<Process>(host, memory_, design, capacity, steps);
  }
  // Chains, where they are interleaved.
  [[nodiscard]] uint64_t most_open_runs() const noexcept {
    return process_->stepping == nullptr ? 0 : process_->stepping->most_open_runs();
  }
  [[nodiscard]] Server& server() noexcept { return *process_->server; }

  sim::Host& host;

 private:
  struct Process {
    Process(sim::Host& host, sim::VisibleMemory& memory, const Design& design, const Capacity& capacity,
            bool steps)
        : server(design
                     .make_server({.shard = host.shard(),
                                   .domain = host.domain(),
                                   .memory = {memory.owner(), memory.bytes()},
                                   .capacity = capacity,
                                   .hash_seed = 7,
                                   .log = &memory})
                     .value()) {
      if (steps) step_by_step(host);
      rpc_server =
          std::make_unique<rpc::Server>(services != nullptr ? *services : server->service(), host.shard());
      server->answer_through(rpc_server.get());
      if (stepping != nullptr) stepping->answer_through(rpc_server.get());
      dispatcher = std::make_unique<fabric::Dispatcher>(host.domain(), host.shard(), rpc_server.get());
    }
    void step_by_step(sim::Host& machine) {
      auto& prism = dynamic_cast<prism_kv::PrismKvServer&>(*server);
      // A reader of a buffer that has gone back sees that its content is no item any more.
      prism.lists().poison_with(std::byte{0xdd});
      stepping = std::make_unique<prism::snic::SteppingService>(
          prism::snic::SteppingService::Parts{.executor = prism.executor(),
                                              .shard = machine.shard(),
                                              .region = prism.region(),
                                              .rights = prism_kv::PrismKvServer::kRights,
                                              .seed = machine.world().seed(),
                                              .when_quiet = [&prism] { prism.daemon().handle({}); }});
      services = std::make_unique<rpc::ServiceTable>(std::initializer_list<rpc::ServiceTable::Row>{
          {0, stepping.get()}, {prism::kMethodsEnd, &prism.daemon()}});
    }
    std::unique_ptr<Server> server;
    std::unique_ptr<prism::snic::SteppingService> stepping;  // Null: not step by step; likewise the services.
    std::unique_ptr<rpc::ServiceTable> services;
    std::unique_ptr<rpc::Server> rpc_server;
    std::unique_ptr<fabric::Dispatcher> dispatcher;
  };

  sim::VisibleMemory memory_;
  Process* process_;
};

// A client's process on a host of its own.
class SimClient {
 public:
  SimClient(sim::Host& host, const Design& design)
      : host_(host), design_(design), dispatcher_(host.domain(), host.shard()) {}

  [[nodiscard]] runtime::Task<Client*> connected() {
    const Reported<fabric::Channel*> channel = host_.domain().connect("server");
    REFRACT_CHECK(channel.has_value());
    session_ = std::make_unique<rpc::Session>(**channel, host_.shard());
    while (session_->state() == rpc::Session::State::kOpening) co_await host_.shard().sleep_for(10'000);
    client_ = design_.make_client({.session = *session_, .shard = host_.shard()});
    const Result<> attached = co_await client_->attach(0);
    REFRACT_CHECK(attached.has_value());
    co_return client_.get();
  }

 private:
  sim::Host& host_;
  const Design& design_;
  fabric::Dispatcher dispatcher_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<rpc::Session> session_;
};

class SimStore final : public BlockingStore<SimStore> {
 public:
  SimStore(const Design& design, const Capacity& capacity, uint64_t seed)
      : world_({.seed = seed}), server_(world_, design, capacity), host_(world_.add_host("client")) {
    SimClient& process = host_.emplace<SimClient>(host_, design);
    client_ = runtime::block_on(host_.shard(), process.connected());
  }
  [[nodiscard]] runtime::Shard& shard() noexcept { return host_.shard(); }
  [[nodiscard]] Client& client() noexcept { return *client_; }
  [[nodiscard]] Server& server() noexcept { return server_.server(); }

 private:
  sim::World world_;
  SimServer server_;
  sim::Host& host_;
  Client* client_ = nullptr;
};

}  // namespace refract::kv::designs
