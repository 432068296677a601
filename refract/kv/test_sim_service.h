// SPDX-License-Identifier: Apache-2.0
// A table served over the simulated network, by a process that can crash and come back to the same memory,
// for tests of what needs delay, bandwidth or crashes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/check.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/domain_windows.h"
#include "refract/kv/growth_source.h"
#include "refract/kv/pin_sources.h"
#include "refract/kv/rpc_client.h"
#include "refract/kv/service.h"
#include "refract/kv/test_space.h"
#include "refract/rpc/server.h"
#include "refract/rpc/session.h"

namespace refract::kv::test {

// The host "server" and the memory that outlives its process.
class SimNode {
 public:
  struct Process {
    explicit Process(sim::Host& host, sim::VisibleMemory& memory)
        : writer(memory.owner(), &memory),
          heap(writer, pins),
          table(writer, heap, host.clock()),
          windows(host.domain()),
          service({.table = table,
                   .heap = heap,
                   .writer = writer,
                   .pins = session_pins,
                   .growth = growth,
                   .shard = host.shard(),
                   .windows = &windows}),
          server(service, host.shard()),
          dispatcher(host.domain(), host.shard(), &server) {
      pins.add(session_pins);
      heap.add({0}, memory.bytes());
      REFRACT_CHECK(table.recover().has_value());
      service.answer_through(&server);
    }

    SessionPins session_pins;
    PinSources pins;
    NoGrowth growth;
    Writer writer;
    Heap heap;
    Table table;
    DomainWindows windows;
    TableService service;
    rpc::Server server;
    fabric::Dispatcher dispatcher;
  };

  explicit SimNode(sim::World& world, uint64_t chunks = 16, uint64_t seed = 1)
      : host(world.add_host("server")),
        memory_({.bytes = chunks * kChunkBytes, .bytes_max = chunks * kChunkBytes, .seed = seed},
                empty_table(chunks)) {
    host.attach(&memory_);
    host.on_restart([this](sim::Host&) { start(); });
    start();
  }

  sim::Host& host;
  Process* process = nullptr;  // The living one's.

 private:
  static std::vector<std::byte> empty_table(uint64_t chunks) {
    const Space space({.chunks = 2, .chunks_max = chunks});
    return {space.base(), space.base() + space.bytes()};
  }
  void start() { process = &host.emplace<Process>(host, memory_); }

  sim::VisibleMemory memory_;
};

// One client's connection, which it makes anew when it is lost.
class SimClient {
 public:
  explicit SimClient(sim::Host& host, const RpcClientOptions& options = {})
      : host_(host), options_(options), dispatcher_(host.domain(), host.shard()) {}

  // A client whose session is open.
  [[nodiscard]] runtime::Task<RpcClient*> connected() {
    while (session_ == nullptr || session_->state() != rpc::Session::State::kOpen) {
      if (session_ == nullptr || session_->state() == rpc::Session::State::kClosed) {
        // It may be the session that runs this task.
        co_await host_.shard().sleep_for(0);
        client_.reset();
        session_.reset();
        const Reported<fabric::Channel*> channel = host_.domain().connect("server");
        if (channel) session_ = std::make_unique<rpc::Session>(**channel, host_.shard());
      }
      co_await host_.shard().sleep_for(20'000);
    }
    if (client_ == nullptr) client_ = std::make_unique<RpcClient>(*session_, host_.shard(), options_);
    co_return client_.get();
  }
  [[nodiscard]] rpc::Session* session() noexcept { return session_.get(); }

 private:
  sim::Host& host_;
  RpcClientOptions options_;
  fabric::Dispatcher dispatcher_;
  std::unique_ptr<rpc::Session> session_;
  std::unique_ptr<RpcClient> client_;
};

}  // namespace refract::kv::test
