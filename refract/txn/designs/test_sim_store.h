// SPDX-License-Identifier: Apache-2.0
// Stores of a design over the simulated network, with clients on hosts of their own, for tests.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/check.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/world.h"
#include "refract/prism/operation.h"
#include "refract/prism/snic/testing/stepping_service.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/rpc/session.h"
#include "refract/txn/designs/designs.h"
#include "refract/txn/designs/prism_tx/server.h"

namespace refract::txn::designs {

[[nodiscard]] inline Bytes bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text));
}
[[nodiscard]] inline std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// One server's host, whose stores others see late and in pieces.
class SimServer {
 public:
  struct Terms {
    Capacity capacity;
    uint64_t patience_ns = 100 * kMillisecond_ns;
    bool steps = false;  // Of PRISM-TX: chains are interleaved operation by operation.
  };
  SimServer(sim::World& world, const Design& design, size_t number, const Terms& terms)
      : host(world.add_host(fmt::format("server{}", number))),
        memory_({.bytes = round_up(design.memory_bytes(terms.capacity), 64),
                 .bytes_max = 0,
                 .owner = nullptr,
                 .seed = world.seed() + number}) {
    host.attach(&memory_);
    process_ = &host.emplace<Process>(host, memory_, design, terms);
  }
  [[nodiscard]] Server& server() noexcept { return *process_->server; }
  // As the server itself has it.
  [[nodiscard]] std::span<std::byte> memory() noexcept { return {memory_.owner(), memory_.bytes()}; }
  // Chains, where they are interleaved.
  [[nodiscard]] uint64_t most_open_runs() const noexcept {
    return process_->stepping == nullptr ? 0 : process_->stepping->most_open_runs();
  }

  sim::Host& host;

 private:
  struct Process {
    Process(sim::Host& host, sim::VisibleMemory& memory, const Design& design, const Terms& terms)
        : server(design
                     .make_server({.shard = host.shard(),
                                   .domain = host.domain(),
                                   .memory = {memory.owner(), memory.bytes()},
                                   .capacity = terms.capacity,
                                   .hash_seed = 7,
                                   .log = &memory,
                                   .patience_ns = terms.patience_ns})
                     .value()) {
      if (terms.steps) step_by_step(host);
      rpc_server =
          std::make_unique<rpc::Server>(services != nullptr ? *services : server->service(), host.shard());
      server->answer_through(rpc_server.get());
      if (stepping != nullptr) stepping->answer_through(rpc_server.get());
      dispatcher = std::make_unique<fabric::Dispatcher>(host.domain(), host.shard(), rpc_server.get());
    }
    void step_by_step(sim::Host& machine) {
      auto& prism = dynamic_cast<prism_tx::PrismTxServer&>(*server);
      // A reader of a buffer that has gone back sees that its content is no item any more.
      prism.lists().poison_with(std::byte{0xdd});
      stepping = std::make_unique<prism::snic::SteppingService>(
          prism::snic::SteppingService::Parts{.executor = prism.executor(),
                                              .shard = machine.shard(),
                                              .region = prism.region(),
                                              .rights = prism_tx::PrismTxServer::kRights,
                                              .seed = machine.world().seed(),
                                              .when_quiet = [&prism] { prism.keep_house(); }});
      services = std::make_unique<rpc::ServiceTable>(std::initializer_list<rpc::ServiceTable::Row>{
          {0, stepping.get()}, {prism::kMethodsEnd, &prism.calls()}});
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

// Another clock than the world's: so far ahead or behind of a middle that lies in the future.
class SkewedClock final : public Clock {
 public:
  SkewedClock(const Clock& clock, int64_t ahead_ns) noexcept
      : clock_(clock), offset_ns_(kSecond_ns + static_cast<uint64_t>(ahead_ns)) {}
  [[nodiscard]] uint64_t now_ns() const noexcept override { return clock_.now_ns() + offset_ns_; }
  [[nodiscard]] uint64_t wall_ns() const noexcept override { return clock_.wall_ns() + offset_ns_; }

 private:
  const Clock& clock_;
  uint64_t offset_ns_;
};

using MakeClient = std::function<std::unique_ptr<Client>(const ClientParts&)>;

// A client's process on a host of its own.
class SimClient {
 public:
  SimClient(sim::Host& host, MakeClient make, size_t servers, int64_t ahead_ns = 0)
      : host_(host),
        make_(std::move(make)),
        servers_(servers),
        clock_(host.clock(), ahead_ns),
        dispatcher_(host.domain(), host.shard()) {}

  // To one of the servers; behind connected().
  [[nodiscard]] rpc::Session& session(size_t server) noexcept { return *sessions_[server]; }
  // Null: a server has refused it.
  [[nodiscard]] runtime::Task<Client*> connected(uint16_t number) {
    std::vector<rpc::Session*> sessions;
    for (size_t server = 0; server < servers_; ++server) {
      const Reported<fabric::Channel*> channel = host_.domain().connect(fmt::format("server{}", server));
      REFRACT_CHECK(channel.has_value());
      sessions_.push_back(std::make_unique<rpc::Session>(**channel, host_.shard()));
      while (sessions_.back()->state() == rpc::Session::State::kOpening) {
        co_await host_.shard().sleep_for(10'000);
      }
      sessions.push_back(sessions_.back().get());
    }
    client_ = make_({.sessions = sessions, .shard = host_.shard(), .clock = clock_, .number = number});
    const Result<> attached = co_await client_->attach(0);
    co_return attached ? client_.get() : nullptr;
  }

 private:
  sim::Host& host_;
  MakeClient make_;
  size_t servers_;
  SkewedClock clock_;
  fabric::Dispatcher dispatcher_;
  std::unique_ptr<Client> client_;  // Outlives its sessions.
  std::vector<std::unique_ptr<rpc::Session>> sessions_;
};

}  // namespace refract::txn::designs
