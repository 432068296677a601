// SPDX-License-Identifier: Apache-2.0
// A table served over the simulated network, by a process that can crash and come back to the same memory,
// for tests of what needs delay, bandwidth or crashes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refract/fabric/dispatcher.h"
#include "refract/fabric/sim/visible_memory.h"
#include "refract/fabric/sim/world.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/testing/test_owner.h"
#include "refract/kv/testing/test_space.h"
#include "refract/rpc/session.h"

namespace refract::kv::test {

// The host "server" and the memory that outlives its process.
class SimNode {
 public:
  explicit SimNode(sim::World& world, uint64_t chunks = 16, uint64_t seed = 1, bool hides_half = false)
      : host(world.add_host("server")),
        hides_half_(hides_half),
        memory_({.bytes = chunks * kChunkBytes, .bytes_max = chunks * kChunkBytes, .seed = seed},
                empty_table(chunks)) {
    host.attach(&memory_);
    host.on_restart([this](sim::Host&) { start(); });
    start();
  }

  sim::Host& host;
  Owner* process = nullptr;  // What lives on the host now.

 private:
  static std::vector<std::byte> empty_table(uint64_t chunks) {
    const Space space({.chunks = 2, .chunks_max = chunks});
    return {space.base(), space.base() + space.bytes()};
  }
  void start() {
    process = &host.emplace<Owner>(
        host.shard(), host.domain(), host.clock(),
        Owner::Bytes{
            .base = memory_.owner(), .count = memory_.bytes(), .log = &memory_, .hides_half = hides_half_});
  }

  const bool hides_half_;
  sim::VisibleMemory memory_;
};

// One client's connection, which it makes again when it is lost.
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
