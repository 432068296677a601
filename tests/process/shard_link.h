// SPDX-License-Identifier: Apache-2.0
// A connection to one shard of a node, made of the pieces below refract::Client: so that a test can ask a
// shard for what a client would never ask it for, and see each connection by itself.
//
// Threads: one. Descriptors and rings are the process's own: not to be used across a fork.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "refract/fabric/dispatcher.h"
#include "refract/fabric/shm/domain.h"
#include "refract/fabric/tcp/domain.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::test {

class ShardLink {
 public:
  // Waits until the link is open, or never will be.
  [[nodiscard]] static std::unique_ptr<ShardLink> over_shm(const std::string& socket_path);
  // "127.0.0.1:7400/1".
  [[nodiscard]] static std::unique_ptr<ShardLink> over_tcp(const std::string& address,
                                                           const fabric::tcp::Secret* secret = nullptr);
  ShardLink(const ShardLink&) = delete;
  ShardLink& operator=(const ShardLink&) = delete;

  [[nodiscard]] bool is_open() const { return session_ && session_->state() == rpc::Session::State::kOpen; }
  // Why it did not open.
  [[nodiscard]] const Report& refusal() const;

  // Each again and again while the server is away, so that the outcome is that of the last time: a put that
  // was executed twice is the same put.
  [[nodiscard]] Result<uint64_t> put(std::string_view key, std::string_view value);
  [[nodiscard]] Result<uint64_t> erase(std::string_view key);
  [[nodiscard]] Result<std::string> get(std::string_view key);
  [[nodiscard]] uint64_t entries();  // In the shard.

  // For calls that no client makes. REQUIRES: it is open, or was.
  [[nodiscard]] rpc::Session& session() noexcept { return *session_; }
  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }

  [[nodiscard]] const fabric::shm::NodePage& page() const { return *shm_->node_page(*channel_); }
  [[nodiscard]] const fabric::tcp::NodeFacts& facts() const { return tcp_->facts(*channel_); }
  // The seed with which the node hashes keys.
  [[nodiscard]] uint64_t hash_seed() const;

 private:
  ShardLink();
  template <typename Operation>
  auto in_the_end(Operation&& operation);
  void open(fabric::Domain& domain, const std::string& address);

  runtime::Shard shard_;
  std::unique_ptr<fabric::shm::ClientDomain> shm_;  // One of the two.
  std::unique_ptr<fabric::tcp::ClientDomain> tcp_;
  Report refusal_;
  fabric::Channel* channel_ = nullptr;
  std::optional<fabric::Dispatcher> dispatcher_;
  std::optional<rpc::Session> session_;
  std::optional<kv::RpcClient> rpc_;
};

}  // namespace refract::test
