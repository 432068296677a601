// SPDX-License-Identifier: Apache-2.0
// A table and its client, two shards of one thread with a connection over shared memory between them: what a
// call costs both ends together, and nothing else, for no end ever waits.
#pragma once

#include <memory>
#include <type_traits>

#include "refract/base/check.h"
#include "refract/fabric/dispatcher.h"
#include "refract/fabric/shm/test_node.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/owner/service/service.h"
#include "refract/kv/testing/test_service.h"
#include "refract/rpc/server.h"
#include "refract/rpc/service_table.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::test {

class RingCalls {
 public:
  RingCalls() {
    service_.answer_through(&server_);
    const auto connected = client_domain_->connect(node_.path());
    REFRACT_CHECK(connected.has_value());
    session_ = std::make_unique<rpc::Session>(**connected, client_shard_);
    while (session_->state() != rpc::Session::State::kOpen) {
      node_.meeting().poll();
      turn();
    }
    client_ = std::make_unique<kv::RpcClient>(*session_, client_shard_);
  }

  [[nodiscard]] kv::RpcClient& client() noexcept { return *client_; }
  template <typename T>
  [[nodiscard]] T wait(runtime::Task<T> task) {
    task.start();
    while (!task.done()) turn();
    if constexpr (!std::is_void_v<T>) return task.take();
  }

 private:
  void turn() noexcept {
    (void)server_shard_.poll_once();
    (void)client_shard_.poll_once();
  }

  kv::test::Pins pins_;
  kv::test::ManualGrowth growth_;
  kv::test::Space space_{kv::test::SpaceOptions{.pins = &pins_.all}};
  fabric::shm::TestNode node_;
  std::unique_ptr<fabric::shm::ClientDomain> client_domain_ = fabric::shm::make_client();
  runtime::Shard server_shard_{space_.clock()};
  runtime::Shard client_shard_{space_.clock()};
  kv::TableService service_{{.table = space_.table(),
                             .heap = space_.heap(),
                             .writer = space_.writer(),
                             .pins = pins_.sessions,
                             .growth = growth_,
                             .shard = server_shard_}};
  rpc::ServiceTable services_{{{0, &service_}}};
  rpc::Server server_{services_, server_shard_};
  fabric::Dispatcher server_dispatcher_{node_.server(), server_shard_, &server_};
  fabric::Dispatcher client_dispatcher_{*client_domain_, client_shard_};
  std::unique_ptr<rpc::Session> session_;
  std::unique_ptr<kv::RpcClient> client_;
};

}  // namespace refract::test
