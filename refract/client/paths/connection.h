// SPDX-License-Identifier: Apache-2.0
// One connection to one shard of a node: a link to it, and the paths to its entries over that link. Each
// operation takes the best path there is: reads directly where the provider maps the shard's memory here,
// else by READs or chains, and all else by calls. Another node is another connection.
// Views hold its pins.
//
// Threads: used only by its runtime shard, except let_go().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "refract/client/link/pinning_link.h"
#include "refract/client/link/transport.h"
#include "refract/client/paths/line_fetcher.h"
#include "refract/cluster/members_call.h"
#include "refract/kv/calls/lender.h"
#include "refract/kv/calls/numbered_channel.h"
#include "refract/kv/calls/rpc_client.h"
#include "refract/kv/calls/transaction_calls.h"
#include "refract/kv/chains/chain_client.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/kv/remote/remote_client.h"
#include "refract/memory/store_time.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::client {

class Connection final : public PinningLink {
 public:
  using Reader = kv::DirectReader<kv::MappedMemory>;
  using Key = kv::HashedKey;

  using Owned = std::unique_ptr<Connection, Retire>;

  // Begins to connect; poll the shard until state() is another than kConnecting.
  [[nodiscard]] static Reported<Owned> begin(runtime::Shard& shard, const TransportRow& row,
                                             const TransportRequest& request, Paths paths);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Null: reads go to the server, and route().reason says why.
  [[nodiscard]] Reader* reader() const noexcept { return reader_; }
  [[nodiscard]] const std::byte* at(Offset offset) const noexcept { return memory_->at(offset); }
  // Of how many reads by reader() the node wants to know one; 0: of none.
  [[nodiscard]] uint64_t reads_per_use() const noexcept { return reads_per_use_; }
  // Tells it of one, which costs it nothing. REQUIRES: reads_per_use() is not 0.
  void write_use(const Key& key) noexcept;
  // Maps what the node has grown by. False: nothing new. May wait some milliseconds.
  [[nodiscard]] bool refresh() noexcept;

  // What is not read through a mapping: by READs that need no server, where the provider has them, or by
  // chains, where the options say so; else by calls.
  [[nodiscard]] runtime::Task<Result<kv::Got>> get(const Key& key, kv::ValueSink& sink,
                                                   uint64_t deadline_ns) {
    if (remote_) return remote_->get(key, sink, deadline_ns);
    return chains_ ? chains_->get(key, sink, deadline_ns) : rpc_.get(key.bytes(), sink, deadline_ns);
  }
  [[nodiscard]] runtime::Task<Result<kv::Got>> exists(const Key& key, uint64_t deadline_ns) {
    if (remote_) return remote_->exists(key, deadline_ns);
    return chains_ ? chains_->exists(key, deadline_ns) : rpc_.exists(key.bytes(), deadline_ns);
  }
  [[nodiscard]] runtime::Task<Result<uint64_t>> put(const Key& key, std::span<const std::byte> value,
                                                    const kv::RpcPutOptions& options, uint64_t deadline_ns) {
    return chains_ ? chains_->put(key, value, options, deadline_ns)
                   : rpc_.put(key.bytes(), value, options, deadline_ns);
  }
  [[nodiscard]] runtime::Task<> multi_get(std::span<kv::RpcClient::GetItem> items, uint64_t deadline_ns) {
    if (remote_) return remote_->multi_get(items, deadline_ns);
    return chains_ ? chains_->multi_get(items, deadline_ns) : rpc_.multi_get(items, deadline_ns);
  }
  [[nodiscard]] runtime::Task<> multi_put(std::span<kv::RpcClient::PutItem> items, uint64_t deadline_ns) {
    return chains_ ? chains_->multi_put(items, deadline_ns) : rpc_.multi_put(items, deadline_ns);
  }
  [[nodiscard]] Result<kv::Got> get_and_wait(const Key& key, kv::ValueSink& sink) {
    if (remote_) return remote_->get_and_wait(key, sink);
    return chains_ ? chains_->get_and_wait(key, sink) : rpc_.get_and_wait(key.bytes(), sink);
  }
  [[nodiscard]] Result<uint64_t> put_and_wait(const Key& key, std::span<const std::byte> value,
                                              const kv::RpcPutOptions& options) {
    if (reader_ != nullptr && !chains_) {
      LineFetcher fetcher(*reader_, key);
      return rpc_.put_and_wait(key.bytes(), value, options, 0, &fetcher);
    }
    return chains_ ? chains_->put_and_wait(key, value, options)
                   : rpc_.put_and_wait(key.bytes(), value, options);
  }
  // For what chains cannot do.
  [[nodiscard]] kv::RpcClient& rpc() noexcept { return rpc_; }
  // Of transactions over several shards.
  [[nodiscard]] kv::TransactionCalls& transactions() noexcept { return transactions_; }
  // Of numbered writes.
  [[nodiscard]] kv::NumberedChannel& numbered() noexcept { return numbered_; }
  // For the shortest way of a single call. Null: the server is not asked by calls.
  [[nodiscard]] kv::RpcClient* rpc_alone() noexcept { return chains_ ? nullptr : &rpc_; }
  // The same of gets.
  [[nodiscard]] kv::RpcClient* rpc_alone_for_gets() noexcept { return remote_ ? nullptr : rpc_alone(); }

  // Whose words the reads may look at beside this shard's own.
  void reach(const kv::MappedSpaces* spaces) noexcept;
  // The shard's memory, as far as it is mapped here for reads. Null: it is not.
  [[nodiscard]] const std::byte* space() const noexcept {
    return reader_ != nullptr ? memory_->at({0}) : nullptr;
  }

  // What the node says of all nodes. A deadline of 0 is the timeout.
  [[nodiscard]] runtime::Task<Result<cluster::ToldMembers>> members(uint64_t deadline_ns);

  // Adds what this shard of the node contributes.
  void fill(Route& route) const;

 private:
  Connection(runtime::Shard& shard, const TransportRow& row, const TransportRequest& request, Paths paths,
             std::unique_ptr<Transport> transport);
  ~Connection() override = default;
  void leave() noexcept override { rpc_.retire(); }
  void come_up() override;
  void note_change() noexcept override;
  void end() noexcept override;
  [[nodiscard]] bool can_read_alone() const noexcept override { return reader_ != nullptr; }

  uint64_t timeout_ns_;
  Paths paths_;
  CopyTeam* copies_;   // Of the settings. May be null.
  kv::Lender lender_;  // Over the transport's domain.
  kv::RpcClient rpc_;
  kv::TransactionCalls transactions_;
  kv::NumberedChannel numbered_;
  std::optional<kv::ChainClient> chains_;   // Over rpc_.
  std::optional<kv::RemoteClient> remote_;  // Likewise; made when it has come up.
  const kv::MappedSpaces* spaces_ = nullptr;
  std::optional<kv::MappedMemory> memory_;
  std::optional<StoreClock> store_clock_;
  std::optional<Reader> reader_memory_;
  Reader* reader_ = nullptr;
  uint64_t reads_per_use_ = 0;
  std::string why_not_direct_;
};

}  // namespace refract::client
