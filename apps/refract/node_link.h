// SPDX-License-Identifier: Apache-2.0
// A connection to each shard of a node, for commands that look at the node rather than at its entries. It is
// found as a Client finds it, over the same transports.
//
// It goes by itself to the next server when one ends; when the node itself is gone, is_lost() says so and a
// new link must be opened.
//
// Threads: one. Blocking: opening and asking wait at most for the timeout, for each message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "refract/base/report.h"
#include "refract/client/link/settings.h"
#include "refract/client/paths/connection.h"
#include "refract/cluster/members_call.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/kv/layout/routing.h"
#include "refract/node/observe/watcher.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::cli {

class NodeLink {
 public:
  struct Options {
    std::string address;  // As Client::connect takes it, and so is the secret's file.
    std::string secret_file;
    std::string rdma_device;
    uint64_t timeout_ns = 5'000'000'000;
  };
  [[nodiscard]] static Reported<std::unique_ptr<NodeLink>> open(const Options& options);
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;
  ~NodeLink();

  [[nodiscard]] const std::string& transport() const noexcept { return transport_; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }
  [[nodiscard]] uint64_t hash_seed() const noexcept { return shards_.front().connection->facts().hash_seed; }
  // The node has ended.
  [[nodiscard]] bool is_lost() const noexcept;

  [[nodiscard]] size_t shard_count() const noexcept { return shards_.size(); }
  [[nodiscard]] kv::KeyRouting routing() const noexcept {
    return {.shards = static_cast<uint32_t>(shard_count()),
            .copies = shards_.front().connection->facts().copies};
  }
  // REQUIRES, for these: shard < shard_count().
  [[nodiscard]] observe::Watcher& watcher(size_t shard) noexcept { return *shards_[shard].watcher; }
  [[nodiscard]] kv::RpcClient& client(size_t shard) noexcept { return shards_[shard].connection->rpc(); }
  [[nodiscard]] kv::TransactionCalls& transactions(size_t shard) noexcept {
    return shards_[shard].connection->transactions();
  }
  // The nodes that this one belongs together with. Codes as of cluster::ask_members().
  [[nodiscard]] Result<cluster::ToldMembers> members(uint64_t timeout_ns);
  // The shard's memory as mapped here; empty where it is not, as over TCP.
  [[nodiscard]] std::span<const std::byte> memory(size_t shard) const;

 private:
  struct ShardLink {
    client::Connection::Owned connection;
    std::unique_ptr<observe::Watcher> watcher;
  };

  NodeLink();
  [[nodiscard]] Reported<> find(uint64_t timeout_ns);
  [[nodiscard]] Reported<> open_others(const client::TransportRow& row, uint64_t timeout_ns);
  void add(client::Connection::Owned connection, uint64_t timeout_ns);

  std::unique_ptr<const client::Settings> settings_;
  std::string transport_;
  std::string address_;
  runtime::Shard shard_;
  std::vector<ShardLink> shards_;
};

}  // namespace refract::cli
