// SPDX-License-Identifier: Apache-2.0
// A node's TCP side, complete but for the keeper: a listening socket on a free port of the loopback, shards'
// domains, and a reception on the first of them. For tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "refract/base/clock.h"
#include "refract/base/testing/needed.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/fabric/tcp/listen.h"
#include "refract/fabric/tcp/reception.h"
#include "refract/runtime/shard.h"

namespace refract::fabric::tcp {

[[nodiscard]] inline Secret secret_of(std::string_view text) {
  auto secret = Secret::copy_of(std::as_bytes(std::span(text)));
  EXPECT_TRUE(secret.has_value());
  return secret ? std::move(*secret) : Secret();
}

struct TestNodeOptions {
  const Secret* secret = nullptr;
  const Secret* cluster_secret = nullptr;
  uint32_t shards = 1;
  uint32_t connections_max = 10'000;
  uint32_t connections_of_nodes = 0;
  uint32_t handshakes_max = 256;
  uint64_t handshake_timeout_ns = 5'000'000'000;
  ServerOptions server{};
};

class TestNode {
 public:
  explicit TestNode(const TestNodeOptions& options = {}) : options_(options) {
    auto socket = listen("127.0.0.1:0");
    EXPECT_TRUE(socket.has_value()) << socket.error().to_string();
    listening_ = std::move(*socket);
    address_ = test::needed(bound_address(listening_.get()));
    start_server();
  }
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;
  ~TestNode() { kill_server(); }

  // As the keeper does: on the same socket, with the next incarnation.
  void start_server() {
    ++facts_.incarnation;
    facts_.shard_count = options_.shards;
    for (uint32_t i = 0; i < options_.shards; ++i) {
      domains_.push_back(test::needed(ServerDomain::create(options_.server)));
      rows_.push_back(domains_.back().get());
    }
    auto made = Reception::create(shard_, {.listen_fd = listening_.get(),
                                           .secret = options_.secret,
                                           .cluster_secret = options_.cluster_secret,
                                           .shards = rows_,
                                           .facts =
                                               [this](uint32_t shard) {
                                                 NodeFacts facts = facts_;
                                                 facts.shard_index = shard;
                                                 return facts;
                                               },
                                           .connections_max = options_.connections_max,
                                           .connections_of_nodes = options_.connections_of_nodes,
                                           .handshakes_max = options_.handshakes_max,
                                           .handshake_timeout_ns = options_.handshake_timeout_ns});
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    reception_ = std::move(*made);
  }
  void kill_server() {
    reception_.reset();
    domains_.clear();
    rows_.clear();
  }
  // The port answers no more.
  void stop_listening() { listening_ = Descriptor(); }

  // Moves the reception.
  void pump() {
    if (reception_) (void)reception_->prepare_sleep();
  }

  [[nodiscard]] ServerDomain& server(uint32_t shard = 0) { return *domains_[shard]; }
  [[nodiscard]] Reception& reception() { return *reception_; }
  [[nodiscard]] NodeFacts& facts() { return facts_; }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  TestNodeOptions options_;
  runtime::Shard shard_{system_clock()};
  Descriptor listening_;
  std::string address_;
  NodeFacts facts_{.identity = {1, 2}, .hash_seed = 77, .boot_id = {}, .socket_path = "/tmp/node.sock"};
  std::vector<std::unique_ptr<ServerDomain>> domains_;
  std::vector<ServerDomain*> rows_;
  std::unique_ptr<Reception> reception_;
};

}  // namespace refract::fabric::tcp
